// Stragglers from sums of counters that are made here, by the physics in docs/stragglers.md: what
// each rank of a job would show when one of them is slow in a known way. The simulated fleets, with
// truth and telemetry faults, are in tests/simulate/straggler_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <vector>

#include "fleet/stragglers/find.h"
#include "fleet/stragglers/robust.h"
#include "fleet/stragglers/words.h"

namespace flopwatch::fleet {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// What a GPU shows while it works.
struct Shown {
  double clock = 1350, tensor = .3, sm = .6, duty = .99, power = 400, limit = 700, temp = 55;
  double nvlink = 1e10, pcie = 1e9;
  uint32_t reasons = 0;
  double replays_an_hour = 0, ecc_an_hour = 0, link_errors_an_hour = 0, recoveries_an_hour = 0;
  bool tensor_usable = true;
};

class StragglersTest : public ::testing::Test {
 protected:
  std::array<double, kWorkFieldCount> RowOf(const Shown& g, double hours) {
    std::array<double, kWorkFieldCount> v;
    v.fill(kNaN);
    v[kWorkTensor] = g.tensor_usable ? g.tensor : kNaN;
    v[kWorkSm] = v[kWorkSmActive] = g.sm * (1 + .003 * normal_(random_));
    // A clock reading is an instant one: sd 30 MHz, in steps of 15 (OFU paper, IV-C).
    v[kWorkClock] = std::round((g.clock + 30 * normal_(random_)) / 15) * 15;
    v[kWorkPower] = g.power * (1 + .01 * normal_(random_));
    v[kWorkPowerLimit] = g.limit;
    v[kWorkTemp] = g.temp;
    v[kWorkDuty] = std::min(1.0, g.duty * (1 + .003 * normal_(random_)));
    v[kWorkNvlinkTx] = v[kWorkNvlinkRx] = g.nvlink * (1 + .02 * normal_(random_));
    v[kWorkPcieTx] = v[kWorkPcieRx] = g.pcie;
    v[kWorkReasons] = g.reasons;
    v[kWorkReplays] = std::floor(100 + g.replays_an_hour * hours);
    v[kWorkEccSbe] = std::floor(g.ecc_an_hour * hours);
    v[kWorkNvlinkErrors] = std::floor(g.link_errors_an_hour * hours);
    v[kWorkNvlinkRecoveries] = std::floor(g.recoveries_an_hour * hours);
    return v;
  }

  // An hour at `interval` s, or another time.
  const GpuWork* Work(const Shown& g, int seconds = 3600, int interval = 10) {
    GpuWork& w = works_.emplace_back();
    for (int t = 0; t <= seconds; t += interval)
      w.Add(t * kMicrosPerSecond, interval, g.tensor_usable, RowOf(g, t / 3600.0));
    return &w;
  }

  // A synchronous job on hosts of 8: each GPU at its own clock, activity the inverse of it.
  std::vector<Shown> Synchronous(int gpus, double clock = 1350, double tensor = .3) {
    std::vector<Shown> out(static_cast<size_t>(gpus));
    for (Shown& g : out) {
      const double slower = 1 + .012 * std::clamp(normal_(random_), -2., 2.);
      g.clock = clock / slower;
      g.tensor = tensor * slower;
      g.power *= 1 + .02 * normal_(random_);
    }
    return out;
  }
  static void SlowDown(Shown* g, double factor) {
    g->clock /= factor;
    g->tensor *= factor;
  }

  void AddJob(const std::vector<Shown>& gpus, int seconds = 3600) {
    StragglerJob& job = jobs_.emplace_back();
    for (size_t i = 0; i < gpus.size(); ++i) {
      const auto host = static_cast<int32_t>(jobs_.size() * 1000 + i / 8);
      job.ranks.push_back({static_cast<int32_t>(i), host, host, Work(gpus[i], seconds)});
    }
  }
  // So that there is something to compare with.
  void AddHealthyJobs(int n) {
    for (int i = 0; i < n; ++i) AddJob(Synchronous(16));
  }
  StragglersFound Find() { return FindStragglers(jobs_); }

  std::mt19937 random_{7};
  std::normal_distribution<double> normal_;
  std::deque<GpuWork> works_;
  std::vector<StragglerJob> jobs_;
};

TEST_F(StragglersTest, TheLowestClockWithTheHighestActivityIsNamed) {
  auto gpus = Synchronous(16);
  for (Shown& g : gpus) g.clock = 1350, g.tensor = .3;
  SlowDown(&gpus[5], 1.1);
  AddJob(gpus);
  const StragglersFound found = Find();
  ASSERT_EQ(found.named.size(), 1u);
  EXPECT_EQ(found.named[0].rank, 5u);
  EXPECT_EQ(found.named[0].kind, StragglerKind::kClock);
  EXPECT_NEAR(found.named[0].deficit.value_or(0), .1, .005);
  // All others are alike: without it a step takes 1 / 1.1 of the time.
  EXPECT_NEAR(found.named[0].gain.value_or(0), 1 - 1 / 1.1, .01);
  EXPECT_GT(found.named[0].confidence, .99);
  ASSERT_FALSE(found.named[0].evidence.empty());
  EXPECT_EQ(found.named[0].evidence[0].measure, "sm_clock_mhz");
  EXPECT_NEAR(found.named[0].evidence[0].value, 1350 / 1.1, 5);
  EXPECT_NEAR(found.named[0].evidence[0].peers.value_or(0), 1350, 5);
}

TEST_F(StragglersTest, RanksThatDoNotStepTogetherAreNotCompared) {
  // A sweep: every GPU at its own pace, activity the same whatever the clock.
  std::vector<Shown> gpus(16);
  for (Shown& g : gpus) g.clock = 1350 * (1 + .02 * normal_(random_));
  gpus[3].clock = 1350 / 1.2;
  AddJob(gpus);
  // Tasks of different kinds.
  gpus = Synchronous(8);
  for (size_t i = 0; i < gpus.size(); ++i) gpus[i].tensor *= 1 + .1 * static_cast<double>(i % 4);
  AddJob(gpus);
  const StragglersFound found = Find();
  EXPECT_TRUE(found.named.empty());
  EXPECT_EQ(found.jobs[0].reason, NotJudged::kIndependent);
  EXPECT_EQ(found.jobs[1].reason, NotJudged::kIndependent);
}

TEST_F(StragglersTest, ARankWithMoreWorkAtTheSameClockIsNoStraggler) {
  auto gpus = Synchronous(32);
  gpus[9].tensor *= 1.1;
  AddJob(gpus);
  const StragglersFound found = Find();
  EXPECT_TRUE(found.jobs[0].judged());
  EXPECT_TRUE(found.named.empty());
}

TEST_F(StragglersTest, StagesOfAPipelineOnOtherHostsAreNotSlowGpus) {
  auto gpus = Synchronous(64);
  for (size_t i = 0; i < gpus.size(); ++i) gpus[i].tensor *= 1 + .06 * static_cast<double>(i / 16);
  SlowDown(&gpus[20], 1.12);
  AddJob(gpus);
  const StragglersFound found = Find();
  EXPECT_TRUE(found.jobs[0].judged());
  ASSERT_EQ(found.named.size(), 1u);
  EXPECT_EQ(found.named[0].rank, 20u);
  EXPECT_NEAR(found.named[0].deficit.value_or(0), .12, .04);  // beside its own spread of 1.2 %
}

TEST_F(StragglersTest, WhatHoldsAClockDownIsItsKind) {
  auto hot = Synchronous(8), capped = Synchronous(8), plain = Synchronous(8);
  SlowDown(&hot[1], 1.25);
  hot[1].reasons = 0x20;
  hot[1].temp = 86;
  SlowDown(&capped[2], 1.15);
  capped[2].limit = 300;
  capped[2].power = 298;
  capped[2].reasons = 0x4;
  SlowDown(&plain[3], 1.15);
  for (Shown& g : plain) g.reasons = 0x2;  // clocks set by an administrator, on all of them
  AddJob(hot);
  AddJob(capped);
  AddJob(plain);
  const StragglersFound found = Find();
  ASSERT_EQ(found.named.size(), 3u);
  for (const Straggler& s : found.named) {
    EXPECT_EQ(s.rank, s.job + 1);
    EXPECT_EQ(s.kind, s.job == 0   ? StragglerKind::kThermal
                      : s.job == 1 ? StragglerKind::kPowerCap
                                   : StragglerKind::kClock);
  }
}

TEST_F(StragglersTest, WhereOthersWaitTheGpuThatStallsDrawsMorePower) {
  AddHealthyJobs(20);
  auto gpus = Synchronous(16);
  for (size_t i = 0; i < gpus.size(); ++i)
    if (i != 6) gpus[i].power *= .88;  // they spin in a collective for a part of each step
  gpus[6].replays_an_hour = 3000;
  AddJob(gpus);
  // Retries alone, while nobody waits, are no straggler.
  for (int i = 0; i < 10; ++i) {
    auto others = Synchronous(16);
    others[static_cast<size_t>(i)].replays_an_hour = 40 * (i + 1);
    AddJob(others);
  }
  const StragglersFound found = Find();
  ASSERT_EQ(found.named.size(), 1u);
  EXPECT_EQ(found.named[0].job, 20u);
  EXPECT_EQ(found.named[0].rank, 6u);
  EXPECT_EQ(found.named[0].kind, StragglerKind::kStall);
  EXPECT_FALSE(found.named[0].deficit.has_value());
  EXPECT_FALSE(found.named[0].deficit_reason.empty());
}

TEST_F(StragglersTest, LinksThatCarryLessThanThoseOfTheDomain) {
  AddHealthyJobs(10);
  auto gpus = Synchronous(16);
  gpus[11].nvlink *= .5;
  gpus[11].link_errors_an_hour = 300;
  gpus[11].recoveries_an_hour = 5;
  AddJob(gpus);
  const StragglersFound found = Find();
  ASSERT_EQ(found.named.size(), 1u);
  EXPECT_EQ(found.named[0].rank, 11u);
  EXPECT_EQ(found.named[0].kind, StragglerKind::kLink);
}

// Without an error counted, too: what its links do not carry goes over PCIe.
TEST_F(StragglersTest, LinksWhoseTrafficGoesAnotherWay) {
  AddHealthyJobs(10);
  auto gpus = Synchronous(16);
  gpus[11].nvlink *= .5;
  gpus[11].pcie *= 2;
  AddJob(gpus);
  // The ends of a pipeline carry half of what its middle does, and one of them reads the data.
  auto stages = Synchronous(16);
  stages[8].nvlink *= .5;
  stages[8].pcie *= 2;
  stages[15].nvlink *= .5;
  AddJob(stages);
  // Ranks that no others of the job are joined with.
  auto rest = Synchronous(18);
  for (const size_t i : {16u, 17u}) rest[i].nvlink *= .4, rest[i].pcie *= 2;
  AddJob(rest);
  // One alone reads more, another's place in the fabric gives it less.
  auto readers = Synchronous(16);
  readers[0].pcie *= 2.5;
  readers[9].nvlink *= .65;
  AddJob(readers);
  const StragglersFound found = Find();
  ASSERT_EQ(found.named.size(), 1u);
  EXPECT_EQ(found.named[0].job, 10u);
  EXPECT_EQ(found.named[0].rank, 11u);
  EXPECT_EQ(found.named[0].kind, StragglerKind::kLink);
}

TEST_F(StragglersTest, AHostThatIsLateIsNamedOnceWithItsDeficit) {
  AddHealthyJobs(10);
  auto gpus = Synchronous(32);
  // Its GPUs idle for 8 % of the time, in which those of other hosts spin.
  for (size_t i = 8; i < 16; ++i) gpus[i].duty /= 1.08, gpus[i].sm /= 1.1, gpus[i].power *= .97;
  AddJob(gpus);
  const StragglersFound found = Find();
  ASSERT_EQ(found.named.size(), 1u);
  EXPECT_EQ(found.named[0].kind, StragglerKind::kHost);
  EXPECT_TRUE(found.named[0].whole_host);
  EXPECT_EQ(found.named[0].rank / 8, 1u);
  // And what its slowest GPU is by itself.
  EXPECT_NEAR(found.named[0].deficit.value_or(0), .095, .015);
}

// Of two hosts neither is the middle, whichever has more GPUs that say something.
TEST_F(StragglersTest, OfTwoHostsTheOneThatIsLateIsNamed) {
  AddHealthyJobs(10);
  for (const size_t silent : {2u, 10u}) {
    auto gpus = Synchronous(16);
    gpus[silent].tensor_usable = false;
    for (size_t i = 8; i < 16; ++i) gpus[i].duty /= 1.08, gpus[i].sm /= 1.1, gpus[i].power *= .97;
    AddJob(gpus);
  }
  const StragglersFound found = Find();
  ASSERT_EQ(found.named.size(), 2u);
  for (const Straggler& s : found.named) {
    EXPECT_EQ(s.kind, StragglerKind::kHost);
    EXPECT_EQ(s.rank / 8, 1u);
    EXPECT_NEAR(s.deficit.value_or(0), .095, .02);
  }
}

// Nobody waits for a host of a job whose ranks go their own way, nor for one whose duty goes up and
// down so much that an hour of it says little.
TEST_F(StragglersTest, AHostIsNotLateForOthersThatDoNotWait) {
  AddHealthyJobs(10);
  std::vector<Shown> gpus(16);
  for (Shown& g : gpus) g.clock = 1350 * (1 + .02 * normal_(random_));
  for (size_t i = 8; i < 16; ++i) gpus[i].duty /= 1.08, gpus[i].sm /= 1.1;
  AddJob(gpus);
  EXPECT_TRUE(Find().named.empty());

  gpus = Synchronous(16);
  StragglerJob& job = jobs_.emplace_back();
  for (size_t i = 0; i < gpus.size(); ++i) {
    GpuWork& w = works_.emplace_back();
    for (int t = 0; t <= 3600; t += 90) {
      Shown g = gpus[i];
      const bool low = (t / 90 + (i < 8 ? 0 : 1)) % 3 == 0 || (i >= 8 && t < 450);
      g.duty = low ? .45 : .99;
      g.sm = low ? .3 : .6;
      w.Add(t * kMicrosPerSecond, 90, true, RowOf(g, t / 3600.0));
    }
    job.ranks.push_back({static_cast<int32_t>(i), static_cast<int32_t>(i / 8), 0, &w});
  }
  const StragglersFound found = Find();
  EXPECT_TRUE(found.jobs.back().judged());
  EXPECT_TRUE(found.named.empty());
}

// In a small job a low clock may be how GPUs differ. Where heat holds it down, and not the others',
// it is not.
TEST_F(StragglersTest, WhatHoldsAClockDownSpeaksForALowOne) {
  const auto named = [&](double factor, uint32_t reasons, int held) {
    jobs_.clear();
    works_.clear();
    random_.seed(11);
    AddHealthyJobs(10);
    for (int k = 0; k < 20; ++k) {
      auto gpus = Synchronous(2);
      for (Shown& g : gpus) g.clock = 1350, g.tensor = .3;
      SlowDown(&gpus[1], factor);
      for (int i = 0; i < held; ++i) gpus[1 - i].reasons = reasons, gpus[1 - i].temp = 86;
      AddJob(gpus);
    }
    int64_t right = 0;
    for (const Straggler& s : Find().named) {
      EXPECT_GE(s.job, 10u);
      EXPECT_EQ(s.rank, 1u);
      right += s.kind == StragglerKind::kThermal ? 1 : 0;
    }
    return right;
  };
  EXPECT_GE(named(1.07, 0x20, 1), 18);
  EXPECT_EQ(named(1.02, 0x20, 1), 0);
  EXPECT_EQ(named(1.07, 0x20, 2), 0);  // of both
}

TEST_F(StragglersTest, HealthyFleetsHaveNoNames) {
  for (int i = 0; i < 60; ++i) AddJob(Synchronous(8 << (i % 4)), 1800);
  const StragglersFound found = Find();
  EXPECT_TRUE(found.named.empty());
  EXPECT_EQ(found.gpus_judged, 60 / 4 * (8 + 16 + 32 + 64));
  EXPECT_NEAR(found.spread, .012, .002);
}

TEST_F(StragglersTest, WhatCannotBeJudgedSaysWhy) {
  AddJob(Synchronous(1));
  AddJob(Synchronous(8), 120);
  auto gpus = Synchronous(8);
  for (Shown& g : gpus) g.tensor_usable = false;
  AddJob(gpus);
  gpus = Synchronous(8);
  gpus[2].tensor_usable = false;  // one without a counter is judged by its clock
  SlowDown(&gpus[2], 1.15);
  for (size_t i = 5; i < 8; ++i) gpus[i].tensor = gpus[i].sm = 0;  // held and never used
  AddJob(gpus);
  const StragglersFound found = Find();
  EXPECT_EQ(found.jobs[0].reason, NotJudged::kFewGpus);
  EXPECT_EQ(found.jobs[1].reason, NotJudged::kShortWork);
  EXPECT_EQ(found.jobs[2].reason, NotJudged::kNoCounters);
  EXPECT_EQ(found.jobs[3].reason, NotJudged::kJudged);
  EXPECT_EQ(found.jobs[3].unused, 3);
  ASSERT_EQ(found.named.size(), 1u);
  EXPECT_EQ(found.named[0].job, 3u);
  EXPECT_EQ(found.named[0].rank, 2u);
}

TEST_F(StragglersTest, NothingIsAnAnswerToo) {
  const StragglersFound found = Find();
  EXPECT_TRUE(found.named.empty());
  EXPECT_TRUE(found.jobs.empty());
  jobs_.emplace_back();
  EXPECT_EQ(Find().jobs[0].reason, NotJudged::kFewGpus);
}

TEST(GpuWorkTest, RowsCountAlikeInAnyOrderAndTheFirstIsLeftOut) {
  std::vector<std::pair<Micros, std::array<double, kWorkFieldCount>>> rows;
  for (int i = 0; i < 50; ++i) {
    std::array<double, kWorkFieldCount> v;
    v.fill(kNaN);
    v[kWorkTensor] = i == 0 ? .9 : .2;  // the first window is partly that of the job before
    v[kWorkClock] = i % 2 == 0 ? 1305 : 1395;
    v[kWorkReplays] = 7 + 3 * i;
    rows.emplace_back(i * 10 * kMicrosPerSecond, v);
  }
  GpuWork in_order;
  for (const auto& [ts, v] : rows) in_order.Add(ts, 10, true, v);
  EXPECT_NEAR(in_order.Tensor().value_or(0), .2, 1e-6);
  EXPECT_NEAR(in_order.Clock().value_or(0), 1350, 2);
  EXPECT_NEAR(std::sqrt(in_order.ClockVariance()), 45, 1);
  EXPECT_NEAR(in_order.Readings(), 49, .01);
  EXPECT_EQ(in_order.Growth(kWorkReplays), 3 * 49);
  EXPECT_EQ(in_order.work_s(), 490);
  std::mt19937 random(3);
  std::ranges::shuffle(rows, random);
  GpuWork shuffled;
  for (const auto& [ts, v] : rows) shuffled.Add(ts, 10, true, v);
  EXPECT_NEAR(*shuffled.Tensor(), *in_order.Tensor(), 1e-9);
  EXPECT_NEAR(*shuffled.Clock(), *in_order.Clock(), 1e-6);
  EXPECT_EQ(shuffled.Growth(kWorkReplays), in_order.Growth(kWorkReplays));
}

TEST(GpuWorkTest, EdgesOfPausesHardlyCount) {
  GpuWork w;
  std::array<double, kWorkFieldCount> v;
  v.fill(kNaN);
  for (int i = 0; i < 61; ++i) {
    // Every tenth row sees a fifth of the level, and the clock of the pause.
    v[kWorkTensor] = i % 10 == 5 ? .06 : .3;
    v[kWorkClock] = i % 10 == 5 ? 1980 : 1350;
    w.Add(i * kMicrosPerSecond, 1, true, v);
  }
  EXPECT_NEAR(w.Tensor().value_or(0), .3, .3 * .001);
  EXPECT_NEAR(w.Clock().value_or(0), 1350, 1.5);
}

TEST(RobustTest, SomeFarPointsMoveNothing) {
  EXPECT_TRUE(std::isnan(MedianOf({})));
  EXPECT_EQ(MedianOf({3, 1, 2}), 2);
  EXPECT_EQ(MedianOf({4, 1, 3, 2}), 2.5);
  const std::vector<double> x = {-1, 0, 1, 0, .5, -.5, 100};
  EXPECT_NEAR(BiweightLocation(x, 1).at, 0, .05);
  EXPECT_NEAR(BiweightLocation(x, 1, 6).weight, 6, 1.5);
  EXPECT_LT(RobustSd(x), 1.2);
  EXPECT_NEAR(NormalBelow(1.96), .975, 1e-4);  // any table
  EXPECT_NEAR(NormalDensity(0, 1), .398942, 1e-6);
}

TEST(StragglerWords, AreFiguresWithUnits) {
  const auto text = [](std::string_view measure, double value, std::optional<double> peers) {
    return EvidenceText({.measure = measure, .value = value, .peers = peers});
  };
  EXPECT_EQ(text("sm_clock_mhz", 1722.4, 2062), "clock 1,722 MHz (others 2,062 MHz)");
  EXPECT_EQ(text("tensor_active", .412, .334), "tensor 41.2 % (others 33.4 %)");
  EXPECT_EQ(text("nvlink_tx_bps", 12.34e9, 31e9), "NVLink out 12.3 GB/s (others 31 GB/s)");
  EXPECT_EQ(text("pcie_rx_bps", 1.5e9, std::nullopt), "PCIe in 1.50 GB/s");
  EXPECT_EQ(text("pcie_replays", 12345, 0), "PCIe replays 12,345 (others 0)");
  EXPECT_EQ(text("a_new_one", 3, std::nullopt), "a_new_one 3");
}

}  // namespace
}  // namespace flopwatch::fleet
