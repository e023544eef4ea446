// Occupancy over elapsed and over active time, by hand: warps of SMs counted one by one.
#include "query/usage.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace flopwatch::query {
namespace {

using store::UsageSums;

// An A100 has 108 SMs for 64 warps each: `seconds` with `active` SMs that hold `warps` each.
UsageSums A100(double seconds, int active, int warps) {
  UsageSums s;
  s.sm_active_s = seconds * active / 108;
  s.sm_occupancy_s = seconds * active * warps / (108 * 64);
  s.sm_active_span_s = s.sm_occupancy_span_s = seconds;
  return s;
}

TEST(OccupancyTest, OfActiveTimeIsThatOfTheSmsThatWereActive) {
  // 27 of 108 SMs with 16 of 64 warps: a quarter of a quarter.
  const UsageSums s = A100(100, 27, 16);
  EXPECT_NEAR(*MeanOf(s.sm_active_s, s.sm_active_span_s), 0.25, 1e-12);
  EXPECT_NEAR(*OccupancyElapsed(s), 0.0625, 1e-12);
  EXPECT_NEAR(*OccupancyActive(s), 0.25, 1e-12);
  // A minute with all SMs and 48 warps, nine minutes idle: the idle time has no part in it.
  UsageSums idle = A100(60, 108, 48);
  idle += A100(540, 0, 0);
  EXPECT_NEAR(*OccupancyActive(idle), 0.75, 1e-12);
  EXPECT_NEAR(*OccupancyElapsed(idle), 0.075, 1e-12);
  // Sums, not the mean of ratios: 100 s of a quarter at a quarter, 60 s of all at three quarters.
  UsageSums both = A100(100, 27, 16);
  both += A100(60, 108, 48);
  EXPECT_NEAR(*OccupancyActive(both), (6.25 + 45) / (25 + 60), 1e-12);
  EXPECT_NEAR(*OccupancyElapsed(both), (6.25 + 45) / 160, 1e-12);
}

// "SM occupancy over elapsed cycles is the product of SM efficiency and SM occupancy over active
// cycles" (Facebook's GPU fleet paper, Data aggregation tools). DCGM 1002 and 1003 of two H100s in
// training (slurm-job-exporter, issue 30), and what a calculator makes of them.
TEST(OccupancyTest, ElapsedIsEfficiencyTimesActive) {
  struct Case {
    double sm_active, sm_occupancy, of_active;
  };
  UsageSums both;
  for (const Case c :
       {Case{0.91259687, 0.24450016, 0.26791694}, Case{0.93220357, 0.24773293, 0.26574982}}) {
    UsageSums s;
    s.sm_active_s = c.sm_active * 30, s.sm_occupancy_s = c.sm_occupancy * 30;
    s.sm_active_span_s = s.sm_occupancy_span_s = 30;
    EXPECT_NEAR(*OccupancyActive(s), c.of_active, 1e-7);
    EXPECT_NEAR(*OccupancyElapsed(s), c.sm_occupancy, 1e-12);
    EXPECT_NEAR(*OccupancyElapsed(s), c.sm_active * c.of_active, 1e-7);
    both += s;
  }
  const double efficiency = (0.91259687 + 0.93220357) / 2;
  EXPECT_NEAR(*OccupancyElapsed(both), efficiency * *OccupancyActive(both), 1e-12);
  EXPECT_NEAR(*OccupancyElapsed(both), 0.246116545, 1e-9);
}

TEST(OccupancyTest, WhatIsNotMeasuredIsNull) {
  EXPECT_EQ(OccupancyElapsed({}), std::nullopt);
  EXPECT_EQ(OccupancyActive({}), std::nullopt);
  UsageSums without = A100(100, 27, 16);
  without.sm_occupancy_s = without.sm_occupancy_span_s = 0;
  EXPECT_EQ(OccupancyElapsed(without), std::nullopt);
  EXPECT_EQ(OccupancyActive(without), std::nullopt);
  UsageSums without_active = A100(100, 27, 16);
  without_active.sm_active_s = without_active.sm_active_span_s = 0;
  EXPECT_NEAR(*OccupancyElapsed(without_active), 0.0625, 1e-12);
  EXPECT_EQ(OccupancyActive(without_active), std::nullopt);
  // Measured, and nothing ran: 0 of elapsed time, and no active time.
  EXPECT_EQ(OccupancyElapsed(A100(100, 0, 0)), 0);
  EXPECT_EQ(OccupancyActive(A100(100, 0, 0)), std::nullopt);
}

TEST(OccupancyTest, CountersOfDifferentTimeHaveNoRatio) {
  UsageSums s = A100(1000, 27, 16);
  UsageSums other = A100(1, 108, 0);  // a node whose exporter lists 1002 alone
  other.sm_occupancy_span_s = 0;
  s += other;
  EXPECT_EQ(OccupancyActive(s), std::nullopt);
  EXPECT_NEAR(*OccupancyElapsed(s), 0.0625, 1e-12);
  // 1003 may be blank in so few rows that it does not matter: the quotient of 1,000 s is off by at
  // most the 0.2 s of 250 that were active. For 0.3 s it may be more than a thousandth.
  for (const double blank : {0.2, 0.3}) {
    UsageSums blanks = A100(1000, 27, 16);
    blanks.sm_active_s += blank, blanks.sm_active_span_s += blank;
    const auto active = OccupancyActive(blanks);
    ASSERT_EQ(active.has_value(), blank == 0.2);
    if (active) EXPECT_NEAR(*active, 0.25, 0.25e-3);
  }
  // Where it is 1002 that is blank, the 62.5 s of 1003 are what can be changed.
  for (const double blank : {0.05, 0.1}) {
    UsageSums blanks = A100(1000, 27, 16);
    blanks.sm_occupancy_s += blank, blanks.sm_occupancy_span_s += blank;
    const auto active = OccupancyActive(blanks);
    ASSERT_EQ(active.has_value(), blank == 0.05);
    if (active) EXPECT_NEAR(*active, 0.25, 0.25e-3);
  }
  UsageSums rounded = A100(1e6, 27, 16);
  rounded.sm_occupancy_span_s += 0.5;  // of a million seconds, as roundings of milliseconds add up
  EXPECT_NEAR(*OccupancyActive(rounded), 0.25, 1e-6);
}

RC_GTEST_PROP(OccupancyTest, AnySplitEqualsTheWhole, ()) {
  UsageSums all, some, rest;
  double active = 0, resident = 0, seconds = 0;
  const int parts = *rc::gen::inRange(1, 30);
  for (int k = 0; k < parts; ++k) {
    const int s = *rc::gen::inRange(1, 100), sms = *rc::gen::inRange(1, 109),
              warps = *rc::gen::inRange(0, 65);
    const UsageSums part = A100(s, sms, warps);
    all += part;
    (*rc::gen::arbitrary<bool>() ? some : rest) += part;
    seconds += s;
    active += s * sms * 64;
    resident += s * sms * warps;
  }
  some += rest;
  for (const UsageSums& s : {all, some}) {
    RC_ASSERT(std::abs(*OccupancyActive(s) - resident / active) < 1e-9);
    RC_ASSERT(std::abs(*OccupancyElapsed(s) - resident / (seconds * 108 * 64)) < 1e-9);
  }
}

}  // namespace
}  // namespace flopwatch::query
