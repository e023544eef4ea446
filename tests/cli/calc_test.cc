// flopwatch calc kernel and calc gemm: their JSON, their cards, their errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command_line.h"
#include "golden.h"

namespace flopwatch::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const char* const kNvjet = "nvjet_sm90_hsh_256x160_64x4_2x1";

Outcome Calc(std::vector<std::string> args, Surroundings around = {}) {
  around.environment["HOME"] = "/nonexistent";
  args.insert(args.begin(), "calc");
  return RunCommand(args, around);
}

TEST(CalcKernel, OneObjectANameNullWhereNotVisible) {
  const Outcome o =
      Calc({"kernel", "-o", "json", "nvjet_sm100_qqtst_128x192_128x6_2x1_2cta_v_bz_bias_TNT",
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x128_8x5_tn_align1>(P)",
            "nvjet_tst_160x12...", "fused_moe_kernel", "hello \x1b[2J"});
  EXPECT_EQ(o.code, 0) << o.err;
  ExpectGolden("calc_kernel.json", o.out);
  EXPECT_THAT(o.err, HasSubstr("1 of 5 names are of no known GEMM or attention family"));
  const auto json = Json::Parse(o.out);
  ASSERT_TRUE(json.ok());
}

TEST(CalcKernel, ForPeople) {
  const Outcome o =
      Calc({"kernel", "nvjet_tst_64x64_64x8_2x1_v_bz_splitK_TNT", "ampere_sgemm_64x64_nn"},
           {.terminal = true, .width = 120});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("tile M runs along BLAS m (PyTorch's N)"));
  ExpectGolden("calc_kernel_120.txt", o.out);
}

TEST(CalcGemm, MachineFormats) {
  const Outcome o =
      Calc({"gemm", "4100", "4096", "4100", "--kernel", kNvjet, "--gpu", "H100 SXM", "-o", "json"});
  EXPECT_EQ(o.code, 0) << o.err;
  ExpectGolden("calc_gemm.json", o.out);
  ASSERT_TRUE(Json::Parse(o.out).ok());
  // A row alone where columns are picked; every other format has the same columns.
  EXPECT_EQ(Calc({"gemm", "4096", "4096", "4096", "--kernel", kNvjet, "--json",
                  "executed_flops,m_eff,n_eff,k_eff,ctas"})
                .out,
            "[\n  "
            "{\"executed_flops\":139586437120,\"m_eff\":4160,\"n_eff\":4096,\"k_eff\":4096,"
            "\"ctas\":416}\n]\n");
  EXPECT_EQ(Calc({"gemm", "4096", "4096", "4096", "--order", "blas", "--kernel", kNvjet, "-q",
                  "--columns", "m_eff,n_eff", "--no-header"})
                .out,
            "4096\t4160\n");
  EXPECT_THAT(Calc({"gemm", "64", "64", "64", "--tile", "64x64x64", "-o", "jsonl"}).out,
              HasSubstr("\"curve\":[{\"axis\":\"m\""));
}

TEST(CalcGemm, Cards) {
  const Outcome o = Calc({"gemm", "1793", "1792", "2048", "--tile", "256x128x64", "--gpu",
                          "NVIDIA A100-SXM4-80GB", "--precision", "bf16", "--ofu", "0.4"},
                         {.terminal = true, .width = 120});
  EXPECT_EQ(o.code, 0) << o.err;
  ExpectGolden("calc_gemm_120.txt", o.out);
  const Outcome ascii = Calc(
      {"gemm", "1", "25136", "2880", "--kernel", "nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "--ascii"},
      {.terminal = true, .width = 100});
  ExpectGolden("calc_gemm_ascii.txt", ascii.out);
  EXPECT_THAT(ascii.err, HasSubstr("192 runs along N, 8 along M"));
}

TEST(CalcGemm, WhatIsNotVisibleIsSaid) {
  const Outcome split = Calc({"gemm", "64", "128", "3072", "--kernel",
                              "nvjet_tst_64x64_64x8_2x1_v_bz_splitK_TNT", "-o", "json"});
  EXPECT_EQ(split.code, 0);
  EXPECT_THAT(split.out, AllOf(HasSubstr("\"ctas\":null"), HasSubstr("\"exact\":false"),
                               HasSubstr("\"split_k\":null")));
  EXPECT_THAT(split.err, HasSubstr("--split-k N"));
  const Outcome given =
      Calc({"gemm", "64", "128", "3072", "--kernel", "nvjet_tst_64x64_64x8_2x1_v_bz_splitK_TNT",
            "--split-k", "5", "-o", "json"});
  EXPECT_THAT(given.out, AllOf(HasSubstr("\"ctas\":10"), HasSubstr("\"exact\":true"),
                               HasSubstr("\"k_eff\":3200")));
  const Outcome step = Calc({"gemm", "128", "128", "100", "--tile", "128x128", "-o", "json"});
  EXPECT_THAT(step.out, AllOf(HasSubstr("\"k_eff\":null"), HasSubstr("\"exact\":false")));
  const Outcome hidden = Calc({"gemm", "512", "512", "512", "-o", "json", "--kernel",
                               "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_"
                               "warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"});
  EXPECT_THAT(hidden.out, HasSubstr("\"cluster_m\":null"));
  EXPECT_THAT(hidden.err, HasSubstr("the cluster is not visible"));
}

TEST(CalcGemm, OneLineForWhatIsWrong) {
  const auto err = [](std::vector<std::string> args) {
    args.insert(args.begin(), "gemm");
    const Outcome o = Calc(args);
    EXPECT_EQ(o.code, 2) << o.out;
    EXPECT_EQ(o.out, "");
    return o.err;
  };
  EXPECT_THAT(err({"0", "4", "4", "--tile", "8x8"}), HasSubstr("M is 0"));
  EXPECT_THAT(err({"4", "4e3", "4", "--tile", "8x8"}),
              HasSubstr("N \"4e3\" is not a whole number"));
  EXPECT_THAT(err({"4", "4", "99999999999999999999", "--tile", "8x8"}),
              HasSubstr("K 99999999999999999999 is too large"));
  EXPECT_THAT(err({"4", "4", "4", "--tile", "8x8", "--batch", "0"}), HasSubstr("--batch is 0"));
  EXPECT_THAT(err({"1099511627776", "1099511627776", "4", "--tile", "8x8"}),
              HasSubstr("exceed 9.2e18"));
  EXPECT_THAT(err({"4", "4", "4"}), HasSubstr("give either --kernel NAME or --tile"));
  EXPECT_THAT(err({"4", "4", "4", "--tile", "8x8", "--kernel", kNvjet}), HasSubstr("give either"));
  EXPECT_THAT(err({"4", "4", "4", "--kernel", "fused_moe_kernel"}),
              AllOf(HasSubstr("shows no tile"), HasSubstr("give --tile MxNxK instead")));
  EXPECT_THAT(err({"4", "4", "4", "--kernel", "fmha_cutlassF_bf16_aligned_64x128_rf_sm80"}),
              HasSubstr("attention"));
  EXPECT_THAT(err({"4", "4", "4", "--tile", "8"}), HasSubstr("write --tile 256x128x64"));
  EXPECT_THAT(err({"4", "4", "4", "--tile", "0x8"}), HasSubstr("the tile along M is 0"));
  EXPECT_THAT(err({"4", "4", "4", "--tile", "8x8", "--cluster", "2"}),
              HasSubstr("write --cluster 2x1"));
  EXPECT_THAT(err({"4", "4", "4", "--tile", "8x8", "--split-k", "5"}), HasSubstr("K is only 4"));
  EXPECT_THAT(err({"4", "4", "4", "--tile", "8x8", "--order", "c"}),
              HasSubstr("use torch or blas"));
  EXPECT_THAT(err({"4", "4", "4", "--kernel", kNvjet, "--cluster", "1x1"}),
              HasSubstr("contradicts the name"));
  EXPECT_THAT(err({"4", "4", "4", "--tile", "8x8", "--ofu", "nan"}), HasSubstr("OFU is missing"));
  EXPECT_THAT(err({"4", "4", "4", "--tile", "8x8", "--precision", "bf17"}), HasSubstr("bf16"));
  EXPECT_EQ(Calc({"gemm", "4", "4", "4", "--tile", "8x8", "--gpu", "H101"}).code, 5);
}

}  // namespace
}  // namespace flopwatch::cli
