#include "efficiency/clock_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace flopwatch::efficiency {
namespace {

constexpr double kNoiseNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kTableIntervals[] = {5, 10, 20, 30};

TEST(ClockNoise, HandCalculated) {
  // Tensor activity 0.5, clock 1000, 1100, 1200, 1300 over and over, maximum 1000 MHz: truth 0.5 x
  // 1150 / 1000 = 0.575. Every 4 s the last clock is always the same one: 1300 (+7.5 pp), 1000
  // (-7.5), 1100 (-2.5) or 1200 (+2.5).
  ClockSeries series;
  for (int i = 0; i < 80; ++i) {
    series.tensor_active.push_back(0.5);
    series.sm_clock_mhz.push_back(1000 + 100 * (i % 4));
  }
  const int intervals[] = {4};
  const auto noise = StudyClockNoise(series, 1000, intervals);
  ASSERT_TRUE(noise.ok()) << noise.status();
  EXPECT_DOUBLE_EQ(noise->baseline_ofu, 0.575);
  EXPECT_DOUBLE_EQ(noise->clock_mean_mhz, 1150);
  EXPECT_EQ(noise->samples, 80u);
  ASSERT_EQ(noise->rows.size(), 1u);
  const NoiseRow& row = noise->rows[0];
  EXPECT_EQ(row.phases, 4);
  EXPECT_EQ(row.windows, 19u);
  EXPECT_NEAR(row.mean_abs_deviation_pp, 5, 1e-9);
  EXPECT_NEAR(row.worst_deviation_pp, 7.5, 1e-9);
  ASSERT_TRUE(row.half_width_95_pp.has_value());
  EXPECT_NEAR(*row.half_width_95_pp, 0, 1e-9);  // the same error in every window
}

TEST(ClockNoise, ASteadyClockCostsNothing) {
  ClockSeries series;
  for (int i = 0; i < 600; ++i) {
    series.tensor_active.push_back(0.1 + 0.8 * (i % 7) / 7);  // the hardware averages this exactly
    series.sm_clock_mhz.push_back(1410);
  }
  const auto noise = StudyClockNoise(series, 1410, kTableIntervals);
  ASSERT_TRUE(noise.ok());
  for (const NoiseRow& row : noise->rows) {
    EXPECT_NEAR(row.worst_deviation_pp, 0, 1e-9) << row.interval_s;
    EXPECT_NEAR(*row.half_width_95_pp, 0, 1e-9);
  }
}

// An H100 at OFU 55 % with 32 MHz around 1352 (the OFU paper, IV-C) gives 55 x 32 / 1352 /
// sqrt(100) x 1.96 = 0.25 pp at 30 s over 3000 s, 0.30 accepted; the paper's bound on GB200 is
// 0.22.
TEST(ClockNoise, SimulatedH100IsAsThePaperExpects) {
  const hardware::Accelerator& h100 = **hardware::Catalog::Builtin().Find("H100 SXM");
  const auto model = ClockModelFor(h100);
  ASSERT_TRUE(model.ok());
  const double level = 0.55 * 1830 / 1352;
  double half_width = 0, deviation = 0;
  constexpr int kGpus = 20;
  for (int seed = 0; seed < kGpus; ++seed) {
    const ClockSeries series = SimulateClock(*model, {level, level, 0}, 3000, seed);
    const auto noise = StudyClockNoise(series, 1830, kTableIntervals);
    ASSERT_TRUE(noise.ok()) << noise.status();
    EXPECT_NEAR(noise->baseline_ofu, 0.55, 0.03);
    ASSERT_EQ(noise->rows.size(), 4u);
    EXPECT_EQ(noise->rows[3].phases, 30);
    EXPECT_LE(*noise->rows[3].half_width_95_pp, 0.30);
    EXPECT_LE(*noise->rows[0].half_width_95_pp, 0.15);
    // Longer intervals can only cost more.
    EXPECT_LT(*noise->rows[0].half_width_95_pp, *noise->rows[3].half_width_95_pp);
    half_width += *noise->rows[3].half_width_95_pp;
    deviation += noise->rows[3].mean_abs_deviation_pp;
  }
  EXPECT_NEAR(half_width / kGpus, 0.25, 0.03);
  // The mean absolute value of a normal error is 0.798 of its deviation, the half-width 1.96 of it.
  EXPECT_NEAR(deviation / half_width, 0.798 / 1.96, 0.05);
}

TEST(ClockNoise, GapsDropTheirWindowsOnly) {
  const auto model = ClockModelFor(**hardware::Catalog::Builtin().Find("H100 SXM"));
  ClockSeries series = SimulateClock(*model, {}, 3000, 9);
  for (size_t i = 100; i < 130; ++i) series.tensor_active[i] = kNoiseNan;
  series.sm_clock_mhz[2000] = kNoiseNan;
  const int ten[] = {10};
  const auto noise = StudyClockNoise(series, 1830, ten);
  ASSERT_TRUE(noise.ok());
  EXPECT_EQ(noise->samples, 2969u);
  EXPECT_EQ(noise->rows[0].phases, 10);
  // 299 whole windows of most phases, less up to 4 for the 30 s and 1 for the single gap.
  EXPECT_GE(noise->rows[0].windows, 294u);
  EXPECT_LE(noise->rows[0].windows, 297u);
}

TEST(ClockNoise, CoarserStoredSeriesIsItsOwnBaseline) {
  ClockSeries series;
  series.step_s = 10;
  for (int i = 0; i < 300; ++i) {
    series.tensor_active.push_back(0.7);
    series.sm_clock_mhz.push_back(1300 + 15 * (i % 3));
  }
  const int thirty[] = {30};
  const auto noise = StudyClockNoise(series, 1830, thirty);
  ASSERT_TRUE(noise.ok());
  EXPECT_EQ(noise->rows[0].phases, 3);
  for (const int bad : {10, 15, 5, 0, -30}) {
    const int interval[] = {bad};
    EXPECT_EQ(StudyClockNoise(series, 1830, interval).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

TEST(ClockNoise, RefusesWhatItCannotStudy) {
  ClockSeries empty;
  EXPECT_FALSE(StudyClockNoise(empty, 1830, kTableIntervals).ok());
  ClockSeries uneven;
  uneven.tensor_active = {1, 1};
  uneven.sm_clock_mhz = {1};
  EXPECT_FALSE(StudyClockNoise(uneven, 1830, kTableIntervals).ok());
  ClockSeries brief;
  brief.tensor_active.assign(20, 0.5);
  brief.sm_clock_mhz.assign(20, 1300);
  EXPECT_FALSE(StudyClockNoise(brief, 1830, kTableIntervals).ok());  // no window of 30 s
  EXPECT_FALSE(StudyClockNoise(brief, 0, kTableIntervals).ok());
  const int five[] = {5};
  const auto noise = StudyClockNoise(brief, 1830, five);
  ASSERT_TRUE(noise.ok());
  EXPECT_EQ(noise->rows[0].half_width_95_pp, std::nullopt);  // four windows: no interval
}

TEST(GridSeries, PutsReadingsOnTheirSeconds) {
  // Out of order, jittered by a fraction of a second, one second missing, one read twice.
  const auto series = GridSeries({{103.1, 0.4, 1300},
                                  {100.0, 0.1, 1000},
                                  {100.9, 0.2, 1100},
                                  {104.0, 0.5, 1400},
                                  {104.1, 0.6, 1500},
                                  {105.05, 0.7, 1600}});
  ASSERT_TRUE(series.ok()) << series.status();
  EXPECT_EQ(series->step_s, 1);
  ASSERT_EQ(series->tensor_active.size(), 6u);
  EXPECT_EQ(series->tensor_active[1], 0.2);
  EXPECT_TRUE(std::isnan(series->tensor_active[2]));
  EXPECT_TRUE(std::isnan(series->sm_clock_mhz[2]));
  EXPECT_EQ(series->sm_clock_mhz[4], 1500);
  EXPECT_EQ(series->sm_clock_mhz[5], 1600);
}

TEST(GridSeries, StepIsTheMedianDistanceAndTheSpanIsBounded) {
  const auto ten = GridSeries({{0, 0.1, 1}, {10, 0.1, 1}, {20.2, 0.1, 1}, {90, 0.1, 1}});
  ASSERT_TRUE(ten.ok());
  EXPECT_EQ(ten->step_s, 10);
  EXPECT_EQ(ten->tensor_active.size(), 10u);
  EXPECT_FALSE(GridSeries({}).ok());
  EXPECT_FALSE(GridSeries({{5, 0.1, 1}, {5, 0.1, 1}}).ok());
  EXPECT_FALSE(GridSeries({{0, 0.1, 1}, {kNoiseNan, 0.1, 1}}).ok());
  EXPECT_EQ(GridSeries({{0, 0.1, 1}, {1, 0.1, 1}, {2, 0.1, 1}, {1e9, 0.1, 1}}).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(ClockSimulation, HasTheMeasuredMoments) {
  const auto model = ClockModelFor(**hardware::Catalog::Builtin().Find("H100 SXM"));
  ASSERT_TRUE(model.ok());
  // Many GPUs: mean of their means 1352, spread between them 18 MHz, swing within one 32 (plus 15 /
  // sqrt(12) of quantising).
  std::vector<double> means;
  double within = 0;
  for (int gpu = 0; gpu < 400; ++gpu) {
    const ClockSeries s = SimulateClock(*model, {}, 1000, 100 + gpu);
    const double mean = std::accumulate(s.sm_clock_mhz.begin(), s.sm_clock_mhz.end(), 0.0) / 1000;
    double squares = 0;
    for (const double c : s.sm_clock_mhz) {
      EXPECT_EQ(std::fmod(c, 15), 0);
      EXPECT_LE(c, 1830);
      squares += (c - mean) * (c - mean);
    }
    means.push_back(mean);
    within += std::sqrt(squares / 999);
  }
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / 400;
  double squares = 0;
  for (const double m : means) squares += (m - mean) * (m - mean);
  EXPECT_NEAR(mean, 1352, 3);
  EXPECT_NEAR(std::sqrt(squares / 399), 18, 2.5);
  EXPECT_NEAR(within / 400, std::sqrt(32.0 * 32 + 15.0 * 15 / 12), 1);
}

TEST(ClockSimulation, SeedDecidesAndLoadAlternates) {
  const auto model = ClockModelFor(**hardware::Catalog::Builtin().Find("A100 SXM 80GB"));
  ASSERT_TRUE(model.ok());
  const ClockSeries a = SimulateClock(*model, {0.8, 0.6, 10}, 60, 1),
                    b = SimulateClock(*model, {0.8, 0.6, 10}, 60, 1);
  EXPECT_EQ(a.sm_clock_mhz, b.sm_clock_mhz);
  EXPECT_NE(a.sm_clock_mhz, SimulateClock(*model, {}, 60, 2).sm_clock_mhz);
  EXPECT_EQ(a.tensor_active[9], 0.8);
  EXPECT_EQ(a.tensor_active[10], 0.6);
  EXPECT_EQ(a.tensor_active[20], 0.8);
  EXPECT_TRUE(SimulateClock(*model, {}, 0, 1).sm_clock_mhz.empty());
}

TEST(ClockSimulation, NoTensorClockNoModel) {
  EXPECT_EQ(ClockModelFor(**hardware::Catalog::Builtin().Find("TPU v4")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_NE(ClockModelFor(**hardware::Catalog::Builtin().Find("B200"))->basis.find("scaled"),
            std::string_view::npos);
}

}  // namespace
}  // namespace flopwatch::efficiency
