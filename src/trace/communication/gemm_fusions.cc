#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kFluxSource =
    "github.com/bytedance/flux, src/ag_gemm (Sm90AGGemmUniversal), src/gemm_rs";
constexpr std::string_view kTritonDistSource =
    "github.com/ByteDance-Seed/Triton-distributed, python/triton_dist/kernels/nvidia";
constexpr std::string_view kDeepGemmSource =
    "github.com/deepseek-ai/DeepGEMM, deep_gemm/include/deep_gemm/impls/"
    "sm100_fp8_fp4_mega_moe.cuh";
constexpr auto kFused = KernelClass::kFused;

constexpr CommunicationName kGemmFusionNames[] = {
    {"aggemmuniversal", kFluxSource, kFused},
    // The product waits for the tiles of an all-gather, or scatters its own.
    {"kernel_consumer_gemm", kTritonDistSource, kFused, NameMatch::kWordBegin},
    {"kernel_gemm_rs_producer", kTritonDistSource, kFused, NameMatch::kWordBegin},
    // Dispatch, both products of the experts and combine.
    {"mega_moe_impl", kDeepGemmSource, kFused},
};

}  // namespace

constinit const CommunicationFamily kGemmFusions = {
    .name = "gemm-fusions",
    .title = "Matrix products with a collective in the same kernel",
    .names = kGemmFusionNames};

}  // namespace flopwatch::trace::communication
