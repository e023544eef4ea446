// The kernels of the simulated job, with names, launch shapes and occupancies as an H100 shows them
// for a 4096-wide transformer.
#pragma once

#include "simulate/trace_emit.h"

namespace flopwatch::simulate {

inline constexpr int64_t kUs = 1000, kMs = 1'000'000;
// Two sequences of 1,024 tokens: with these the durations below stay under what an H100 can do (60
// to 80 % of its BF16 peak).
inline constexpr int64_t kHidden = 4096, kTokens = 2048;
// An FP32 product without tensor cores takes this many times as long: 989 against 67 TFLOP/s.
inline constexpr int64_t kFp32Slowdown = 14;
inline constexpr int64_t kMemory = 85'028'765'696;  // of an H100 80GB, as the driver says

inline constexpr TraceKernel kGemm = {
    "nvjet_tst_256x128_64x4_2x1_v_bz_coopA_NNT", 1024, 384, 168, 213'024, 18};
inline constexpr TraceKernel kSgemm = {"ampere_sgemm_128x64_tn", 2048, 128, 122, 12'544, 25};
inline constexpr TraceKernel kAttention = {
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t>>(flash::Flash_fwd_params)",
    1024,
    128,
    255,
    98'304,
    13};
inline constexpr TraceKernel kAttentionBackward = {
    "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, "
    "128, 8, 2, 4, 2, false, false, cutlass::bfloat16_t>>(flash::Flash_bwd_params)",
    1024,
    256,
    255,
    147'456,
    13};
inline constexpr TraceKernel kNorm = {
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, "
    "float>(int, float, c10::BFloat16 const*)",
    4096,
    128,
    40,
    24,
    75};
inline constexpr TraceKernel kElementwise = {
    "void at::native::vectorized_elementwise_kernel<4, "
    "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>(int)",
    32768,
    128,
    32,
    0,
    90};
inline constexpr TraceKernel kAdam = {
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, "
    "4, false>>(TensorListMetadata<4>)",
    2640,
    512,
    46,
    0,
    66};
inline constexpr TraceKernel kCopyKernel = {
    "void at::native::elementwise_kernel<128, 4, "
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)",
    32768,
    128,
    40,
    0,
    80};
inline constexpr TraceKernel kReduce = {
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NormOps<float, "
    "float>>>(int)",
    528,
    32,
    255,
    65'536,
    6};
inline constexpr TraceKernel kScan = {
    "void fused_scan_kernel<float, 32>(float const*, float*, int)", 16, 256, 40, 0, 2};
inline constexpr TraceKernel kCoarse = {
    "void user_transform_kernel(float*, float const*, int)", 20, 256, 90, 0, 3};

}  // namespace flopwatch::simulate
