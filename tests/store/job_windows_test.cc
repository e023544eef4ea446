// Each job over a window of its own must be what the one-window queries say about that window: the
// same rows, asked for one job at a time.
#include <map>
#include <random>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using namespace telemetry;  // NOLINT: field names

constexpr Micros kWindowMinute = kMicrosPerMinute, kWindowHour = kMicrosPerHour;

class JobWindowsTest : public StoreTest {
 protected:
  // Four hours of three GPUs: job 1 alone, job 2 alone, both on the third. One row each 30 s with
  // an OFU of its own.
  void SetUp() override {
    StoreTest::SetUp();
    ASSERT_FW_OK(store_->PutModels({H100()}));
    ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a"), Gpu(2, "GPU-b"), Gpu(3, "GPU-c")}));
    jobs::Changes changes;
    for (int32_t job : {1, 2}) {
      changes.jobs.push_back({.id = job,
                              .key = "job" + std::to_string(job),
                              .name = "",
                              .user = "",
                              .workflow = "",
                              .cluster = ""});
    }
    changes.sets = {{1, {1}}, {2, {2}}, {3, {1, 2}}};
    changes.intervals = {{.id = 1, .entity = 1, .job = 1, .from = kT0},
                         {.id = 2, .entity = 2, .job = 2, .from = kT0},
                         {.id = 3, .entity = 3, .job = 1, .from = kT0},
                         {.id = 4, .entity = 3, .job = 2, .from = kT0}};
    ASSERT_FW_OK(store_->PutJobs(changes));
    std::mt19937 random(5);
    for (int hour = 0; hour < 4; ++hour) {
      BatchBuilder b(fields_);
      for (int i = 0; i < 120; ++i) {
        for (int entity : {1, 2, 3}) {
          // 7 s into each half minute: a row belongs to one minute, its span of 5 s too.
          b.Row(kT0 + hour * kWindowHour + i * 30 * kSecond + 7 * kSecond, entity,
                {{kTensorActive, 0.001 * static_cast<double>(random() % 900)}, {kSmClockMhz, 1830}},
                entity, 1, 5'000);
        }
      }
      ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + hour * kWindowHour));
    }
  }
  static UsageSums Of(const StatusOr<std::vector<JobUsage>>& usage, int32_t job) {
    EXPECT_TRUE(usage.ok()) << usage.status();
    for (const JobUsage& u : *usage) {
      if (u.job == job) return u.sums;
    }
    return {};
  }
  void Compare() {
    std::mt19937 random(11);
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<JobWindow> aligned, ragged;
      for (int32_t job : {1, 2}) {
        const Micros from = kT0 + static_cast<Micros>(random() % 150) * kWindowMinute;
        const Micros to = from + static_cast<Micros>(1 + random() % 90) * kWindowMinute;
        aligned.push_back({job, {from, to}});
        ragged.push_back(
            {job, {from - 20 * kSecond, to + 39 * kSecond}});  // no further whole minute
      }
      const auto minutes = store_->UsageByJobWindows(aligned, false),
                 more = store_->UsageByJobWindows(ragged, false);
      const auto raw = store_->UsageByJobWindows(ragged, true);
      for (const JobWindow& w : aligned) {
        const UsageSums want = Of(store_->UsageByJob(w.window), w.job);
        ASSERT_GT(want.ofu.computable_s, 0);
        for (const auto* got : {&minutes, &more}) {
          EXPECT_NEAR(Of(*got, w.job).ofu.ofu_s, want.ofu.ofu_s, 1e-4);
          EXPECT_NEAR(Of(*got, w.job).ofu.computable_s, want.ofu.computable_s, 1e-6);
        }
      }
      for (const JobWindow& w : ragged) {
        const UsageSums want = Of(store_->UsageByJobExact(w.window), w.job), got = Of(raw, w.job);
        EXPECT_NEAR(got.ofu.ofu_s, want.ofu.ofu_s, 1e-6);
        EXPECT_NEAR(got.ofu.computable_s, want.ofu.computable_s, 1e-6);
        EXPECT_EQ(got.gpus, 2);
      }
    }
  }
};

TEST_F(JobWindowsTest, AreWhatOneWindowQueriesSay) {
  Compare();
  ASSERT_FW_OK(store_->RollUp());
  Compare();
  ASSERT_FW_OK(
      store_->Seal(kT0 + 2 * kWindowHour + 10 * kWindowMinute));  // two hours sealed, two hot
  Compare();
}

TEST_F(JobWindowsTest, NothingIsNothing) {
  EXPECT_TRUE(store_->UsageByJobWindows({}, false)->empty());
  EXPECT_TRUE(store_->UsageByJobWindows({}, true)->empty());
  const std::vector<JobWindow> unknown = {{99, {kT0, kT0 + kWindowHour}}},
                               brief = {{1, {kT0 + 1, kT0 + kSecond}}};
  EXPECT_TRUE(store_->UsageByJobWindows(unknown, false)->empty());
  EXPECT_TRUE(store_->UsageByJobWindows(unknown, true)->empty());
  EXPECT_TRUE(store_->UsageByJobWindows(brief, false)->empty());  // no whole minute
  const std::vector<JobWindow> backwards = {{1, {kT0 + kWindowHour, kT0}}};
  EXPECT_FALSE(store_->UsageByJobWindows(backwards, false).ok());
  EXPECT_FALSE(store_->UsageByJobWindows(backwards, true).ok());
}

// Steps of all jobs in one question are what each job's own series says, before and after rolling
// up and sealing; minutes with little duty are left out of rollups.
TEST_F(JobWindowsTest, StepsOfAllJobsAreTheSeriesOfEach) {
  const Window all = {kT0, kT0 + 4 * kWindowHour};
  const auto compare = [&] {
    const auto steps = store_->UsageByJobSteps(all, 10 * kWindowMinute, 0);
    ASSERT_FW_OK(steps.status());
    for (const int32_t job : {1, 2}) {
      const auto series = store_->JobSeries(job, all, 10 * kWindowMinute);
      ASSERT_FW_OK(series.status());
      size_t at = 0;
      for (const JobPoint& p : *steps) {
        if (p.job != job) continue;
        ASSERT_LT(at, series->size());
        EXPECT_EQ(p.ts, (*series)[at].ts);
        EXPECT_NEAR(p.sums.ofu.ofu_s, (*series)[at].sums.ofu.ofu_s, 1e-6);
        EXPECT_NEAR(p.sums.ofu.computable_s, (*series)[at].sums.ofu.computable_s, 1e-6);
        ++at;
      }
      EXPECT_EQ(at, series->size());
      // Of its GPUs likewise.
      for (const Window part : {all, Window{kT0 + 7 * kWindowMinute, kT0 + 95 * kWindowMinute}}) {
        const auto by_gpu = store_->UsageByGpu(part, job);
        const auto points = store_->UsageByGpuSteps(part, kWindowMinute, job);
        ASSERT_FW_OK(by_gpu.status());
        ASSERT_FW_OK(points.status());
        std::map<int32_t, UsageSums> sums;
        for (const GpuPoint& p : *points) sums[p.entity] += p.sums;
        ASSERT_EQ(sums.size(), by_gpu->size());
        EXPECT_EQ(sums.size(), 2u);
        for (const GpuUsage& gpu : *by_gpu) {
          EXPECT_NEAR(sums[gpu.entity].ofu.ofu_s, gpu.sums.ofu.ofu_s, 1e-6);
          EXPECT_NEAR(sums[gpu.entity].ofu.computable_s, gpu.sums.ofu.computable_s, 1e-6);
          EXPECT_NEAR(sums[gpu.entity].tensor_s, gpu.sums.tensor_s, 1e-6);
        }
        EXPECT_TRUE(std::ranges::is_sorted(
            *points, {}, [](const GpuPoint& p) { return std::pair(p.entity, p.ts); }));
      }
    }
    EXPECT_TRUE(std::is_sorted(steps->begin(), steps->end(), [](const auto& a, const auto& b) {
      return std::pair(a.job, a.ts) < std::pair(b.job, b.ts);
    }));
  };
  compare();
  ASSERT_FW_OK(store_->RollUp());
  compare();
  // No row has a duty: nobody says that these minutes were pauses.
  EXPECT_EQ(store_->UsageByJobSteps(all, 10 * kWindowMinute, .5)->size(),
            store_->UsageByJobSteps(all, 10 * kWindowMinute, 0)->size());
  EXPECT_FALSE(store_->UsageByJobSteps(all, 90 * kSecond, 0).ok());  // no whole minutes
  EXPECT_FALSE(store_->UsageByJobSteps({all.to, all.from}, kWindowMinute, 0).ok());
  EXPECT_FALSE(store_->UsageByGpuSteps(all, 90 * kSecond, 1).ok());
  EXPECT_FALSE(store_->UsageByGpuSteps({all.to, all.from}, kWindowMinute, 1).ok());
  EXPECT_TRUE(store_->UsageByGpuSteps(all, kWindowMinute, 99)->empty());
}

}  // namespace
}  // namespace flopwatch::store::testing
