#include "efficiency/ofu.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace flopwatch::efficiency {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A recorded A100 40 GB with one 1g.5gb instance driven hard: tensor activity 0.929260 at 1215 MHz,
// against 1410 MHz: 0.92926 x 1215 / 1410 = 0.800745.
TEST(OfuFromRatio, A100MigExample) {
  const auto ofu = OfuFromRatio(0.929260, 1215, 1410);
  ASSERT_TRUE(ofu.ok());
  EXPECT_NEAR(*ofu, 0.8007, 0.00005);
}

TEST(OfuFromRatio, BoundsAreOfu) {
  EXPECT_DOUBLE_EQ(*OfuFromRatio(0, 210, 1830),
                   0);  // an idle GPU is a measured 0, not a missing value
  EXPECT_DOUBLE_EQ(*OfuFromRatio(1, 1830, 1830), 1);
  EXPECT_DOUBLE_EQ(*OfuFromRatio(1, 1860, 1830),
                   1860.0 / 1830);  // 1.016: a rounding of the clock, kept
}

TEST(OfuFromRatio, MissingIsNamedAndNeverZero) {
  const auto message = [](double tensor, double clock, double max) {
    const auto ofu = OfuFromRatio(tensor, clock, max);
    EXPECT_FALSE(ofu.ok());
    EXPECT_EQ(ofu.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(ofu.status().message());
  };
  EXPECT_NE(message(kNan, 1800, 1830).find("tensor activity"), std::string::npos);
  EXPECT_NE(message(0.5, kNan, 1830).find("SM clock"), std::string::npos);
  EXPECT_NE(message(0.5, 1800, kNan).find("maximum tensor clock"), std::string::npos);
}

TEST(OfuFromRatio, ImpossibleValuesAreRefused) {
  for (const auto& [tensor, clock, max] :
       std::vector<std::array<double, 3>>{{1.0001, 1000, 1830},
                                          {-0.1, 1000, 1830},
                                          {93, 1000, 1830},  // per cent for a ratio
                                          {0.5, 0, 1830},
                                          {0.5, -15, 1830},
                                          {0.5, INFINITY, 1830},
                                          {0.5, 1000, 0},
                                          {1, 1980, 1830}}) {  // 1.08
    EXPECT_EQ(OfuFromRatio(tensor, clock, max).status().code(), absl::StatusCode::kOutOfRange)
        << tensor << " " << clock << " " << max;
  }
}

// The cycle path: 1.83e9 active cycles a second on the average SM is the pipe busy all the time at
// 1830 MHz.
TEST(Cycles, AveragedAndSummedTotals) {
  const CycleOfu averaged = OfuFromCycles({0, 5'000, {}}, {10, 5'000 + 18'300'000'000, {}}, 1);
  EXPECT_EQ(averaged.outcome, CycleOutcome::kOk);
  EXPECT_DOUBLE_EQ(averaged.tensor_mhz, 1830);
  // H100: summed over its 132 SMs, half busy: 132 x 915e6 a second.
  const CycleOfu summed = OfuFromCycles({100, 0, {}}, {110, 132ull * 9'150'000'000, {}}, 132);
  EXPECT_DOUBLE_EQ(summed.tensor_mhz, 915);
}

TEST(Cycles, MissedScrapesLoseNothing) {
  // An hour between readings, idle for the second half: 1830e6 x 1800 cycles, OFU one half.
  const CycleOfu hour = OfuFromCycles({0, 0, {}}, {3600, 1'830'000'000ull * 1800, {}}, 1);
  EXPECT_EQ(hour.outcome, CycleOutcome::kOk);
  EXPECT_DOUBLE_EQ(hour.tensor_mhz, 915);
}

TEST(Cycles, WrapIsFollowed) {
  const uint64_t before =
      std::numeric_limits<uint64_t>::max() - 999'999'999;  // 1e9 before the wrap
  const CycleOfu wrapped = OfuFromCycles({0, before, {}}, {1, 830'000'000, {}}, 1);
  EXPECT_EQ(wrapped.outcome, CycleOutcome::kOk);
  EXPECT_DOUBLE_EQ(wrapped.tensor_mhz, 1830);
}

TEST(Cycles, ResetIsNotAWrap) {
  EXPECT_EQ(OfuFromCycles({0, 1'000'000'000'000'000, {}}, {30, 5'000'000'000, {}}, 1).outcome,
            CycleOutcome::kReset);
  EXPECT_EQ(OfuFromCycles({0, 7, {}}, {30, 6, {}}, 132).outcome, CycleOutcome::kReset);
  // The tensor total hides the reset (0 before and after), the elapsed one shows it.
  EXPECT_EQ(OfuFromCycles({0, 0, 1'000'000'000'000'000}, {30, 0, 1000}, 1).outcome,
            CycleOutcome::kReset);
  EXPECT_EQ(OfuFromCycles({0, 0, 1000}, {30, 0, 50'000'000'000}, 1).outcome, CycleOutcome::kOk);
}

TEST(Cycles, NoTimeAndNoScale) {
  EXPECT_EQ(OfuFromCycles({5, 0, {}}, {5, 10, {}}, 1).outcome, CycleOutcome::kNoTime);
  EXPECT_EQ(OfuFromCycles({5, 0, {}}, {4, 10, {}}, 1).outcome, CycleOutcome::kNoTime);
  EXPECT_EQ(OfuFromCycles({kNan, 0, {}}, {4, 10, {}}, 1).outcome, CycleOutcome::kNoTime);
  EXPECT_EQ(OfuFromCycles({0, 0, {}}, {1, 10, {}}, 0).outcome, CycleOutcome::kUncalibrated);
  EXPECT_EQ(OfuFromCycles({0, 0, {}}, {1, 10, {}}, kNan).outcome, CycleOutcome::kUncalibrated);
  // A summed total read with scale 1: 241 GHz is no clock.
  EXPECT_EQ(OfuFromCycles({0, 0, {}}, {1, 132ull * 1'830'000'000, {}}, 1).outcome,
            CycleOutcome::kUncalibrated);
}

TEST(Cycles, CalibrationSnapsToOneOrTheSmCount) {
  // 30 s at 1755 MHz: 52.65e9 cycles an SM; the clock reading may be several per cent off.
  const auto scale = [](uint64_t elapsed, double clock) {
    return CalibrateCycleScale({0, 0, 1000}, {30, 0, 1000 + elapsed}, clock, 132);
  };
  EXPECT_EQ(scale(52'650'000'000, 1755), 1.0);
  EXPECT_EQ(scale(52'650'000'000, 1850), 1.0);
  EXPECT_EQ(scale(132ull * 52'650'000'000, 1755), 132.0);
  EXPECT_EQ(scale(132ull * 52'650'000'000, 1700), 132.0);
  EXPECT_EQ(scale(4ull * 52'650'000'000, 1755), std::nullopt);  // per sub-core? not one of ours
  EXPECT_EQ(scale(20'000'000'000, 1755), std::nullopt);         // gated clocks: try the next window
  EXPECT_EQ(scale(52'650'000'000, 0), std::nullopt);
  EXPECT_EQ(CalibrateCycleScale({0, 0, {}}, {30, 0, 5}, 1755, 132), std::nullopt);
  EXPECT_EQ(CalibrateCycleScale({0, 0, 0}, {0, 0, 5}, 1755, 132), std::nullopt);
}

// However a span is cut into windows, with the total wrapping anywhere, the cycles add up to those
// of the whole.
TEST(Cycles, PropertyWindowsAddUpToTheWhole) {
  EXPECT_TRUE(rc::check("windows", [] {
    const auto start = *rc::gen::arbitrary<uint64_t>();
    const auto steps = *rc::gen::container<std::vector<uint64_t>>(
        *rc::gen::inRange<size_t>(1, 50),
        rc::gen::inRange<uint64_t>(0, 2'000'000'000));  // cycles in each second
    double sum = 0;
    uint64_t at = start;
    for (size_t i = 0; i < steps.size(); ++i) {
      const uint64_t next = at + steps[i];
      const CycleOfu window = OfuFromCycles({double(i), at, {}}, {double(i + 1), next, {}}, 1);
      RC_ASSERT(window.outcome == CycleOutcome::kOk);
      sum += window.tensor_mhz * 1e6;
      at = next;
    }
    const uint64_t cycles = std::accumulate(steps.begin(), steps.end(), uint64_t{0});
    RC_ASSERT(std::abs(sum - static_cast<double>(cycles)) <= 1e-3);
    const CycleOfu whole = OfuFromCycles({0, start, {}}, {double(steps.size()), at, {}}, 1);
    RC_ASSERT(std::abs(whole.tensor_mhz * 1e6 * double(steps.size()) -
                       static_cast<double>(cycles)) <= 1e-3);
  }));
}

TEST(Sums, MeanOfProductsWeightedBySeconds) {
  OfuSums sums;
  sums.Add(0.8, 30);
  sums.Add(0.2, 10);
  sums.AddNotComputable(20);
  EXPECT_DOUBLE_EQ(*sums.Ofu(), 0.65);  // (24 + 2) / 40
  EXPECT_EQ(sums.samples, 3u);
  EXPECT_DOUBLE_EQ(sums.observed_s, 60);
  EXPECT_DOUBLE_EQ(*Coverage(sums, 80), 0.5);
  EXPECT_DOUBLE_EQ(*Coverage(sums, 39), 1);  // the last sample reaches past the end
  EXPECT_EQ(Coverage(sums, 0), std::nullopt);
}

// The product of means is no mean: half the time 0.9 at 1000 MHz, half 0.1 at 2000 MHz. The mean of
// products is (0.9 x 1000 + 0.1 x 2000) / 2 / 2000 = 0.275; the product of means would be 0.5 x
// 1500 / 2000 = 0.375.
TEST(Sums, NeverTheProductOfMeans) {
  OfuSums sums;
  sums.Add(*OfuFromRatio(0.9, 1000, 2000), 30);
  sums.Add(*OfuFromRatio(0.1, 2000, 2000), 30);
  EXPECT_DOUBLE_EQ(*sums.Ofu(), 0.275);
}

TEST(Sums, NothingComputableIsNotZero) {
  OfuSums sums;
  EXPECT_EQ(sums.Ofu(), std::nullopt);
  sums.AddNotComputable(30);
  EXPECT_EQ(sums.Ofu(), std::nullopt);
  EXPECT_DOUBLE_EQ(*Coverage(sums, 30), 0);
}

TEST(Sums, PropertyMergingAnySplitEqualsTheWhole) {
  EXPECT_TRUE(rc::check("merge", [] {
    struct Sample {
      double ofu, seconds;
      bool computable;
    };
    const auto n = *rc::gen::inRange<size_t>(0, 200);
    std::vector<Sample> samples;
    for (size_t i = 0; i < n; ++i) {
      // OFU and seconds as binary fractions, so that sums are exact and equality can be asked for.
      samples.push_back({*rc::gen::inRange(0, 1 << 20) * 0x1p-20,
                         double(*rc::gen::inRange(1, 4096)), *rc::gen::arbitrary<bool>()});
    }
    OfuSums whole;
    std::vector<OfuSums> shards(5);
    for (const Sample& s : samples) {
      OfuSums& shard = shards[*rc::gen::inRange<size_t>(0, shards.size())];
      for (OfuSums* sums : {&whole, &shard})
        s.computable ? sums->Add(s.ofu, s.seconds) : sums->AddNotComputable(s.seconds);
    }
    OfuSums merged;
    while (!shards.empty()) {  // in any order
      const auto i = *rc::gen::inRange<size_t>(0, shards.size());
      merged += shards[i];
      shards.erase(shards.begin() + static_cast<ptrdiff_t>(i));
    }
    RC_ASSERT(merged.ofu_s == whole.ofu_s);
    RC_ASSERT(merged.computable_s == whole.computable_s);
    RC_ASSERT(merged.observed_s == whole.observed_s);
    RC_ASSERT(merged.samples == whole.samples);
    RC_ASSERT(merged.Ofu() == whole.Ofu());
  }));
}

// A100 (108 SMs) with 1g (14) at 0.8 and 3g (42) at 0.5: (11.2 + 21) / 108.
TEST(Mig, WeightedBySmsWithTheUncoveredShown) {
  const MigSlice slices[] = {{0.8, 14}, {0.5, 42}};
  const auto gpu = OfuOfMig(slices, 108);
  ASSERT_TRUE(gpu.ok());
  EXPECT_NEAR(gpu->ofu, 32.2 / 108, 1e-15);
  EXPECT_EQ(gpu->covered_sms, 56);
  EXPECT_EQ(gpu->uncovered_sms, 52);
}

// Seven 1g.23gb of a B200 (18 of 148 SMs each; mig-parted #166) cover 126; flat out they are 0.851
// of the GPU.
TEST(Mig, SevenSlicesOfAB200LeaveSmsUnused) {
  const std::vector<MigSlice> slices(7, {1.0, 18});
  const auto gpu = OfuOfMig(slices, 148);
  ASSERT_TRUE(gpu.ok());
  EXPECT_NEAR(gpu->ofu, 126.0 / 148, 1e-12);
  EXPECT_EQ(gpu->uncovered_sms, 22);
}

TEST(Mig, ImpossibleSlicesAreRefused) {
  const std::vector<MigSlice> too_many(8, {0.5, 14});  // 112 of 108
  EXPECT_FALSE(OfuOfMig(too_many, 108).ok());
  const MigSlice none[] = {{0.5, 0}};
  EXPECT_FALSE(OfuOfMig(none, 108).ok());
  const MigSlice nan[] = {{kNan, 14}};
  EXPECT_FALSE(OfuOfMig(nan, 108).ok());
  EXPECT_FALSE(OfuOfMig({}, 0).ok());
  EXPECT_EQ(OfuOfMig({}, 108)->uncovered_sms, 108);
}

// Readings of a 700 W board.
CounterReading Reading(double span_s, std::optional<double> tensor, std::optional<double> util,
                       std::optional<double> power_w, std::optional<double> other_pipes = {}) {
  return {.span_s = span_s,
          .tensor_active = tensor,
          .gpu_util = util,
          .power_w = power_w,
          .power_limit_w = 700,
          .other_pipes = other_pipes};
}
constexpr CounterState kAlive = CounterState::kAlive, kSuspect = CounterState::kSuspect,
                       kDead = CounterState::kDead;

TEST(DeadCounter, IsSuspectAtOnceAndDeadAfterMinutes) {
  DeadCounterDetector detector;
  for (int i = 0; i < 17; ++i) EXPECT_EQ(detector.Update(Reading(10, 0, 1, 600)), kSuspect) << i;
  EXPECT_EQ(detector.Update(Reading(10, 0, 1, 600)), kDead);  // 180 s
  EXPECT_EQ(detector.Update(Reading(10, 0, 0.95, 500)), kDead);
  EXPECT_EQ(detector.Update(Reading(10, 0.001, 1, 600)), kAlive);  // it counts again
  EXPECT_EQ(detector.Update(Reading(170, 0, 1, 600)), kSuspect);
}

TEST(DeadCounter, ASampleWithoutASpanIsSuspectToo) {
  DeadCounterDetector detector;
  EXPECT_EQ(detector.Update(Reading(0, 0, 1, 600)), kSuspect);  // a first sample
}

TEST(DeadCounter, AZeroThatMayBeTrueIsNotSuspect) {
  DeadCounterDetector idle, cool, unknown, other;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(idle.Update(Reading(30, 0, 0.90, 600)), kAlive);  // not above 90 %
    EXPECT_EQ(cool.Update(Reading(30, 0, 1, 420)),
              kAlive);  // a hang spins at low power; 420 is exactly 60 %
    EXPECT_EQ(unknown.Update(Reading(30, 0, 1, {})), kAlive);       // power not known: no verdict
    EXPECT_EQ(other.Update(Reading(30, 0, 1, 600, 0.45)), kAlive);  // FP32 work explains the load
  }
}

// Copies on an H200, as its counters had them (tests/gpu): nothing computes, memory 89 % busy, 635
// of 700 W. Products of matrices kept the memory busy for 16 to 19 %.
TEST(DeadCounter, CopiesExplainAHotGpu) {
  CounterReading copies = Reading(30, 0, 0.99, 635, 0.0), products = copies;
  copies.dram_active = 0.89;
  products.dram_active = 0.19;
  DeadCounterDetector memory, dead;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(memory.Update(copies), kAlive);
    dead.Update(products);
  }
  EXPECT_EQ(dead.Update(products), kDead);
}

TEST(DeadCounter, ALittleWorkOfOtherPipesExplainsNothing) {
  DeadCounterDetector detector;
  for (int i = 0; i < 10; ++i) detector.Update(Reading(30, 0, 1, 600, 0.1));
  EXPECT_EQ(detector.Update(Reading(10, 0, 1, 600, 0.1)), kDead);
}

TEST(DeadCounter, AMissingValueNeitherConfirmsNorClears) {
  DeadCounterDetector detector;
  EXPECT_EQ(detector.Update(Reading(120, 0, 1, 600)), kSuspect);
  EXPECT_EQ(detector.Update(Reading(120, {}, 1, 600)), kSuspect);
  EXPECT_EQ(detector.Update(Reading(120, 0, {}, 600)), kSuspect);
  EXPECT_EQ(detector.Update(Reading(60, 0, 1, 600)), kDead);
  EXPECT_EQ(detector.Update(Reading(60, {}, {}, {})), kDead);
}

TEST(DeadCounter, YearsOfZeroStillClear) {
  DeadCounterDetector detector;
  for (int i = 0; i < 100'000; ++i) detector.Update(Reading(3600, 0, 1, 600));
  EXPECT_EQ(detector.Update(Reading(10, 0, 1, 600)), kDead);
  EXPECT_EQ(detector.Update(Reading(10, 0, 0.1, 100)), kAlive);
}

TEST(DeadCounter, SaysWhetherTheZerosWereTrue) {
  DeadCounterDetector moves, never, worked;
  moves.Update(Reading(60, 0, 1, 600));
  EXPECT_EQ(moves.Update(Reading(10, 0.4, 1, 600)), kAlive);
  EXPECT_TRUE(moves.zeros_were_true());  // it works, so it worked
  never.Update(Reading(60, 0, 1, 600));
  EXPECT_EQ(never.Update(Reading(10, 0, 0.1, 100)), kAlive);
  EXPECT_FALSE(never.zeros_were_true());  // the load ended, nothing showed that it counts
  worked.Update(Reading(60, 0.4, 1, 600));
  worked.Update(Reading(60, 0, 1, 600));
  EXPECT_EQ(worked.Update(Reading(10, 0, 0.1, 100)), kAlive);
  EXPECT_TRUE(worked.zeros_were_true());
  // Once dead, what it showed before counts no more.
  for (int i = 0; i < 3; ++i) worked.Update(Reading(60, 0, 1, 600));
  worked.Update(Reading(10, 0, 0.1, 100));
  worked.Update(Reading(60, 0, 1, 600));
  worked.Update(Reading(10, 0, 0.1, 100));
  EXPECT_FALSE(worked.zeros_were_true());
}

}  // namespace
}  // namespace flopwatch::efficiency
