// Opening: locks, read-only, damaged and foreign files, versions, and the describing tables after a
// restart.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "store/duckdb/attach.h"
#include "store/duckdb/engine.h"
#include "store/duckdb/schema.h"
#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

namespace fs = std::filesystem;
using namespace telemetry;  // NOLINT: field names

using OpenTest = StoreTest;

TEST_F(OpenTest, SecondWriterIsToldWhoHoldsTheDirectory) {
  const auto second = OpenDuckDbStore(options_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(second.status().message().find("pid " + std::to_string(::getpid())),
            absl::string_view::npos)
      << second.status();
  EXPECT_NE(second.status().message().find(dir_.path()), absl::string_view::npos);
}

TEST_F(OpenTest, ReaderBesideAServerIsSentToTheServer) {
  Options reader = options_;
  reader.read_only = true;
  const auto store = OpenDuckDbStore(reader);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(store.status().message().find("--server"), absl::string_view::npos) << store.status();
}

TEST_F(OpenTest, ReadersSeeHotRowsInTheLogAndWriteNothing) {
  ASSERT_FW_OK(store_->PutModels({H100()}));
  ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a")}));
  AppendOne();
  AppendOne(kT0 + kMicrosPerHour);
  ASSERT_FW_OK(store_->Seal(kT0 + kMicrosPerHour + 2 * kMicrosPerMinute));
  store_.reset();
  EXPECT_GT(fs::file_size(dir_.path() + "/hot/seg-20260102T06-0001.duckdb.wal"), 0u)
      << "the row is in the log";
  const auto before = [&] {
    std::map<std::string, fs::file_time_type> times;
    for (const auto& e : fs::recursive_directory_iterator(dir_.path()))
      times[e.path().string()] = e.last_write_time();
    return times;
  };
  const auto files = before();
  options_.read_only = true;
  Open();
  const auto beside = OpenDuckDbStore(options_);  // readers share
  EXPECT_TRUE(beside.ok()) << beside.status();
  EXPECT_EQ(Sql("SELECT count(*), min(gpu) FROM samples"), "2|GPU-a");
  EXPECT_EQ(store_->UsageByGpu({kT0, kT0 + 2 * kMicrosPerHour}).value().size(), 1u);
  EXPECT_EQ(store_->UsageByJobExact({kT0, kT0 + 2 * kMicrosPerHour}).value().size(), 1u);
  EXPECT_EQ(store_->LoadDimensions().value().entities.size(), 1u);
  EXPECT_EQ(store_->PutEntities({Gpu(2, "GPU-b")}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(store_->RollUp().ok());
  EXPECT_FALSE(store_->Seal(kT0 + kMicrosPerDay).ok());
  store_.reset();
  EXPECT_EQ(before(), files);
}

// One transaction of more rows than the engine's own row groups have, and fewer than ours: a reader
// that replays the log must not want to write.
TEST_F(OpenTest, ReadersSeeALargeTransactionInTheLog) {
  ASSERT_FW_OK(store_->PutModels({H100()}));
  BatchBuilder b(fields_);
  constexpr int kRows = 150'000;
  for (int i = 0; i < kRows; ++i) {
    b.Row(kT0 + i * kMicrosPerMilli, 1 + i % 1000,
          {{telemetry::kTensorActive, 0.5}, {telemetry::kSmClockMhz, 1830}});
  }
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  ASSERT_FW_OK(store_->RollUp());
  store_.reset();
  options_.read_only = true;
  Open();
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), std::to_string(kRows));
}

TEST_F(OpenTest, AWriterWaitsForReadersAndThenSaysSo) {
  if (!kMayFork) GTEST_SKIP() << "forks with a store open (fixture.h)";
  store_.reset();
  Options reader = options_;
  reader.read_only = true;
  auto open = OpenDuckDbStore(reader);
  ASSERT_FW_OK(open);
  // The reader leaves while the writer waits.
  const pid_t child = ::fork();
  if (child == 0) {  // holds its copy of the lock a little longer than the parent
    ::usleep(200'000);
    ::_exit(0);
  }
  open->reset();
  Open();
  AppendOne();
  int status = 0;
  ::waitpid(child, &status, 0);
}

TEST_F(OpenTest, ReadingWhereNothingIsSaysWhatToDo) {
  store_.reset();
  TempDir empty;
  Options reader = OptionsFor(empty.path() + "/none");
  reader.read_only = true;
  const auto store = OpenDuckDbStore(reader);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(store.status().message().find("flopwatch serve"), absl::string_view::npos);
  EXPECT_FALSE(fs::exists(empty.path() + "/none")) << "reading makes nothing";
}

TEST_F(OpenTest, PathsThatFileListsWouldReadAsPatternsAreRefused) {
  store_.reset();
  EXPECT_EQ(OpenDuckDbStore(OptionsFor(dir_.path() + "/a[1]")).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenDuckDbStore(OptionsFor("")).status().code(), absl::StatusCode::kInvalidArgument);
  options_ = OptionsFor(dir_.path() + "/it's here");
  Open();
  AppendOne();
  ASSERT_FW_OK(store_->Seal(kT0 + kMicrosPerDay));
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "1");
}

// Headers overwritten; then a file of another kind.
constexpr const char* kJunk[] = {
    "junk", "a longer text that is no database at all, and longer still, to fill a header or so"};

void Overwrite(const std::string& path, const char* junk) {
  std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
  f.seekp(0);
  for (int i = 0; i < 300; ++i) f << junk;
}

TEST_F(OpenTest, ADamagedMetaIsNamed) {
  AppendOne();
  store_.reset();
  const std::string path = dir_.path() + "/meta.duckdb", saved = path + ".saved";
  fs::copy_file(path, saved);
  for (const char* junk : kJunk) {
    Overwrite(path, junk);
    const absl::Status status = Fails();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
    EXPECT_NE(status.message().find("from a backup"), absl::string_view::npos) << status;
  }
  fs::remove(path);
  fs::rename(saved, path);
  Open();
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "1");
}

TEST_F(OpenTest, ADamagedHotFileIsKeptAsideAndMayComeBack) {
  AppendOne();
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "1");
  store_.reset();
  const std::string path = dir_.path() + "/hot/seg-20260102T05-0001.duckdb";
  for (const char* junk : kJunk) {
    fs::copy_file(path, path + ".saved");
    Overwrite(path, junk);
    Open();
    EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "0");
    EXPECT_EQ(store_->stats().damaged_files, 1u);
    EXPECT_EQ(store_->stats().damaged_rows, 1u);
    EXPECT_EQ(store_->stats().damaged_from, kT0);
    EXPECT_TRUE(fs::exists(path + ".damaged"));
    store_.reset();
    fs::remove(path + ".damaged");
    fs::remove(path + ".lost");
    fs::rename(path + ".saved", path);
    fs::rename(path + ".wal.damaged", path + ".wal");
    Open();
    EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "1");
    EXPECT_EQ(store_->stats().damaged_files, 0u);
    store_.reset();
  }
}

TEST_F(OpenTest, ANoteOfAFileThatAnOlderVersionSealedIsNoLoss) {
  AppendOne();
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "1");
  const std::string note = dir_.path() + "/hot/seg-20260102T05-0001.duckdb.rows";
  fs::copy_file(note, note + ".kept");
  ASSERT_FW_OK(store_->Seal(kT0 + kHour + 2 * kMicrosPerMinute));
  EXPECT_FALSE(fs::exists(note));
  store_.reset();
  fs::rename(note + ".kept", note);
  Open();
  EXPECT_EQ(store_->stats().damaged_files, 0u);
  EXPECT_FALSE(fs::exists(note));
}

// A new meta.duckdb would call the rows that are there by the names of other GPUs and jobs.
TEST_F(OpenTest, RowsWithoutTheirNamesAreRefusedAndKept) {
  ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a")}));
  AppendOne();
  store_.reset();
  const std::string meta = dir_.path() + "/meta.duckdb";
  for (const bool sealed : {false, true}) {
    Open();
    if (sealed) {
      ASSERT_FW_OK(store_->Seal(kT0 + kHour + 2 * kMicrosPerMinute));
      AppendOne(kT0 + 3 * kHour);
      ASSERT_FW_OK(store_->Seal(kT0 + 5 * kHour));
      EXPECT_EQ(store_->stats().hot_segments, 0u);
    }
    store_.reset();
    fs::create_directories(dir_.path() + "/kept");
    for (const char* end : {"", ".wal"})
      if (fs::exists(meta + end)) fs::rename(meta + end, dir_.path() + "/kept/meta.duckdb" + end);
    const absl::Status status = Fails();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(status.message().find("meta.duckdb"), absl::string_view::npos) << status;
    EXPECT_NE(status.message().find("backup"), absl::string_view::npos) << status;
    EXPECT_FALSE(fs::exists(meta));
    for (const char* end : {"", ".wal"})
      if (fs::exists(dir_.path() + "/kept/meta.duckdb" + end))
        fs::rename(dir_.path() + "/kept/meta.duckdb" + end, meta + end);
  }
  Open();
  EXPECT_EQ(Sql("SELECT count(*), max(gpu) FROM samples"), "2|GPU-a");
  store_.reset();
  // Damaged, it is no better.
  std::ofstream(meta, std::ios::in | std::ios::out | std::ios::binary) << "no database at all";
  const absl::Status status = Fails();
  EXPECT_NE(status.message().find("restore it and its .wal"), absl::string_view::npos) << status;
  EXPECT_EQ(status.message().find("move it"), absl::string_view::npos) << status;
}

TEST_F(OpenTest, StrayFilesAreLeftAlone) {
  AppendOne();
  ASSERT_FW_OK(store_->Seal(kT0 + kMicrosPerDay));
  store_.reset();
  for (const char* path :
       {"/hot/notes.txt", "/hot/seg-x.duckdb", "/sealed/samples/day=2026-01-02/mine.parquet"}) {
    std::ofstream(dir_.path() + path) << "mine";
  }
  std::ofstream(dir_.path() + "/sealed/tmp/left-over.parquet") << "half";
  Open();
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "1");
  EXPECT_TRUE(fs::exists(dir_.path() + "/sealed/samples/day=2026-01-02/mine.parquet"));
  EXPECT_TRUE(fs::exists(dir_.path() + "/hot/seg-x.duckdb"));
  EXPECT_FALSE(fs::exists(dir_.path() + "/sealed/tmp/left-over.parquet"));
}

// --- describing tables ---

TEST_F(OpenTest, DescribingTablesSurviveAndTheLatestRecordCounts) {
  EntityRecord a = Gpu(1, "GPU-a"), b = Gpu(2, "MIG-of-a");
  a.labels.model = "NVIDIA A100-SXM4-80GB";
  a.labels.device = "nvidia0";
  a.labels.pci_bus_id = "00000000:1B:00.0";
  a.labels.driver = "550.54";
  a.sm_count = 108;
  a.first_seen = kT0;
  b.key.kind = EntityKind::kGpuInstance;
  b.key.gpu_instance = 7;
  b.labels.mig_profile = "1g.10gb";
  b.parent = 1;
  ModelRecord known = H100(), unknown;
  known.half_rate = true;
  unknown.id = 2;
  unknown.name = "Mystery \"GPU\" 'X'";
  ASSERT_FW_OK(store_->PutModels({known, unknown}));
  ASSERT_FW_OK(store_->PutEntities({a, b}));
  ASSERT_FW_OK(store_->PutSeries({{1, "t", "n", "l=\"v\""}}));
  jobs::Changes changes;
  changes.jobs = {
      {.id = 1, .key = "123", .name = "train", .user = "ann", .workflow = "w", .cluster = "c"},
      {.id = 2,
       .key = "ns/pod",
       .name = "",
       .user = "",
       .workflow = "",
       .cluster = "",
       .source = jobs::Source::kStaticFile}};
  changes.intervals = {{.id = 10, .entity = 1, .job = 1, .rank = 3, .from = kT0},
                       {.id = 11,
                        .entity = 1,
                        .job = 2,
                        .from = kT0 + 1,
                        .to = kT0 + 2,
                        .source = jobs::Source::kStaticFile}};
  changes.sets = {{1, {1}}, {2, {1, 2}}};
  ASSERT_FW_OK(store_->PutJobs(changes));
  // Later records with the same ids.
  a.labels.node = "moved";
  ASSERT_FW_OK(store_->PutEntities({a}));
  jobs::Changes later;
  later.jobs = {changes.jobs[0]};
  later.jobs[0].user = "bob";
  later.intervals = {changes.intervals[0]};
  later.intervals[0].to = kT0 + 5;
  ASSERT_FW_OK(store_->PutJobs(later));
  for (int round = 0; round < 2; ++round) {
    const auto d = store_->LoadDimensions();
    ASSERT_FW_OK(d);
    ASSERT_EQ(d->entities.size(), 2u);
    EXPECT_EQ(d->entities[0].key, a.key);
    EXPECT_EQ(d->entities[0].labels, a.labels);
    EXPECT_EQ(d->entities[0].sm_count, 108);
    EXPECT_EQ(d->entities[0].first_seen, kT0);
    EXPECT_EQ(d->entities[1].key, b.key);
    EXPECT_EQ(d->entities[1].labels, b.labels);
    EXPECT_EQ(d->entities[1].parent, 1);
    ASSERT_EQ(d->models.size(), 2u);
    EXPECT_EQ(d->models[0].tensor_clock_max_mhz, 1830);
    EXPECT_TRUE(d->models[0].half_rate);
    EXPECT_EQ(d->models[1].name, unknown.name);
    EXPECT_FALSE(d->models[1].tensor_clock_max_mhz.has_value());
    ASSERT_EQ(d->jobs.size(), 2u);
    EXPECT_EQ(d->jobs[0], later.jobs[0]);
    EXPECT_EQ(d->jobs[1], changes.jobs[1]);
    ASSERT_EQ(d->intervals.size(), 2u);
    EXPECT_EQ(d->intervals[0], later.intervals[0]);
    EXPECT_EQ(d->intervals[1], changes.intervals[1]);
    ASSERT_EQ(d->sets.size(), 2u);
    EXPECT_EQ(d->sets[1].jobs, (std::vector<int32_t>{1, 2}));
    ASSERT_EQ(d->series.size(), 1u);
    EXPECT_EQ(d->series[0].labels, "l=\"v\"");
    Open();
  }
  EXPECT_EQ(Sql("SELECT gpu, gpu_instance, node, gpu_index, parent FROM gpus ORDER BY entity"),
            "GPU-a|NULL|moved|1|NULL;MIG-of-a|7|node0|2|GPU-a");
  EXPECT_EQ(Sql("SELECT job, user, source FROM jobs ORDER BY job"),
            "123|bob|labels;ns/pod||static");
  EXPECT_EQ(Sql("SELECT job, gpu, rank, ended - started FROM job_intervals ORDER BY job"),
            "123|GPU-a|3|00:00:00.000005;ns/pod|GPU-a|NULL|00:00:00.000001");
}

TEST_F(OpenTest, OverwrittenRecordsAreCompactedAtOpen) {
  for (int i = 0; i < 50; ++i) {
    std::vector<EntityRecord> records;
    for (int id = 1; id <= 200; ++id)
      records.push_back(Gpu(id, "GPU-" + std::to_string(id) + "-" + std::to_string(i)));
    ASSERT_FW_OK(store_->PutEntities(records));
  }
  EXPECT_EQ(Sql("SELECT count(*) FROM meta.entities"), "10000");
  Open();
  EXPECT_EQ(Sql("SELECT count(*), count(DISTINCT id) FROM meta.entities"), "200|200");
  EXPECT_EQ(store_->LoadDimensions().value().entities[0].key.uuid, "GPU-1-49");
  ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-new")}));
  Open();
  EXPECT_EQ(store_->LoadDimensions().value().entities[0].key.uuid, "GPU-new");
}

TEST_F(OpenTest, OldIntervalsAreForgotten) {
  jobs::Changes changes;
  changes.intervals = {
      {.id = 1, .entity = 1, .job = 1, .from = kT0, .to = kT0 + kSecond},
      {.id = 2, .entity = 1, .job = 1, .from = kT0},
      {.id = 3, .entity = 1, .job = 1, .from = kT0, .to = kT0 + 80 * kMicrosPerDay}};
  ASSERT_FW_OK(store_->PutJobs(changes));
  PassUntil(kT0 + 100 * kMicrosPerDay);
  EXPECT_EQ(store_->stats().retention.intervals, 0u) << "kept as long as hours are";
  EXPECT_EQ(store_->LoadDimensions().value().intervals.size(), 3u);
  // Of many the old ones go with the minutes.
  options_.max_old_intervals = 2;
  store_.reset();
  Open();
  PassUntil(kT0 + 101 * kMicrosPerDay);
  EXPECT_EQ(store_->stats().retention.intervals_before,
            kT0 + 101 * kMicrosPerDay - options_.minute_retention);
  EXPECT_EQ(store_->stats().retention.intervals, 1u);
  const auto left = store_->LoadDimensions().value().intervals;
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].id, 2) << "open";
  EXPECT_EQ(left[1].id, 3);
}

}  // namespace
}  // namespace flopwatch::store::testing
