// Equations 3 and 4 against the paper's examples, NVIDIA's, the computed vectors and real launches.
#include "efficiency/gemm/tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "base/text.h"
#include "data.h"

namespace flopwatch::efficiency::gemm {
namespace {

using ::testing::HasSubstr;

TEST(Tiles, ThePapersExample) {
  // The OFU paper's equations 3 and 4 for 256x160_64x4_2x1: 4096^3 -> 4096 x 4160 x 4096, 1.56 %;
  // 4100^3 -> 4608 x 4160 x 4160, 15.7 %.
  const KernelInfo info = DecodeKernelName("nvjet_sm90_hsh_256x160_64x4_2x1");
  const auto tiling = TilingOf(info);
  ASSERT_TRUE(tiling.ok()) << tiling.status();
  const auto even = Execute({4096, 4096, 4096}, *tiling);
  ASSERT_TRUE(even.ok());
  EXPECT_EQ(even->m_eff, 4096);
  EXPECT_EQ(even->n_eff, 4160);
  EXPECT_EQ(even->k_eff, 4096);
  EXPECT_NEAR(even->overhead, 0.0156, 5e-5);
  const auto odd = Execute({4100, 4100, 4100}, *tiling);
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->m_eff, 4608);
  EXPECT_EQ(odd->n_eff, 4160);
  EXPECT_EQ(odd->k_eff, 4160);
  EXPECT_NEAR(odd->overhead, 0.157, 5e-4);
}

TEST(Tiles, PyTorchShapesTurnRound) {
  // Decode on B200: PyTorch (1 x 2880)(2880 x 25136), BLAS m = 25136: 131 tiles -> 132 CTAs, 8.07
  // times.
  const KernelInfo info = DecodeKernelName("nvjet_tst_192x8_64x8_4x1_v_bz_TNT");
  const auto e = ExecuteKernel(info, {1, 25136, 2880});
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(e->m_eff, 25344);  // BLAS m: 132 x 192
  EXPECT_EQ(e->n_eff, 8);
  EXPECT_EQ(e->ctas, 132);
  EXPECT_NEAR(1 + e->overhead, 8.07, 0.005);
  const Problem blas = TileProblem({1, 25136, 2880}, AxisOrder::kTorch, TileAxes::kBlas);
  EXPECT_EQ(blas.m, 25136);
  EXPECT_EQ(TileProblem({1, 25136, 2880}, AxisOrder::kBlas, TileAxes::kBlas).m, 1);
  EXPECT_EQ(TileProblem({1, 25136, 2880}, AxisOrder::kTorch, TileAxes::kRowMajor).m, 1);
}

TEST(Tiles, NvidiasWaves) {
  // The A100 example of NVIDIA's guide: 1792 x 1792 in 256 x 128 is 98 tiles, 90.7 % of 108 SMs;
  // one row more makes 112 and two waves.
  Tiling t{256, 128, 64};
  const auto one = Execute({1792, 1792, 2048}, t);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->ctas, 98);
  EXPECT_EQ(WavesOf(98, 108)->waves, 1);
  EXPECT_NEAR(WavesOf(98, 108)->efficiency, 0.907, 5e-4);
  const auto two = Execute({1793, 1792, 2048}, t);
  EXPECT_EQ(two->ctas, 112);
  EXPECT_EQ(WavesOf(112, 108)->waves, 2);
  EXPECT_NEAR(WavesOf(112, 108)->efficiency, 112.0 / 216, 1e-12);
  EXPECT_EQ(WavesOf(112, 108, 2)->waves, 1);
  EXPECT_FALSE(WavesOf(0, 108).ok());
  EXPECT_FALSE(WavesOf(1, 0).ok());
}

TEST(Tiles, SplitKPadsEachSlice) {
  Tiling t{64, 64, 64};
  t.split_k = 5;
  // K = 3072 in 5 slices of 615 -> 640 each: 3200.
  const auto e = Execute({64, 64, 3072}, t);
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(e->k_eff, 3200);
  EXPECT_EQ(e->ctas, 5);
  EXPECT_TRUE(e->exact);
  // The name says split, not how often: a lower bound without CTAs.
  const auto unknown =
      ExecuteKernel(DecodeKernelName("nvjet_tst_64x64_64x8_2x1_v_bz_splitK_TNT"), {64, 128, 3072});
  ASSERT_TRUE(unknown.ok());
  EXPECT_FALSE(unknown->exact);
  EXPECT_EQ(unknown->ctas, std::nullopt);
  const auto given = ExecuteKernel(DecodeKernelName("nvjet_tst_64x64_64x8_2x1_v_bz_splitK_TNT"),
                                   {64, 128, 3072}, 5);
  EXPECT_TRUE(given->exact);
  EXPECT_EQ(given->ctas, 10);
  t.split_k = 65;
  EXPECT_THAT(Execute({64, 64, 64}, t).status().message(),
              HasSubstr("split-K is 65, but K is only 64"));
}

TEST(Tiles, TwoSmTilesBelongToThePair) {
  // 256 rows of a 2sm tile are 128 a CTA: the cluster of 2 CTAs is one tile, so 512 rows are two
  // tiles, four CTAs, and nothing is padded.
  const KernelInfo info = DecodeKernelName(
      "cutlass3x_sm100_tensorop_s256x128x16gemm_bf16_bf16_f32_void_f32_256x128x64_2x1x1_0_tnt_"
      "align8_2sm");
  const auto tiling = TilingOf(info);
  ASSERT_TRUE(tiling.ok());
  const auto e = Execute({256, 128, 64}, *tiling);
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(e->overhead, 0);
  EXPECT_EQ(e->ctas, 2);
}

TEST(Tiles, WhatIsNotVisibleIsNotInvented) {
  EXPECT_THAT(TilingOf(DecodeKernelName("fused_moe_kernel")).status().message(),
              HasSubstr("shows no tile"));
  EXPECT_THAT(TilingOf(DecodeKernelName(
                           "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, X> >()"))
                  .status()
                  .message(),
              HasSubstr("attention"));
  EXPECT_FALSE(TilingOf(DecodeKernelName("hello")).ok());
  // No K step in the name: K is not padded and the result is a lower bound.
  const auto e =
      ExecuteKernel(DecodeKernelName("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1"),
                    {128, 128, 100});
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(e->k_eff, std::nullopt);
  EXPECT_EQ(e->overhead, 0);
  EXPECT_FALSE(e->exact);
  // Whether a CUTLASS 2 launch splits K is in its grid, not in its name.
  const KernelInfo two =
      DecodeKernelName("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8");
  EXPECT_FALSE(ExecuteKernel(two, {5, 768, 3072})->exact);
  EXPECT_TRUE(ExecuteKernel(two, {5, 768, 3072}, 1)->exact);
  EXPECT_EQ(ExecuteKernel(two, {5, 768, 3072}, 5)->ctas, 60);  // a launch of 12 tiles with grid z 5
  // Hopper XMMA hides its cluster.
  EXPECT_FALSE(
      TilingOf(DecodeKernelName("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_"
                                "warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"))
          ->cluster_known);
  EXPECT_TRUE(
      TilingOf(DecodeKernelName("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn"))
          ->cluster_known);
}

TEST(Tiles, BadShapesAreNamed) {
  const Tiling t{128, 128, 64};
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(Execute({bad, 1, 1}, t).status().message(), HasSubstr("M is"));
    EXPECT_THAT(Execute({1, bad, 1}, t).status().message(), HasSubstr("N is"));
    EXPECT_THAT(Execute({1, 1, bad}, t).status().message(), HasSubstr("K is"));
    EXPECT_THAT(Execute({1, 1, 1, bad}, t).status().message(), HasSubstr("batch is"));
    EXPECT_FALSE(Execute({1, 1, 1}, Tiling{bad, 128, 64}).ok());
    EXPECT_FALSE(Execute({1, 1, 1}, Tiling{128, bad, 64}).ok());
    EXPECT_FALSE(Execute({1, 1, 1}, Tiling{128, 128, bad}).ok());
    EXPECT_FALSE(Execute({1, 1, 1}, Tiling{128, 128, 64, bad, 1}).ok());
    EXPECT_FALSE(Execute({1, 1, 1}, Tiling{128, 128, 64, 1, 1, bad}).ok());
  }
  EXPECT_EQ(Execute({int64_t{1} << 40, int64_t{1} << 40, int64_t{1} << 40}, t).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Execute({int64_t{1} << 30, int64_t{1} << 25, 64}, t)->useful_flops, int64_t{1} << 62);
}

// The closed form against laying clusters of tiles down one by one until the axis is covered.
TEST(Tiles, AsIfLaidOutByHand) {
  for (int64_t size = 1; size <= 40; ++size) {
    for (int64_t tile = 1; tile <= 9; ++tile) {
      for (int64_t cluster = 1; cluster <= 4; ++cluster) {
        int64_t covered = 0, tiles = 0;
        while (covered < size) {
          for (int64_t c = 0; c < cluster; ++c) {
            covered += tile;
            ++tiles;
          }
        }
        Tiling t{tile, 1, 1};
        t.cluster_m = cluster;
        const auto e = Execute({size, 1, 1}, t);
        ASSERT_TRUE(e.ok());
        ASSERT_EQ(e->m_eff, covered) << size << " " << tile << " " << cluster;
        ASSERT_EQ(e->ctas, tiles);
      }
      for (int64_t slices = 1; slices <= 4 && slices <= size; ++slices) {
        // Every slice takes as many elements of K as the largest one and whole steps.
        int64_t largest = 0, steps = 0;
        while (largest * slices < size) ++largest;
        while (steps * tile < largest) ++steps;
        Tiling t{1, 1, tile};
        t.split_k = slices;
        ASSERT_EQ(Execute({1, 1, size}, t)->k_eff, slices * steps * tile);
      }
    }
  }
}

TEST(AdjustedOfu, EquationEight) {
  EXPECT_DOUBLE_EQ(*AdjustedOfu(0.52, 0.04), 0.5);
  EXPECT_DOUBLE_EQ(*AdjustedOfu(0.52, 0), 0.52);
  EXPECT_DOUBLE_EQ(*AdjustedOfu(0, 0.1), 0);  // an idle pipe is 0, not missing
  EXPECT_FALSE(AdjustedOfu(std::nan(""), 0).ok());
  EXPECT_FALSE(AdjustedOfu(0.5, std::nan("")).ok());
  EXPECT_FALSE(AdjustedOfu(0.5, -0.1).ok());
  EXPECT_FALSE(AdjustedOfu(-0.5, 0.1).ok());
}

TEST(Grouped, EachExpertIsPadded) {
  // ceil(t/T)*T/t - 1: 100 tokens in tiles of 64 run 128 -> 28 %.
  EXPECT_NEAR(*ExpertPadding(100, 64), 0.28, 1e-12);
  EXPECT_NEAR(*ExpertPadding(64, 64), 0, 1e-12);
  EXPECT_NEAR(*ExpertPadding(1, 128), 127, 1e-12);
  EXPECT_FALSE(ExpertPadding(0, 64).ok());
  EXPECT_FALSE(ExpertPadding(std::nan(""), 64).ok());
  const int64_t tokens[] = {100, 0, 1, 64};
  const auto e = ExecuteGrouped(tokens, 256, 128, 64, 128, 64);
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(e->tokens, 165);
  EXPECT_EQ(e->padded_tokens, 128 + 0 + 64 + 64);
  EXPECT_EQ(e->useful_flops, int64_t{2} * 165 * 256 * 128);
  EXPECT_EQ(e->executed_flops, int64_t{2} * 256 * 256 * 128);
  // The token side of a transposed batched product is the tile's second number: 100 -> 7 tiles
  // of 16.
  const int64_t hundred[] = {100};
  const auto named = ExecuteGroupedKernel(
      DecodeKernelName(
          "bmm_E4m3_E4m3E4m3_Fp32_t128x16x128u2_s5_et64x16_m64x16x32_c1x1x1_rM_TN_transOut_x"),
      hundred, 256, 128);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->padded_tokens, 112);
  EXPECT_FALSE(ExecuteGroupedKernel(DecodeKernelName("fused_moe_kernel"), hundred, 256, 128).ok());
  const int64_t none[] = {0, 0};
  EXPECT_FALSE(ExecuteGrouped(none, 256, 128, 64, 128, 64).ok());
  const int64_t negative[] = {-1};
  EXPECT_FALSE(ExecuteGrouped(negative, 256, 128, 64, 128, 64).ok());
}

std::vector<std::vector<std::string>> Rows(const char* file) {
  std::istringstream in(testing_data::ReadFile(testing_data::SharedData() / file));
  std::vector<std::vector<std::string>> out;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::vector<std::string> fields;
    EXPECT_TRUE(SplitCsv(line, &fields)) << line;
    out.push_back(fields);
  }
  return out;
}

TEST(PublicData, TileVectorsExactly) {
  FLOPWATCH_REQUIRE_DATA("gemm_tile_vectors.csv");
  const auto rows = Rows("gemm_tile_vectors.csv");
  EXPECT_EQ(rows.size(), 120u);
  for (const auto& f : rows) {
    ASSERT_EQ(f.size(), 13u);
    const auto tiling = TilingOf(DecodeKernelName(f[0]));
    ASSERT_TRUE(tiling.ok()) << f[0];
    const auto e = Execute({std::stoll(f[1]), std::stoll(f[2]), std::stoll(f[3])}, *tiling);
    ASSERT_TRUE(e.ok()) << f[0];
    EXPECT_EQ(e->m_eff, std::stoll(f[4])) << f[0];
    EXPECT_EQ(e->n_eff, std::stoll(f[5])) << f[0];
    EXPECT_EQ(e->k_eff, std::stoll(f[6])) << f[0];
    EXPECT_EQ(e->ctas, std::stoll(f[7])) << f[0];
    EXPECT_EQ(e->useful_flops, std::stoll(f[8])) << f[0];
    EXPECT_EQ(e->executed_flops, std::stoll(f[9])) << f[0];
    EXPECT_NEAR(e->overhead, std::stod(f[10]), 5.1e-10) << f[0];
    EXPECT_EQ(WavesOf(*e->ctas, 132)->waves, std::stoll(f[11])) << f[0];
    EXPECT_EQ(WavesOf(*e->ctas, 148)->waves, std::stoll(f[12])) << f[0];
    // The same through the PyTorch shape: the tile's axes turn it round.
    const auto torch = ExecuteKernel(DecodeKernelName(f[0]),
                                     {std::stoll(f[2]), std::stoll(f[1]), std::stoll(f[3])});
    ASSERT_TRUE(torch.ok());
    EXPECT_EQ(torch->executed_flops, e->executed_flops);
  }
}

// Grids of real launches. nvJet: grid = CTAs. CUTLASS 2: grid x = tiles along BLAS n times a
// swizzle of 1, 2, 4 or 8, grid y = tiles along BLAS m over that swizzle, rounded up; grid z =
// batch times the slices of K.
TEST(PublicData, LaunchedGrids) {
  FLOPWATCH_REQUIRE_DATA("gemm_launches.csv");
  int nvjet = 0, cutlass = 0, swizzled_up = 0;
  for (const auto& f : Rows("gemm_launches.csv")) {
    const KernelInfo info = DecodeKernelName(f[1]);
    int64_t gx = 0, gy = 0, gz = 0;
    ASSERT_EQ(std::sscanf(f[7].c_str(), "%ldx%ldx%ld", &gx, &gy, &gz), 3) << f[7];
    const int64_t batch = std::stoll(f[3]);
    const auto e = ExecuteKernel(info, {std::stoll(f[4]), std::stoll(f[5]), std::stoll(f[6])});
    ASSERT_TRUE(e.ok()) << f[1] << e.status();
    if (info.family == Family::kNvjet) {
      ++nvjet;
      EXPECT_EQ(e->ctas, gx * gy * gz) << f[1] << " " << f[4] << "x" << f[5] << "x" << f[6];
    } else if (info.family == Family::kCutlass2) {
      ++cutlass;
      const int64_t tiles_m = e->m_eff / *info.tile_m, tiles_n = e->n_eff / *info.tile_n;
      EXPECT_GE(gx * gy, tiles_m * tiles_n) << f[1];
      EXPECT_EQ(gz % batch, 0) << f[1];
      bool fits = false;
      for (const int64_t s : {1, 2, 4, 8}) fits |= gx == tiles_n * s && gy == (tiles_m + s - 1) / s;
      EXPECT_TRUE(fits) << f[1] << " " << f[4] << "x" << f[5] << " grid " << f[7];
      swizzled_up += gx * gy > tiles_m * tiles_n;
    }
  }
  EXPECT_EQ(nvjet, 4);
  EXPECT_GT(cutlass, 10);
  EXPECT_GT(swizzled_up, 0);
}

}  // namespace
}  // namespace flopwatch::efficiency::gemm
