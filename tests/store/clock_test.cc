// Wall clocks that jump, while the store is open and while it is not.
#include "store/clock_guard.h"

#include <map>
#include <random>

#include "base/file.h"
#include "fixture.h"

namespace flopwatch::store::testing {
namespace {

using telemetry::CanonicalField::kSmClockMhz;
using telemetry::CanonicalField::kTensorActive;

constexpr Micros kDay = kMicrosPerDay;

class ClockTest : public StoreTest {
 protected:
  void Arrive(Micros at) {
    BatchBuilder b(fields_);
    b.Row(at, 1, {{kTensorActive, 0.5}, {kSmClockMhz, 915}});
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, at));
  }
  std::string Rows() { return Sql("SELECT count(*) FROM samples"); }
};

TEST_F(ClockTest, AClockAMonthAheadDeletesNothing) {
  Arrive(kT0);
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kHour));
  ASSERT_FW_OK(store_->ApplyRetention(kT0 + 2 * kHour));
  ASSERT_EQ(Rows(), "1");
  // Samples are stamped with the same clock.
  Arrive(kT0 + 31 * kDay);
  ASSERT_FW_OK(store_->ApplyRetention(kT0 + 31 * kDay));
  EXPECT_EQ(Rows(), "2");
}

TEST_F(ClockTest, NorDoesOneThatJumpedWhileTheServerWasDown) {
  Arrive(kT0);
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kHour));
  ASSERT_FW_OK(store_->ApplyRetention(kT0 + 2 * kHour));
  for (int start = 0; start < 3; ++start) {
    Open();
    Arrive(kT0 + 31 * kDay + start * kSecond);
    ASSERT_FW_OK(store_->ApplyRetention(kT0 + 31 * kDay + start * kSecond));
  }
  EXPECT_EQ(Rows(), "4");
  const RetentionStats stats = store_->stats().retention;
  EXPECT_EQ(stats.waits_for, "clock_ahead");
  EXPECT_LT(stats.as_of, kT0 + kDay);
  EXPECT_GT(stats.behind, 30 * kDay);
  EXPECT_EQ(stats.files + stats.rows + stats.intervals, 0u);
}

TEST_F(ClockTest, IntervalsOfJobsStayToo) {
  Arrive(kT0);
  jobs::Changes changes;
  changes.intervals = {{.id = 1, .entity = 1, .job = 1, .from = kT0 - kHour, .to = kT0}};
  ASSERT_FW_OK(store_->PutJobs(changes));
  ASSERT_FW_OK(store_->ApplyRetention(kT0));
  Arrive(kT0 + 100 * kDay);
  monotonic_ += 2 * kHour;
  ASSERT_FW_OK(store_->ApplyRetention(kT0 + 100 * kDay));
  EXPECT_EQ(store_->LoadDimensions().value().intervals.size(), 1u);
  EXPECT_LT(store_->stats().retention.intervals_before, kT0);
}

TEST_F(ClockTest, TheMarkIsKeptAndADamagedOneIsMadeAnewOfTheData) {
  PassUntil(kT0);
  PassUntil(kT0 + kDay);
  const std::string path = options_.directory + "/clock";
  EXPECT_EQ(ReadFile(path, 1000).value().substr(0, 20), FormatTime(kT0 + kDay));
  ASSERT_FW_OK(WriteFileAtomically(path, "rubbish"));
  Open();
  ASSERT_FW_OK(store_->ApplyRetention(kT0 + 40 * kDay));
  EXPECT_EQ(store_->stats().retention.mark, kT0 + kDay);
}

// A directory of before there was a mark, opened by a clock that is a month ahead.
TEST_F(ClockTest, WithoutAMarkItsDataSaysHowLateItWas) {
  Arrive(kT0);
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kHour));
  Open();
  Arrive(kT0 + 31 * kDay);
  monotonic_ += kMicrosPerMinute;
  ASSERT_FW_OK(store_->ApplyRetention(kT0 + 31 * kDay));
  EXPECT_EQ(Rows(), "2");
  EXPECT_LT(store_->stats().retention.mark, kT0 + kHour);
}

TEST_F(ClockTest, AFleetThatSaysNothingKeepsWhatItSaidLast) {
  PassUntil(kT0);
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kHour));
  for (int day = 1; day <= 60; ++day) {
    monotonic_ += kDay;
    ASSERT_FW_OK(store_->ApplyRetention(kT0 + day * kDay));
  }
  EXPECT_EQ(Rows(), "1");
  EXPECT_EQ(store_->stats().retention.waits_for, "no_new_data");
  EXPECT_EQ(store_->stats().retention.as_of, kT0);
}

// A segment of an hour that has not come is not hot until it comes.
TEST_F(ClockTest, WhatAClockAheadLeftBehindIsSealed) {
  Arrive(kT0 + 30 * kDay);
  Arrive(kT0);
  ASSERT_FW_OK(store_->RollUp());
  ASSERT_EQ(store_->stats().hot_segments, 2u);
  ASSERT_FW_OK(store_->Seal(kT0 + kMicrosPerMinute));
  EXPECT_EQ(store_->stats().hot_segments, 1u);
  EXPECT_EQ(Rows(), "2");
}

// Rollups against a count by hand, while the time of arrival jumps, goes back, and the store is
// closed and opened in between.
TEST_F(ClockTest, RollupsAreExactThroughAnyJump) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  std::map<int32_t, double> seconds;
  int rows = 0;
  Micros now = kT0;
  const Micros jumps[] = {30 * kDay, -2 * kHour, kHour, -30 * kDay, 5 * kMicrosPerMinute};
  // As a server does when it starts: what has no mark yet gets one from the first clock it sees.
  ASSERT_FW_OK(store_->ApplyRetention(now));
  for (int step = 0; step < 30; ++step) {
    now += 10 * kSecond;
    if (pick(5) == 0) now = std::max(kT0, now + jumps[pick(5)]);
    BatchBuilder b(fields_);
    for (int k = 0; k <= pick(3); ++k) {
      const int32_t gpu = 1 + pick(4);
      b.Row(now + k * kSecond, gpu, {{kTensorActive, 0.5}, {kSmClockMhz, 915}}, 0, 1, 10'000);
      seconds[gpu] += 10;
      ++rows;
    }
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, now));
    monotonic_ += 10 * kSecond;
    if (pick(3) == 0) ASSERT_FW_OK(store_->RollUp());
    if (pick(8) == 0) ASSERT_FW_OK(store_->Seal(now));
    if (pick(6) == 0) ASSERT_FW_OK(store_->ApplyRetention(now));
    if (pick(12) == 0) Open();
  }
  const Window all = {kT0 - kDay, kT0 + 365 * kDay};
  const auto check = [&] {
    EXPECT_EQ(Rows(), std::to_string(rows));
    double fleet = 0, total = 0;
    const auto by_gpu = store_->UsageByGpu(all).value();
    EXPECT_EQ(by_gpu.size(), seconds.size());
    for (const GpuUsage& u : by_gpu) EXPECT_NEAR(u.sums.ofu.observed_s, seconds[u.entity], 1e-6);
    for (const auto& [gpu, s] : seconds) total += s;
    const auto days = store_->FleetSeries(all, kDay).value();
    for (const UsagePoint& p : days) fleet += p.sums.ofu.observed_s;
    EXPECT_NEAR(fleet, total, 1e-6);
    EXPECT_NEAR(store_->UsageByJob(all).value()[0].sums.ofu.observed_s, total, 1e-6);
  };
  check();
  ASSERT_FW_OK(store_->Seal(kT0 + 365 * kDay));
  check();
  Open();
  check();
}

// --- the rule, by itself ---

class Clocks {
 public:
  explicit Clocks(Micros mark = kT0) : guard(mark, 0) {}
  // `wall` goes on for so long at its pace, looked at each minute; data comes all the while.
  void Pass(Micros time, double pace = 1) {
    for (Micros passed = 0; passed < time; passed += kMicrosPerMinute) {
      monotonic += kMicrosPerMinute;
      wall += static_cast<Micros>(pace * kMicrosPerMinute);
      guard.Advance(wall, monotonic, data ? wall : kT0);
    }
  }
  ClockGuard guard;
  Micros wall = kT0, monotonic = 0;
  bool data = true;
};

TEST(ClockGuardTest, AClockThatGoesItsPaceIsFollowed) {
  Clocks c;
  c.Pass(30 * kDay);
  EXPECT_EQ(c.guard.mark(), c.wall);
  EXPECT_EQ(c.guard.AsOf(), c.wall);
  EXPECT_EQ(c.guard.WaitsFor(), "");
  c.Pass(kDay, 1.0005);  // slewed
  EXPECT_EQ(c.guard.mark(), c.wall);
}

TEST(ClockGuardTest, AJumpCostsNothingForSixHoursAndThenAnHourAnHour) {
  Clocks c;
  c.wall += 30 * kDay;
  c.Pass(6 * kHour - kMicrosPerMinute);
  EXPECT_NEAR(ToSeconds(c.guard.AsOf() - kT0), 6 * 3600, 90);
  EXPECT_EQ(c.guard.WaitsFor(), "clock_ahead");
  c.Pass(10 * kHour);
  EXPECT_NEAR(ToSeconds(c.guard.AsOf() - kT0), (6 + 20) * 3600, 300);
  c.Pass(40 * kDay);
  EXPECT_EQ(c.guard.AsOf(), c.wall);
}

TEST(ClockGuardTest, ARightClockAgainIsFollowedAtOnce) {
  Clocks c;
  c.wall += 30 * kDay;
  c.Pass(kHour);
  c.wall -= 30 * kDay;
  c.Pass(kHour);
  EXPECT_NEAR(ToSeconds(c.guard.mark() - c.wall), 0, 5);
  EXPECT_EQ(c.guard.WaitsFor(), "");
}

TEST(ClockGuardTest, AClockSetBackDeletesByItselfAndTheMarkWaits) {
  Clocks c;
  c.Pass(kHour);
  c.wall -= 2 * kHour;
  c.Pass(kHour);
  EXPECT_EQ(c.guard.AsOf(), c.wall);
  EXPECT_EQ(c.guard.WaitsFor(), "clock_behind");
  EXPECT_EQ(c.guard.mark(), kT0 + 2 * kHour);
  c.Pass(8 * kHour);
  EXPECT_NEAR(ToSeconds(c.guard.mark() - c.wall), 0, 90);
}

TEST(ClockGuardTest, AClockThatRunsTooFastIsNeverFollowed) {
  Clocks c;
  c.Pass(10 * kDay, 1.5);
  EXPECT_LT(c.guard.AsOf(), kT0 + 10 * kDay + kHour);
}

TEST(ClockGuardTest, NorOneWithoutDataOfItsTime) {
  Clocks c;
  c.wall += 30 * kDay;
  c.data = false;
  c.Pass(10 * kDay);
  EXPECT_EQ(c.guard.AsOf(), kT0);
}

TEST(ClockGuardTest, ADeadBatteryHarmsNothing) {
  Clocks c;
  c.wall = 0;
  c.Pass(kHour);
  EXPECT_LE(c.guard.AsOf(), kHour);
  c.wall = kT0 + 2 * kHour;  // the time has been fetched
  c.Pass(kHour);
  EXPECT_NEAR(ToSeconds(c.guard.mark()), ToSeconds(kT0 + 2 * kHour), 120);
}

}  // namespace
}  // namespace flopwatch::store::testing
