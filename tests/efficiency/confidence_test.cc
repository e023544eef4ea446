#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <ostream>
#include <random>
#include <vector>

#include "efficiency/ofu.h"

namespace flopwatch::efficiency {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// x[t] = phi x[t-1] + noise, stationary, variance 1. Its mean over n points has the variance (1 +
// phi) / (1 - phi) / n for large n, which is that of n (1 - phi) / (1 + phi) independent points.
std::vector<double> Ar1(double phi, size_t n, uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(n);
  double v = normal(bits);
  for (double& out : x) {
    out = v;
    v = phi * v + std::sqrt(1 - phi * phi) * normal(bits);
  }
  return x;
}

TEST(MeanInterval, TooShortIsNoInterval) {
  const std::vector<double> seven(7, 1.0);
  EXPECT_EQ(MeanInterval95(seven, {}), std::nullopt);
  std::vector<double> gaps(100, kMissing);
  for (int i = 0; i < 7; ++i) gaps[static_cast<size_t>(i) * 3] = i;
  EXPECT_EQ(MeanInterval95(gaps, {}), std::nullopt);
  const std::vector<double> eight(8, 1.0), wrong(5, 1.0);
  EXPECT_EQ(MeanInterval95(eight, wrong), std::nullopt);
}

TEST(MeanInterval, ConstantSeriesHasNoWidth) {
  const std::vector<double> x(50, 0.1);
  const auto interval = MeanInterval95(x, {});
  ASSERT_TRUE(interval.has_value());
  EXPECT_DOUBLE_EQ(interval->mean, 0.1);
  EXPECT_EQ(interval->half_width, 0);
  EXPECT_EQ(interval->effective_samples, 50);
}

// Without positive correlation it is the textbook interval. 1, -1, 1, ... ten times: mean 0, s^2 =
// 10 / 9, s / sqrt(10) = 1 / 3, t(0.975, 9) = 2.26216 (table), half-width 0.75405.
TEST(MeanInterval, TextbookExample) {
  std::vector<double> x(10);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 1 : -1;
  const auto interval = MeanInterval95(x, {});
  ASSERT_TRUE(interval.has_value());
  EXPECT_NEAR(interval->mean, 0, 1e-15);
  EXPECT_NEAR(interval->effective_samples, 10, 1e-9);
  EXPECT_NEAR(interval->half_width, 0.75405, 1e-4);
}

TEST(MeanInterval, WhiteNoiseIsTextbookOnAverage) {
  double ratio = 0;
  constexpr int kRuns = 200;
  constexpr size_t kPoints = 500;
  for (int run = 0; run < kRuns; ++run) {
    const auto x = Ar1(0, kPoints, 1000 + run);
    const auto interval = MeanInterval95(x, {});
    double squares = 0;
    for (const double v : x) squares += (v - interval->mean) * (v - interval->mean);
    const double textbook = 1.9647 * std::sqrt(squares / (kPoints - 1) / kPoints);  // t(0.975, 499)
    ratio += interval->half_width / textbook;
    EXPECT_GE(interval->half_width, textbook * 0.9999);
  }
  EXPECT_NEAR(ratio / kRuns, 1.0, 0.07);
}

TEST(MeanInterval, EffectiveSamplesOfAr1AreTheKnownOnes) {
  for (const double phi : {0.5, 0.8, 0.95}) {
    constexpr size_t kPoints = 20'000;  // more than kMaxIntervalBlocks: blocks of points are used
    const double expected = kPoints * (1 - phi) / (1 + phi);
    double sum = 0;
    constexpr int kRuns = 20;
    for (int run = 0; run < kRuns; ++run)
      sum += MeanInterval95(Ar1(phi, kPoints, 7 + run), {})->effective_samples;
    EXPECT_NEAR(sum / kRuns / expected, 1, 0.10) << "phi " << phi;
  }
}

struct CoverageCase {
  double phi;
  size_t points;
};
void PrintTo(const CoverageCase& c, std::ostream* out) {
  *out << "phi " << c.phi << ", " << c.points << " points";
}
class MeanIntervalCoverage : public ::testing::TestWithParam<CoverageCase> {};

// 2000 series of known mean 0, fixed seeds: the interval contains it in about 95 of 100. An
// interval that ignored autocorrelation would do so in 49 of 100 at phi = 0.8.
TEST_P(MeanIntervalCoverage, IsAboutNinetyFivePercent) {
  int covered = 0;
  constexpr int kRuns = 2000;
  for (int run = 0; run < kRuns; ++run) {
    const auto interval = MeanInterval95(Ar1(GetParam().phi, GetParam().points, 31'000 + run), {});
    covered += std::abs(interval->mean) <= interval->half_width;
  }
  const double share = double(covered) / kRuns;
  RecordProperty("coverage", std::to_string(share));
  EXPECT_GE(share, 0.92);
  EXPECT_LE(share, 0.98);
}
INSTANTIATE_TEST_SUITE_P(Ar1, MeanIntervalCoverage,
                         ::testing::Values(CoverageCase{0, 30}, CoverageCase{0, 400},
                                           CoverageCase{0.5, 100}, CoverageCase{0.8, 200},
                                           CoverageCase{0.8, 2000}, CoverageCase{0.95, 2000}));

// A gap is left out: the mean is that of the rest, and the width grows as the points that are there
// fall.
TEST(MeanInterval, GapsAreLeftOut) {
  auto x = Ar1(0.5, 4000, 3);
  const auto full = MeanInterval95(x, {});
  double sum = 0;
  size_t kept = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i / 10 % 2 == 0) {
      x[i] = kMissing;
    } else {
      sum += x[i];
      ++kept;
    }
  }
  const auto half = MeanInterval95(x, {});
  EXPECT_NEAR(half->mean, sum / double(kept), 1e-12);
  EXPECT_GT(half->half_width, full->half_width * 1.2);
  EXPECT_LT(half->half_width, full->half_width * 1.6);
}

TEST(MeanInterval, WeightsAreGpuSeconds) {
  // (1 x 1 + 3 x 5) / 4 repeated: the mean is 4.
  std::vector<double> x, w;
  for (int i = 0; i < 20; ++i) {
    x.push_back(i % 2 == 0 ? 1 : 5);
    w.push_back(i % 2 == 0 ? 1 : 3);
  }
  EXPECT_DOUBLE_EQ(MeanInterval95(x, w)->mean, 4);
  // Equal weights of any size are no weights.
  const auto series = Ar1(0.7, 300, 11);
  const std::vector<double> sixty(series.size(), 60);
  EXPECT_NEAR(MeanInterval95(series, sixty)->half_width, MeanInterval95(series, {})->half_width,
              1e-12);
  // A weight of 0 is a gap.
  std::vector<double> zeros(series.size(), 1.0);
  zeros[17] = 0;
  auto gap = series;
  gap[17] = kMissing;
  EXPECT_DOUBLE_EQ(MeanInterval95(series, zeros)->half_width, MeanInterval95(gap, {})->half_width);
}

TEST(MeanInterval, ScaleAndShiftCarryThrough) {
  const auto x = Ar1(0.6, 500, 5);
  auto y = x;
  for (double& v : y) v = 0.3 + 0.01 * v;
  const auto a = MeanInterval95(x, {}), b = MeanInterval95(y, {});
  EXPECT_NEAR(b->mean, 0.3 + 0.01 * a->mean, 1e-12);
  EXPECT_NEAR(b->half_width, 0.01 * a->half_width, 1e-12);
  EXPECT_NEAR(b->effective_samples, a->effective_samples, 1e-6);
}

// The number of blocks is bounded: a long series gives the same answer as its parts would, at a
// bounded price.
TEST(MeanInterval, LongSeriesAgreesWithTheKnownWidth) {
  constexpr size_t kPoints = 300'000;
  const auto interval = MeanInterval95(Ar1(0.9, kPoints, 1), {});
  const double expected = 1.96 * std::sqrt((1 + 0.9) / (1 - 0.9) / kPoints);
  EXPECT_NEAR(interval->half_width / expected, 1, 0.15);
}

}  // namespace
}  // namespace flopwatch::efficiency
