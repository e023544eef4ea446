// Peaks: figures of vendor datasheets, and the wrong ones of published threads (Megatron-LM #1276,
// autoresearch #5).
#include "fleet/divergence/peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flopwatch::fleet {
namespace {

using hardware::Catalog;
using hardware::Precision;
using ::testing::HasSubstr;

JobEvidence PeakJob(std::vector<std::string> models, std::optional<double> peak,
                    std::vector<efficiency::PrecisionShare> mix) {
  JobEvidence job;
  job.gpu_models = std::move(models);
  job.claim.peak_tflops = peak;
  job.claim.mix = std::move(mix);
  return job;
}

TEST(Peak, RightOneIsLeftAlone) {
  const auto r = ReviewPeak(PeakJob({"NVIDIA H100 80GB HBM3"}, 989, {{Precision::kBf16, 1}}),
                            Catalog::Builtin());
  ASSERT_TRUE(r.ok());
  EXPECT_FALSE(r->wrong());
  EXPECT_NEAR(r->factor, 989 / 989.43, 1e-4);  // equation 6
}

TEST(Peak, SparseFigureHalvesTheClaim) {
  const auto r =
      ReviewPeak(PeakJob({"H100 SXM"}, 1979, {{Precision::kBf16, 1}}), Catalog::Builtin());
  ASSERT_TRUE(r.ok());
  EXPECT_THAT(r->used_looks_like, HasSubstr("sparse"));
  EXPECT_NEAR(r->factor, 2, 0.001);
  // Not said in which precision: 1979 is the FP8 peak too, so nothing is wrong for certain.
  const auto unknown = ReviewPeak(PeakJob({"H100 SXM"}, 1979, {}), Catalog::Builtin());
  EXPECT_FALSE(unknown->wrong());
  EXPECT_EQ(unknown->factor, 1);
  // An A100 has no FP8: 624 can only be the sparse figure.
  const auto a100 = ReviewPeak(PeakJob({"A100 SXM 80GB"}, 624, {}), Catalog::Builtin());
  EXPECT_THAT(a100->used_looks_like, HasSubstr("sparse"));
  EXPECT_NEAR(a100->factor, 2, 0.001);
}

TEST(Peak, PeakOfAnotherGpuIsNamed) {
  // KempnerForge's lookup gives an H100 PCIe 989: 989/756 = 1.31.
  const auto pcie =
      ReviewPeak(PeakJob({"NVIDIA H100 PCIe"}, 989, {{Precision::kBf16, 1}}), Catalog::Builtin());
  EXPECT_THAT(pcie->used_looks_like, HasSubstr("H100 SXM"));
  EXPECT_NEAR(pcie->factor, 1.31, 0.005);
  // autoresearch #5: 989 on an A100, 989/312 = 3.17.
  const auto a100 =
      ReviewPeak(PeakJob({"A100 SXM 80GB"}, 989, {{Precision::kBf16, 1}}), Catalog::Builtin());
  EXPECT_THAT(a100->used_looks_like, HasSubstr("H100 SXM"));
  EXPECT_NEAR(a100->factor, 3.17, 0.005);
}

// Half the FLOPs in BF16 (2500) and half in NVFP4 (10000) give 4000 (the OFU paper, eq. 12), not
// 6250.
TEST(Peak, MixIsHarmonic) {
  const auto r =
      ReviewPeak(PeakJob({"GB200"}, 4000, {{Precision::kBf16, 0.5}, {Precision::kFp4, 0.5}}),
                 Catalog::Builtin());
  ASSERT_TRUE(r.ok());
  EXPECT_NEAR(*r->right, 4000, 40);
  EXPECT_FALSE(r->wrong());
}

TEST(Peak, OneMfuForTwoKindsOfGpuIsRefused) {
  EXPECT_FALSE(
      ReviewPeak(PeakJob({"H100 SXM", "A100 SXM 80GB"}, 989, {}), Catalog::Builtin()).ok());
  EXPECT_TRUE(ReviewPeak(PeakJob({"H100 SXM", "H200 SXM"}, 989, {}), Catalog::Builtin()).ok());
  const auto unknown =
      ReviewPeak(PeakJob({"Novel 9000"}, 989, {{Precision::kBf16, 1}}), Catalog::Builtin());
  ASSERT_TRUE(unknown.ok());
  EXPECT_EQ(unknown->right, std::nullopt);
  EXPECT_THAT(unknown->right_basis, HasSubstr("Novel 9000"));
}

}  // namespace
}  // namespace flopwatch::fleet
