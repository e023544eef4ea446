// Versions: directories of every older layout are migrated and go on, and what is newer or foreign
// is refused.
#include <filesystem>
#include <functional>

#include "store/duckdb/attach.h"
#include "store/duckdb/engine.h"
#include "store/duckdb/schema.h"
#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

namespace fs = std::filesystem;
using namespace telemetry;  // NOLINT: field names

using VersionTest = StoreTest;

// Opens a database file, as catalog f, as another program would.
void With(const std::string& path, const std::function<void(duck::Connection*)>& use) {
  duck::Engine engine({.directory = fs::path(path).parent_path().string(), .spill_directory = ""});
  ASSERT_FW_OK(
      engine.Restart([&](duck::Connection* c) { return duck::AttachFile(c, "f", path, false); }));
  const duck::Engine::Lease lease(engine, duck::Engine::Use::kWrite);
  ASSERT_FW_OK(lease.status());
  use(lease.get());
}
void Edit(const std::string& path, const std::vector<std::string>& statements) {
  With(path, [&](duck::Connection* c) {
    for (const std::string& sql : statements) ASSERT_FW_OK(c->Execute(sql));
  });
}
std::string TypeOf(const std::string& path, const std::string& column) {
  std::string type;
  With(path, [&](duck::Connection* c) {
    auto found = c->Query(
        "SELECT data_type FROM duckdb_columns() WHERE database_name = 'f' AND table_name = "
        "'gpu_samples' "
        "AND column_name = '" +
        column + "'");
    ASSERT_FW_OK(found);
    found->ForEach([&](const duck::Row& row) { type = row.Text(0); });
  });
  return type;
}

TEST_F(VersionTest, ANewerSchemaIsRefused) {
  AppendOne();
  store_.reset();
  Edit(dir_.path() + "/meta.duckdb",
       {"INSERT INTO f.schema_version VALUES (99, now()::TIMESTAMP, '9.9')"});
  const absl::Status status = Fails();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(
      status.message().find("schema version 99, newer than the " + std::to_string(kSchemaVersion)),
      absl::string_view::npos)
      << status;
  EXPECT_NE(status.message().find("upgrade flopwatch"), absl::string_view::npos);
}

TEST_F(VersionTest, AForeignDatabaseIsRefused) {
  store_.reset();
  fs::remove(dir_.path() + "/meta.duckdb");
  Edit(dir_.path() + "/meta.duckdb", {"CREATE TABLE f.somebody_elses(i INT)"});
  EXPECT_NE(Fails().message().find("not one of flopwatch"), absl::string_view::npos);
}

TEST_F(VersionTest, AVersionZeroDirectoryIsMigrated) {
  // What a crash between creating the files and making their tables leaves: databases without
  // tables.
  store_.reset();
  fs::remove_all(dir_.path());
  fs::create_directories(dir_.path() + "/hot");
  Edit(dir_.path() + "/meta.duckdb", {});
  Edit(dir_.path() + "/hot/seg-20260102T05-0001.duckdb", {});
  // A reader cannot migrate, and says so.
  options_.read_only = true;
  EXPECT_NE(Fails().message().find("older than " + std::to_string(kSchemaVersion)),
            absl::string_view::npos);
  options_.read_only = false;
  Open();
  AppendOne();
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "1");
  EXPECT_EQ(Sql("SELECT max(version) FROM meta.schema_version"), std::to_string(kSchemaVersion));
}

// Until version 3 a hot segment had rows a GPU and minute of its own; a row that must not count any
// more.
constexpr char kOldGpuMinute[] =
    "CREATE TABLE f.gpu_minute AS SELECT TIMESTAMP '2026-01-02 05:00:00' AS ts, 1 AS entity";

TEST_F(VersionTest, AVersionOneDirectoryIsMigrated) {
  jobs::Changes changes;
  changes.jobs = {{.id = 1, .key = "1", .name = "", .user = "", .workflow = "", .cluster = ""}};
  changes.sets = {{1, {1}}};
  ASSERT_FW_OK(store_->PutJobs(changes));
  BatchBuilder b(fields_);
  for (int entity : {1, 2, 3})
    b.Row(kT0 + kSecond, entity, {{kTensorActive, 0.5}, {kSmClockMhz, 1830}}, 1);
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  ASSERT_FW_OK(store_->RollUp());
  store_.reset();
  // As version 1 wrote it: it had no list of GPUs, and counted them from gpu_minute.
  Edit(dir_.path() + "/meta.duckdb",
       {"DELETE FROM f.schema_version WHERE version >= 2", "DROP TABLE f.application_claims"});
  Edit(dir_.path() + "/hot/seg-20260102T05-0001.duckdb",
       {"DELETE FROM f.schema_version WHERE version >= 2", "DROP TABLE f.application_samples",
        "DROP TABLE f.present", kOldGpuMinute, "DELETE FROM f.progress WHERE tbl LIKE 'present%'"});
  const Window hour = {kT0, kT0 + kMicrosPerHour};
  for (int round = 0; round < 4; ++round) {
    if (round != 1) Open();  // before and after rolling up, and sealed
    const auto usage = store_->UsageByJob(hour);
    ASSERT_FW_OK(usage);
    ASSERT_EQ(usage->size(), 1u);
    EXPECT_EQ((*usage)[0].sums.gpus, 3);
    EXPECT_NEAR((*usage)[0].sums.ofu.observed_s, 30, 1e-6);
    ASSERT_FW_OK(round < 2 ? store_->RollUp() : store_->Seal(kT0 + 2 * kMicrosPerHour));
  }
  EXPECT_EQ(Sql("SELECT max(version) FROM meta.schema_version"), std::to_string(kSchemaVersion));
}

TEST_F(VersionTest, AVersionTwoDirectoryIsMigrated) {
  AppendOne();
  ASSERT_FW_OK(store_->RollUp());
  store_.reset();
  // As version 2 wrote it: it knew nothing of applications.
  Edit(dir_.path() + "/meta.duckdb",
       {"DELETE FROM f.schema_version WHERE version >= 3", "DROP TABLE f.application_claims"});
  Edit(dir_.path() + "/hot/seg-20260102T05-0001.duckdb",
       {"DELETE FROM f.schema_version WHERE version >= 3", "DROP TABLE f.application_samples",
        kOldGpuMinute});
  Open();
  telemetry::ApplicationClaim claim;
  claim.id = 1;
  claim.job = "7";
  ASSERT_FW_OK(store_->PutClaims({&claim, 1}));
  telemetry::ApplicationSample said;
  said.ts = kT0 + kSecond;
  said.claim = 1;
  said[telemetry::ApplicationField::kLoss] = 2.5;
  ASSERT_FW_OK(store_->AppendApplication({&said, 1}, kT0));  // into the segment that was migrated
  EXPECT_EQ(Sql("SELECT job, loss FROM application_samples"), "7|2.5");
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "1");
  EXPECT_EQ(Sql("SELECT max(version) FROM meta.schema_version"), std::to_string(kSchemaVersion));
}

TEST_F(VersionTest, AVersionFourSegmentKeepsItsMicroseconds) {
  const auto append = [&](Micros ts, int entity) {
    BatchBuilder b(fields_);
    b.Row(ts, entity, {{kTensorActive, 0.5}, {kSmClockMhz, 1830}}, 1);
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + kSecond));
  };
  jobs::Changes changes;
  changes.jobs = {{.id = 1, .key = "1", .name = "", .user = "", .workflow = "", .cluster = ""}};
  changes.sets = {{1, {1}}};
  ASSERT_FW_OK(store_->PutJobs(changes));
  append(kT0 + kSecond, 1);
  store_.reset();
  // As version 4 wrote it: microseconds.
  Edit(dir_.path() + "/meta.duckdb", {"DELETE FROM f.schema_version WHERE version >= 5"});
  Edit(dir_.path() + "/hot/seg-20260102T05-0001.duckdb",
       {"DELETE FROM f.schema_version WHERE version >= 5",
        "ALTER TABLE f.gpu_samples ALTER ts SET DATA TYPE TIMESTAMP",
        "UPDATE f.gpu_samples SET ts = ts + INTERVAL 7 MICROSECOND"});
  Open();
  append(kT0 + 2 * kSecond + 345'678,
         2);  // into the segment that was migrated: in whole milliseconds, as everything new
  for (int round = 0; round < 3; ++round) {  // hot, rolled up, sealed
    EXPECT_EQ(Sql("SELECT epoch_us(min(ts)) - epoch_us(TIMESTAMP '2026-01-02 05:00:01'), "
                  "epoch_us(max(ts)) - "
                  "epoch_us(TIMESTAMP '2026-01-02 05:00:02') FROM samples"),
              "7|345000");
    EXPECT_EQ(Sql("SELECT count(*) FROM samples WHERE ts > TIMESTAMP '2026-01-02 05:00:01' AND ts "
                  "< TIMESTAMP '2026-01-02 05:00:02'"),
              "1");
    EXPECT_EQ(Sql("SELECT DISTINCT typeof(ts) FROM samples"), "TIMESTAMP");
    const auto usage = store_->UsageByJob({kT0, kT0 + kMicrosPerHour});
    ASSERT_FW_OK(usage);
    ASSERT_EQ(usage->size(), 1u);
    EXPECT_EQ((*usage)[0].sums.gpus, 2);
    EXPECT_EQ((*usage)[0].sums.first_ts, kT0 + kSecond + 7);
    EXPECT_EQ((*usage)[0].sums.last_ts, kT0 + 2 * kSecond + 345'000);
    EXPECT_EQ(store_->stats().oldest_ts, kT0 + kSecond + 7);
    EXPECT_EQ(store_->stats().newest_ts, kT0 + 2 * kSecond + 345'000);
    ASSERT_FW_OK(round == 0 ? store_->RollUp() : store_->Seal(kT0 + 2 * kMicrosPerHour));
    if (round == 1) Open();
  }
  EXPECT_EQ(Sql("SELECT max(version) FROM meta.schema_version"), std::to_string(kSchemaVersion));
}

// Until version 7 rollups had no frozen time: what is older than the column counts as none, beside
// newer hours, and after both were merged into one day.
TEST_F(VersionTest, AVersionSevenDirectoryIsMigrated) {
  constexpr Micros kHour = kMicrosPerHour;
  const auto append = [&](int hour, uint32_t flags) {
    BatchBuilder b(fields_);
    for (int second : {10, 20})
      b.Row(kT0 + hour * kHour + second * kSecond, 1, {{kTensorActive, 0.5}, {kSmClockMhz, 1830}},
            0, 1, 10'000, second == 20 ? flags : 0);
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + hour * kHour));
  };
  ASSERT_FW_OK(store_->PutModels({H100()}));
  for (int hour = 0; hour < 8; ++hour) append(hour, 0);
  ASSERT_FW_OK(store_->Seal(kT0 + 8 * kHour + 2 * kMicrosPerMinute));
  append(8, 0);
  ASSERT_FW_OK(store_->RollUp());
  store_.reset();
  // As version 7 wrote it.
  Edit(dir_.path() + "/hot/seg-20260102T13-0001.duckdb",
       {"DELETE FROM f.schema_version WHERE version >= 8",
        "ALTER TABLE f.job_minute DROP COLUMN frozen_us"});
  std::vector<std::string> files;
  With(dir_.path() + "/meta.duckdb", [&](duck::Connection* c) {
    ASSERT_FW_OK(c->Execute("DELETE FROM f.schema_version WHERE version >= 8"));
    ASSERT_FW_OK(c->Execute("ALTER TABLE f.files DROP COLUMN hash"));
    auto found = c->Query("SELECT path FROM f.files WHERE columns LIKE '%frozen%'");
    ASSERT_FW_OK(found);
    found->ForEach([&](const duck::Row& row) {
      files.push_back(dir_.path() + "/" + std::string(row.Text(0)));
    });
    for (const std::string& file : files) {
      ASSERT_FW_OK(
          c->Execute("COPY (SELECT COLUMNS(c -> c NOT LIKE 'frozen%') FROM read_parquet('" + file +
                     "', hive_partitioning = false)) TO '" + file + ".old' (FORMAT parquet)"));
      fs::rename(file + ".old", file);
    }
    ASSERT_FW_OK(
        c->Execute("UPDATE f.files SET columns = regexp_replace(columns, ',frozen_[mu]s', '')"));
  });
  EXPECT_EQ(files.size(), 5u * 8);  // each rollup of eight hours
  Open();
  append(8, telemetry::kFrozen | telemetry::kStaleRepeat);  // into the segment that was migrated
  append(9, telemetry::kFrozen | telemetry::kStaleRepeat);
  const Window all = {kT0, kT0 + 10 * kHour};
  const auto check = [&] {
    UsageSums fleet;
    const auto points = store_->FleetSeries(all, kHour).value();
    for (const UsagePoint& p : points) fleet += p.sums;
    const auto by_job = store_->UsageByJob(all).value();
    const auto by_gpu = store_->UsageByGpu(all).value();
    ASSERT_EQ(by_job.size(), 1u);
    ASSERT_EQ(by_gpu.size(), 1u);
    for (const UsageSums& s : {fleet, by_job[0].sums, by_gpu[0].sums}) {
      EXPECT_NEAR(s.ofu.observed_s, 9 * 20 + 2 * 10, 1e-6);
      EXPECT_NEAR(s.frozen_s, 20, 1e-6);
      EXPECT_EQ(s.ofu.samples, 22u);
    }
    EXPECT_EQ(by_job[0].sums.gpus, 1);
    EXPECT_EQ(Sql("SELECT sum(frozen_s), count(frozen_s) FROM gpu_hours"), "20|10");
    EXPECT_EQ(Sql("SELECT frozen_s FROM gpu_hours ORDER BY ts LIMIT 1"), "0");
  };
  check();
  ASSERT_FW_OK(store_->RollUp());
  check();
  ASSERT_FW_OK(store_->Seal(kT0 + 10 * kHour + 2 * kMicrosPerMinute));  // old and new files
  EXPECT_EQ(store_->stats().hot_segments, 0u);
  check();
  ASSERT_FW_OK(store_->Seal(kT0 + 30 * kHour));  // one file of both
  EXPECT_EQ(Sql("SELECT count(*) FROM sealed_files WHERE \"table\" = 'gpu_hour'"), "1");
  check();
  Open();
  check();
  EXPECT_EQ(Sql("SELECT max(version) FROM meta.schema_version"), std::to_string(kSchemaVersion));
}

// Until version 8 nobody knew when a job was seen last: now then, or when the newest data came.
TEST_F(VersionTest, AVersionEightDirectoryIsMigrated) {
  jobs::Changes changes;
  changes.jobs = {{.id = 1, .key = "a", .name = "", .user = "", .workflow = "", .cluster = ""},
                  {.id = 2, .key = "b", .name = "", .user = "", .workflow = "", .cluster = ""}};
  changes.jobs[0].last_seen = changes.jobs[1].last_seen = kT0;
  const auto as_version_eight = [&] {
    store_.reset();
    Edit(dir_.path() + "/meta.duckdb", {"DELETE FROM f.schema_version WHERE version >= 9",
                                        "ALTER TABLE f.jobs DROP COLUMN last_seen"});
  };
  ASSERT_FW_OK(store_->PutJobs(changes));
  as_version_eight();
  const Micros before = Now();
  Open();
  auto jobs = store_->LoadDimensions().value().jobs;
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[1].key, "b");
  for (const auto& job : jobs) EXPECT_GE(job.last_seen, before - kMicrosPerMinute);
  // The clock that is asked now may be wrong; there was data of a later time.
  const Micros newest = FloorTo(before, kSecond) + 100 * kMicrosPerDay;
  AppendOne(newest);
  ASSERT_FW_OK(store_->Seal(newest + 2 * kMicrosPerHour));
  as_version_eight();
  Open();
  jobs = store_->LoadDimensions().value().jobs;
  ASSERT_EQ(jobs.size(), 2u);
  for (const auto& job : jobs) EXPECT_EQ(job.last_seen, newest);
  changes.jobs[0].last_seen = newest + kMicrosPerDay;
  ASSERT_FW_OK(store_->PutJobs(changes));
  Open();
  EXPECT_EQ(store_->LoadDimensions().value().jobs[0].last_seen, newest + kMicrosPerDay);
  EXPECT_EQ(Sql("SELECT max(version) FROM meta.schema_version"), std::to_string(kSchemaVersion));
}

// Until version 9 nobody knew when a GPU or a model was seen last: now then, or when the newest
// data came.
TEST_F(VersionTest, AVersionNineDirectoryIsMigrated) {
  ASSERT_FW_OK(store_->PutModels({H100()}));
  ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a"), Gpu(2, "GPU-b")}));
  ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a2")}));  // the later record stays the later one
  const auto as_version_nine = [&] {
    store_.reset();
    Edit(dir_.path() + "/meta.duckdb", {"DELETE FROM f.schema_version WHERE version >= 10",
                                        "ALTER TABLE f.entities DROP COLUMN last_seen",
                                        "ALTER TABLE f.models DROP COLUMN last_seen",
                                        "ALTER TABLE f.series DROP COLUMN last_seen"});
  };
  ASSERT_FW_OK(store_->PutSeries({SeriesRecord{7, "t", "steps", "{}"}}));
  as_version_nine();
  const Micros before = Now();
  Open();
  auto d = store_->LoadDimensions().value();
  ASSERT_EQ(d.entities.size(), 2u);
  EXPECT_EQ(d.entities[0].key.uuid, "GPU-a2");
  EXPECT_EQ(d.entities[1].key.uuid, "GPU-b");
  for (const auto& e : d.entities) EXPECT_GE(e.last_seen, before - kMicrosPerMinute);
  ASSERT_EQ(d.models.size(), 1u);
  EXPECT_EQ(d.models[0].name, H100().name);
  EXPECT_GE(d.models[0].last_seen, before - kMicrosPerMinute);
  ASSERT_EQ(d.series.size(), 1u);
  EXPECT_EQ(d.series[0].name, "steps");
  EXPECT_GE(d.series[0].last_seen, before - kMicrosPerMinute);
  const Micros newest = FloorTo(before, kSecond) + 100 * kMicrosPerDay;
  AppendOne(newest);
  ASSERT_FW_OK(store_->Seal(newest + 2 * kMicrosPerHour));
  as_version_nine();
  Open();
  d = store_->LoadDimensions().value();
  for (const auto& e : d.entities) EXPECT_EQ(e.last_seen, newest);
  EXPECT_EQ(d.models[0].last_seen, newest);
  EntityRecord later = Gpu(2, "GPU-b");
  later.last_seen = newest + kMicrosPerDay;
  ASSERT_FW_OK(store_->PutEntities({later}));
  Open();
  EXPECT_EQ(store_->LoadDimensions().value().entities[1].last_seen, newest + kMicrosPerDay);
  EXPECT_EQ(Sql("SELECT max(version) FROM meta.schema_version"), std::to_string(kSchemaVersion));
}

// Until version 11 rollups had no occupancy, and raw rows only where an exporter listed it. Older
// time was not measured: it has no seconds, beside newer hours and after both were merged.
TEST_F(VersionTest, AVersionElevenDirectoryIsMigrated) {
  constexpr Micros kHour = kMicrosPerHour;
  jobs::Changes changes;
  changes.jobs = {{.id = 1, .key = "1", .name = "", .user = "", .workflow = "", .cluster = ""}};
  changes.sets = {{1, {1}}};
  changes.intervals = {{.id = 1, .entity = 1, .job = 1, .from = kT0 - kHour}};
  ASSERT_FW_OK(store_->PutModels({H100()}));
  ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a")}));
  ASSERT_FW_OK(store_->PutJobs(changes));
  // Twenty seconds of an hour, a quarter of the SMs busy; where warps are said, a sixteenth.
  const auto append = [&](int hour, bool warps) {
    BatchBuilder b(fields_);
    for (int second : {10, 20}) {
      std::vector<Value> values = {{kTensorActive, 0.5}, {kSmActive, 0.25}};
      if (warps) values.push_back({kSmOccupancy, 0.0625});
      b.Row(kT0 + hour * kHour + second * kSecond, 1, values, 1);
    }
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + hour * kHour));
  };
  for (int hour = 0; hour < 8; ++hour) append(hour, false);
  ASSERT_FW_OK(store_->Seal(kT0 + 8 * kHour + 2 * kMicrosPerMinute));
  append(8, false);
  ASSERT_FW_OK(store_->RollUp());
  append(8, false);  // not rolled up when the directory is closed
  store_.reset();
  // As version 11 wrote it.
  Edit(dir_.path() + "/hot/seg-20260102T13-0001.duckdb",
       {"DELETE FROM f.schema_version WHERE version >= 12",
        "ALTER TABLE f.job_minute DROP COLUMN sm_occupancy_us",
        "ALTER TABLE f.job_minute DROP COLUMN sm_occupancy_span_us",
        "ALTER TABLE f.gpu_samples DROP COLUMN sm_occupancy"});
  std::vector<std::string> files;
  With(dir_.path() + "/meta.duckdb", [&](duck::Connection* c) {
    ASSERT_FW_OK(c->Execute("DELETE FROM f.schema_version WHERE version >= 12"));
    ASSERT_FW_OK(c->Execute("ALTER TABLE f.files DROP COLUMN hash"));
    ASSERT_FW_OK(c->Execute("DELETE FROM f.fields WHERE column_name = 'sm_occupancy'"));
    auto found = c->Query("SELECT path FROM f.files WHERE columns LIKE '%sm_occupancy%'");
    ASSERT_FW_OK(found);
    found->ForEach([&](const duck::Row& row) {
      files.push_back(dir_.path() + "/" + std::string(row.Text(0)));
    });
    for (const std::string& file : files) {
      ASSERT_FW_OK(c->Execute(
          "COPY (SELECT COLUMNS(c -> c NOT LIKE 'sm_occupancy%') FROM "
          "read_parquet('" +
          file + "', hive_partitioning = false)) TO '" + file + ".old' (FORMAT parquet)"));
      fs::rename(file + ".old", file);
    }
    ASSERT_FW_OK(c->Execute(
        "UPDATE f.files SET columns = regexp_replace(columns, ',sm_occupancy[a-z_]*', '', 'g')"));
  });
  EXPECT_EQ(files.size(), 6u * 8);  // the raw rows and each rollup of eight hours
  Open();
  append(8, true);  // into the segment that was migrated
  append(9, true);
  const Window all = {kT0, kT0 + 10 * kHour}, before = {kT0, kT0 + 8 * kHour};
  const auto check = [&] {
    UsageSums fleet;
    const auto points = store_->FleetSeries(all, kHour).value();
    for (const UsagePoint& p : points) fleet += p.sums;
    for (const UsageSums& s : {fleet, store_->UsageByJob(all).value().at(0).sums,
                               store_->UsageByGpu(all).value().at(0).sums,
                               store_->UsageByJobExact(all).value().at(0).sums}) {
      EXPECT_NEAR(s.ofu.observed_s, 12 * 20, 1e-6);
      EXPECT_NEAR(s.sm_active_span_s, 12 * 20, 1e-6);
      EXPECT_NEAR(s.sm_occupancy_span_s, 2 * 20, 1e-6);
      EXPECT_NEAR(s.sm_occupancy_s, 2 * 20 * 0.0625, 1e-6);
    }
    for (const UsageSums& s : {store_->UsageByJob(before).value().at(0).sums,
                               store_->UsageByJobExact(before).value().at(0).sums}) {
      EXPECT_NEAR(s.ofu.observed_s, 8 * 20, 1e-6);
      EXPECT_EQ(s.sm_occupancy_span_s, 0);
    }
    EXPECT_EQ(Sql("SELECT count(*), count(sm_occupancy), max(sm_occupancy), min(sm_active) FROM "
                  "job_minutes"),
              "10|2|0.0625|0.25");
  };
  ASSERT_FW_OK(store_->RollUp());
  check();
  ASSERT_FW_OK(store_->Seal(kT0 + 10 * kHour + 2 * kMicrosPerMinute));  // old and new files
  EXPECT_EQ(store_->stats().hot_segments, 0u);
  check();
  ASSERT_FW_OK(store_->Seal(kT0 + 30 * kHour));  // one file of both
  EXPECT_EQ(Sql("SELECT count(*) FROM sealed_files WHERE \"table\" = 'gpu_hour'"), "1");
  check();
  Open();
  check();
  EXPECT_EQ(Sql("SELECT max(version) FROM meta.schema_version"), std::to_string(kSchemaVersion));
}

// A field of unknown type is held in the narrowest column that takes its values exactly, in a
// segment of today as in one that version 5 began, and says the same whatever that is.
TEST_F(VersionTest, ColumnsOfWholeNumbersGrowAndThoseOfVersionFiveGoOn) {
  const std::string segment = dir_.path() + "/hot/seg-20260102T05-0001.duckdb";
  const FieldId grown = fields_.AddDynamic("grown").value().id,
                other = fields_.AddDynamic("other").value().id;
  std::string said;
  Micros at = kT0;
  const auto append = [&](double value, const char* written) {
    at += kSecond;
    BatchBuilder b(fields_);
    b.Row(at, 1, {{grown, value}, {other, 7}});
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, at));
    said += (said.empty() ? "" : " ") + std::string(written);
    EXPECT_EQ(Sql("SELECT string_agg(grown::VARCHAR, ' ' ORDER BY ts), typeof(any_value(grown)), "
                  "sum(other) FROM samples"),
              said + "|DOUBLE|" + std::to_string(7 * (at - kT0) / kSecond));
  };
  const auto type = [&](const char* column) {
    store_.reset();
    std::string found = TypeOf(segment, column);
    Open();
    return found;
  };
  append(5, "5.0");
  append(-999'999'999, "-999999999.0");
  EXPECT_EQ(type("grown"), "DECIMAL(9,0)");
  append(1'000'000'000, "1000000000.0");
  EXPECT_EQ(type("grown"), "DECIMAL(18,0)");
  append(-9007199254740992.0, "-9007199254740992.0");
  EXPECT_EQ(type("grown"), "DECIMAL(18,0)");
  append(3, "3.0");
  // As version 5 wrote it.
  store_.reset();
  Edit(dir_.path() + "/meta.duckdb", {"DELETE FROM f.schema_version WHERE version >= 6"});
  Edit(segment, {"DELETE FROM f.schema_version WHERE version >= 6",
                 "ALTER TABLE f.gpu_samples ALTER grown SET DATA TYPE BIGINT",
                 "ALTER TABLE f.gpu_samples ALTER other SET DATA TYPE BIGINT"});
  Open();
  append(2'000'000'000, "2000000000.0");
  EXPECT_EQ(type("grown"), "BIGINT");
  append(0.5, "0.5");
  append(9007199254740994.0, "9007199254740994.0");
  EXPECT_EQ(type("grown"), "DOUBLE");
  EXPECT_EQ(type("other"), "BIGINT");
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  EXPECT_EQ(Sql("SELECT string_agg(grown::VARCHAR, ' ' ORDER BY ts), typeof(any_value(other)), "
                "sum(other) FROM samples"),
            said + "|DOUBLE|56");
}

// Where many rows are there already, the hour goes on in another file; also after a restart, and
// sealed into the same answer.
TEST_F(VersionTest, ColumnsThatGrowInALargeFileGoOnInAnother) {
  options_.max_rewritten_values = 3;
  Open();
  const FieldId grown = fields_.AddDynamic("grown").value().id;
  const auto append = [&](int at, double value) {
    BatchBuilder b(fields_);
    b.Row(kT0 + at * kSecond, 1, {{grown, value}});
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + at * kSecond));
  };
  const std::string query =
      "SELECT string_agg(grown::VARCHAR, ' ' ORDER BY ts), typeof(any_value(grown)) FROM samples";
  const std::string first = dir_.path() + "/hot/seg-20260102T05-0001.duckdb",
                    second = dir_.path() + "/hot/seg-20260102T05-0002.duckdb";
  for (int at : {1, 2, 3}) {
    append(at, at);
    EXPECT_EQ(Sql("SELECT count(*) FROM samples"),
              std::to_string(at));  // what is asked for goes into the file first
  }
  append(4, 4e9);  // three values to write anew
  EXPECT_EQ(Sql(query), "1.0 2.0 3.0 4000000000.0|DOUBLE");
  EXPECT_FALSE(fs::exists(second));
  append(5, 0.5);  // four
  EXPECT_EQ(Sql(query), "1.0 2.0 3.0 4000000000.0 0.5|DOUBLE");
  EXPECT_TRUE(fs::exists(second));
  append(6, 6);
  store_.reset();
  EXPECT_EQ(TypeOf(first, "grown"), "DECIMAL(18,0)");
  EXPECT_EQ(TypeOf(second, "grown"), "DOUBLE");
  Open();
  append(7, 7);
  EXPECT_EQ(Sql(query), "1.0 2.0 3.0 4000000000.0 0.5 6.0 7.0|DOUBLE");
  EXPECT_FALSE(fs::exists(dir_.path() + "/hot/seg-20260102T05-0003.duckdb"));
  ASSERT_FW_OK(store_->RollUp());
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  EXPECT_FALSE(fs::exists(first) || fs::exists(second));
  EXPECT_EQ(Sql(query), "1.0 2.0 3.0 4000000000.0 0.5 6.0 7.0|DOUBLE");
}

TEST(MigrateTest, ListsThatDoNotEndAtTheSchemaVersionAreRefused) {
  ASSERT_FW_OK(duck::CheckMigrations(duck::MetaMigrations(), kSchemaVersion));
  ASSERT_FW_OK(duck::CheckMigrations(duck::SegmentMigrations(), kSchemaVersion));
  const std::vector<duck::Migration> two = {{1, "first", {}}, {2, "second", {}}},
                                     gap = {{1, "first", {}}, {3, "third", {}}};
  ASSERT_FW_OK(duck::CheckMigrations(two, 2));
  EXPECT_NE(duck::CheckMigrations(two, 3).message().find("kSchemaVersion is 3"),
            absl::string_view::npos);
  EXPECT_FALSE(duck::CheckMigrations(two, 1).ok());
  EXPECT_FALSE(duck::CheckMigrations(gap, 3).ok());
  EXPECT_FALSE(duck::CheckMigrations({}, 1).ok());
}

TEST(MigrateTest, StepsRunInOrderOnceAndWholly) {
  TempDir dir;
  const std::string path = dir.path() + "/x.duckdb";
  using duck::Migration;
  const std::vector<Migration> one = {
      {1, "first", {"CREATE TABLE {}.t(i INTEGER)", "INSERT INTO {}.t VALUES (1)"}}};
  std::vector<Migration> three = one;
  three.push_back(
      {2, "second", {"ALTER TABLE {}.t ADD COLUMN j INTEGER", "UPDATE {}.t SET j = i * 10"}});
  three.push_back({3, "third", {"UPDATE {}.t SET j = j + 1"}});
  std::vector<Migration> broken = three;
  broken.push_back({4, "fourth", {"UPDATE {}.t SET j = 0", "this is no SQL"}});
  duck::Engine engine({.directory = dir.path(), .spill_directory = ""});
  ASSERT_FW_OK(
      engine.Restart([&](duck::Connection* c) { return duck::AttachFile(c, "x", path, false); }));
  const duck::Engine::Lease lease(engine, duck::Engine::Use::kWrite);
  ASSERT_FW_OK(lease.status());
  duck::Connection* c = lease.get();
  const auto value = [&](const char* sql) { return c->QueryInt64(sql).value(); };
  ASSERT_FW_OK(duck::Migrate(c, "x", path, one, false));
  EXPECT_EQ(value("SELECT max(version) FROM x.schema_version"), 1);
  EXPECT_FALSE(duck::Migrate(c, "x", path, three, true).ok()) << "read-only";
  ASSERT_FW_OK(duck::Migrate(c, "x", path, three, false));
  EXPECT_EQ(value("SELECT j FROM x.t"), 11);
  ASSERT_FW_OK(duck::Migrate(c, "x", path, three, false));
  EXPECT_EQ(value("SELECT j FROM x.t"), 11) << "not again";
  const absl::Status failed = duck::Migrate(c, "x", path, broken, false);
  EXPECT_FALSE(failed.ok());
  EXPECT_NE(failed.message().find("schema version 4 (fourth)"), absl::string_view::npos) << failed;
  EXPECT_EQ(value("SELECT j FROM x.t"), 11) << "all of a migration or nothing";
  EXPECT_EQ(value("SELECT max(version) FROM x.schema_version"), 3);
  EXPECT_FALSE(duck::Migrate(c, "x", path, one, false).ok()) << "newer than known";
}
TEST_F(VersionTest, AVersionTenDirectoryGetsTheSchedulersBooks) {
  store_.reset();
  Edit(dir_.path() + "/meta.duckdb", {"DELETE FROM f.schema_version WHERE version >= 11",
                                      "DROP TABLE f.attempts", "DROP TABLE f.nodes"});
  Open();
  jobs::BookChanges books;
  books.attempts.emplace_back().id = 1;
  books.nodes.emplace_back().id = 1;
  ASSERT_FW_OK(store_->PutBooks(books));
  EXPECT_EQ(store_->LoadDimensions().value().attempts.size(), 1u);
  EXPECT_EQ(store_->LoadDimensions().value().nodes.size(), 1u);
}

TEST_F(VersionTest, AttemptsOfVersionThirteenHaveNoListOfGpus) {
  jobs::BookChanges books;
  books.attempts.emplace_back().id = 1;
  books.attempts.back().gpu_list = "n1:nvidia0-7";
  ASSERT_FW_OK(store_->PutBooks(books));
  store_.reset();
  Edit(dir_.path() + "/meta.duckdb", {"DELETE FROM f.schema_version WHERE version >= 14",
                                      "ALTER TABLE f.attempts DROP COLUMN gpu_list"});
  Open();
  ASSERT_EQ(store_->LoadDimensions().value().attempts.size(), 1u);
  EXPECT_EQ(store_->LoadDimensions().value().attempts[0].gpu_list, "");
  ASSERT_FW_OK(store_->PutBooks(books));
  EXPECT_EQ(store_->LoadDimensions().value().attempts[0].gpu_list, "n1:nvidia0-7");
}

}  // namespace
}  // namespace flopwatch::store::testing
