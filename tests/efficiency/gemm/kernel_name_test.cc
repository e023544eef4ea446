// The decoder against names made up here by the published grammars, against cut and hostile ones,
// and against every real name in place. The expected values are written by hand, or by a script
// that shares nothing with the decoder (kernel_names_expected.tsv, keyed by a hash of the name).
#include "efficiency/gemm/kernel_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "data.h"

namespace flopwatch::efficiency::gemm {
namespace {

// One line of what is visible: "family op precision tile=MxNxK stages cluster split tensor layout".
std::string Brief(const KernelInfo& i) {
  const auto n = [](const std::optional<int32_t>& v) { return v ? std::to_string(*v) : "-"; };
  const auto b = [](const std::optional<bool>& v) { return !v ? "-" : *v ? "yes" : "no"; };
  std::string out(FamilyName(i.family));
  out += ' ';
  out += OperationName(i.operation).empty() ? "-" : OperationName(i.operation);
  out += ' ';
  out += PrecisionOf(i).empty() ? "-" : PrecisionOf(i);
  out += " tile=" + n(i.tile_m) + "x" + n(i.tile_n) + "x" + n(i.tile_k) + " stages=" + n(i.stages) +
         " cluster=" + n(i.cluster_m) + "x" + n(i.cluster_n) + " split=" + b(i.split_k) +
         " tensor=" + b(i.tensor_core) + " layout=";
  out += i.layout.empty() ? "-" : i.layout;
  out += ' ';
  out += NameConfidenceName(i.confidence);
  return out;
}

struct Case {
  std::string_view name, brief;
};

class Names : public ::testing::TestWithParam<Case> {};
TEST_P(Names, Decode) {
  EXPECT_EQ(Brief(DecodeKernelName(GetParam().name)), GetParam().brief) << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(
    Nvjet, Names,
    ::testing::Values(
        Case{"nvjet_tst_160x128_64x5_2x1_v_bz_coopB_TNT",
             "nvjet gemm bf16 tile=160x128x64 stages=5 cluster=2x1 split=no tensor=yes layout=TNT "
             "high"},
        Case{"nvjet_sm100_hss_96x64_64x9_1x2_h_badd_splitK_NNT",
             "nvjet gemm fp16 tile=96x64x64 stages=9 cluster=1x2 split=yes tensor=yes layout=NNT "
             "high"},
        Case{"nvjet_sm100_qqtst_256x128_128x4_2x1_2cta_v_bz_Avec32UE8M0_Bvec32UE8M0_TNT",
             "nvjet gemm fp8 tile=256x128x128 stages=4 cluster=2x1 split=no tensor=yes layout=TNT "
             "high"},
        Case{"nvjet_oosss_128x64_256x8_1x1_v_bz_TNN",
             "nvjet gemm fp4 tile=128x64x256 stages=8 cluster=1x1 split=no tensor=yes layout=TNN "
             "high"},
        Case{"nvjet_qrtst_128x64_128x8_1x1_v_bz_TNT",
             "nvjet gemm fp8 tile=128x64x128 stages=8 cluster=1x1 split=no tensor=yes layout=TNT "
             "high"},
        // FP32 operands: what is multiplied is visible only where the name says tf32.
        Case{"nvjet_sss_128x64_32x8_1x1_v_bz_TNT",
             "nvjet gemm - tile=128x64x32 stages=8 cluster=1x1 split=no tensor=yes layout=TNT "
             "medium"},
        Case{"nvjet_sss_tf32_128x64_32x8_1x1_v_bz_TNT",
             "nvjet gemm tf32 tile=128x64x32 stages=8 cluster=1x1 split=no tensor=yes layout=TNT "
             "high"},
        // sm120's form: no cluster in the name.
        Case{"nvjet_sm120_tst_mma_128x64x64_4_32x32x64_tmaAB_alignCD4_bz_TNNN",
             "nvjet gemm bf16 tile=128x64x64 stages=4 cluster=-x- split=no tensor=yes layout=TNNN "
             "high"},
        // Integer letters are not understood: nothing is claimed of them.
        Case{"nvjet_sm120_biu_mma_128x64x64_4_32x32x64_tmaAB_bz_TNNN",
             "nvjet gemm - tile=128x64x64 stages=4 cluster=-x- split=no tensor=yes layout=TNNN "
             "medium"},
        // An unknown word lowers confidence, not the fields.
        Case{"nvjet_tst_160x128_64x5_2x1_v_bz_newthing_TNT",
             "nvjet gemm bf16 tile=160x128x64 stages=5 cluster=2x1 split=no tensor=yes layout=TNT "
             "medium"},
        Case{"nvjet",
             "unknown - - tile=-x-x- stages=- cluster=-x- split=- tensor=- layout=- none"}));

// Cut names: every prefix with "..." reports only what is whole.
INSTANTIATE_TEST_SUITE_P(
    Cut, Names,
    ::testing::Values(
        Case{
            "nvjet_tst_160x12...",
            "nvjet gemm bf16 tile=160x-x- stages=- cluster=-x- split=- tensor=yes layout=- medium"},
        Case{
            "nvjet_tst_160x128...",
            "nvjet gemm bf16 tile=160x-x- stages=- cluster=-x- split=- tensor=yes layout=- medium"},
        Case{"nvjet_tst_160x128_...",
             "nvjet gemm bf16 tile=160x128x- stages=- cluster=-x- split=- tensor=yes layout=- "
             "medium"},
        Case{"nvjet_tst_160x128_64x5_2x\xE2\x80\xA6",
             "nvjet gemm bf16 tile=160x128x64 stages=5 cluster=2x- split=- tensor=yes layout=- "
             "medium"},
        Case{"nvjet_tst_160x128_64x5_2x1_v_bz...",
             "nvjet gemm bf16 tile=160x128x64 stages=5 cluster=2x1 split=- tensor=yes layout=- "
             "medium"},
        Case{"nvjet_tst_160x128_64x5_2x1_v_bz_TN...",
             "nvjet gemm bf16 tile=160x128x64 stages=5 cluster=2x1 split=- tensor=yes layout=- "
             "medium"},
        Case{"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize256x128x6...",
             "xmma gemm bf16 tile=256x128x- stages=- cluster=-x- split=- tensor=yes layout=tn_n "
             "medium"},
        Case{"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x12...",
             "cutlass2 gemm bf16 tile=256x-x- stages=- cluster=-x- split=- tensor=yes layout=- "
             "medium"},
        Case{"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_6",
             "cutlass2 gemm bf16 tile=128x64x- stages=- cluster=-x- split=- tensor=yes layout=- "
             "medium"},
        Case{"void flash_fwd_kernel<Flash_fwd_kernel_traits<(int)96, (int)128, (int)6...",
             "flash_attention_2 attention_forward - tile=128x-x96 stages=- cluster=-x- split=- "
             "tensor=yes layout=- medium"},
        Case{"ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x...",
             "cublas gemm bf16 tile=64x64x64 stages=- cluster=-x- split=- tensor=yes layout=- "
             "medium"}));

INSTANTIATE_TEST_SUITE_P(
    Xmma, Names,
    ::testing::Values(
        Case{"sm90_xmma_gemm_e4m3f16_e4m3f32_f32_tn_n_tilesize64x256x128_cgasize2x1x1_stage3_"
             "gmmastage1_warpgroupsize1x1x1_tensor64x256x32",
             "xmma gemm fp8 tile=64x256x128 stages=3 cluster=2x1 split=- tensor=yes layout=tn_n "
             "high"},
        Case{
            "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_"
            "aligna4_alignc4_execute_kernel__5x_cublas",
            "xmma gemm fp32 tile=64x64x8 stages=3 cluster=-x- split=no tensor=no layout=nt_n high"},
        Case{"sm80_xmma_gemm_i8i32_i8i32_i32_tn_n_tilesize128x64x64_stage3_warpsize2x2x1_"
             "tensor16x8x32_kernel",
             "xmma gemm int8 tile=128x64x64 stages=3 cluster=-x- split=- tensor=yes layout=tn_n "
             "high"},
        Case{"sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize64x64x16_stage4_warpsize2x2x1_"
             "tensor16x8x8_execute_kernel__5x_cublas",
             "xmma gemm fp64 tile=64x64x16 stages=4 cluster=-x- split=no tensor=yes layout=nn_n "
             "high"},
        Case{"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x128x8_stage3_warpsize1x4x1_ffma_"
             "aligna4_alignc4_execute_split_k_kernel__5x_cublas",
             "xmma gemm fp32 tile=64x128x8 stages=3 cluster=-x- split=yes tensor=no layout=tn_n "
             "high"},
        Case{"sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_"
             "tilesize64x32x64_stage5_warpsize2x2x1_g1_tensor16x8x16_execute_split_k_kernel__5x_"
             "cudnn",
             "xmma conv_weight_grad fp16 tile=64x32x64 stages=5 cluster=-x- split=yes tensor=yes "
             "layout=nhwckrsc_nhwc high"},
        Case{"void "
             "xmma_new::gemm::kernel<xmma_new::implicit_gemm::wgrad::Kernel_traits<xmma_new::"
             "Ampere_hmma_tf32_traits<unsigned int, float>, xmma_new::Cta_tile<xmma_new::Ampere, "
             "64, 256, 32, 1, 4, 1, 1, 1> > >(Params)",
             "xmma conv_weight_grad tf32 tile=64x256x32 stages=- cluster=-x- split=- tensor=yes "
             "layout=- medium"}));

INSTANTIATE_TEST_SUITE_P(
    Cutlass, Names,
    ::testing::Values(
        Case{"_ZN7cutlass7Kernel2I64cutlass_80_tensorop_f16_s16816gemm_relu_f16_64x128_32x6_nn_"
             "align8EEvNT_6ParamsE",
             "cutlass2 gemm fp16 tile=64x128x32 stages=6 cluster=-x- split=- tensor=yes layout=nn "
             "high"},
        Case{"void "
             "cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x128_32x3_tn_align4>(cutlass_80_"
             "tensorop_s1688gemm_256x128_32x3_tn_align4::Params)",
             "cutlass2 gemm tf32 tile=256x128x32 stages=3 cluster=-x- split=- tensor=yes layout=tn "
             "high"},
        // Turing has no TF32: a 1688 without types there is not guessed at.
        Case{"cutlass_75_tensorop_s1688gemm_256x128_32x2_tn_align4",
             "cutlass2 gemm - tile=256x128x32 stages=2 cluster=-x- split=- tensor=yes layout=tn "
             "medium"},
        Case{"cutlass_80_tensorop_h16816gemm_128x64_64x3_nt_align8",
             "cutlass2 gemm fp16 tile=128x64x64 stages=3 cluster=-x- split=- tensor=yes layout=nt "
             "high"},
        Case{"cutlass_80_tensorop_d884gemm_64x64_16x3_nn_align1",
             "cutlass2 gemm fp64 tile=64x64x16 stages=3 cluster=-x- split=- tensor=yes layout=nn "
             "high"},
        Case{"cutlass_80_simt_sgemm_64x128_8x5_tt_align1",
             "cutlass2 gemm fp32 tile=64x128x8 stages=5 cluster=-x- split=- tensor=no layout=tt "
             "high"},
        Case{"cutlass_75_tensorop_bf16_s1688gemm_bf16_64x128_nn_align1",
             "cutlass2 gemm bf16 tile=64x128x- stages=- cluster=-x- split=- tensor=yes layout=nn "
             "high"},
        Case{
            "void "
            "cutlass::Kernel<cutlass::gemm::kernel::Gemm<cutlass::gemm::threadblock::MmaMultistage<"
            "cutlass::gemm::GemmShape<128, 64, 32>, X> > >(P)",
            "cutlass2 gemm - tile=128x64x32 stages=- cluster=-x- split=- tensor=- layout=- medium"},
        Case{"cutlass3x_sm90_tensorop_s64x256x16gemm_f16_f16_f32_void_f16_128x256x64_1x2x1_0_nnn_"
             "align8_warpspecialized_cooperative_epi_tma",
             "cutlass3 gemm fp16 tile=128x256x64 stages=- cluster=1x2 split=- tensor=yes "
             "layout=nnn high"},
        // sm100 with two SMs: the tile is that of the pair. Without a cluster field none is
        // claimed.
        Case{"cutlass3x_sm100_tensorop_s256x64x16gemm_bf16_bf16_f32_void_bf16_256x64x64_0_tnn_"
             "align8_2sm",
             "cutlass3 gemm bf16 tile=256x64x64 stages=- cluster=-x- split=- tensor=yes layout=tnn "
             "medium"},
        Case{"cutlass3x_sm100_bstensorop_s128x128x64gemm_block_scaled_ue4m3xf4_ue4m3xf4_f32_bf16_"
             "bf16_128x128x256_0x0x1_0_tnn_align32_o_vs16_1sm",
             "cutlass3 gemm fp4 tile=128x128x256 stages=- cluster=-x- split=- tensor=yes "
             "layout=tnn high"},
        Case{"cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_64x64x16_1x1x1_3_tnn_align1_bias_f32_"
             "relu",
             "cutlass3 gemm fp32 tile=64x64x16 stages=3 cluster=1x1 split=- tensor=no layout=tnn "
             "high"},
        Case{"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
             "int, int, int>, "
             "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::"
             "MainloopSm90TmaGmmaWarpSpecialized<5, cute::tuple<cute::C<1>, cute::C<2>, cute::C<1> "
             ">, cutlass::gemm::KernelTmaWarpSpecializedCooperative>, cute::tuple<cute::C<256>, "
             "cute::C<128>, cute::C<64> >, cutlass::half_t, cute::tuple<long, cute::C<1>, long>, "
             "cutlass::half_t> > >(P)",
             "cutlass3 gemm fp16 tile=256x128x64 stages=5 cluster=1x2 split=- tensor=yes layout=- "
             "medium"},
        // Cut within the tile: the cluster before it stands, the tile does not.
        Case{"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
             "int, int, int>, "
             "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::"
             "MainloopSm90TmaGmmaWarpSpecialized<5, cute::tuple<cute::C<1>, cute::C<2>, cute::C<1> "
             ">, cutlass::gemm::KernelTmaWarpSpecializedCooperative>, cute::tuple<cute::C<256>, "
             "cute::C<12",
             "cutlass3 gemm - tile=-x-x- stages=5 cluster=1x2 split=- tensor=yes layout=- low"}));

INSTANTIATE_TEST_SUITE_P(
    BlockScaled, Names,
    ::testing::Values(
        // Written out from the declarations of the mainloops' templates. Hopper's blockwise scales:
        // CUTLASS 3.8, CUTLASS 3.9, and the copy that vLLM keeps.
        Case{"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
             "int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm9"
             "0TmaGmmaWarpSpecializedBlockScalingFP8<5, cute::tuple<cute::C<1>, cute::C<2>, "
             "cute::C<1>>, cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8BlockScaledAccum<"
             "0>, 1>, cute::tuple<cute::C<128>, cute::C<128>, cute::C<128>>, "
             "cutlass::float_e4m3_t, cute::tuple<long, cute::C<1>, long>, cutlass::float_e4m3_t, "
             "cute::tuple<long, cute::C<1>, long>>>>(P)",
             "cutlass3 gemm fp8 tile=128x128x128 stages=5 cluster=1x2 split=- tensor=yes "
             "layout=- medium"},
        Case{"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
             "int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm9"
             "0TmaGmmaWarpSpecializedBlockwiseFP8<4, cute::tuple<cute::C<2>, cute::C<1>, "
             "cute::C<1>>, cutlass::gemm::KernelTmaWarpSpecializedPingpongFP8Blockwise>, "
             "cute::tuple<cute::C<64>, cute::C<128>, cute::C<128>>, cutlass::float_e4m3_t, "
             "cute::tuple<cute::tuple<long, cute::C<1>, long>, cute::Layout<cute::C<1>, "
             "cute::C<0>>>, cutlass::float_e4m3_t>>>(P)",
             "cutlass3 gemm fp8 tile=64x128x128 stages=4 cluster=2x1 split=- tensor=yes "
             "layout=- medium"},
        Case{"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
             "int, int, int>, cutlass::gemm::collective::CollectiveMmaBlock<cutlass::gemm::Mainlo"
             "opSm90TmaGmmaWarpSpecializedGroupBlockScalingFP8<4, cute::tuple<cute::C<1>, "
             "cute::C<2>, cute::C<1>>, "
             "cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8BlockScaledAccum<128>, 128>, "
             "cute::tuple<cute::C<128>, cute::C<128>, cute::C<128>>, cutlass::float_e4m3_t, "
             "cute::tuple<long, cute::C<1>, long>, cutlass::float_e4m3_t>>>(P)",
             "cutlass3 gemm fp8 tile=128x128x128 stages=4 cluster=1x2 split=- tensor=yes "
             "layout=- medium"},
        // Blackwell: NVFP4 pairs of values and scales, for groups of experts; B300's with four
        // stage counts (ncu prints 128x256x768); blockwise FP8.
        Case{"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::Gro"
             "upProblemShape<cute::tuple<int, int, int>>, "
             "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm100ArrayTmaUmmaWa"
             "rpSpecializedBlockScaled<5, 8, 2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1>>, "
             "cutlass::arch::Sm100>, cute::tuple<cute::C<128>, cute::C<128>, cute::C<128>>, "
             "cute::tuple<cutlass::float_e2m1_t, cutlass::float_ue4m3_t>, "
             "cute::tuple<cute::tuple<long, cute::C<1>, long>*, cute::Layout<int, int>*>, "
             "cute::tuple<cutlass::float_e2m1_t, cutlass::float_ue4m3_t>, "
             "cute::TiledMMA<cute::MMA_Atom<cute::SM100_MMA_MXF4_SS<cutlass::float_e2m1_t>>>>>>(P"
             ")",
             "cutlass3 grouped_gemm fp4 tile=128x128x128 stages=5 cluster=1x1 split=- tensor=yes "
             "layout=- medium"},
        Case{"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
             "int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm1"
             "03TmaUmmaWarpSpecializedBlockScaled<4, 7, 3, 1, cute::tuple<cute::C<2>, "
             "cute::C<4>, cute::C<1>>, (cutlass::sm103::detail::KernelPrefetchType)1>, "
             "cute::tuple<cute::C<128>, cute::C<256>, cute::C<768>>, "
             "cute::tuple<cutlass::float_e2m1_t, cutlass::float_ue4m3_t>, "
             "cute::tuple<cute::tuple<long, cute::C<1>, long>, int>, "
             "cute::tuple<cutlass::float_e2m1_t, cutlass::float_ue4m3_t>>>>(P)",
             "cutlass3 gemm fp4 tile=128x256x768 stages=4 cluster=2x4 split=- tensor=yes "
             "layout=- medium"},
        Case{"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
             "int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm1"
             "00TmaUmmaWarpSpecializedBlockwiseScaling<5, 2, 2, cute::tuple<int, int, "
             "cute::C<1>>>, cute::tuple<cute::C<128>, cute::C<128>, cute::C<128>>, "
             "cutlass::float_e4m3_t, cute::tuple<cute::tuple<long, cute::C<1>, long>, int>, "
             "cutlass::float_e4m3_t>>>(P)",
             "cutlass3 gemm fp8 tile=128x128x128 stages=5 cluster=-x- split=- tensor=yes "
             "layout=- medium"},
        // GeForce Blackwell.
        Case{"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
             "int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm1"
             "20TmaWarpSpecializedBlockScaled<2, 3, cute::tuple<cute::C<1>, cute::C<1>, "
             "cute::C<1>>, cutlass::gemm::KernelTmaWarpSpecializedCooperativeBlockScaledSm120<3>>"
             ", cute::tuple<cute::C<128>, cute::C<128>, cute::C<128>>, "
             "cute::tuple<cutlass::float_e2m1_t, cutlass::float_ue4m3_t>, "
             "cute::tuple<cute::tuple<long, cute::C<1>, long>, int>, "
             "cute::tuple<cutlass::float_e2m1_t, cutlass::float_ue4m3_t>>>>(P)",
             "cutlass3 gemm fp4 tile=128x128x128 stages=2 cluster=1x1 split=- tensor=yes "
             "layout=- medium"}));

INSTANTIATE_TEST_SUITE_P(
    Older, Names,
    ::testing::Values(
        Case{"volta_h884gemm_128x64_ldg8_nn",
             "cublas gemm fp16 tile=128x64x- stages=- cluster=-x- split=- tensor=yes layout=nn "
             "high"},
        Case{"volta_s884gemm_fp16_64x128_ldg8_f2f_tn",
             "cublas gemm fp16 tile=64x128x- stages=- cluster=-x- split=- tensor=yes layout=tn "
             "high"},
        Case{"ampere_hgemm_64x64_nt_v0",
             "cublas gemm fp16 tile=64x64x- stages=- cluster=-x- split=- tensor=no layout=nt high"},
        Case{
            "ampere_igemm_int8_64x128_ldg4_nt_v0",
            "cublas gemm int8 tile=64x128x- stages=- cluster=-x- split=- tensor=no layout=nt high"},
        Case{"volta_dgemm_64x64_nn",
             "cublas gemm fp64 tile=64x64x- stages=- cluster=-x- split=- tensor=no layout=nn high"},
        Case{
            "maxwell_sgemm_128x64_tn",
            "cublas gemm fp32 tile=128x64x- stages=- cluster=-x- split=- tensor=no layout=tn high"},
        Case{"void gemv2N_kernel<int, int, __half, __half, __half, float, 128, 8, 4, 4, 1, false, "
             "P>(P)",
             "gemv gemv fp16 tile=-x-x- stages=- cluster=-x- split=- tensor=no layout=- high"},
        Case{"void gemmSN_NT_kernel<float, 128, 16, 2, 4, 4, 4, true, T>(P)",
             "small_gemm gemm fp32 tile=-x-x- stages=- cluster=-x- split=- tensor=no layout=NT "
             "high"},
        Case{"void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, true, "
             "true, false>(P)",
             "splitk_reduce helper - tile=-x-x- stages=- cluster=-x- split=- tensor=no layout=- "
             "high"}));

INSTANTIATE_TEST_SUITE_P(
    Attention, Names,
    ::testing::Values(
        Case{"void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, "
             "96, 8, 2, 4, 2, false, false, cutlass::half_t, X> >(P)",
             "flash_attention_2 attention_backward fp16 tile=64x96x128 stages=- cluster=-x- "
             "split=- tensor=yes layout=- high"},
        Case{"void flash_bwd_convert_dq_kernel<Flash_bwd_kernel_traits<128, 64, 96, 8, X> >(P)",
             "flash_attention_2 helper - tile=-x-x- stages=- cluster=-x- split=- tensor=no "
             "layout=- medium"},
        Case{"void "
             "cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::"
             "CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<2>, cute::C<1>, cute::C<1> >, "
             "cute::tuple<cute::C<128>, cute::C<176>, cute::C<64> >, 64, cutlass::bfloat16_t, "
             "float, cutlass::arch::Sm90, true> > > >(P)",
             "flash_attention_3 attention_forward bf16 tile=128x176x64 stages=2 cluster=2x1 "
             "split=- tensor=yes layout=- high"},
        // FlashAttention-3 on sm80 begins with warps: its numbers are not read as stages and tiles.
        Case{"void "
             "cutlass::device_kernel<flash::enable_sm80_to_sm89<flash::FlashAttnFwdSm80<flash::"
             "CollectiveMainloopFwdSm80<4, 1, false, cute::tuple<cute::C<128>, cute::C<64>, "
             "cute::C<128> >, 128, cutlass::half_t> > > >(P)",
             "flash_attention_3 attention_forward - tile=-x-x- stages=- cluster=-x- split=- "
             "tensor=yes layout=- medium"},
        Case{"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x1x1_"
             "kernel0_0",
             "cudnn_sdpa attention_backward - tile=64x64x128 stages=- cluster=-x- split=- "
             "tensor=yes layout=- medium"},
        Case{"fmha_cutlassF_f16_aligned_32x128_gmem_sm75",
             "fmha_cutlass attention_forward fp16 tile=32x128x- stages=- cluster=-x- split=- "
             "tensor=yes layout=- high"},
        Case{"fmha_cutlassF_f32_notaligned_64x64_rf_sm70",
             "fmha_cutlass attention_forward fp32 tile=64x64x- stages=- cluster=-x- split=- "
             "tensor=no layout=- high"},
        Case{"fmhaSm100fKernel_"
             "QkvBfloat16OBfloat16HQk192HV128PagedKvCausalP32VarSeqQ128Kv64PersistentContext",
             "trtllm_fmha attention_forward bf16 tile=128x64x192 stages=- cluster=-x- split=- "
             "tensor=yes layout=- medium"}));

INSTANTIATE_TEST_SUITE_P(
    Generated, Names,
    ::testing::Values(
        Case{"bmm_E4m3_E4m3E4m3_Fp32_t128x32x128u2_s5_et64x32_m64x32x32_c1x1x1_rM_TN_transOut_"
             "noShfl_sm100f",
             "trtllm_gemm batched_gemm fp8 tile=128x32x128 stages=5 cluster=1x1 split=- tensor=yes "
             "layout=TN medium"},
        // FP4 weights by FP8 activations: two types, one rate.
        Case{"bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x32x256u2_s4_et128x32_m128x32x32_cga2x1x1_"
             "16dp256b_rM_TN_transOut_x",
             "trtllm_gemm batched_gemm fp8 tile=128x32x256 stages=4 cluster=2x1 split=- tensor=yes "
             "layout=TN medium"},
        Case{"void wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(P)",
             "cudnn_conv conv_weight_grad fp32 tile=-x-x- stages=- cluster=-x- split=- tensor=no "
             "layout=- medium"},
        Case{"cudnn_train_volta_scudnn_128x128_stridedB_splitK_small_nn_v1",
             "cudnn_conv - fp32 tile=128x128x- stages=- cluster=-x- split=yes tensor=no layout=nn "
             "medium"},
        Case{"void deep_gemm::fp8_gemm_kernel<2112u, 7168u, 64u, 112u, 128u, 0u, 32u, 1u, 6u, "
             "128u, 128u, 1u, false, (deep_gemm::GemmType)0>(P)",
             "deep_gemm gemm fp8 tile=64x112x128 stages=- cluster=-x- split=- tensor=yes layout=- "
             "medium"},
        // Parameters that cannot be tiles: another version, no tile.
        Case{"void deep_gemm::fp8_gemm_kernel<64u, 112u, 128u, 1u, 6u, 128u, 128u>(P)",
             "deep_gemm gemm fp8 tile=-x-x- stages=- cluster=-x- split=- tensor=yes layout=- low"},
        Case{"void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u, 4096u, 7168u, 1u, "
             "128u, 128u>(P)",
             "deep_gemm gemm fp8 tile=-x-x- stages=- cluster=-x- split=- tensor=yes layout=- low"},
        Case{"void marlin::Marlin<__nv_bfloat16, 256, 4, 16, 4, 4, false>(P)",
             "marlin gemm bf16 tile=-x-x- stages=- cluster=-x- split=- tensor=yes layout=- low"},
        Case{"fused_moe_kernel",
             "fused_moe grouped_gemm - tile=-x-x- stages=- cluster=-x- split=- tensor=yes layout=- "
             "low"},
        Case{"triton_tem_fused_mm_silu_3",
             "triton_gemm gemm - tile=-x-x- stages=- cluster=-x- split=- tensor=yes layout=- low"},
        Case{"triton_tem_fused_flex_attention_backward_1",
             "triton_attention attention_backward - tile=-x-x- stages=- cluster=-x- split=- "
             "tensor=yes layout=- low"},
        Case{"triton_per_fused_layer_norm_1",
             "triton_pointwise pointwise - tile=-x-x- stages=- cluster=-x- split=- tensor=no "
             "layout=- medium"},
        Case{"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
             "X>(int)",
             "unknown - - tile=-x-x- stages=- cluster=-x- split=- tensor=- layout=- none"},
        Case{"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
             "unknown - - tile=-x-x- stages=- cluster=-x- split=- tensor=- layout=- none"},
        Case{"gemm_kernel",
             "unknown - - tile=-x-x- stages=- cluster=-x- split=- tensor=- layout=- none"}));

TEST(KernelName, TypesAndPairs) {
  const KernelInfo qr = DecodeKernelName("nvjet_sm100_qrtst_128x64_128x8_2x1_2cta_v_bz_bias_TNT");
  EXPECT_EQ(qr.a, NumberType::kE4m3);
  EXPECT_EQ(qr.b, NumberType::kE5m2);
  EXPECT_EQ(qr.accumulate, NumberType::kFp32);
  EXPECT_EQ(qr.output, NumberType::kBf16);
  EXPECT_EQ(qr.signature, "qrtst");
  EXPECT_TRUE(qr.two_cta);
  EXPECT_FALSE(qr.tile_spans_pair);  // nvJet names the tile of one CTA
  EXPECT_TRUE(qr.bias);
  EXPECT_EQ(qr.arch, 100);
  const KernelInfo two_sm = DecodeKernelName(
      "cutlass3x_sm100_tensorop_s256x128x16gemm_bf16_bf16_f32_void_f32_256x128x64_2x1x1_0_tnt_"
      "align8_2sm");
  EXPECT_TRUE(two_sm.tile_spans_pair);
  EXPECT_EQ(two_sm.output, NumberType::kFp32);
  EXPECT_EQ(
      DecodeKernelName("nvjet_sm100_ootst_128x128_256x7_4x1_2cta_v_bx_Avec16UE4M3_Bvec16UE4M3_TNT")
          .scaling,
      "16UE4M3");
  EXPECT_EQ(TensorPrecisionOf(qr), hardware::Precision::kFp8);
  EXPECT_EQ(TensorPrecisionOf(DecodeKernelName("ampere_sgemm_64x64_nn")), std::nullopt);
  EXPECT_EQ(DecodeKernelName("ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x5_nn")
                .sliced_k,
            2);
}

// Every prefix of a name, with and without dots, may lose fields but never gets another value.
TEST(KernelName, APrefixNeverInvents) {
  for (const std::string name :
       {"nvjet_sm100_tst_128x256_64x12_2x4_2cta_v_bz_splitK_bias_TNT",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_cgasize2x1x1_stage14_"
        "warpgroupsize1x1x1_tensor64x256x16",
        "void "
        "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_64x13_tn_align8>("
        "P)",
        "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x256x64_2x1x1_13_tnn_"
        "align8",
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x13_nn",
        "bmm_E4m3_E4m3E4m3_Fp32_t128x32x128u2_s5_et64x32_m64x32x32_c2x1x1_rM_TN_transOut"}) {
    const KernelInfo whole = DecodeKernelName(name);
    ASSERT_TRUE(whole.tile_n) << name;
    for (size_t n = 0; n < name.size(); ++n) {
      const std::string cut = name.substr(0, n) + "...";
      const KernelInfo part = DecodeKernelName(cut);
      const auto same = [&](const auto& a, const auto& b) { return !a || a == b; };
      EXPECT_TRUE(same(part.tile_m, whole.tile_m) && same(part.tile_n, whole.tile_n) &&
                  same(part.tile_k, whole.tile_k) && same(part.stages, whole.stages) &&
                  same(part.cluster_m, whole.cluster_m) && same(part.cluster_n, whole.cluster_n) &&
                  same(part.split_k, whole.split_k))
          << cut << "\n  " << Brief(part);
    }
  }
}

TEST(KernelName, HostileNames) {
  EXPECT_EQ(DecodeKernelName("").family, Family::kUnknown);
  EXPECT_EQ(DecodeKernelName(std::string_view("\0\xff\xfe", 3)).family, Family::kUnknown);
  EXPECT_FALSE(DecodeKernelName("nvjet_tst_99999999999999999999x8_64x4_2x1_v_bz_TNT").tile_m);
  EXPECT_FALSE(DecodeKernelName("nvjet_tst_-64x8_64x4_2x1_v_bz_TNT").tile_m);
  EXPECT_FALSE(DecodeKernelName("nvjet_tst_0x8_64x4_2x1_v_bz_TNT").tile_m);
  EXPECT_FALSE(DecodeKernelName("nvjet_tst_64x8x4x2_64x4_2x1_v_bz_TNT").tile_m);
  const std::string deep = "void cutlass::Kernel<" + std::string(1 << 20, '<');
  EXPECT_TRUE(DecodeKernelName(deep).cut);
  EXPECT_EQ(DecodeKernelName("_ZN99999cutlass").family, Family::kUnknown);
  EXPECT_EQ(DecodeKernelName("_ZN7cutlass7Kernel2I99999cutlass_80_").family, Family::kCutlass2);
  // Bytes at random in front of known words must not crash (the fuzzer looks longer).
  std::mt19937 rng(7);
  for (int i = 0; i < 20000; ++i) {
    std::string name;
    for (int n = static_cast<int>(rng() % 12); n-- > 0;) {
      static const char* const kWords[] = {
          "nvjet_", "tst_", "sm90_", "xmma_", "cutlass",  "3x_",          "x",        "64",  "_",
          "<",      ">",    "::",    "gemm",  "Kernel2<", "cute::tuple<", "cute::C<", "...", "_ZN7",
          "I",      "Li9E", "(int)", ","};
      name += kWords[rng() % std::size(kWords)];
    }
    const KernelInfo info = DecodeKernelName(name);
    EXPECT_LE(static_cast<int>(info.family), static_cast<int>(Family::kMagma));
  }
}

TEST(KernelName, FamiliesHaveNames) {
  std::set<std::string_view> names;
  for (const Family f : AllFamilies()) names.insert(FamilyName(f));
  EXPECT_EQ(names.size(), AllFamilies().size());
}

// ---- the public names, read in place
// ----------------------------------------------------------------

uint64_t Fnv1a(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

std::vector<std::string> Split(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) out.push_back(field);
  return out;
}

TEST(PublicNames, AllFamiliesAndVisibleFields) {
  FLOPWATCH_REQUIRE_DATA("kernel_names.txt");
  std::istringstream table(testing_data::ReadFile(
      std::string(FLOPWATCH_SOURCE_DIR) + "/tests/efficiency/gemm/kernel_names_expected.tsv"));
  std::map<uint64_t, std::vector<std::string>> expected;
  std::string line;
  while (std::getline(table, line)) {
    if (line.empty() || line[0] == '#' || line.starts_with("hash")) continue;
    const auto f = Split(line);
    ASSERT_EQ(f.size(), 14u) << line;
    expected[std::stoull(f[0], nullptr, 16)] = f;
  }
  std::istringstream names(testing_data::ReadFile(testing_data::SharedData() / "kernel_names.txt"));
  int total = 0, fields = 0, right = 0;
  while (std::getline(names, line)) {
    const std::string name = line.substr(0, line.find('\t'));
    const auto at = expected.find(Fnv1a(name));
    ASSERT_NE(at, expected.end()) << "no expectation for " << name;
    const KernelInfo i = DecodeKernelName(name);
    ++total;
    EXPECT_EQ(FamilyName(i.family), at->second[1]) << name;
    const auto n = [](const std::optional<int32_t>& v) { return v ? std::to_string(*v) : "-"; };
    const auto b = [](const std::optional<bool>& v) { return !v ? "-" : *v ? "1" : "0"; };
    const auto s = [](std::string_view v) { return v.empty() ? std::string("-") : std::string(v); };
    const std::vector<std::string> got = {s(OperationName(i.operation)),
                                          s(PrecisionOf(i)),
                                          n(i.tile_m),
                                          n(i.tile_n),
                                          n(i.tile_k),
                                          n(i.stages),
                                          n(i.cluster_m),
                                          n(i.cluster_n),
                                          b(i.split_k),
                                          b(i.tensor_core),
                                          n(i.arch),
                                          s(i.layout)};
    for (size_t f = 0; f < got.size(); ++f) {
      ++fields;
      right += got[f] == at->second[f + 2];
      EXPECT_EQ(got[f], at->second[f + 2]) << "field " << f + 2 << " of " << name;
    }
  }
  EXPECT_EQ(total, 327);
  EXPECT_GE(right, fields * 99 / 100);
}

}  // namespace
}  // namespace flopwatch::efficiency::gemm
