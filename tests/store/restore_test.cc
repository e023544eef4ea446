// A meta.duckdb that is lost or damaged: refused, and put back from its own copy. What came after
// the copy keeps its rows, without names, and no number is given to another.
#include <filesystem>
#include <fstream>
#include <random>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

namespace fs = std::filesystem;
using namespace telemetry;  // NOLINT: field names

class RestoreTest : public StoreTest {
 protected:
  // Ten seconds each of `gpus`, from `at` on, of a job set.
  void Append(Micros at, int first, int last, int32_t job_set, int samples = 30) {
    BatchBuilder b(fields_);
    for (int i = 1; i <= samples; ++i) {
      for (int gpu = first; gpu <= last; ++gpu) {
        b.Row(at + 10 * i * kSecond, gpu,
              {{kTensorActive, 0.1 * gpu}, {kSmClockMhz, 1830}, {kPowerW, 100.0 * gpu}}, job_set);
      }
    }
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, at));
  }
  void Job(int32_t id, const std::string& key, int first, int last, Micros from) {
    jobs::Changes changes;
    jobs::JobRecord job;
    job.id = id;
    job.key = key;
    changes.jobs.push_back(job);
    changes.sets.push_back({id, {id}});
    for (int gpu = first; gpu <= last; ++gpu)
      changes.intervals.push_back({.id = 100 * id + gpu, .entity = gpu, .job = id, .from = from});
    ASSERT_FW_OK(store_->PutJobs(changes));
  }
  // Two GPUs of a known job, and the copy of it.
  void Begin() {
    ASSERT_FW_OK(store_->PutModels({H100()}));
    ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a"), Gpu(2, "GPU-b")}));
    Job(1, "known", 1, 2, kT0);
    Append(kT0, 1, 2, 1);
    ASSERT_FW_OK(store_->Seal(kT0 + kMinute));
  }
  std::string Path(const std::string& name) const { return dir_.path() + "/" + name; }
  void LoseMeta() {
    store_.reset();
    fs::remove(Path("meta.duckdb"));
    fs::remove(Path("meta.duckdb.wal"));
  }
  Restored Restore() {
    store_.reset();
    const auto restored = RestoreDescriptions(options_);
    EXPECT_FW_OK(restored);
    if (restored.ok()) Open();
    return restored.ok() ? *restored : Restored();
  }
  // GPU-seconds and joules of all GPUs in all hours, and the raw rows.
  std::string Totals() {
    double seconds = 0, joules = 0;
    const auto gpus = store_->UsageByGpu({kT0 - kHour, kT0 + 100 * kHour});
    EXPECT_FW_OK(gpus);
    for (const GpuUsage& g : *gpus) seconds += g.sums.ofu.observed_s, joules += g.sums.power_j;
    return std::to_string(seconds) + " " + std::to_string(joules) + " " +
           Sql("SELECT count(*), sum(power_w) FROM samples");
  }
};

TEST_F(RestoreTest, ACopyIsMadeAndGivesBackWhatThereWas) {
  Begin();
  ASSERT_TRUE(fs::exists(Path("meta-copy.duckdb")));
  EXPECT_FALSE(fs::exists(Path("meta-copy.duckdb.wal")));
  const std::string before = Totals();
  LoseMeta();
  const Status refused = Fails();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_NE(refused.message().find("flopwatch doctor --restore"), std::string::npos) << refused;
  const Restored restored = Restore();
  EXPECT_EQ(restored.gpus + restored.jobs + restored.series + restored.missing_files, 0u);
  EXPECT_GT(restored.as_of, 0);
  EXPECT_EQ(restored.kept, "");
  EXPECT_EQ(Totals(), before);
  EXPECT_EQ(Sql("SELECT gpu FROM samples GROUP BY gpu ORDER BY gpu"), "GPU-a;GPU-b");
  EXPECT_EQ(Sql("SELECT job FROM samples GROUP BY job"), "known");
}

TEST_F(RestoreTest, WhatCameLaterKeepsItsRowsAndItsNumbers) {
  Begin();
  // After the copy: a GPU, a job, a model, fields that are scaled and ones nobody knows.
  ASSERT_FW_OK(store_->PutModels({H100(2)}));
  ASSERT_FW_OK(store_->PutEntities({Gpu(3, "GPU-c", 2)}));
  Job(2, "later", 3, 3, kT0 + kHour);
  const auto own = fields_.AddDynamic("site_own_metric");
  ASSERT_TRUE(own.ok());
  BatchBuilder b(fields_);
  for (int i = 1; i <= 30; ++i) {
    b.Row(kT0 + kHour + 10 * i * kSecond, 3,
          {{kTensorActive, 0.25},
           {kSmClockMhz, 1500},
           {kPowerW, 300},
           {kMemTempC, 55.5},
           {own->id, 7.25}},
          2, 2);
  }
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + kHour));
  const std::vector<MetricRow> metrics = {{.ts = kT0 + kHour, .series = 4, .value = 1}};
  ASSERT_FW_OK(store_->PutSeries({{.id = 4, .target = "t", .name = "n", .labels = ""}}));
  ASSERT_FW_OK(store_->AppendMetrics(metrics, kT0 + kHour));
  const std::string totals = Totals();
  const std::string columns =
      "SELECT sum(mem_temp_c), sum(site_own_metric), sum(tensor_active)"
      " FROM samples";
  const std::string sums = Sql(columns);
  LoseMeta();
  const Restored restored = Restore();
  EXPECT_EQ(restored.gpus, 1u);
  EXPECT_EQ(restored.rows, 30u);
  EXPECT_EQ(restored.models, 1u);
  EXPECT_EQ(restored.jobs, 1u);
  EXPECT_EQ(restored.series, 1u);
  EXPECT_EQ(Totals(), totals);
  EXPECT_EQ(Sql(columns), sums);
  EXPECT_EQ(Sql("SELECT gpu, job, count(*) FROM samples GROUP BY ALL ORDER BY gpu"),
            "GPU-a|known|30;GPU-b|known|30;lost-3|lost-2|30");
  // Their OFU is not known, as their clock is not; their time is somebody's.
  const auto jobs = store_->UsageByJob({kT0, kT0 + 2 * kHour});
  ASSERT_FW_OK(jobs);
  ASSERT_EQ(jobs->size(), 2u);
  const auto dimensions = store_->LoadDimensions();
  ASSERT_FW_OK(dimensions);
  EXPECT_EQ(dimensions->entities.back().id, 3);
  EXPECT_EQ(dimensions->entities.back().key.uuid, "lost-3");
  EXPECT_FALSE(dimensions->models.back().tensor_clock_max_mhz.has_value());
  EXPECT_EQ(dimensions->series.back().id, 4);
  EXPECT_EQ(dimensions->jobs.back().key, "lost-2");
  ASSERT_EQ(dimensions->intervals.size(), 3u);
  EXPECT_EQ(dimensions->intervals.back().from, kT0 + kHour);
  EXPECT_EQ(dimensions->intervals.back().to, kT0 + kHour + 300 * kSecond);
}

TEST_F(RestoreTest, NothingIsPutInPlaceOfWhatCanBeRead) {
  Begin();
  store_.reset();
  const auto refused = RestoreDescriptions(options_);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  Open();
  const auto busy = RestoreDescriptions(options_);
  EXPECT_TRUE(absl::IsFailedPrecondition(busy.status())) << busy.status();
  store_.reset();
  fs::remove(Path("meta-copy.duckdb"));
  EXPECT_TRUE(absl::IsNotFound(RestoreDescriptions(options_).status()));
}

TEST_F(RestoreTest, ADamagedOneIsKeptAside) {
  Begin();
  const std::string before = Totals();
  store_.reset();
  fs::resize_file(Path("meta.duckdb"), 6000);
  EXPECT_NE(Fails().message().find("doctor --restore"), std::string::npos);
  const Restored restored = Restore();
  EXPECT_EQ(Totals(), before);
  EXPECT_TRUE(fs::exists(restored.kept)) << restored.kept;
}

// Whatever happened last, and wherever it was interrupted: the rows are there once.
TEST_F(RestoreTest, AtAnyTimeTheRowsAreThereOnce) {
  int restored_late = 0;
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    std::mt19937 random(seed);
    store_.reset();
    fs::remove_all(dir_.path());
    fs::create_directory(dir_.path());
    faults_.Clear();
    Open();
    Begin();
    Micros now = kT0 + 10 * kMinute;
    int32_t next = 3;
    const int steps = 5 + static_cast<int>(random() % 30);
    for (int k = 0; k < steps; ++k) {
      monotonic_ += kMinute;
      switch (random() % 6) {
        case 0: {
          ASSERT_FW_OK(store_->PutEntities({Gpu(next, "GPU-" + std::to_string(next))}));
          Job(next, "job-" + std::to_string(next), next, next, now);
          Append(now, next, next, next, 5);
          ++next;
          break;
        }
        case 1:
          ASSERT_FW_OK(store_->RollUp());
          break;
        case 2:
          now += kHour;
          break;
        case 3:
          // It may be interrupted anywhere, and what is left is tidied up at the next open.
          if (random() % 2 == 0) {
            int left = 1 + static_cast<int>(random() % 12);
            faults_.Set([left](std::string_view) mutable {
              return --left == 0 ? absl::InternalError("injected") : absl::OkStatus();
            });
            (void)store_->Seal(now + 60 * kHour);
            faults_.Clear();
          } else {
            ASSERT_FW_OK(store_->Seal(now + 60 * kHour));
          }
          break;
        case 4:
          Open();
          break;
        default:
          Append(now, 1, 2, 1, 5);
      }
    }
    ASSERT_FW_OK(store_->RollUp());
    const std::string before = Totals();
    LoseMeta();
    const Restored restored = Restore();
    EXPECT_EQ(restored.missing_files, 0u) << "seed " << seed;
    EXPECT_EQ(Totals(), before) << "seed " << seed;
    ASSERT_FW_OK(store_->Seal(now + 60 * kHour));
    EXPECT_EQ(Totals(), before) << "seed " << seed;
    restored_late += restored.gpus > 0;
    EXPECT_EQ(Sql("SELECT count(DISTINCT gpu) FROM samples"), std::to_string(next - 1));
  }
  EXPECT_GT(restored_late, 2);
}

}  // namespace
}  // namespace flopwatch::store::testing
