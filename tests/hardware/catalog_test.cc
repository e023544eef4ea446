// The built-in table against the public figures in the shared data (gpu_peaks.csv), and against
// published peaks.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "data.h"
#include "hardware/accelerator.h"

namespace flopwatch::hardware {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<Row> ReadRows() {
  std::vector<Row> rows;
  std::istringstream in(testing_data::ReadFile(testing_data::SharedData() / "gpu_peaks.csv"));
  std::string line;
  std::vector<std::string> header, fields;
  while (std::getline(in, line)) {
    EXPECT_TRUE(SplitCsv(line, &fields)) << line;
    if (header.empty()) {
      header = fields;
      continue;
    }
    Row row;
    for (size_t i = 0; i < header.size() && i < fields.size(); ++i) row[header[i]] = fields[i];
    rows.push_back(row);
  }
  return rows;
}

std::optional<double> Number(const Row& row, const std::string& column) {
  const std::string& text = row.at(column);
  if (text.empty()) return std::nullopt;
  return std::stod(text.substr(
      text.find('-') == std::string::npos ? 0 : text.find('-') + 1));  // "900-1000": the upper end
}

class PeaksCsv : public ::testing::Test {
 protected:
  void SetUp() override {
    FLOPWATCH_REQUIRE_DATA("gpu_peaks.csv");
    rows_ = ReadRows();
  }
  std::vector<Row> rows_;
};

TEST_F(PeaksCsv, TheTableHasEveryDeviceAndNoOther) {
  ASSERT_EQ(rows_.size(), 72u);
  EXPECT_EQ(Catalog::Builtin().all().size(), rows_.size());
}

TEST_F(PeaksCsv, EveryRowAgrees) {
  for (const Row& row : rows_) {
    SCOPED_TRACE(row.at("model"));
    const auto found = Catalog::Builtin().Find(row.at("model"));
    ASSERT_TRUE(found.ok()) << found.status();
    const Accelerator& a = **found;
    EXPECT_EQ(a.vendor, row.at("vendor"));
    EXPECT_EQ(a.model, row.at("model"));
    EXPECT_EQ(a.arch, row.at("arch"));
    const auto sms = Number(row, "sm_count");
    EXPECT_EQ(a.sm_count.has_value(), sms.has_value());
    EXPECT_EQ(a.sm_count.value_or(0), sms.value_or(0));
    EXPECT_EQ(a.tensor_clock_max_mhz, Number(row, "tc_max_clock_mhz"));
    EXPECT_EQ(a.sm_clock_max_mhz, Number(row, "sm_max_clock_mhz"));
    EXPECT_EQ(a.fp16_per_sm_clk, Number(row, "fp16_flops_per_sm_clk"));
    EXPECT_EQ(a.tf32_per_sm_clk, Number(row, "tf32_flops_per_sm_clk"));
    EXPECT_EQ(a.fp8_per_sm_clk, Number(row, "fp8_flops_per_sm_clk"));
    EXPECT_EQ(a.fp4_per_sm_clk, Number(row, "fp4_flops_per_sm_clk"));
    EXPECT_EQ(a.int8_per_sm_clk, Number(row, "int8_ops_per_sm_clk"));
    EXPECT_EQ(a.fp16_tflops, Number(row, "fp16_dense_tflops"));
    EXPECT_EQ(a.tf32_tflops, Number(row, "tf32_dense_tflops"));
    EXPECT_EQ(a.fp8_tflops, Number(row, "fp8_dense_tflops"));
    EXPECT_EQ(a.fp4_tflops, Number(row, "fp4_dense_tflops"));
    EXPECT_EQ(a.int8_tops, Number(row, "int8_dense_tops"));
    EXPECT_EQ(a.fp64_tc_tflops, Number(row, "fp64_tc_tflops"));
    EXPECT_EQ(a.tpa_ceiling_fp32_acc, Number(row, "tpa_ceiling_fp32_acc"));
    EXPECT_EQ(a.mem_bw_gbps, Number(row, "mem_bw_gbps"));
    EXPECT_EQ(a.link_bw_gbps, Number(row, "link_bw_gbps"));
    EXPECT_EQ(a.tdp_w, Number(row, "tdp_w"));
    EXPECT_FALSE(a.source.empty());
    EXPECT_FALSE(a.mem_gb.empty());
  }
}

TEST_F(PeaksCsv, EveryReportedNameFindsItsRow) {
  for (const Row& row : rows_) {
    std::istringstream names(row.at("reported_names"));
    std::string name;
    while (std::getline(names, name, '|')) {
      SCOPED_TRACE(name);
      const auto found = Catalog::Builtin().Find(name);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ((*found)->model, row.at("model"));
    }
  }
}

TEST_F(PeaksCsv, ConfidenceFollowsTheCrossCheck) {
  std::map<Confidence, int> count;
  for (const Row& row : rows_) {
    const std::string& check = row.at("cross_check");
    const Confidence expected = check == "independent" ? Confidence::kIndependent
                                : check.starts_with("circular") || check.starts_with("weak")
                                    ? Confidence::kDerived
                                    : Confidence::kQuoted;
    const auto found = Catalog::Builtin().Find(row.at("model"));
    ASSERT_TRUE(found.ok());
    EXPECT_EQ((*found)->confidence, expected) << row.at("model");
    ++count[expected];
  }
  // Of the rows of the table in shared/data: 37 are independent, 18 have a clock that was solved
  // from the published peak and 7 are copied from a sibling.
  EXPECT_EQ(count[Confidence::kIndependent], 37);
  EXPECT_EQ(count[Confidence::kDerived], 25);
}

// calc_fp16_tflops was computed when the data was collected, from the same facts but not by this
// program.
TEST_F(PeaksCsv, ComputedPeakIsTheOneComputedOutside) {
  for (const Row& row : rows_) {
    const auto expected = Number(row, "calc_fp16_tflops");
    if (!expected) continue;
    SCOPED_TRACE(row.at("model"));
    const auto peak = PeakOf(**Catalog::Builtin().Find(row.at("model")), Precision::kFp16);
    ASSERT_TRUE(peak.ok()) << peak.status();
    EXPECT_NEAR(peak->tflops, *expected, 0.051);  // given with one decimal
    EXPECT_TRUE(peak->clock_mhz.has_value());
  }
}

TEST_F(PeaksCsv, IndependentRowsMatchThePublishedPeakWithinOnePercent) {
  for (const Row& row : rows_) {
    if (row.at("cross_check") != "independent") continue;
    SCOPED_TRACE(row.at("model"));
    const auto peak = PeakOf(**Catalog::Builtin().Find(row.at("model")), Precision::kFp16);
    ASSERT_TRUE(peak.ok()) << peak.status();
    EXPECT_EQ(peak->confidence, Confidence::kIndependent);
    // Ascend 910A: the clock is assumed, 262.144 against 256 is 2.4 % exactly.
    const double tolerance = row.at("model") == "Ascend 910A" ? 0.02401 : 0.01;
    const double published = *Number(row, "fp16_dense_tflops");
    EXPECT_LE(std::abs(peak->tflops / published - 1), tolerance)
        << peak->tflops << " against " << published;
  }
}

TEST_F(PeaksCsv, EveryPublishedPrecisionHasAPeakNearIt) {
  const std::vector<std::pair<Precision, std::string>> columns = {
      {Precision::kTf32, "tf32_dense_tflops"}, {Precision::kFp16, "fp16_dense_tflops"},
      {Precision::kFp8, "fp8_dense_tflops"},   {Precision::kFp4, "fp4_dense_tflops"},
      {Precision::kInt8, "int8_dense_tops"},   {Precision::kFp64, "fp64_tc_tflops"}};
  for (const Row& row : rows_) {
    for (const auto& [precision, column] : columns) {
      SCOPED_TRACE(row.at("model") + " " + column);
      const auto published = Number(row, column);
      const auto peak = PeakOf(**Catalog::Builtin().Find(row.at("model")), precision);
      ASSERT_EQ(peak.ok(), published.has_value());
      if (!published) {
        EXPECT_EQ(peak.status().code(), absl::StatusCode::kNotFound);
        continue;
      }
      // Sheets round (A30 TF32: 82 for 82.6) and mix clocks (L40S FP8: 733 at 2520 MHz, computed
      // 724 at 2490).
      EXPECT_NEAR(peak->tflops / *published, 1, 0.025);
      EXPECT_TRUE(peak->clock_mhz.has_value() || peak->confidence == Confidence::kQuoted);
    }
  }
}

// Equations 6 and the scaling below it in section IV-D of the OFU paper: 132 x 4096 x 1830 MHz =
// 989.4 TFLOP/s; FP8 doubles it, TF32 halves it.
TEST(Peak, H100SxmIsThePaperEquation) {
  const Accelerator& h100 = **Catalog::Builtin().Find("NVIDIA H100 80GB HBM3");
  const auto fp16 = PeakOf(h100, Precision::kFp16);
  ASSERT_TRUE(fp16.ok());
  EXPECT_NEAR(fp16->tflops, 989.4, 0.05);
  EXPECT_EQ(fp16->clock_mhz, 1830);
  EXPECT_EQ(fp16->sm_count, 132);
  EXPECT_EQ(fp16->confidence, Confidence::kIndependent);
  EXPECT_NEAR(PeakOf(h100, Precision::kFp8)->tflops, 1978.9, 0.05);
  EXPECT_NEAR(PeakOf(h100, Precision::kTf32)->tflops, 494.7, 0.05);
  EXPECT_DOUBLE_EQ(PeakOf(h100, Precision::kBf16)->tflops, fp16->tflops);
}

TEST(Peak, Fp64IsAPublishedFigureWithoutClock) {
  const auto peak = PeakOf(**Catalog::Builtin().Find("H100 SXM"), Precision::kFp64);
  ASSERT_TRUE(peak.ok());
  EXPECT_DOUBLE_EQ(peak->tflops, 66.9);
  EXPECT_EQ(peak->clock_mhz, std::nullopt);
  EXPECT_EQ(peak->confidence, Confidence::kQuoted);
}

TEST(Peak, VoltaAndTuringHaveNoBf16) {
  for (const char* name : {"Tesla V100-SXM2-32GB", "Tesla T4"}) {
    const Accelerator& a = **Catalog::Builtin().Find(name);
    EXPECT_TRUE(PeakOf(a, Precision::kFp16).ok());
    const auto bf16 = PeakOf(a, Precision::kBf16);
    ASSERT_FALSE(bf16.ok()) << name;
    EXPECT_NE(bf16.status().message().find("fp16"), absl::string_view::npos) << bf16.status();
  }
}

TEST(Peak, DeviceWithOnlyAPublishedFigureIsQuoted) {
  const auto rubin = Catalog::Builtin().Find("Rubin");
  ASSERT_TRUE(rubin.ok()) << rubin.status();
  const auto peak = PeakOf(**rubin, Precision::kFp16);
  ASSERT_TRUE(peak.ok());
  EXPECT_EQ(peak->confidence, Confidence::kQuoted);
  EXPECT_EQ(peak->clock_mhz, std::nullopt);
  EXPECT_EQ((*rubin)->tensor_clock_max_mhz, std::nullopt);  // hence no OFU
}

TEST(Precision, NamesRoundTripAndErrorsListThem) {
  for (const Precision p : {Precision::kFp64, Precision::kTf32, Precision::kFp16, Precision::kBf16,
                            Precision::kFp8, Precision::kInt8, Precision::kFp4}) {
    const auto parsed = ParsePrecision(PrecisionName(p));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, p);
  }
  EXPECT_EQ(*ParsePrecision("BF16"), Precision::kBf16);
  const auto unknown = ParsePrecision("fp7");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("fp8"), absl::string_view::npos);
}

// Listings of `nvidia-smi mig -lgip` in public reports: A100 40 GB, A100 80 GB, H100 SXM 80 GB,
// H100 PCIe, H200, and B200 (mig-parted pull request 166).
TEST(Mig, ProfilesOfPublicListings) {
  const struct {
    const char *gpu, *profile;
    int sms;
  } cases[] = {
      {"NVIDIA A100-PCIE-40GB", "1g.5gb", 14},
      {"NVIDIA A100-PCIE-40GB", "1g.10gb", 14},
      {"NVIDIA A100-SXM4-40GB", "2g.10gb", 28},
      {"NVIDIA A100-SXM4-40GB", "3g.20gb", 42},
      {"NVIDIA A100-SXM4-40GB", "4g.20gb", 56},
      {"NVIDIA A100-SXM4-40GB", "7g.40gb", 98},
      {"NVIDIA A100-SXM4-80GB", "2g.20gb", 28},
      {"NVIDIA A800-SXM4-80GB", "2g.20gb", 28},
      {"NVIDIA A30", "1g.6gb", 14},
      {"NVIDIA H100 80GB HBM3", "1g.10gb", 16},
      {"NVIDIA H100 80GB HBM3", "1g.20gb", 26},
      {"NVIDIA H100 80GB HBM3", "3g.40gb", 60},
      {"NVIDIA H100 80GB HBM3", "4g.40gb", 64},
      {"NVIDIA H100 80GB HBM3", "7g.80gb", 132},
      {"NVIDIA H100 PCIe", "1g.10gb", 14},
      {"NVIDIA H100 PCIe", "3g.40gb", 46},
      {"NVIDIA H200", "1g.18gb", 16},
      {"NVIDIA H200", "7g.141gb", 132},
      {"NVIDIA B200", "1g.23gb", 18},
      {"NVIDIA GB200", "2g.47gb", 38},
      {"NVIDIA A100-PCIE-40GB", "1g.5gb+me", 14},
      {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "1g.24gb-me", 46},
  };
  for (const auto& c : cases) {
    const auto sms = MigProfileSms(**Catalog::Builtin().Find(c.gpu), c.profile);
    ASSERT_TRUE(sms.ok()) << c.gpu << " " << c.profile << ": " << sms.status();
    EXPECT_EQ(*sms, c.sms) << c.gpu << " " << c.profile;
  }
}

TEST(Mig, UnknownProfilesAreRefused) {
  const Accelerator& a100 = **Catalog::Builtin().Find("A100 SXM 40GB");
  for (const char* profile : {"", "1g", "5g.20gb", "1c.3g.20gb", "1g.5gbx", "3g.40gb"}) {
    EXPECT_EQ(MigProfileSms(a100, profile).status().code(), absl::StatusCode::kNotFound) << profile;
  }
  EXPECT_EQ(MigProfileSms(**Catalog::Builtin().Find("Tesla T4"), "1g.5gb").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Mig, NoProfileIsLargerThanItsGpu) {
  for (const Accelerator& a : Catalog::Builtin().all()) {
    std::set<std::string> seen;
    for (const MigProfile& p : a.mig_profiles) {
      ASSERT_TRUE(a.sm_count.has_value());
      EXPECT_LE(p.sm_count, *a.sm_count) << a.model << " " << p.name;
      EXPECT_TRUE(seen.insert(p.name).second) << a.model << " " << p.name;
    }
  }
}

}  // namespace
}  // namespace flopwatch::hardware
