#include <gtest/gtest.h>

#include <string>

#include "hardware/accelerator.h"

namespace flopwatch::hardware {
namespace {

std::string ErrorOf(std::string_view toml) {
  const auto catalog = Catalog::WithOverrides(toml);
  return catalog.ok() ? "accepted" : std::string(catalog.status().message());
}

bool Mentions(const std::string& text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text.find(word) == std::string::npos) return false;
  }
  return true;
}

TEST(Overrides, NothingGivenIsTheBuiltinTable) {
  const auto catalog = Catalog::WithOverrides("[server]\nlisten = \"127.0.0.1:9530\"\n");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ(catalog->all().size(), Catalog::Builtin().all().size());
  EXPECT_EQ((*catalog->Find("H100 SXM"))->tensor_clock_max_mhz, 1830);
}

TEST(Overrides, AKnownModelKeepsWhatIsNotGiven) {
  const auto catalog = Catalog::WithOverrides(R"(
[[accelerator]]
name = "GB200"
tensor_clock_max_mhz = 2062
source = "long GEMM on one of our nodes"
)");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ(catalog->all().size(), Catalog::Builtin().all().size());
  const Accelerator& gb200 = **catalog->Find("NVIDIA GB200");
  EXPECT_EQ(gb200.sm_count, 152);
  const auto peak = PeakOf(gb200, Precision::kFp16);
  ASSERT_TRUE(peak.ok());
  EXPECT_NEAR(peak->tflops, 2567.6, 0.05);  // gpu_peaks.csv, calc_fp16_at_sm_max_tflops
  EXPECT_EQ(peak->confidence, Confidence::kDerived);
  EXPECT_NE(peak->source.find("long GEMM"), std::string::npos);
  EXPECT_EQ((*Catalog::Builtin().Find("GB200"))->tensor_clock_max_mhz,
            2008);  // the builtin is untouched
}

TEST(Overrides, ANewDeviceIsAdded) {
  const auto catalog = Catalog::WithOverrides(R"(
[[accelerator]]
name = "X1 Air"
vendor = "Example"
arch = "X"
reported_names = ["EXAMPLE X1-AIR"]
sm_count = 100
tensor_clock_max_mhz = 1500.0
fp16_per_sm_clk = 1000
mem_gb = [64, 128.5]
tdp_w = 450
tpa_ceiling_fp32_acc = 0.5
has_bf16 = false
mig_profiles = { "1g.8gb" = 14 }
confidence = "independent"
source = "its manual"
)");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const auto found = catalog->Find("example x1 air");
  ASSERT_TRUE(found.ok()) << found.status();
  const auto peak = PeakOf(**found, Precision::kFp16);
  ASSERT_TRUE(peak.ok());
  EXPECT_DOUBLE_EQ(peak->tflops, 150);  // 100 x 1000 x 1.5e9
  EXPECT_EQ(peak->confidence, Confidence::kIndependent);
  EXPECT_FALSE(PeakOf(**found, Precision::kBf16).ok());
  EXPECT_EQ(*MigProfileSms(**found, "1g.8gb"), 14);
  EXPECT_EQ((*found)->mem_gb, (std::vector<double>{64, 128.5}));
  EXPECT_FALSE(Catalog::Builtin().Find("X1 Air").ok());
}

TEST(Overrides, AMigProfileIsAddedOrCorrected) {
  const auto catalog = Catalog::WithOverrides(R"(
[[accelerator]]
name = "B200"
mig_profiles = { "3g.90gb" = 70, "1g.23gb" = 17 }
)");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const Accelerator& b200 = **catalog->Find("B200");
  EXPECT_EQ(*MigProfileSms(b200, "3g.90gb"), 70);
  EXPECT_EQ(*MigProfileSms(b200, "1g.23gb"), 17);
  EXPECT_EQ(*MigProfileSms(b200, "2g.45gb"), 36);
  EXPECT_EQ(b200.source, (*Catalog::Builtin().Find("B200"))->source);  // the peak did not change
}

TEST(Overrides, TheCatalogSurvivesBeingMoved) {
  auto catalog = Catalog::WithOverrides("[[accelerator]]\nname = \"Z9\"\nsm_count = 7\n");
  ASSERT_TRUE(catalog.ok());
  const Catalog moved = *std::move(catalog);
  ASSERT_TRUE(moved.Find("z9").ok());
  EXPECT_EQ((*moved.Find("z9"))->sm_count, 7);
}

TEST(Overrides, ErrorsNameTheEntryAndTheKey) {
  EXPECT_TRUE(Mentions(
      ErrorOf(
          "[[accelerator]]\nname = \"A\"\n[[accelerator]]\nname = \"H100 SXM\"\nsm_count = -3\n"),
      {"entry 2", "H100 SXM", "sm_count", "positive whole number"}));
  EXPECT_TRUE(Mentions(ErrorOf("[[accelerator]]\nname = \"A\"\ntdp_w = \"hot\"\n"),
                       {"entry 1", "'A'", "tdp_w"}));
  EXPECT_TRUE(Mentions(ErrorOf("[[accelerator]]\nname = \"A\"\ntdp_w = nan\n"), {"tdp_w"}));
  EXPECT_TRUE(Mentions(ErrorOf("[[accelerator]]\nname = \"A\"\nsm_counts = 3\n"),
                       {"unknown key 'sm_counts'", "'sm_count'"}));
  EXPECT_TRUE(Mentions(ErrorOf("[[accelerator]]\nsm_count = 3\n"), {"entry 1", "name"}));
  EXPECT_TRUE(Mentions(ErrorOf("[[accelerator]]\nname = \"A\"\nconfidence = \"high\"\n"),
                       {"confidence", "derived"}));
  EXPECT_TRUE(Mentions(ErrorOf("[[accelerator]]\nname = \"A\"\nmem_gb = 3\n"), {"mem_gb"}));
  EXPECT_TRUE(Mentions(ErrorOf("[[accelerator]]\nname = \"A\"\nreported_names = [3]\n"),
                       {"reported_names"}));
  EXPECT_TRUE(Mentions(ErrorOf("[[accelerator]]\nname = \"A\"\ntpa_ceiling_fp32_acc = 2\n"),
                       {"tpa_ceiling_fp32_acc"}));
  EXPECT_TRUE(
      Mentions(ErrorOf("[[accelerator]]\nname = \"A30\"\nmig_profiles = {\"1g.6gb\" = 57}\n"),
               {"mig_profiles"}));
  EXPECT_TRUE(Mentions(ErrorOf("[accelerator]\nname = \"A\"\n"), {"[[accelerator]]"}));
  EXPECT_TRUE(Mentions(ErrorOf("accelerator = [1]\n"), {"[[accelerator]]"}));
  EXPECT_TRUE(Mentions(ErrorOf("[[accelerator]\n"), {"line 1"}));
}

TEST(Overrides, ANameCannotStandForTwoDevices) {
  const std::string error =
      ErrorOf("[[accelerator]]\nname = \"My GPU\"\nreported_names = [\"NVIDIA A30\"]\n");
  EXPECT_TRUE(Mentions(error, {"entry 1", "My GPU", "A30"})) << error;
}

TEST(Overrides, LimitsHold) {
  EXPECT_EQ(Catalog::WithOverrides(std::string(kMaxOverrideBytes + 1, '#')).status().code(),
            absl::StatusCode::kOutOfRange);
  std::string many;
  for (size_t i = 0; i <= kMaxOverrideEntries; ++i) many += "[[accelerator]]\nname = \"d\"\n";
  EXPECT_EQ(Catalog::WithOverrides(many).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace flopwatch::hardware
