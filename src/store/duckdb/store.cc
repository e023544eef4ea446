#include "store/duckdb/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "store/duckdb/application.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/directory_copy.h"
#include "store/duckdb/gpu_rows.h"
#include "store/duckdb/insert.h"
#include "store/duckdb/meta_copy.h"
#include "store/duckdb/raw_sums.h"
#include "store/duckdb/schema.h"
#include "store/duckdb/usage.h"
#include "store/duckdb/user_sql.h"

namespace flopwatch::store::duck {
namespace fs = std::filesystem;
namespace {

const Status& StatusOf(const Status& answer) { return answer; }
template <typename T>
const Status& StatusOf(const StatusOr<T>& answer) {
  return answer.status();
}

using telemetry::EntityKind;
using telemetry::FieldId;

// Commands that read a directory come and go: a writer waits so long for the last to leave.
constexpr Micros kWaitForReadingProcesses = 5 * kMicrosPerSecond;

std::string MetaPath(const std::string& directory) { return directory + "/meta.duckdb"; }
std::string SpillPath(const std::string& directory) { return directory + "/tmp"; }

EngineOptions EngineOptionsOf(const Options& options) {
  return {.directory = options.directory,
          // Several readers at once would share names in one spill folder: they do without.
          .spill_directory = options.read_only ? "" : SpillPath(options.directory),
          .memory_limit_mb = options.memory_limit_mb,
          .threads = options.threads,
          .read_only = options.read_only,
          .checkpoint_log_bytes = options.checkpoint_log_bytes,
          .faults = options.faults};
}

Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return flopwatch::StatusOf(error == std::errc::permission_denied
                                 ? absl::StatusCode::kPermissionDenied
                                 : absl::StatusCode::kInternal,
                             {"cannot create " + path, error.message(), ""});
}

// Whether there are rows in a directory: hot ones, journals, or sealed files.
bool HasRows(const std::string& directory) {
  std::error_code error;
  for (const char* folder : {"/hot", "/sealed"}) {
    for (fs::recursive_directory_iterator it(directory + folder, error), end; !error && it != end;
         it.increment(error)) {
      const std::string name = it->path().extension().string();
      if (name == ".duckdb" || name == ".log" || name == ".parquet") return true;
    }
  }
  return false;
}

// The lock of a directory, with errors that say who holds it.
StatusOr<FileLock> LockDirectory(const std::string& directory, bool read_only) {
  const std::string path = directory + "/LOCK";
  StatusOr<FileLock> lock =
      FileLock::Acquire(path, read_only ? FileLock::Mode::kShared : FileLock::Mode::kExclusive);
  if (lock.ok() || !absl::IsFailedPrecondition(lock.status())) return lock;
  if (read_only) {
    return FailedPrecondition(
        "{} is in use by a running server ({}); ask the server instead (--server "
        "http://127.0.0.1:9530)",
        directory, std::string(lock.status().message()));
  }
  // A shared lock is granted beside readers only. They are other processes, and the system has no
  // wait for a file lock that ends after a time, so this one asks again and again.
  const Micros give_up = MonotonicNow() + kWaitForReadingProcesses;
  while (FileLock::Acquire(path, FileLock::Mode::kShared).ok()) {
    if (MonotonicNow() > give_up) {
      return FailedPrecondition(
          "{} is being read by another flopwatch command; wait until it has ended", directory);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    lock = FileLock::Acquire(path, FileLock::Mode::kExclusive);
    if (lock.ok()) return lock;
  }
  return FailedPrecondition(
      "{} is in use by another flopwatch that writes to it ({}); stop that one, or "
      "choose another data directory",
      directory, std::string(lock.status().message()));
}

}  // namespace

// --- opening ---

DuckDbStore::DuckDbStore(Options options)
    : options_(std::move(options)),
      meta_path_(MetaPath(options_.directory)),
      engine_(EngineOptionsOf(options_)),
      layouts_(options_.directory, dimensions_),
      stage_(options_, &engine_, &dimensions_, &layouts_,
             [this](Connection* c) { return SetUp(c); }),
      upkeep_(options_, &engine_, &dimensions_, &layouts_, &stage_) {}

DuckDbStore::~DuckDbStore() {
  if (const Status s = stage_.Settle(); !s.ok()) {
    LogWarn("{}: the rows stay in the journal; the next start takes them in",
            std::string(s.message()));
  }
}

StatusOr<std::unique_ptr<DuckDbStore>> DuckDbStore::Open(Options options) {
  FW_RETURN_IF_ERROR(Annotate(CheckMigrations(MetaMigrations(), kSchemaVersion), "meta.duckdb"));
  FW_RETURN_IF_ERROR(
      Annotate(CheckMigrations(SegmentMigrations(), kSchemaVersion), "hot segments"));
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(options.directory, error);
  if (options.directory.empty() || error)
    return InvalidArgument("'{}' is no usable data directory", options.directory);
  options.directory = absolute.string();
  if (options.directory.find_first_of("*?[]{}") != std::string::npos) {
    return InvalidArgument(
        "data directory {}: its path has one of *?[]{{}}, which file lists read as "
        "patterns; choose another",
        options.directory);
  }
  const std::string& directory = options.directory;
  if (options.read_only) {
    if (!fs::exists(MetaPath(directory), error)) {
      return NotFound(
          "{} holds no flopwatch data: start `flopwatch serve`, or name the right --data-dir",
          directory);
    }
  } else {
    for (const char* folder : {"", "/hot", "/sealed", "/sealed/tmp", "/tmp"})
      FW_RETURN_IF_ERROR(MakeFolder(directory + folder));
  }
  FW_ASSIGN_OR_RETURN(FileLock lock, LockDirectory(directory, options.read_only));
  // A new one would give the numbers of the old GPUs and jobs to new ones.
  if (!options.read_only && FileBytes(MetaPath(directory)) == 0 && HasRows(directory)) {
    return DataLoss(
        "{} has rows and no meta.duckdb, which has the names of their GPUs and jobs: {}", directory,
        WayBack(directory));
  }
  if (!options.read_only) {  // what a killed process left
    for (const auto& entry : fs::directory_iterator(SpillPath(directory), error))
      fs::remove_all(entry.path(), error);
  }
  auto store = std::unique_ptr<DuckDbStore>(new DuckDbStore(std::move(options)));
  store->lock_ = std::move(lock);
  FW_RETURN_IF_ERROR(store->stage_.EnsureUp());
  if (!store->options_.read_only) store->upkeep_.NoteWhatIsThere();
  return store;
}

Status DuckDbStore::SetUp(Connection* c) {
  const bool read_only = options_.read_only;
  FW_RETURN_IF_ERROR(RegisterRawSums(c));
  FW_RETURN_IF_ERROR(RegisterGpuRows(c));
  FW_RETURN_IF_ERROR(RegisterInsert(c));
  FW_RETURN_IF_ERROR(AttachFile(c, "meta", meta_path_, read_only));
  FW_RETURN_IF_ERROR(Migrate(c, "meta", meta_path_, MetaMigrations(), read_only));
  if (const Status s = dimensions_.Open(c, !read_only, meta_path_); absl::IsDataLoss(s)) {
    return DataLoss("{}: {}: {}", meta_path_, MessageOf(s), WayBack(options_.directory));
  } else {
    FW_RETURN_IF_ERROR(Annotate(s, "reading " + meta_path_));
  }
  return layouts_.Open(c, read_only);
}

// --- writing ---

Status DuckDbStore::Append(const telemetry::SampleBatch& batch,
                           const telemetry::FieldRegistry& registry, Micros arrival) {
  if (batch.rows.empty()) return absl::OkStatus();
  if (batch.stride <= 0 ||
      batch.values.size() != batch.rows.size() * static_cast<size_t>(batch.stride)) {
    return InvalidArgument("a batch of {} rows with stride {} has {} values", batch.rows.size(),
                           batch.stride, batch.values.size());
  }
  telemetry::FieldMask present;
  uint64_t samples = 0;
  for (const telemetry::RowHeader& h : batch.rows) {
    for (size_t w = 0; w < present.words.size(); ++w) {
      present.words[w] |= h.present.words[w];
      samples += static_cast<uint64_t>(__builtin_popcountll(h.present.words[w]));
    }
  }
  const auto fill = [&](Connection* c, StagedRows* added) -> StatusOr<Stage::Filled> {
    // What rollups read is there from the start, so their SQL need not ask.
    if (batch.kind == EntityKind::kGpu || batch.kind == EntityKind::kGpuInstance) {
      for (std::string_view input : kInputColumns) {
        const std::optional<FieldId> id = registry.FindColumn(input);
        if (!id.has_value()) return Internal("the field registry has no {}", input);
        FW_RETURN_IF_ERROR(
            dimensions_.PutField(c, std::string(input), registry.spec(*id)).status());
      }
    }
    std::vector<StagedTable::Source> sources;
    for (int id = 0; id < telemetry::kMaxFields; ++id) {
      if (!present.Test(static_cast<FieldId>(id))) continue;
      if (id >= batch.stride || id >= registry.size())
        return InvalidArgument("a row has field {}, the batch {} fields", id, batch.stride);
      const telemetry::FieldSpec& spec = registry.spec(static_cast<FieldId>(id));
      FW_ASSIGN_OR_RETURN(StoredField field,
                          dimensions_.PutField(c, StoredColumn(spec.column), spec));
      sources.push_back({static_cast<FieldId>(id), std::move(field)});
    }
    const uint64_t unstorable = added->tables[static_cast<size_t>(batch.kind)].Fill(batch, sources);
    return Stage::Filled{.samples = samples - unstorable, .unstorable = unstorable};
  };
  return stage_.Append(batch.rows.size(), arrival, fill);
}

Status DuckDbStore::AppendMetrics(absl::Span<const telemetry::MetricRow> rows, Micros arrival) {
  if (rows.empty()) return absl::OkStatus();
  return stage_.Append(rows.size(), arrival,
                       [&](Connection*, StagedRows* added) -> StatusOr<Stage::Filled> {
                         added->tables[StagedRows::kMetrics].Fill(rows);
                         return Stage::Filled{.samples = rows.size()};
                       });
}

Status DuckDbStore::AppendApplication(absl::Span<const telemetry::ApplicationSample> samples,
                                      Micros arrival) {
  if (samples.empty()) return absl::OkStatus();
  for (const telemetry::ApplicationSample& sample : samples)
    FW_RETURN_IF_ERROR(telemetry::CheckSample(sample));
  return stage_.Append(samples.size(), arrival,
                       [&](Connection*, StagedRows* added) -> StatusOr<Stage::Filled> {
                         added->tables[StagedRows::kApplication].Fill(samples);
                         return Stage::Filled{.samples = samples.size()};
                       });
}

template <typename F, typename Records>
Status DuckDbStore::Put(std::string_view doing, F put, const Records& records) {
  if (records.empty()) return absl::OkStatus();
  return stage_.Write(doing, Engine::Use::kWrite,
                      [&](Connection* c) { return (dimensions_.*put)(c, records); });
}

Status DuckDbStore::PutClaims(absl::Span<const telemetry::ApplicationClaim> records) {
  for (const telemetry::ApplicationClaim& claim : records)
    FW_RETURN_IF_ERROR(telemetry::CheckClaim(claim));
  return Put("storing claims", &DimensionTables::PutClaims, records);
}
Status DuckDbStore::PutEntities(absl::Span<const EntityRecord> records) {
  return Put("storing GPUs", &DimensionTables::PutEntities, records);
}
Status DuckDbStore::PutModels(absl::Span<const ModelRecord> records) {
  return Put("storing GPU models", &DimensionTables::PutModels, records);
}
Status DuckDbStore::PutSeries(absl::Span<const SeriesRecord> records) {
  return Put("storing series", &DimensionTables::PutSeries, records);
}
Status DuckDbStore::PutJobs(const jobs::Changes& records) {
  return Put("storing jobs", &DimensionTables::PutJobs, records);
}

Status DuckDbStore::PutBooks(const jobs::BookChanges& records) {
  return Put("storing the scheduler's books", &DimensionTables::PutBooks, records);
}

Status DuckDbStore::RollUp() { return upkeep_.RollUp(); }
Status DuckDbStore::Seal(Micros now) { return upkeep_.Seal(now); }
Status DuckDbStore::ApplyRetention(Micros now) { return upkeep_.ApplyRetention(now); }
Status DuckDbStore::ForgetJobs(const jobs::Forgotten& forgotten) {
  return forgotten.empty() ? absl::OkStatus() : upkeep_.ForgetJobs(forgotten);
}
Status DuckDbStore::ForgetDevices(const ForgottenDevices& forgotten) {
  return forgotten.empty() ? absl::OkStatus() : upkeep_.ForgetDevices(forgotten);
}
Status DuckDbStore::ForgetClaims(absl::Span<const int32_t> claims) {
  return claims.empty() ? absl::OkStatus() : upkeep_.ForgetClaims(claims);
}

// --- reading ---

template <typename F>
auto DuckDbStore::Read(F&& f) {
  using Answer = decltype(f(std::declval<Connection*>(), std::declval<const Layout&>()));
  constexpr int kTries = 2;
  for (int tries = 1;; ++tries) {
    if (const Status up = stage_.EnsureUp(); !up.ok()) return Answer(up);
    const StatusOr<uint64_t> epoch = stage_.MakeReadable();
    if (!epoch.ok()) return Answer(epoch.status());
    Answer answer = Unavailable("the store is being opened again after an error");
    {
      const Engine::Lease lease(engine_, Engine::Use::kRead);
      if (lease.status().ok()) {
        const Layouts::Reading now(layouts_);
        if (const Status s = lease->FaultPoint("read:begun"); !s.ok()) return Answer(s);
        // An instance that is in doubt, or newer than what was made readable, is no answer's
        // ground.
        if (engine_.epoch() == *epoch && !engine_.needs_restart()) answer = f(lease.get(), *now);
        const bool interrupted = lease->fault() == Fault::kInterrupted;
        if (answer.ok() || absl::IsDeadlineExceeded(StatusOf(answer))) return answer;
        // Only whoever opens the engine again, or a writer short of memory, interrupts a reader.
        if (interrupted && tries < kTries) continue;
      }
    }
    if (SaysDamage(StatusOf(answer))) {
      layouts_.Doubt();
      engine_.RequireRestart();
    }
    const bool down = engine_.needs_restart() || engine_.epoch() != *epoch;
    if (!down || tries == kTries) return answer;
  }
}

template <typename F>
auto DuckDbStore::Usage(F&& f) {
  return Read([&](Connection* c, const Layout& l) {
    UsageReader reader(c, l, ScalesOf(dimensions_));
    return f(reader);
  });
}

StatusOr<Dimensions> DuckDbStore::LoadDimensions() {
  return Read([](Connection* c, const Layout&) { return DimensionTables::Load(c); });
}
StatusOr<std::vector<JobUsage>> DuckDbStore::UsageByJob(Window w) {
  return Usage([&](UsageReader& r) { return r.ByJob(w); });
}
StatusOr<std::vector<GpuUsage>> DuckDbStore::UsageByGpu(Window w, int32_t job) {
  return Usage([&](UsageReader& r) { return r.ByGpu(w, job); });
}
StatusOr<std::vector<UsagePoint>> DuckDbStore::FleetSeries(Window w, Micros step) {
  FW_ASSIGN_OR_RETURN(const std::vector<ModelPoint> by_model, FleetByModel(w, step));
  std::vector<UsagePoint> points;
  for (const ModelPoint& p : by_model) {
    if (points.empty() || points.back().ts != p.ts) points.push_back({p.ts, {}});
    points.back().sums += p.sums;
  }
  return points;
}
StatusOr<std::vector<ModelPoint>> DuckDbStore::FleetByModel(Window w, Micros step) {
  return Usage([&](UsageReader& r) { return r.Fleet(w, step); });
}
StatusOr<std::vector<UsagePoint>> DuckDbStore::JobSeries(int32_t job, Window w, Micros step) {
  return Usage([&](UsageReader& r) { return r.Job(job, w, step); });
}
StatusOr<std::vector<UsagePoint>> DuckDbStore::GpuSeries(int32_t entity, Window w, Micros step) {
  return Usage([&](UsageReader& r) { return r.Gpu(entity, w, step); });
}
StatusOr<std::vector<JobPoint>> DuckDbStore::UsageByJobSteps(Window w, Micros step,
                                                             double least_duty) {
  return Usage([&](UsageReader& r) { return r.JobSteps(w, step, least_duty); });
}
StatusOr<std::vector<GpuPoint>> DuckDbStore::UsageByGpuSteps(Window w, Micros step, int32_t job) {
  return Usage([&](UsageReader& r) { return r.GpuSteps(w, step, job); });
}
StatusOr<std::vector<JobUsage>> DuckDbStore::UsageByJobExact(Window w) {
  return Usage([&](UsageReader& r) { return r.ByJobExact(w); });
}
StatusOr<std::vector<JobUsage>> DuckDbStore::UsageByJobWindows(absl::Span<const JobWindow> windows,
                                                               bool exact) {
  return Usage([&](UsageReader& r) {
    return exact ? r.ByJobWindowsExact(windows) : r.ByJobWindows(windows);
  });
}
StatusOr<std::vector<telemetry::ApplicationClaim>> DuckDbStore::Claims() {
  return Read([](Connection* c, const Layout&) { return LoadClaims(c); });
}
StatusOr<std::vector<ApplicationUsage>> DuckDbStore::ApplicationByClaim(
    Window w, absl::Span<const int32_t> claims) {
  return Read(
      [&](Connection* c, const Layout& l) { return ApplicationReader(c, l).ByClaim(w, claims); });
}
StatusOr<std::vector<ApplicationPoint>> DuckDbStore::ApplicationSeries(
    Window w, absl::Span<const int32_t> claims, Micros step) {
  return Read([&](Connection* c, const Layout& l) {
    return ApplicationReader(c, l).Series(w, claims, step);
  });
}
StatusOr<std::vector<telemetry::ApplicationSample>> DuckDbStore::ApplicationSamples(
    Window w, absl::Span<const int32_t> claims, uint64_t limit) {
  return Read([&](Connection* c, const Layout& l) {
    return ApplicationReader(c, l).Samples(w, claims, limit);
  });
}
StatusOr<std::vector<MetricSample>> DuckDbStore::Metrics(Window w, std::string_view name,
                                                         uint64_t limit) {
  return Read([&](Connection* c, const Layout&) -> StatusOr<std::vector<MetricSample>> {
    FW_RETURN_IF_ERROR(CheckWindow(w));
    std::vector<MetricSample> out;
    const std::string named = Cat("name = ", QuoteText(name));
    FW_ASSIGN_OR_RETURN(const int64_t series,
                        c->QueryInt64(Cat("SELECT count(*) FROM dim.series WHERE ", named)));
    if (series == 0) return out;
    FW_RETURN_IF_ERROR(layouts_.BringViews(c));
    FW_ASSIGN_OR_RETURN(
        Result result,
        c->Query(fmt::format("SELECT epoch_us(ts), labels, value FROM metrics WHERE {} AND ts >= "
                             "{} AND ts < {} ORDER BY ts, labels LIMIT {}",
                             named, TimeLiteral(w.from), TimeLiteral(w.to), limit)));
    result.ForEach([&](const Row& row) {
      out.push_back({row.Int64(0), std::string(row.Text(1)), row.Double(2)});
    });
    return out;
  });
}
Status DuckDbStore::VisitGpuRows(Window w, absl::Span<const std::string_view> columns,
                                 RowOrder order, absl::FunctionRef<Status(const GpuRows&)> visit) {
  bool visited = false;
  const auto first_time = [&](const GpuRows& rows) {
    visited = true;
    return visit(rows);
  };
  return Read([&](Connection* c, const Layout& l) -> Status {
    // A visitor that has seen rows cannot see them again.
    if (visited) return Unavailable("the database engine failed while rows were read; ask again");
    return GpuRowReader(c, l, *dimensions_.fields()).Visit(w, columns, order, first_time);
  });
}
StatusOr<QueryResult> DuckDbStore::UserSql(std::string_view sql, QueryLimits limits) {
  return Read([&](Connection* c, const Layout&) -> StatusOr<QueryResult> {
    FW_RETURN_IF_ERROR(layouts_.BringViews(c));
    return RunUserSql(c, sql, limits);
  });
}

Status DuckDbStore::CopyTo(const std::string& directory, const std::string& previous) {
  FW_RETURN_IF_ERROR(stage_.EnsureUp());
  // Checkpoints and the deletion of files are put off to the end.
  const Engine::NoCheckpoints no_checkpoints(engine_);
  FW_ASSIGN_OR_RETURN(const uint64_t epoch, stage_.MakeReadable());
  DirectoryCopy copy(options_, directory, previous);
  FW_RETURN_IF_ERROR(copy.Begin());
  std::optional<Layouts::Reading> now;
  const auto failed = [&](const Status& why) {
    copy.Remove();
    return Annotate(why, "copying what is stored");
  };
  if (const Status s = stage_.InTurn([&] {
        now.emplace(layouts_);
        return copy.Logs(**now);
      });
      !s.ok())
    return failed(s);
  if (const Status s = copy.Files(**now); !s.ok()) return failed(s);
  // Opening it again replays logs, and may write anywhere.
  if (engine_.epoch() != epoch || engine_.needs_restart())
    return failed(Unavailable("the store was opened again after an error meanwhile; ask again"));
  return absl::OkStatus();
}

StoreStats DuckDbStore::stats() const {
  const std::shared_ptr<const Layout> now = layouts_.Now();
  StoreStats stats;
  Extent all = stage_.AddTo(&stats);
  for (const auto& segment : now->hot) {
    ++stats.hot_segments;
    stats.hot_bytes += FileBytes(segment->path()) + WalBytes(segment->path());
    const SegmentState state = segment->Describe();
    for (const auto& table : state.samples) all.Add(table.extent);
    stats.last_arrival = std::max(stats.last_arrival, state.last_arrival);
  }
  for (const auto& f : now->files) {
    ++stats.sealed_files;
    stats.sealed_bytes += f->bytes;
    if (f->table == "samples") all.Add(f->min_ts, f->max_ts, f->rows);
  }
  Extent damaged;
  for (const LostRows& lost : now->lost) {
    ++stats.damaged_files;
    damaged.Add(lost.rows);
  }
  for (const SealedFiles* files : {&now->files, &now->damaged}) {
    for (const auto& f : *files) {
      if (!IsKnownDamaged(*f)) continue;
      ++stats.damaged_files;
      damaged.Add(f->min_ts, f->max_ts, f->rows);
    }
  }
  if (damaged.rows > 0) {
    stats.damaged_rows = damaged.rows;
    stats.damaged_from = damaged.min_ts;
    stats.damaged_to = damaged.max_ts;
  }
  stats.meta_copied = MetaCopiedAt(options_.directory);
  stats.rolled_up_to_arrival = upkeep_.rolled_up_to();
  stats.application_kept = options_.hour_retention;
  stats.retention = upkeep_.retention();
  stats.meta_bytes = FileBytes(meta_path_) + WalBytes(meta_path_);
  if (all.rows > 0) {
    stats.oldest_ts = all.min_ts;
    stats.newest_ts = all.max_ts;
  }
  return stats;
}

}  // namespace flopwatch::store::duck

namespace flopwatch::store {

StatusOr<std::unique_ptr<Store>> OpenDuckDbStore(const Options& options) {
  FW_ASSIGN_OR_RETURN(std::unique_ptr<duck::DuckDbStore> store, duck::DuckDbStore::Open(options));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace flopwatch::store
