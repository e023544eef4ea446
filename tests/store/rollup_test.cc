// What rollups hold and what the usage queries answer, against sums computed by hand, before and
// after rolling up, reopening, sealing and merging days: the answer may never depend on when upkeep
// ran.
#include <rapidcheck.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <regex>
#include <set>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using namespace telemetry;  // NOLINT: field names

const Window kFirstHour = {kT0, kT0 + kHour};

class RollupTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    ASSERT_FW_OK(store_->PutModels({H100()}));
  }
  UsageSums Job(int32_t job, Window w = kFirstHour) {
    const auto usage = store_->UsageByJob(w);
    EXPECT_TRUE(usage.ok()) << usage.status();
    for (const JobUsage& u : *usage) {
      if (u.job == job) return u.sums;
    }
    return {};
  }
  UsageSums Gpu(int32_t entity, int32_t job = 0, Window w = kFirstHour) {
    const auto usage = store_->UsageByGpu(w, job);
    EXPECT_TRUE(usage.ok()) << usage.status();
    for (const GpuUsage& u : *usage) {
      if (u.entity == entity) return u.sums;
    }
    return {};
  }
  UsageSums Fleet(Window w = kFirstHour) {
    const auto points = store_->FleetSeries(w, kHour);
    EXPECT_TRUE(points.ok()) << points.status();
    UsageSums all;
    for (const UsagePoint& p : *points) all += p.sums;
    return all;
  }
  void PutJobs(std::vector<jobs::JobSetRecord> sets) {
    jobs::Changes changes;
    for (const auto& set : sets) {
      for (int32_t job : set.jobs) {
        changes.jobs.push_back({.id = job,
                                .key = "job" + std::to_string(job),
                                .name = "",
                                .user = "ann",
                                .workflow = "",
                                .cluster = ""});
      }
    }
    changes.sets = std::move(sets);
    ASSERT_FW_OK(store_->PutJobs(changes));
  }
  // Runs `check` in every state of upkeep the same rows can be in.
  void InEveryState(const std::function<void()>& check) {
    {
      SCOPED_TRACE("raw");
      check();
    }
    ASSERT_FW_OK(store_->RollUp());
    {
      SCOPED_TRACE("jobs rolled up");
      check();
    }
    Open();
    {
      SCOPED_TRACE("reopened");
      check();
    }
    ASSERT_FW_OK(store_->Seal(kT0 + 2 * kHour));
    EXPECT_EQ(store_->stats().hot_segments, 0u);
    {
      SCOPED_TRACE("sealed");
      check();
    }
  }
};

TEST_F(RollupTest, SumsOfOneGpuByHand) {
  ASSERT_FW_OK(store_->PutEntities({testing::Gpu(1, "GPU-a")}));
  PutJobs({{9, {5}}});
  BatchBuilder b(fields_);
  // Two samples of 10 s and one of 30 s; the third without clock, duty cycle from GR_ACTIVE.
  b.Row(kT0 + 10 * kSecond, 1,
        {{kTensorActive, 0.4}, {kSmClockMhz, 1830}, {kGpuUtil, 1.0}, {kPowerW, 500}}, 9);
  b.Row(kT0 + 20 * kSecond, 1,
        {{kTensorActive, 0.8}, {kSmClockMhz, 1465}, {kGpuUtil, 0.5}, {kPowerW, 700}}, 9, 1, 10'000,
        kStaleRepeat);
  b.Row(kT0 + 50 * kSecond, 1,
        {{kTensorActive, 0.2}, {kGrActive, 0.25}, {kSmActive, 0.9}, {kSmOccupancy, 0.3}}, 9, 1,
        30'000, kClockMissing);
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  const auto check = [&] {
    for (const UsageSums& s : {Job(5), Gpu(1), Fleet(), Gpu(1, 5)}) {
      // (0.4 * 1830 * 10 + 0.8 * 1465 * 10) / 1830 = 4 + 6.404371585
      EXPECT_NEAR(s.ofu.ofu_s, 10.404371585, 1e-3);
      EXPECT_NEAR(s.ofu.computable_s, 20, 1e-9);
      EXPECT_NEAR(s.ofu.observed_s, 50, 1e-9);
      EXPECT_EQ(s.ofu.samples, 3u);
      EXPECT_NEAR(s.tensor_s, 4 + 8 + 6, 1e-9);
      EXPECT_NEAR(s.tensor_span_s, 50, 1e-9);
      EXPECT_NEAR(s.clock_mhz_s, 18300 + 14650, 1e-9);
      EXPECT_NEAR(s.clock_span_s, 20, 1e-9);
      EXPECT_NEAR(s.sm_active_s, 27, 1e-9);
      EXPECT_NEAR(s.sm_active_span_s, 30, 1e-9);
      EXPECT_NEAR(s.sm_occupancy_s, 9, 1e-9);
      EXPECT_NEAR(s.sm_occupancy_span_s, 30, 1e-9);
      EXPECT_NEAR(s.gpu_util_s, 10 + 5 + 7.5, 1e-9);
      EXPECT_NEAR(s.gpu_util_span_s, 50, 1e-9);
      EXPECT_NEAR(s.power_j, 12000, 1e-9);
      EXPECT_NEAR(s.power_span_s, 20, 1e-9);
      EXPECT_NEAR(s.clock_missing_s, 30, 1e-9);
      EXPECT_EQ(s.tensor_missing_s + s.model_unknown_s + s.dead_counter_s + s.out_of_range_s, 0);
      EXPECT_NEAR(s.stale_s, 10, 1e-9);
      EXPECT_EQ(s.cycle_path_s, 0);
      EXPECT_EQ(s.first_ts, kT0 + 10 * kSecond);
      EXPECT_EQ(s.last_ts, kT0 + 50 * kSecond);
    }
    EXPECT_EQ(Job(5).gpus, 1);
    EXPECT_EQ(Gpu(1).gpus, 1);
  };
  InEveryState(check);
}

TEST_F(RollupTest, EverySecondWithoutOfuHasOneReason) {
  const struct {
    uint32_t flags;
    std::vector<Value> values;
    int32_t model;
  } rows[] = {
      {0, {{kTensorActive, 0.5}, {kSmClockMhz, 1830}}, 1},              // computable: 1 s
      {kTensorMissing | kClockMissing | kModelUnknown, {}, 2},          // tensor: 2 s
      {kClockMissing, {{kTensorActive, 0.5}}, 1},                       // clock: 4 s
      {kModelUnknown, {{kTensorActive, 0.5}, {kSmClockMhz, 1830}}, 2},  // model: 8 s
      {kDeadCounter, {{kTensorActive, 0.0}, {kSmClockMhz, 1830}}, 1},   // dead: 16 s
      {kOutOfRange, {{kTensorActive, 1.0}, {kSmClockMhz, 1980}}, 1},    // out of range: 32 s
      {0, {{kSmClockMhz, 1830}}, 1},   // not flagged, yet no tensor: 64 s
      {0, {{kTensorActive, 0.5}}, 1},  // not flagged, yet no clock: 128 s
      {kSpanUnknown, {{kTensorActive, 0.9}, {kSmClockMhz, 1830}}, 1},  // no time: 0 s
  };
  BatchBuilder b(fields_);
  int seconds = 1;
  Micros ts = kT0;
  for (const auto& row : rows) {
    const bool timeless = (row.flags & kSpanUnknown) != 0;
    b.Row(ts += kSecond, 1, row.values, 0, row.model, timeless ? 0 : seconds * 1000, row.flags);
    seconds *= 2;
  }
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  const auto check = [&] {
    for (const UsageSums& s : {Job(0), Gpu(1), Fleet()}) {
      EXPECT_NEAR(s.ofu.ofu_s, 0.5, 1e-3);
      EXPECT_EQ(s.ofu.samples, 9u);
      EXPECT_NEAR(s.ofu.observed_s, 255, 1e-9);
      EXPECT_NEAR(s.ofu.computable_s, 1, 1e-9);
      EXPECT_NEAR(s.tensor_missing_s, 2 + 64, 1e-9);
      EXPECT_NEAR(s.clock_missing_s, 4 + 128, 1e-9);
      EXPECT_NEAR(s.model_unknown_s, 8, 1e-9);
      EXPECT_NEAR(s.dead_counter_s, 16, 1e-9);
      EXPECT_NEAR(s.out_of_range_s, 32, 1e-9);
      // A dead counter's zero and an impossible value are no tensor activity: 0.5 over 1, 4, 8 and
      // 128 s.
      EXPECT_NEAR(s.tensor_span_s, 1 + 4 + 8 + 128, 1e-9);
      EXPECT_NEAR(s.tensor_s, 70.5, 1e-9);
    }
  };
  InEveryState(check);
  // The model becomes known: history is corrected.
  ModelRecord late = H100(2);
  late.tensor_clock_max_mhz = 915;
  ASSERT_FW_OK(store_->PutModels({late}));
  EXPECT_NEAR(Fleet().model_unknown_s, 0, 1e-9);
  EXPECT_NEAR(Fleet().ofu.ofu_s, 0.5 + 8 * 0.5 * 1830 / 915, 1e-3);
  EXPECT_NEAR(Fleet().ofu.computable_s, 9, 1e-9);
  // And again: the latest record counts.
  ASSERT_FW_OK(store_->PutModels({H100(2)}));
  EXPECT_NEAR(Gpu(1).ofu.ofu_s, 0.5 + 4, 1e-3);
}

TEST_F(RollupTest, CyclePathCountsItsOwnRate) {
  BatchBuilder b(fields_);
  b.Row(kT0, 1, {{kTensorActive, 0.1}, {kSmClockMhz, 1000}}, 0, 1, 10'000, kCyclePath).tensor_mhz =
      915.25f;
  b.Row(kT0 + kSecond, 1, {}, 0, 1, 10'000, kCyclePath).tensor_mhz = 457.625f;
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  InEveryState([&] {
    for (const UsageSums& s : {Fleet(), Gpu(1)}) {
      EXPECT_NEAR(s.ofu.ofu_s, 10 * (915.25 + 457.625) / 1830, 1e-3);
      EXPECT_NEAR(s.cycle_path_s, 20, 1e-9);
      EXPECT_NEAR(s.ofu.computable_s, 20, 1e-9);
    }
  });
  EXPECT_EQ(Sql("SELECT round(ofu * 1830, 3) FROM samples ORDER BY ts"), "915.25;457.625");
}

TEST_F(RollupTest, SharedGpusAreCountedOnce) {
  PutJobs({{1, {1}}, {2, {2}}, {3, {1, 2}}});
  BatchBuilder b(fields_);
  const std::vector<Value> half = {{kTensorActive, 0.5}, {kSmClockMhz, 1830}};
  b.Row(kT0 + 10 * kSecond, 1, half, 1);
  b.Row(kT0 + 10 * kSecond, 2, half, 2);
  b.Row(kT0 + 10 * kSecond, 3, half, 3);  // shared
  b.Row(kT0 + 10 * kSecond, 4, half, 0);
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  InEveryState([&] {
    EXPECT_NEAR(Job(1).ofu.observed_s, 15, 1e-9);
    EXPECT_NEAR(Job(2).ofu.observed_s, 15, 1e-9);
    EXPECT_NEAR(Job(0).ofu.observed_s, 10, 1e-9);
    EXPECT_NEAR(Fleet().ofu.observed_s, 40, 1e-9);
    EXPECT_NEAR(Job(1).ofu.ofu_s, 7.5, 1e-3);
    EXPECT_EQ(Job(1).gpus, 2);
    EXPECT_NEAR(Gpu(3, 2).ofu.observed_s, 5, 1e-9) << "the share of one job in a GPU";
    EXPECT_NEAR(Gpu(3).ofu.observed_s, 10, 1e-9);
    const auto series = store_->JobSeries(1, kFirstHour, kMinute).value();
    ASSERT_EQ(series.size(), 1u);
    EXPECT_EQ(series[0].ts, kT0);
    EXPECT_NEAR(series[0].sums.ofu.observed_s, 15, 1e-9);
  });
  EXPECT_EQ(
      Sql("SELECT job, gpu_seconds, ofu FROM job_minutes ORDER BY job NULLS FIRST, gpu_seconds"),
      "NULL|10|0.5;job1|5|0.5;job1|10|0.5;job2|5|0.5;job2|10|0.5");
  EXPECT_EQ(Sql("SELECT job FROM samples ORDER BY entity"), "job1;job2;job1,job2;NULL");
}

TEST_F(RollupTest, MigInstancesCountByTheirShareOfTheGpu) {
  EntityRecord gpu = testing::Gpu(1, "GPU-a");
  gpu.sm_count = 98;
  EntityRecord one = testing::Gpu(2, "GPU-a"), two = testing::Gpu(3, "GPU-a"),
               bare = testing::Gpu(4, "GPU-a");
  for (EntityRecord* e : {&one, &two, &bare}) {
    e->key.kind = EntityKind::kGpuInstance;
    e->key.gpu_instance = e->id;
    e->parent = 1;
  }
  one.sm_count = 14;                   // 1/7 by SMs
  two.labels.mig_profile = "3g.20gb";  // 3/7 by profile
  ASSERT_FW_OK(store_->PutEntities({gpu, one, two, bare}));
  PutJobs({{1, {1}}});
  BatchBuilder g(fields_);
  g.Row(kT0 + 10 * kSecond, 1, {{kTensorActive, 0.9}, {kSmClockMhz, 1830}, {kPowerW, 300}}, 0, 1,
        10'000, kMigParent);
  ASSERT_FW_OK(store_->Append(g.batch(), fields_, kT0));
  BatchBuilder b(fields_, EntityKind::kGpuInstance);
  const std::vector<Value> busy = {{kTensorActive, 0.7}, {kSmClockMhz, 1830}};
  b.Row(kT0 + 10 * kSecond, 2, busy, 1);
  b.Row(kT0 + 10 * kSecond, 3, busy, 1);
  b.Row(kT0 + 10 * kSecond, 4, busy, 0);  // nothing known of it: one of seven
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  InEveryState([&] {
    EXPECT_NEAR(Fleet().ofu.observed_s, 10 * (1 + 3 + 1) / 7.0, 1e-5);
    EXPECT_NEAR(Fleet().ofu.ofu_s, 7 * (1 + 3 + 1) / 7.0, 1e-3);
    EXPECT_EQ(Fleet().ofu.samples, 3u) << "the GPU's own row counts for power alone";
    EXPECT_NEAR(Fleet().power_j, 3000, 1e-6);
    EXPECT_NEAR(Job(1).ofu.observed_s, 40 / 7.0, 1e-5);
    EXPECT_NEAR(Gpu(2).ofu.observed_s, 10, 1e-9) << "by itself an instance is whole";
    EXPECT_NEAR(Gpu(1).power_j, 3000, 1e-6);
  });
  const auto exact = store_->UsageByJobExact(kFirstHour).value();
  ASSERT_EQ(exact.size(), 1u);  // no intervals: nobody's
  EXPECT_NEAR(exact[0].sums.ofu.observed_s, 50 / 7.0, 1e-5);
  EXPECT_NEAR(exact[0].sums.power_j, 3000, 1e-6);
}

// A frozen row's span is the time in which its exporter said nothing new: told from raw rows and
// from rollups, divided as observed time is, and observed nowhere.
TEST_F(RollupTest, FrozenTimeIsToldAndWeighsNothing) {
  EntityRecord gpu = testing::Gpu(1, "GPU-a"), instance = testing::Gpu(2, "GPU-b");
  instance.key.kind = EntityKind::kGpuInstance;
  instance.key.gpu_instance = 1;
  instance.labels.mig_profile = "3g.20gb";  // 3/7
  ASSERT_FW_OK(store_->PutEntities({gpu, instance}));
  PutJobs({{1, {1}}, {2, {2}}, {3, {1, 2}}});
  jobs::Changes changes;
  for (int job : {1, 2}) {
    changes.intervals.push_back({.id = job, .entity = 1, .job = job, .from = kT0 - kHour});
    changes.intervals.push_back({.id = 2 + job, .entity = 2, .job = job, .from = kT0 - kHour});
  }
  ASSERT_FW_OK(store_->PutJobs(changes));
  const std::vector<Value> same = {{kTensorActive, 0.5}, {kSmClockMhz, 1830}, {kPowerW, 500}};
  const std::vector<Value> of_instance = {{kTensorActive, 0.5}, {kSmClockMhz, 1830}};
  BatchBuilder b(fields_), of_instances(fields_, EntityKind::kGpuInstance);
  b.Row(kT0 + 10 * kSecond, 1, same, 3);
  b.Row(kT0 + 20 * kSecond, 1, same, 3, 1, 10'000, kFrozen | kStaleRepeat);
  b.Row(kT0 + 50 * kSecond, 1, same, 3, 1, 30'000, kFrozen | kStaleRepeat);
  of_instances.Row(kT0 + 30 * kSecond, 2, of_instance, 3, 1, 14'000, kFrozen | kStaleRepeat);
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  ASSERT_FW_OK(store_->Append(of_instances.batch(), fields_, kT0));
  InEveryState([&] {
    const auto exact = store_->UsageByJobExact(kFirstHour).value();
    ASSERT_EQ(exact.size(), 2u);
    // 40 s of the GPU and 14 s x 3/7 of the instance, by two jobs.
    for (const UsageSums& s : {Job(1), Job(2), exact[0].sums, exact[1].sums}) {
      EXPECT_NEAR(s.frozen_s, (40 + 6) / 2.0, 1e-5);
      EXPECT_NEAR(s.ofu.observed_s, 5, 1e-9);
      EXPECT_EQ(s.ofu.samples, 4u);
      EXPECT_EQ(s.stale_s, 0);
      EXPECT_NEAR(s.power_j, 2500, 1e-6);
    }
    EXPECT_NEAR(Fleet().frozen_s, 46, 1e-5);
    EXPECT_NEAR(Fleet().ofu.observed_s, 10, 1e-9);
    EXPECT_NEAR(Gpu(1).frozen_s, 40, 1e-9);
    EXPECT_NEAR(Gpu(2).frozen_s, 14, 1e-9) << "by itself an instance is whole";
    EXPECT_EQ(Sql("SELECT sum(span_s) FROM samples"), "10") << "of SQL it is the weight";
    EXPECT_EQ(Sql("SELECT sum(frozen_s), sum(gpu_seconds) FROM gpu_minutes"), "54|10");
  });
  EXPECT_EQ(Sql("SELECT round(sum(frozen_s), 3), sum(gpu_seconds) FROM fleet_minutes"), "46|10");
  // A part of a frozen row: 40 s to 45 s of the last one.
  const auto part = store_->UsageByJobExact({kT0 + 40 * kSecond, kT0 + 45 * kSecond}).value();
  ASSERT_EQ(part.size(), 2u);
  EXPECT_NEAR(part[0].sums.frozen_s, 2.5, 1e-6);
}

// docs/store.md names the columns that rollup views have for sums, and the versions there are.
TEST_F(RollupTest, TheDocumentListsTheSums) {
  std::ifstream file(FLOPWATCH_SOURCE_DIR "/docs/store.md");
  const std::string document((std::istreambuf_iterator<char>(file)), {});
  std::string listed = document.substr(document.find("\nSums: `") + 8);
  listed.resize(listed.find('`'));
  listed = std::regex_replace(listed, std::regex(",\\s+"), ";");
  EXPECT_EQ(Sql("SELECT column_name FROM (DESCRIBE fleet_minutes) WHERE column_name NOT IN ('ts', "
                "'model', 'day')"),
            listed);
  for (const auto& spec : efficiency::kUsageSums) {
    for (const std::string_view column : {spec.view, spec.mean}) {
      EXPECT_TRUE(column.empty() ||
                  (";" + listed + ";").find(";" + std::string(column) + ";") != std::string::npos)
          << column;
    }
  }
  EXPECT_NE(document.find("\n| " + std::to_string(kSchemaVersion) + " |"), std::string::npos);
  EXPECT_EQ(document.find("\n| " + std::to_string(kSchemaVersion + 1) + " |"), std::string::npos);
}

TEST_F(RollupTest, SeriesHaveOnePointAStepAndMergeTiers) {
  // Four hours, one row a minute, sealed and hot hours and an unsealed rest.
  for (int hour = 0; hour < 4; ++hour) {
    BatchBuilder b(fields_);
    for (int m = 0; m < 60; ++m) {
      b.Row(kT0 + hour * kHour + m * kMinute + 30 * kSecond, 1,
            {{kTensorActive, 0.1 * (hour + 1)}, {kSmClockMhz, 1830}}, 0, 1, 60'000);
    }
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + hour * kHour));
  }
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kHour + 10 * kMinute));  // the first two hours
  EXPECT_EQ(store_->stats().hot_segments, 1u)
      << "the rows of the last hour need not leave the journal for that";
  const Window all = {kT0, kT0 + 4 * kHour};
  const auto by_hour = store_->FleetSeries(all, kHour).value();
  EXPECT_EQ(store_->stats().hot_segments, 2u);
  ASSERT_EQ(by_hour.size(), 4u);
  for (int h = 0; h < 4; ++h) {
    EXPECT_EQ(by_hour[h].ts, kT0 + h * kHour);
    EXPECT_NEAR(*by_hour[h].sums.ofu.Ofu(), 0.1 * (h + 1), 1e-6);
  }
  for (const auto& points :
       {store_->GpuSeries(1, all, kHour).value(), store_->JobSeries(0, all, kHour).value()}) {
    ASSERT_EQ(points.size(), 4u);
    for (int h = 0; h < 4; ++h) EXPECT_NEAR(*points[h].sums.ofu.Ofu(), 0.1 * (h + 1), 1e-4);
  }
  // Whole hours inside come from hour rollups, the ends from minutes: 30 + 60 + 60 + 15 minutes.
  const Window ragged = {kT0 + 30 * kMinute, kT0 + 3 * kHour + 15 * kMinute};
  EXPECT_NEAR(Job(0, ragged).ofu.observed_s, 165 * 60, 1e-6);
  EXPECT_NEAR(Gpu(1, 0, ragged).ofu.observed_s, 165 * 60, 1e-6);
  EXPECT_EQ(store_->FleetSeries(ragged, kMinute).value().size(), 165u);
  EXPECT_EQ(store_->GpuSeries(1, ragged, 5 * kMinute).value().size(), 33u);
  EXPECT_FALSE(store_->FleetSeries(all, kSecond).ok());
  EXPECT_FALSE(store_->FleetSeries({kT0, kT0}, kMinute).ok());
}

TEST_F(RollupTest, ExactUsageFollowsIntervalsNotStamps) {
  ASSERT_FW_OK(store_->PutEntities({testing::Gpu(1, "GPU-a"), testing::Gpu(2, "GPU-b")}));
  PutJobs({{1, {1}}, {2, {2}}});
  jobs::Changes changes;
  // GPU 1: job 1 until 25 s, then job 2; jobs 1 and 2 share it from 40 s to 60 s. GPU 2: job 2 from
  // 30 s, end not known.
  changes.intervals = {
      {.id = 1, .entity = 1, .job = 1, .from = kT0, .to = jobs::kOpenEnd},  // replaced below
      {.id = 2, .entity = 1, .job = 2, .from = kT0 + 25 * kSecond, .to = kT0 + 60 * kSecond},
      {.id = 3, .entity = 1, .job = 1, .from = kT0 + 40 * kSecond, .to = kT0 + 60 * kSecond},
      {.id = 4, .entity = 2, .job = 2, .from = kT0 + 30 * kSecond},
      {.id = 5, .entity = 2, .job = 1, .from = kT0, .to = kT0},  // withdrawn
  };
  ASSERT_FW_OK(store_->PutJobs(changes));
  jobs::Changes later;
  later.intervals = {{.id = 1, .entity = 1, .job = 1, .from = kT0, .to = kT0 + 25 * kSecond}};
  ASSERT_FW_OK(store_->PutJobs(later));
  BatchBuilder b(fields_);
  for (int entity : {1, 2}) {
    for (int i = 1; i <= 6; ++i) {  // (0, 10], (10, 20], ... (50, 60] seconds; stamped with nothing
      b.Row(kT0 + i * 10 * kSecond, entity, {{kTensorActive, 0.5}, {kSmClockMhz, 1830}});
    }
  }
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  InEveryState([&] {
    const auto usage = store_->UsageByJobExact(kFirstHour);
    ASSERT_FW_OK(usage);
    std::map<int32_t, UsageSums> by_job;
    for (const JobUsage& u : *usage) by_job[u.job] = u.sums;
    EXPECT_NEAR(by_job[1].ofu.observed_s, 25 + 20 / 2.0, 1e-6);
    EXPECT_NEAR(by_job[2].ofu.observed_s, (40 - 25) + 20 / 2.0 + 30, 1e-6);
    EXPECT_NEAR(by_job[0].ofu.observed_s, 30, 1e-6);  // GPU 2 before 30 s
    EXPECT_NEAR(*by_job[1].ofu.Ofu(), 0.5, 1e-9);
    EXPECT_EQ(by_job[2].gpus, 2);
    // A part of the time: 20 s to 45 s of both.
    UsageSums sum;
    const auto part = store_->UsageByJobExact({kT0 + 20 * kSecond, kT0 + 45 * kSecond});
    ASSERT_FW_OK(part);
    for (const JobUsage& u : *part) sum += u.sums;
    EXPECT_NEAR(sum.ofu.observed_s, 50, 1e-6);
  });
}

// Hundreds of rows with every input, so that whole runs of them are added up at once, with others
// of every kind in between. Expected: the definition of each sum, row by row.
TEST_F(RollupTest, PlainRowsAndOthersAddUp) {
  ModelRecord slow = H100(2);
  slow.tensor_clock_max_mhz = 1500;
  ASSERT_FW_OK(store_->PutModels({slow}));
  PutJobs({{1, {1}}, {2, {2}}, {3, {1, 2}}});
  struct Want {
    double samples = 0, observed = 0, computable = 0, ofu = 0, tensor = 0, power = 0, power_s = 0,
           util = 0, warps = 0, warps_s = 0, stale = 0, missing = 0;
  };
  std::map<int, Want> jobs, models;
  jobs::Changes changes;
  std::mt19937 random(7);
  BatchBuilder b(fields_);
  std::map<int, std::set<int>> gpus;
  for (int entity = 1; entity <= 40; ++entity) {
    const int set = entity % 10 == 0 ? 3 : 1 + entity / 21;
    const std::vector<int> members = set == 3 ? std::vector<int>{1, 2} : std::vector<int>{set};
    for (int job : members) {
      gpus[job].insert(entity);
      changes.intervals.push_back(
          {.id = entity * 10 + job, .entity = entity, .job = job, .from = kT0 - kHour});
    }
    for (int i = 1; i <= 50; ++i) {
      const int model = 1 + entity % 2, span = 9'990 + static_cast<int>(random() % 20);
      const double tensor = (random() % 1'000'000) / 1e6, clock = 1200 + random() % 800,
                   power = (random() % 700'000) / 1e3, util = (random() % 101) / 100.0;
      uint32_t flags = 0;
      bool has_tensor = true, has_power = true;
      if (random() % 50 == 0) flags |= kStaleRepeat;
      if (random() % 50 == 0) flags |= kDeadCounter;
      if (random() % 50 == 0) has_power = false;
      if (random() % 50 == 0) {
        has_tensor = false;
        flags |= kTensorMissing;
      }
      std::vector<Value> values = {
          {kSmClockMhz, clock}, {kSmActive, 0.5}, {kGpuUtil, util}, {kGrActive, 0.9}};
      if (has_tensor) values.push_back({kTensorActive, tensor});
      if (has_power) values.push_back({kPowerW, power});
      // One of the models has exporters that do not list it, the other loses it now and then.
      const double warps = (random() % 500'000) / 1e6;
      const bool has_warps = model == 1 && random() % 50 != 0;
      if (has_warps) values.push_back({kSmOccupancy, warps});
      b.Row(kT0 + i * 20 * kSecond, entity, values, set, model, span, flags);
      const auto add = [&](Want* w, double share) {
        const double s = span / 1e3 * share, max_clock = model == 1 ? 1830 : 1500;
        w->samples += 1;
        w->observed += s;
        if (has_tensor && (flags & kDeadCounter) == 0) {
          w->computable += s;
          w->ofu += tensor * clock / max_clock * s;
          w->tensor += tensor * s;
        }
        if (has_power) {
          w->power += power * s;
          w->power_s += s;
        }
        if (has_warps) {
          w->warps += warps * s;
          w->warps_s += s;
        }
        w->util += util * s;
        if ((flags & kStaleRepeat) != 0) w->stale += s;
        if (!has_tensor) w->missing += s;
      };
      for (int job : members) add(&jobs[job], 1.0 / static_cast<double>(members.size()));
      add(&models[model], 1);
    }
  }
  ASSERT_FW_OK(store_->PutJobs(changes));
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  const auto same = [](const UsageSums& have, const Want& want, const std::string& what) {
    SCOPED_TRACE(what);
    EXPECT_EQ(have.ofu.samples, static_cast<uint64_t>(want.samples));
    EXPECT_NEAR(have.ofu.observed_s, want.observed, 1e-3);
    EXPECT_NEAR(have.ofu.computable_s, want.computable, 1e-3);
    EXPECT_NEAR(have.ofu.ofu_s, want.ofu, 1e-3);
    EXPECT_NEAR(have.tensor_s, want.tensor, 1e-3);
    EXPECT_NEAR(have.power_j, want.power, 0.1);
    EXPECT_NEAR(have.power_span_s, want.power_s, 1e-3);
    EXPECT_NEAR(have.sm_occupancy_s, want.warps, 1e-3);
    EXPECT_NEAR(have.sm_occupancy_span_s, want.warps_s, 1e-3);
    EXPECT_NEAR(have.gpu_util_s, want.util, 1e-3);
    EXPECT_NEAR(have.stale_s, want.stale, 1e-3);
    EXPECT_NEAR(have.tensor_missing_s, want.missing, 1e-3);
  };
  InEveryState([&] {
    for (int job : {1, 2}) {
      same(Job(job), jobs[job], "job " + std::to_string(job));
      EXPECT_EQ(Job(job).gpus, static_cast<int>(gpus[job].size()));
    }
    const auto exact = store_->UsageByJobExact(kFirstHour);
    ASSERT_FW_OK(exact);
    for (const JobUsage& u : *exact) {
      same(u.sums, jobs[u.job], "exact, job " + std::to_string(u.job));
      EXPECT_EQ(u.sums.gpus, static_cast<int>(gpus[u.job].size()));
    }
    const auto points = store_->FleetByModel(kFirstHour, kHour);
    ASSERT_FW_OK(points);
    ASSERT_EQ(points->size(), 2u);
    for (const ModelPoint& p : *points) {
      EXPECT_EQ(p.ts, kT0);
      same(p.sums, models[p.model], "model " + std::to_string(p.model));
    }
  });
}

// A job counts by the hour in which it had most GPUs, of all models together.
TEST_F(RollupTest, GpusOfTwoModelsAreCountedByTheHour) {
  ModelRecord other = H100(2);
  other.name = "another";
  ASSERT_FW_OK(store_->PutModels({H100(), other}));
  PutJobs({{1, {1}}, {2, {2}}});
  BatchBuilder b(fields_);
  const auto row = [&](int hour, int entity, int model, int set) {
    b.Row(kT0 + hour * kHour + 30 * kSecond, entity, {{kTensorActive, 0.25}, {kSmClockMhz, 1830}},
          set)
        .model = model;
  };
  for (const int entity : {1, 2}) row(0, entity, 1, 1);
  for (const int entity : {5, 6}) row(1, entity, 2, 1);
  row(2, 1, 1, 1);
  for (const int entity : {5, 6}) row(2, entity, 2, 1);
  for (const int entity : {7, 8}) row(2, entity, 1, 2);
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  InEveryState([&] {
    EXPECT_EQ(Job(1, {kT0, kT0 + 2 * kHour}).gpus, 2);  // never four at a time
    EXPECT_EQ(Job(1, {kT0, kT0 + 3 * kHour}).gpus, 3);
    EXPECT_EQ(Job(2, {kT0, kT0 + 3 * kHour}).gpus, 2);
  });
}

TEST_F(RollupTest, DaysAreMergedAndAnswersStay) {
  // Ten hours of one day, each its own segment; a late row of the first day comes in the tenth
  // hour.
  for (int hour = 0; hour < 10; ++hour) {
    BatchBuilder b(fields_);
    for (int entity = 1; entity <= 3; ++entity) {
      b.Row(kT0 + hour * kHour + 30 * kSecond, entity,
            {{kTensorActive, 0.25}, {kSmClockMhz, 1830}, {kPowerW, 100}});
    }
    if (hour == 9) b.Row(kT0 + 90 * kSecond, 1, {{kTensorActive, 0.25}, {kSmClockMhz, 1830}});
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + hour * kHour));
    if (hour == 9) {  // nine hours from files, the tenth from its raw rows
      EXPECT_EQ(Sql("SELECT count(*), sum(gpu_seconds) FROM gpu_minutes"), "31|310");
      EXPECT_EQ(Sql("SELECT sum(gpu_seconds) FROM gpu_hours WHERE ts = TIMESTAMP '2026-01-02 "
                    "14:00:00' AND entity = 2"),
                "10");
    }
    ASSERT_FW_OK(store_->Seal(kT0 + hour * kHour + kHour + 2 * kMinute));
  }
  const Window day = {kT0, kT0 + 10 * kHour};
  const std::string files =
      "SELECT \"table\", count(*), sum(rows)::BIGINT FROM sealed_files GROUP BY ALL ORDER BY 1";
  EXPECT_EQ(Sql(files),
            "fleet_minute|10|11;gpu_hour|10|31;gpu_minute|10|31;job_hour|10|11;job_minute|10|11;"
            "samples|11|31");
  const auto check = [&] {
    EXPECT_NEAR(Fleet(day).ofu.observed_s, 310, 1e-9);
    EXPECT_NEAR(Job(0, day).ofu.observed_s, 310, 1e-9);
    EXPECT_EQ(Job(0, day).gpus, 3);
    EXPECT_NEAR(Gpu(1, 0, day).ofu.observed_s, 110, 1e-9);
    EXPECT_NEAR(Gpu(1, 0, day).power_j, 10'000, 1e-6);
    EXPECT_NEAR(*Fleet(day).ofu.Ofu(), 0.25, 1e-9);
  };
  check();
  ASSERT_FW_OK(store_->Seal(kT0 + 30 * kHour));
  EXPECT_EQ(
      Sql(files),
      "fleet_minute|1|11;gpu_hour|1|30;gpu_minute|1|31;job_hour|1|10;job_minute|1|11;samples|1|31");
  check();
  Open();
  check();
  EXPECT_EQ(Sql("SELECT count(*), sum(gpu_seconds) FROM gpu_hours"), "30|310");
}

}  // namespace
}  // namespace flopwatch::store::testing
