// Sealing, merging and retention, stopped at every step: by death of the process, and by an error.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

namespace fs = std::filesystem;
using namespace telemetry;  // NOLINT: field names

constexpr Micros kSealedHour = kMicrosPerHour;
constexpr int kHours = 8;  // enough unmerged files for a merge

// The point that fails, and how often it is passed first.
std::string fail_at;       // NOLINT
std::atomic<int> skip{0};  // NOLINT
std::atomic<int> hits{0};  // NOLINT

Status Die(std::string_view point) {
  if (point == fail_at && skip-- <= 0) ::_exit(9);
  return absl::OkStatus();
}
Status Refuse(std::string_view point) {
  if (point != fail_at || skip-- > 0) return absl::OkStatus();
  ++hits;
  return absl::InternalError("injected");
}

class SealTest : public StoreTest {
 protected:
  // Hours of one day with three GPUs and a metric, the rows of each in their own segment; the first
  // are sealed.
  void Fill(int hours = 3, int sealed = 1) {
    hours_ = hours;
    ASSERT_FW_OK(store_->PutModels({H100()}));
    for (int hour = 0; hour < hours; ++hour) {
      BatchBuilder b(fields_);
      for (int entity = 1; entity <= 3; ++entity) {
        b.Row(kT0 + hour * kSealedHour + entity * kSecond, entity,
              {{kTensorActive, 0.5}, {kSmClockMhz, 1830}, {kPowerW, entity * 100.0}});
      }
      ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + hour * kSealedHour));
      ASSERT_FW_OK(store_->AppendMetrics({{{kT0 + hour * kSealedHour, 1, double(hour)}}},
                                         kT0 + hour * kSealedHour));
    }
    if (sealed > 0) ASSERT_FW_OK(store_->Seal(kT0 + sealed * kSealedHour + 2 * kMicrosPerMinute));
  }
  // The same whatever happened to files in between.
  void Check() {
    const int rows = 3 * hours_;
    EXPECT_EQ(
        Sql("SELECT count(*), sum(power_w), count(DISTINCT (ts, gpu, entity)) FROM samples"),
        std::to_string(rows) + "|" + std::to_string(600 * hours_) + "|" + std::to_string(rows));
    EXPECT_EQ(Sql("SELECT count(*), max(value) FROM metrics"),
              std::to_string(hours_) + "|" + std::to_string(hours_ - 1));
    const Window all = {kT0, kT0 + hours_ * kSealedHour};
    const auto jobs = store_->UsageByJob(all);
    ASSERT_FW_OK(jobs);
    ASSERT_EQ(jobs->size(), 1u);
    EXPECT_NEAR((*jobs)[0].sums.ofu.ofu_s, rows * 5, 1e-2);
    EXPECT_NEAR((*jobs)[0].sums.power_j, 6000 * hours_, 1e-6);
    const auto gpus = store_->UsageByGpu(all);
    ASSERT_FW_OK(gpus);
    ASSERT_EQ(gpus->size(), 3u);
    for (const GpuUsage& g : *gpus) EXPECT_NEAR(g.sums.ofu.observed_s, 10 * hours_, 1e-6);
    UsageSums fleet;
    const auto points = store_->FleetSeries(all, kSealedHour);
    ASSERT_FW_OK(points);
    for (const UsagePoint& p : *points) fleet += p.sums;
    EXPECT_NEAR(fleet.ofu.observed_s, 10 * rows, 1e-6);
  }
  void CheckTidy() {
    EXPECT_TRUE(fs::is_empty(options_.directory + "/hot"));
    EXPECT_TRUE(fs::is_empty(options_.directory + "/sealed/tmp"));
    const auto recorded = store_->UserSql("SELECT path FROM sealed_files", {});
    ASSERT_FW_OK(recorded);
    std::vector<std::string> want, have;
    for (const auto& row : recorded->table.rows) want.push_back(std::get<std::string>(row[0]));
    for (const auto& e : fs::recursive_directory_iterator(options_.directory + "/sealed")) {
      if (e.is_regular_file()) have.push_back(fs::relative(e.path(), options_.directory).string());
    }
    std::sort(want.begin(), want.end());
    std::sort(have.begin(), have.end());
    EXPECT_EQ(have, want);
    EXPECT_EQ(Sql("SELECT (SELECT count(*) FROM meta.trash), (SELECT count(*) FROM "
                  "meta.sealed_segments)"),
              "0|0");
  }
  static constexpr Micros kLater = kT0 + 30 * kSealedHour;  // every hour is over, and the day
  int hours_ = 0;
};

class SealDeathTest : public SealTest {
 protected:
  // A child dies in Seal() at each point; what it leaves is then opened, read, and sealed to the
  // end.
  void DieAt(const std::vector<std::pair<const char*, int>>& points) {
    if (!kMayFork) GTEST_SKIP() << "forks with a store open (fixture.h)";
    store_.reset();
    TempDir original;
    fs::copy(dir_.path(), original.path(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    for (const auto& [point, passes] : points) {
      SCOPED_TRACE(std::string(point) + " after " + std::to_string(passes));
      fs::remove_all(dir_.path());
      fs::copy(original.path(), dir_.path(), fs::copy_options::recursive);
      const pid_t child = ::fork();
      if (child == 0) {
        fail_at = point;
        skip = passes;
        auto store = OpenDuckDbStore(options_);
        if (!store.ok()) ::_exit(1);
        faults_.Set(Die);
        const Status ignored = (*store)->Seal(kLater);
        ::_exit(0);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 9)
          << "the point was not reached: " << status;
      Open();
      Check();
      ASSERT_FW_OK(store_->Seal(kLater));
      Check();
      CheckTidy();
      store_.reset();
    }
  }
};

TEST_F(SealDeathTest, WhileSealing) {
  Fill();
  DieAt({{"rollup:inserted", 0},
         {"rollup:committed", 0},
         {"seal:copied", 0},
         {"seal:copied", 3},
         {"seal:written", 0},
         {"seal:recorded", 0},
         {"seal:recorded", 1},
         {"install:renamed", 0},
         {"install:renamed", 4},
         {"seal:installed", 0},
         {"delete:segment", 0}});
}

TEST_F(SealDeathTest, WhileMergingDays) {
  Fill(kHours, kHours);
  DieAt({{"seal:copied", 1},
         {"replace:recorded", 0},
         {"install:renamed", 0},
         {"delete:unlinked", 0},
         {"delete:unlinked", 5}});
}

TEST_F(SealTest, AnErrorAtAnyStepIsReportedAndTheNextCallFinishes) {
  Fill(kHours, 2);
  const char* points[] = {"rollup:inserted", "seal:copied",      "seal:written",
                          "seal:recorded",   "install:renamed",  "seal:installed",
                          "delete:segment",  "replace:recorded", "delete:unlinked"};
  faults_.Set(Refuse);
  for (const char* point : points) {
    SCOPED_TRACE(point);
    fail_at = point;
    skip = 0;
    hits = 0;
    EXPECT_FALSE(store_->Seal(kLater).ok());
    EXPECT_EQ(hits, 1);
    fail_at.clear();
    Check();
  }
  ASSERT_FW_OK(store_->Seal(kLater));
  Check();
  CheckTidy();
}

TEST_F(SealTest, WhatIsBeingReadStaysUntilItHasBeenRead) {
  Fill(kHours);
  // A reader in another thread, all the time, while hours are sealed and merged: never an error,
  // never another count.
  std::atomic<bool> stop{false};
  std::atomic<int> reads{0};
  std::string wrong;
  std::thread reader([&] {
    while (!stop) {
      const auto result = store_->UserSql("SELECT count(*), sum(power_w) FROM samples", {});
      ++reads;
      if (!result.ok()) wrong = std::string(result.status().message());
      if (result.ok() && std::get<int64_t>(result->table.rows[0][0]) != 3 * kHours)
        wrong = "another count";
      const auto gpus = store_->UsageByGpu({kT0, kT0 + hours_ * kSealedHour});
      if (!gpus.ok() || gpus->size() != 3) wrong = "usage: " + std::string(gpus.status().message());
    }
  });
  EXPECT_FW_OK(store_->Seal(kLater));
  EXPECT_FW_OK(store_->ApplyRetention(kLater));
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, "");
  EXPECT_GT(reads, 0);
  ASSERT_FW_OK(store_->Seal(kLater));  // deletes what the reader may have kept
  Check();
  CheckTidy();
}

TEST_F(SealTest, RetentionDropsTiersByAge) {
  Fill();
  ASSERT_FW_OK(store_->Seal(kLater));
  const std::string tables =
      "SELECT string_agg(DISTINCT \"table\", ' ' ORDER BY \"table\") FROM sealed_files";
  EXPECT_EQ(Sql(tables), "fleet_minute gpu_hour gpu_minute job_hour job_minute metrics samples");
  const Window all = {kT0, kT0 + hours_ * kSealedHour};
  PassUntil(kT0 + 16 * kMicrosPerDay);
  EXPECT_EQ(Sql(tables), "fleet_minute gpu_hour gpu_minute job_hour job_minute");
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "1");  // that of today
  PassUntil(kT0 + 91 * kMicrosPerDay);
  EXPECT_EQ(Sql(tables), "fleet_minute gpu_hour job_hour");
  // Whole hours still answer.
  const auto gpus = store_->UsageByGpu(all);
  ASSERT_FW_OK(gpus);
  EXPECT_EQ(gpus->size(), 3u);
  EXPECT_EQ(store_->FleetSeries(all, kSealedHour).value().size(), 3u);
  PassUntil(kT0 + 731 * kMicrosPerDay);
  const RetentionStats stats = store_->stats().retention;
  EXPECT_EQ(stats.as_of, kT0 + 731 * kMicrosPerDay);
  EXPECT_EQ(stats.waits_for, "");
  EXPECT_GT(stats.files, 0u);
  EXPECT_GT(stats.rows, 0u);
  EXPECT_EQ(Sql("SELECT count(*) FROM sealed_files"), "0");
  ASSERT_FW_OK(store_->Seal(kT0 + 732 * kMicrosPerDay));
  CheckTidy();
  EXPECT_FALSE(fs::exists(options_.directory + "/sealed/samples/day=2026-01-02"));
}

TEST_F(SealTest, LateArrivalsOfASealedHourGetTheirOwnSegment) {
  Fill();
  ASSERT_FW_OK(store_->Seal(kLater));
  BatchBuilder b(fields_);
  b.Row(kT0 + 30 * kSecond, 1, {{kTensorActive, 0.5}, {kSmClockMhz, 1830}});
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + 10));  // arrival in the first hour, again
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "10");
  ASSERT_FW_OK(store_->Seal(kLater));
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "10");
  EXPECT_NEAR(store_->UsageByGpu({kT0, kT0 + kSealedHour}).value()[0].sums.ofu.observed_s, 20,
              1e-6);
}

TEST_F(SealTest, LargeHoursBecomeSeveralFilesByGpu) {
  options_.memory_limit_mb =
      0;  // the engine keeps its minimum; files get one value each, so one GPU each
  Open();
  Fill();
  ASSERT_FW_OK(store_->Seal(kLater));
  Check();
  EXPECT_EQ(
      Sql("SELECT count(*), sum(rows)::BIGINT FROM sealed_files WHERE \"table\" = 'gpu_hour'"),
      "3|9")
      << "nine files of one GPU and hour, merged into three of one GPU";
  EXPECT_EQ(Sql("SELECT count(*) FROM sealed_files WHERE \"table\" = 'samples'"), "9");
  const auto one = store_->GpuSeries(2, {kT0, kT0 + hours_ * kSealedHour}, kSealedHour);
  ASSERT_FW_OK(one);
  EXPECT_EQ(one->size(), 3u);
}

TEST_F(SealTest, AMissingSealedFileIsNamedAndTheRestStillAnswers) {
  Fill();
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kSealedHour + 2 * kMicrosPerMinute));
  const std::string path =
      Sql("SELECT path FROM sealed_files WHERE \"table\" = 'samples' ORDER BY min_ts LIMIT 1");
  store_.reset();
  fs::remove(dir_.path() + "/" + path);
  ::testing::internal::CaptureStderr();
  Open();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(path), std::string::npos);
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "6");
}

TEST_F(SealTest, ADamagedSealedFileIsNamed) {
  Fill();
  ASSERT_FW_OK(store_->Seal(kLater));
  const std::string path =
      Sql("SELECT path FROM sealed_files WHERE \"table\" = 'samples' ORDER BY min_ts LIMIT 1");
  fs::resize_file(dir_.path() + "/" + path, 100);
  const auto result = store_->UserSql("SELECT sum(power_w) FROM samples", {});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find(path), absl::string_view::npos) << result.status();
  EXPECT_EQ(store_->UsageByGpu({kT0, kT0 + hours_ * kSealedHour}).value().size(), 3u)
      << "others still answer";
}

TEST_F(SealTest, RawHoursAreMergedIntoDays) {
  options_.memory_limit_mb = 1;  // so that a few thousand rows are several parts
  Open();
  constexpr int kGpus = 8, kPerHour = 900;
  for (int hour = 0; hour < kHours; ++hour) {
    BatchBuilder b(fields_);
    for (int i = 0; i < kPerHour; ++i) {
      for (int entity = 1; entity <= kGpus; ++entity) {
        b.Row(kT0 + hour * kSealedHour + i * 4 * kSecond, entity,
              {{kTensorActive, 0.5}, {kSmClockMhz, 1830}, {kPowerW, 1.0 * entity}});
      }
    }
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + hour * kSealedHour));
    ASSERT_FW_OK(store_->Seal(kT0 + (hour + 1) * kSealedHour + 2 * kMicrosPerMinute));
  }
  const std::string files =
      "SELECT count(*) FILTER (path LIKE '%hour=%'), sum(rows)::BIGINT FROM sealed_files WHERE "
      "\"table\" = 'samples'";
  const auto check = [&](int rows) {
    EXPECT_EQ(Sql("SELECT count(*), count(DISTINCT (ts, entity)), sum(power_w)::BIGINT FROM "
                  "samples WHERE power_w IS NOT NULL"),
              std::to_string(kHours * kPerHour * kGpus) + "|" +
                  std::to_string(kHours * kPerHour * kGpus) + "|" +
                  std::to_string(kHours * kPerHour * 36));  // 1 + 2 + ... + 8
    EXPECT_EQ(Sql("SELECT count(*) FROM samples"), std::to_string(rows));
    EXPECT_EQ(Sql("SELECT day::VARCHAR, hour, count(*) FROM samples WHERE hour = 7 AND day = "
                  "'2026-01-02' GROUP BY ALL"),
              "2026-01-02|7|" + std::to_string(kPerHour * kGpus));
    EXPECT_EQ(Sql("SELECT count(*) FROM samples WHERE entity = 3 AND power_w = 3"),
              std::to_string(kHours * kPerHour));
    const auto exact = store_->UsageByJobExact({kT0, kT0 + kHours * kSealedHour});
    ASSERT_FW_OK(exact);
    ASSERT_EQ(exact->size(), 1u);
    EXPECT_EQ((*exact)[0].sums.gpus, kGpus);
  };
  const int rows = kHours * kPerHour * kGpus;
  EXPECT_GE(std::stoi(Sql(files)), 2 * kHours);
  check(rows);
  ASSERT_FW_OK(store_->Seal(kLater));
  EXPECT_EQ(Sql(files), "0|" + std::to_string(rows));
  EXPECT_TRUE(fs::is_empty(options_.directory + "/sealed/tmp"));
  CheckTidy();
  check(rows);
  // Each file by itself is sorted by GPU, then time, and holds GPUs no other file has.
  const auto paths =
      store_->UserSql("SELECT path FROM sealed_files WHERE \"table\" = 'samples'", {});
  ASSERT_FW_OK(paths);
  EXPECT_GT(paths->table.rows.size(), 1u);
  int gpus = 0;
  for (const auto& row : paths->table.rows) {
    const std::string scan = "read_parquet('" + options_.directory + "/" +
                             std::get<std::string>(row[0]) + "', file_row_number = true)";
    EXPECT_EQ(Sql("SELECT count(*) FROM (SELECT (entity, ts) < lag((entity, ts)) OVER (ORDER BY "
                  "file_row_number) AS back FROM " +
                  scan + ") WHERE back"),
              "0");
    gpus += std::stoi(Sql("SELECT count(DISTINCT entity) FROM " + scan));
  }
  EXPECT_EQ(gpus, kGpus);
  // A late row gives the merged day another file, which stays as it is: the day is not written
  // again for it.
  BatchBuilder late(fields_);
  late.Row(kT0 + kSecond, 3, {{kTensorActive, 0.5}});
  ASSERT_FW_OK(store_->Append(late.batch(), fields_, kLater));
  ASSERT_FW_OK(store_->Seal(kLater + 2 * kSealedHour));
  EXPECT_EQ(Sql(files), "1|" + std::to_string(rows + 1));
  check(rows + 1);
  Open();
  check(rows + 1);
  // Retention deletes whole files. The clock keeps its pace from where the data ended.
  PassUntil(kLater);
  ASSERT_FW_OK(store_->Seal(kLater + 2 * kSealedHour));
  PassUntil(kT0 + options_.raw_retention + 3 * kMicrosPerDay);
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "1");
  EXPECT_FALSE(fs::exists(options_.directory + "/sealed/samples/day=2026-01-02"));
}

}  // namespace
}  // namespace flopwatch::store::testing
