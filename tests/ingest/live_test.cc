#include "ingest/live.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

namespace flopwatch::ingest {
namespace {

constexpr Micros kS = kMicrosPerSecond;
constexpr Micros kMinute = 1'790'000'040 * kS;
constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

LiveRow Row(int32_t entity, Micros ts, double ofu, double span_s,
            absl::Span<const int32_t> jobs = {}, int32_t set = 0) {
  LiveRow row;
  row.now = {.entity = entity,
             .job_set = set,
             .model = 1,
             .flags = span_s == 0 ? static_cast<uint32_t>(telemetry::kSpanUnknown) : 0,
             .ts = ts,
             .instance = false,
             .ofu = ofu,
             .tensor_active = ofu,
             .sm_clock_mhz = 1000,
             .sm_active = kAbsent,
             .gpu_util = kAbsent,
             .power_w = 100,
             .fb_used_mib = kAbsent,
             .gpu_temp_c = kAbsent};
  row.span_s = span_s;
  row.jobs = jobs;
  return row;
}

TEST(LiveTest, EmptyStateSaysNothing) {
  LiveState live;
  EXPECT_EQ(live.newest(), 0);
  EXPECT_EQ(live.FleetSince(kMinute).ofu.samples, 0u);
  EXPECT_FALSE(live.FleetSince(kMinute).ofu.Ofu().has_value());
  EXPECT_TRUE(live.JobsSince(0).empty());
  EXPECT_TRUE(live.Gpus().empty());
  EXPECT_EQ(live.Gpu(5).ts, 0);
  EXPECT_EQ(live.Gpu(-1).ts, 0);
  EXPECT_TRUE(live.FleetMinutes(0).empty());
}

TEST(LiveTest, AWindowHoldsItsSlotsAndNothingElse) {
  LiveState live;
  // One row every ten seconds for two hours, OFU 0.1 in the first, 0.3 in the second.
  for (int k = 1; k <= 720; ++k)
    live.Update(Row(1, kMinute + k * 10 * kS, k <= 360 ? 0.1 : 0.3, 10));
  // The newest row is at 120:00. From 115:00.000001 on there are thirty slots of ten seconds: rows
  // at 115:10 to 120:00.
  const Micros from = kMinute + 115 * kMicrosPerMinute + 1;
  EXPECT_EQ(live.Align(from), kMinute + 115 * kMicrosPerMinute + 10 * kS);
  EXPECT_DOUBLE_EQ(live.FleetSince(from).ofu.computable_s, 300);
  EXPECT_NEAR(*live.FleetSince(from).ofu.Ofu(), 0.3, 1e-12);
  EXPECT_EQ(live.FleetSince(from).first_ts, kMinute + 115 * kMicrosPerMinute + 10 * kS);
  EXPECT_EQ(live.FleetSince(from).last_ts, kMinute + 120 * kMicrosPerMinute);
  // Further back it is minutes: rows at 61:00 to 120:00, 355 of them. And an hour is as far as it
  // reaches.
  EXPECT_EQ(live.Align(kMinute + 60 * kMicrosPerMinute + 1), kMinute + 61 * kMicrosPerMinute);
  EXPECT_EQ(live.Align(0), kMinute + 61 * kMicrosPerMinute);
  const auto hour = live.FleetSince(kMinute);
  EXPECT_DOUBLE_EQ(hour.ofu.computable_s, 3550);
  EXPECT_NEAR(hour.ofu.ofu_s, 3550 * 0.3, 1e-6);
}

TEST(LiveTest, LateRowsLandInTheirOwnSlot) {
  LiveState live;
  live.Update(Row(1, kMinute, 0.5, 10));
  live.Update(Row(1, kMinute + 200 * kS, 0.5, 10));
  live.Update(Row(2, kMinute + 30 * kS, 0.1, 10));  // late
  EXPECT_DOUBLE_EQ(live.FleetSince(kMinute).ofu.computable_s, 30);
  EXPECT_DOUBLE_EQ(live.FleetSince(kMinute + 140 * kS).ofu.computable_s, 10);
  EXPECT_EQ(live.newest(), kMinute + 200 * kS);
  EXPECT_EQ(live.Gpu(2).ts, kMinute + 30 * kS);
}

TEST(LiveTest, SharedRowsAreDividedButCountAsWholeRows) {
  LiveState live;
  const int32_t jobs[] = {7, 8, 9, 10};
  live.Update(Row(1, kMinute, 0.4, 10, jobs, 3));
  for (const auto& j : live.JobsSince(kMinute)) {
    EXPECT_DOUBLE_EQ(j.sums.ofu.computable_s, 2.5);
    EXPECT_EQ(j.sums.ofu.samples, 1u);
    EXPECT_EQ(j.sums.gpus, 1);
  }
  EXPECT_EQ(live.Gpus(8).size(), 1u);
  EXPECT_TRUE(live.Gpus(11).empty());
}

TEST(LiveTest, GpusMoveFromJobToJob) {
  LiveState live;
  const int32_t a[] = {1}, b[] = {2};
  live.Update(Row(1, kMinute, 0.4, 10, a, 1));
  live.Update(Row(2, kMinute, 0.4, 10, a, 1));
  live.Update(Row(1, kMinute + 10 * kS, 0.4, 10, b, 2));
  EXPECT_EQ(live.JobSince(1, kMinute).gpus, 1);
  EXPECT_EQ(live.JobSince(2, kMinute).gpus, 1);
  EXPECT_EQ(live.Gpus(1).size(), 1u);
  live.Update(Row(1, kMinute + 2 * kMicrosPerHour, 0.4, 10, b, 2));
  live.Expire();
  EXPECT_EQ(live.JobSince(1, 0).ofu.samples, 0u);
  EXPECT_EQ(live.JobsSince(0).size(), 1u);
}

TEST(LiveTest, AGpuThatComesBackToItsJobIsCounted) {
  LiveState live;
  const int32_t a[] = {1}, b[] = {2};
  const Micros back = kMinute + 62 * kMicrosPerMinute;
  live.Update(Row(1, kMinute, 0.4, 10, a, 1));
  live.Update(Row(2, kMinute, 0.4, 10, a, 1));
  live.Update(Row(3, back, 0.4, 10));
  live.Expire();
  EXPECT_TRUE(live.JobSince(1, 0).ofu.samples == 0);
  live.Update(Row(1, back, 0.4, 0, a, 1));
  live.Update(Row(1, back + 10 * kS, 0.4, 10, a, 1));
  EXPECT_EQ(live.JobSince(1, back).gpus, 2) << "the latest row of GPU 2 names it, too";
  // One that went to another job meanwhile is not.
  live.Update(Row(2, back + 10 * kS, 0.4, 0, b, 2));
  EXPECT_EQ(live.JobSince(1, back).gpus, 1);
  EXPECT_EQ(live.JobSince(2, back).gpus, 1);
}

TEST(LiveTest, ReportingCountsGpusNotInstancesAndForgetsSilentOnes) {
  LiveState live;
  live.Update(Row(1, kMinute, 0.4, 10));
  LiveRow instance = Row(2, kMinute, 0.4, 10);
  instance.now.instance = true;
  live.Update(instance);
  live.Update(Row(3, kMinute + 300 * kS, 0.4, 10));
  EXPECT_EQ(live.GpusReporting(kMinute + 210 * kS), 1);
  EXPECT_EQ(live.GpusReporting(0), 2);
}

// Every window equals the plain sum of the rows in it, whatever their order, up to the depth of the
// ring.
RC_GTEST_PROP(LiveTest, WindowsEqualPlainSums, ()) {
  struct R {
    Micros ts;
    double ofu;
    int32_t entity;
    int32_t job;
  };
  const int n = *rc::gen::inRange(1, 200);
  std::vector<R> rows;
  Micros newest = 0;
  LiveState live;
  Micros ts = kMinute;
  for (int k = 0; k < n; ++k) {
    ts += *rc::gen::inRange<int64_t>(0, 30) * kS;
    const Micros late = *rc::gen::inRange<int64_t>(0, 50) * kS;  // within the six slots of grace
    rows.push_back({std::max(kMinute, ts - late), *rc::gen::inRange(0, 100) / 100.0,
                    *rc::gen::inRange(1, 50), *rc::gen::inRange(1, 5)});
    newest = std::max(newest, rows.back().ts);
    const int32_t job[] = {rows.back().job};
    live.Update(Row(rows.back().entity, rows.back().ts, rows.back().ofu, 10, job, rows.back().job));
  }
  for (const Micros window : {30 * kS, kFineWindow, 20 * kMicrosPerMinute, kLongestWindow}) {
    const Micros asked = newest - window + 1;
    const Micros from = live.Align(asked);
    RC_ASSERT(from >= asked);
    RC_ASSERT(from < asked + kMicrosPerMinute);
    double ofu_s = 0, seconds = 0, of_job = 0;
    for (const R& r : rows) {
      if (r.ts < from) continue;
      ofu_s += r.ofu * 10;
      seconds += 10;
      if (r.job == 2) of_job += r.ofu * 10;
    }
    const auto fleet = live.FleetSince(asked);
    RC_ASSERT(std::abs(fleet.ofu.ofu_s - ofu_s) < 1e-6);
    RC_ASSERT(std::abs(fleet.ofu.computable_s - seconds) < 1e-6);
    RC_ASSERT(std::abs(live.JobSince(2, asked).ofu.ofu_s - of_job) < 1e-6);
    if (window > kFineWindow) {
      double by_minute = 0;
      for (const auto& p : live.FleetMinutes(asked)) by_minute += p.sums.ofu.ofu_s;
      RC_ASSERT(std::abs(by_minute - ofu_s) < 1e-6);
    }
  }
}

// Rows that come together count as they would one after the other: whatever they share or do not
// share with their neighbours.
RC_GTEST_PROP(LiveTest, RowsOfAScrapeCountAsRowsByThemselves, ()) {
  static constexpr int32_t kJobs[] = {1, 2, 3};
  LiveState together, apart;
  for (int scrape = 0; scrape < 20; ++scrape) {
    std::vector<LiveRow> rows;
    const int n = *rc::gen::inRange(0, 9);
    for (int k = 0; k < n; ++k) {
      const int set = *rc::gen::inRange(0, 4);  // nobody's, of one job, of two
      const auto jobs = set == 0  ? absl::Span<const int32_t>()
                        : set < 3 ? absl::MakeConstSpan(kJobs + set, 1)
                                  : absl::MakeConstSpan(kJobs, 2);
      LiveRow row = Row(1 + k, kMinute + (10 * scrape + *rc::gen::inRange(0, 2)) * kS,
                        *rc::gen::inRange(0, 100) / 100.0, 10, jobs, set);
      row.now.model = *rc::gen::inRange(1, 3);
      if (*rc::gen::inRange(0, 5) == 0) row.now.flags |= telemetry::kMigParent;
      if (*rc::gen::inRange(0, 9) == 0) row.now.entity = 0;  // none there is
      rows.push_back(row);
    }
    together.Update(rows);
    for (const LiveRow& row : rows) apart.Update(row);
  }
  const auto same = [](const store::UsageSums& a, const store::UsageSums& b) {
    RC_ASSERT(a.ofu.samples == b.ofu.samples);
    RC_ASSERT(a.gpus == b.gpus);
    RC_ASSERT(std::abs(a.ofu.ofu_s - b.ofu.ofu_s) < 1e-9);
    RC_ASSERT(std::abs(a.ofu.observed_s - b.ofu.observed_s) < 1e-9);
    RC_ASSERT(std::abs(a.power_j - b.power_j) < 1e-6);
  };
  RC_ASSERT(together.newest() == apart.newest());
  RC_ASSERT(together.oldest() == apart.oldest());
  same(together.FleetSince(0), apart.FleetSince(0));
  for (int32_t job = 0; job < 4; ++job) same(together.JobSince(job, 0), apart.JobSince(job, 0));
  for (int32_t gpu = 1; gpu < 10; ++gpu) {
    RC_ASSERT(together.Gpu(gpu).ts == apart.Gpu(gpu).ts);
    RC_ASSERT(together.Gpu(gpu).job_set == apart.Gpu(gpu).job_set);
    const auto a = together.GpuSince(gpu, together.Gpu(gpu).job_set, 0),
               b = apart.GpuSince(gpu, apart.Gpu(gpu).job_set, 0);
    RC_ASSERT(a.has_value() == b.has_value());
    if (a.has_value()) RC_ASSERT(std::abs(a->sums.ofu.ofu_s - b->sums.ofu.ofu_s) < 1e-6);
  }
}

TEST(LiveTest, ReadersAndWritersTogether) {
  LiveState live;
  std::vector<std::jthread> writers;
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back([&live, w] {
      for (int k = 0; k < 3000; ++k) {
        const int32_t job[] = {w + 1};
        live.Update(Row(1 + w * 1000 + k % 100, kMinute + k * kS, 0.5, 1, job, w + 1));
      }
    });
  }
  for (int k = 0; k < 200; ++k) {
    const auto fleet = live.FleetSince(kMinute);
    if (fleet.ofu.computable_s > 0) {
      EXPECT_NEAR(*fleet.ofu.Ofu(), 0.5, 1e-9);
    }
    live.JobsSince(0);
    live.Gpus(2);
    live.GpusReporting(kMinute + k * kS);
  }
  writers.clear();
  EXPECT_DOUBLE_EQ(live.FleetSince(0).ofu.computable_s, 9000);
}

TEST(LiveTest, AGpuByItselfWhileItKeepsItsJobs) {
  LiveState live;
  const int32_t job[] = {7};
  // kMinute is 14:14:00. Ten seconds a row, OFU 0.1 until 14:30:00, 0.3 after it until 14:44:00.
  for (int k = 0; k <= 180; ++k)
    live.Update(Row(1, kMinute + k * 10 * kS, k <= 96 ? 0.1 : 0.3, k == 0 ? 0 : 10, job, 3));
  const auto all = live.GpuSince(1, 3, 0);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->since, kMinute);
  EXPECT_NEAR(all->sums.ofu.computable_s, 1800, 1e-3);  // single precision
  EXPECT_NEAR(*all->sums.ofu.Ofu(), (96 * 0.1 + 84 * 0.3) / 180, 1e-6);
  EXPECT_EQ(all->sums.ofu.samples, 181u);
  EXPECT_EQ(all->sums.last_ts, kMinute + 1800 * kS);
  // From 14:31 on: slots of five minutes, so from 14:35. Rows at 14:35:00 .. 14:44:00.
  const auto late = live.GpuSince(1, 3, kMinute + 17 * kMicrosPerMinute);
  EXPECT_NEAR(late->sums.ofu.computable_s, 550, 1e-3);
  EXPECT_NEAR(*late->sums.ofu.Ofu(), 0.3, 1e-6);
  // Of other jobs, and of GPUs nobody saw, it says nothing.
  EXPECT_FALSE(live.GpuSince(1, 4, 0).has_value());
  EXPECT_FALSE(live.GpuSince(2, 3, 0).has_value());
  // A new owner begins anew, and a late row of the old one does not come into it.
  live.Update(Row(1, kMinute + 1810 * kS, 0.9, 10, {}, 0));
  live.Update(Row(1, kMinute + 1805 * kS, 0.1, 5, job, 3));
  EXPECT_FALSE(live.GpuSince(1, 3, 0).has_value());
  EXPECT_NEAR(live.GpuSince(1, 0, 0)->sums.ofu.computable_s, 10, 1e-3);
  EXPECT_EQ(live.GpuSince(1, 0, 0)->since, kMinute + 1800 * kS);
}

TEST(LiveTest, AGpuIsRememberedForAnHour) {
  LiveState live;
  for (int k = 1; k <= 3000; ++k) live.Update(Row(1, kMinute + k * 10 * kS, 0.5, 10));
  // The newest row is at 22:34:00, in the slot that began at 22:30; twelve before it.
  EXPECT_NEAR(live.GpuSince(1, 0, 0)->sums.ofu.computable_s, 12 * 300 + 250, 1e-2);
}

TEST(LiveTest, ARevisedRowCountsAsIfItHadAlwaysBeenSo) {
  LiveState live, plain;
  const int32_t jobs[] = {7, 8};
  LiveRow wrong = Row(1, kMinute, 0, 10, jobs, 3), right = wrong;
  wrong.now.flags = telemetry::kDeadCounter | telemetry::kSuspectCounter;
  wrong.now.ofu = kAbsent;
  live.Update(wrong);
  live.Update(Row(1, kMinute + 10 * kS, 0.5, 10, jobs, 3));
  live.Revise(wrong, right);
  plain.Update(right);
  plain.Update(Row(1, kMinute + 10 * kS, 0.5, 10, jobs, 3));
  for (const LiveState* state : {&live, &plain}) {
    EXPECT_DOUBLE_EQ(*state->FleetSince(0).ofu.Ofu(), 0.25);
    EXPECT_DOUBLE_EQ(state->FleetSince(0).dead_counter_s, 0);
    EXPECT_DOUBLE_EQ(state->JobSince(8, 0).ofu.computable_s, 10);
    EXPECT_EQ(state->JobSince(8, 0).ofu.samples, 2u);
    EXPECT_NEAR(*state->GpuSince(1, 3, 0)->sums.ofu.Ofu(), 0.25, 1e-6);
    EXPECT_EQ(state->JobSince(7, 0).gpus, 1);
  }
  EXPECT_EQ(live.Gpu(1).ofu, 0.5);  // the newer row stays what is now
}

}  // namespace
}  // namespace flopwatch::ingest
