#include "store/duckdb/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

#include "base/log.h"
#include "store/duckdb/application.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/insert.h"
#include "store/duckdb/raw_sums.h"
#include "store/duckdb/schema.h"
#include "store/duckdb/usage.h"
#include "store/duckdb/user_sql.h"
#include "store/duckdb/views.h"

namespace flopwatch::store::duck {
namespace fs = std::filesystem;
namespace {

using telemetry::EntityKind;
using telemetry::FieldId;

Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return absl::OkStatus();
  const std::string message = fmt::format("cannot create {}: {}", path, error.message());
  return error == std::errc::permission_denied ? absl::PermissionDeniedError(message)
                                               : absl::InternalError(message);
}

// The lock of a directory, with errors that say who holds it.
StatusOr<FileLock> LockDirectory(const std::string& directory, bool read_only) {
  const std::string path = directory + "/LOCK";
  StatusOr<FileLock> lock =
      FileLock::Acquire(path, read_only ? FileLock::Mode::kShared : FileLock::Mode::kExclusive);
  if (lock.ok() || !absl::IsFailedPrecondition(lock.status())) return lock;
  if (read_only) {
    return absl::FailedPreconditionError(
        fmt::format("{} is in use by a running server ({}): ask the server instead (--server "
                    "http://127.0.0.1:9530)",
                    directory, std::string(lock.status().message())));
  }
  // A shared lock is granted beside readers only.
  const Micros give_up = MonotonicNow() + kWaitForReaders;
  while (FileLock::Acquire(path, FileLock::Mode::kShared).ok()) {
    if (MonotonicNow() > give_up) {
      return absl::FailedPreconditionError(fmt::format(
          "{} is being read by another flopwatch command: wait until it has ended", directory));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    lock = FileLock::Acquire(path, FileLock::Mode::kExclusive);
    if (lock.ok()) return lock;
  }
  return absl::FailedPreconditionError(
      fmt::format("{} is in use by another flopwatch that writes to it ({}): stop that one, or "
                  "choose another data directory",
                  directory, std::string(lock.status().message())));
}

}  // namespace

// --- opening ---

DuckDbStore::DuckDbStore(Options options) : options_(std::move(options)) {
  meta_path_ = options_.directory + "/meta.duckdb";
  layout_ = std::make_shared<const Layout>();
}

DuckDbStore::~DuckDbStore() {
  if (const Status s = Settle(); !s.ok()) {
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
  if (options.directory.empty() || error) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is no usable data directory", options.directory));
  }
  options.directory = absolute.string();
  if (options.directory.find_first_of("*?[]{}") != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("data directory {}: its path has one of *?[]{{}}, which file lists read as "
                    "patterns: choose another",
                    options.directory));
  }
  const std::string& directory = options.directory;
  auto store = std::unique_ptr<DuckDbStore>(new DuckDbStore(options));
  if (options.read_only) {
    if (!fs::exists(store->meta_path_, error)) {
      return absl::NotFoundError(fmt::format(
          "{} holds no flopwatch data: start `flopwatch serve`, or name the right --data-dir",
          directory));
    }
  } else {
    for (const char* folder : {"", "/hot", "/sealed", "/sealed/tmp", "/tmp"}) {
      FW_RETURN_IF_ERROR(MakeFolder(directory + folder));
    }
  }
  FW_ASSIGN_OR_RETURN(store->lock_, LockDirectory(directory, options.read_only));
  const std::string spill = directory + "/tmp";
  if (!options.read_only) {  // what a killed process left
    for (const auto& entry : fs::directory_iterator(spill, error))
      fs::remove_all(entry.path(), error);
  }
  // Several readers at once would share names in one spill folder: they do without.
  store->engine_ =
      std::make_unique<Engine>(EngineOptions{.directory = directory,
                                             .spill_directory = options.read_only ? "" : spill,
                                             .memory_limit_mb = options.memory_limit_mb,
                                             .threads = options.threads});
  FW_RETURN_IF_ERROR(store->engine_->Restart([&](Connection* c) { return store->SetUp(c); }));
  return store;
}

Status DuckDbStore::SetUp(Connection* c) {
  const bool read_only = options_.read_only;
  FW_RETURN_IF_ERROR(RegisterRawSums(c));
  FW_RETURN_IF_ERROR(RegisterInsert(c));
  FW_RETURN_IF_ERROR(AttachFile(c, "meta", meta_path_, read_only));
  FW_RETURN_IF_ERROR(Migrate(c, "meta", meta_path_, MetaMigrations(), read_only));
  FW_RETURN_IF_ERROR(Annotate(dimensions_.Open(c, !read_only), "reading " + meta_path_));
  FW_ASSIGN_OR_RETURN(LoadedFiles loaded, LoadFiles(c, options_.directory, read_only));
  auto next = std::make_shared<Layout>();
  next->directory = options_.directory;
  next->files = std::move(loaded.files);
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.directory + "/hot", error)) {
    const std::string file = entry.path().filename().string();
    Micros hour = 0;
    int sequence = 0;
    if (!file.starts_with("seg-") || !file.ends_with(".duckdb")) continue;
    const std::string name = file.substr(4, file.size() - 4 - 7);
    if (!Segment::ParseName(name, &hour, &sequence)) continue;
    if (std::find(loaded.sealed_segments.begin(), loaded.sealed_segments.end(), name) !=
        loaded.sealed_segments.end()) {
      continue;
    }
    names.insert(name);
  }
  for (const std::string& name : names) {
    StatusOr<std::shared_ptr<Segment>> segment =
        Segment::Open(c, options_.directory, name, dimensions_, read_only);
    if (!segment.ok() && read_only && absl::IsFailedPrecondition(segment.status())) {
      LogWarn("{}", std::string(segment.status().message()));
      continue;
    }
    FW_RETURN_IF_ERROR(segment.status());
    next->hot.push_back(*std::move(segment));
  }
  if (read_only) FW_RETURN_IF_ERROR(ReplayForReading(c, next.get()));
  FW_RETURN_IF_ERROR(CreateViews(c, *next, dimensions_));
  progress_.clear();
  next_file_id_ = std::max(next_file_id_.load(), loaded.next_id);
  {
    std::lock_guard lock(state_mutex_);
    next->generation = layout_->generation + 1;
    layout_ = std::move(next);
    old_layouts_.clear();
    retired_.clear();
  }
  return read_only ? absl::OkStatus() : Replay(c);
}

Status DuckDbStore::EnsureUp() const {
  if (!engine_->needs_restart()) return absl::OkStatus();
  std::lock_guard lock(recover_mutex_);
  if (!engine_->needs_restart()) return absl::OkStatus();
  LogWarn("store {}: opening it again after an error", options_.directory);
  // What is on disk does not change by being read again, so a reader may do this too.
  return engine_->Restart(
      [this](Connection* c) { return const_cast<DuckDbStore*>(this)->SetUp(c); });
}

std::shared_ptr<const Layout> DuckDbStore::layout() const {
  std::lock_guard lock(state_mutex_);
  return layout_;
}

StatusOr<uint64_t> DuckDbStore::Publish(Connection* c, const std::function<void(Layout*)>& change) {
  std::lock_guard publishing(publish_mutex_);
  auto next = std::make_shared<Layout>(*layout());
  change(next.get());
  ++next->generation;
  FW_RETURN_IF_ERROR(CreateViews(c, *next, dimensions_));
  std::lock_guard lock(state_mutex_);
  old_layouts_.emplace_back(layout_->generation, layout_);
  const uint64_t generation = next->generation;
  layout_ = std::move(next);
  return generation;
}

Status DuckDbStore::Reclaim(Connection* c) {
  std::vector<Retired> free;
  {
    std::lock_guard lock(state_mutex_);
    while (!old_layouts_.empty() && old_layouts_.front().second.expired()) old_layouts_.pop_front();
    uint64_t oldest = layout_->generation;
    for (const auto& [generation, old] : old_layouts_) {
      if (!old.expired()) oldest = std::min(oldest, generation);
    }
    const auto in_use = [&](const Retired& r) { return r.generation > oldest; };
    const auto first_free = std::partition(retired_.begin(), retired_.end(), in_use);
    std::move(first_free, retired_.end(), std::back_inserter(free));
    retired_.erase(first_free, retired_.end());
  }
  const auto drop = [&](const Retired& r) -> Status {
    FW_RETURN_IF_ERROR(DeleteFiles(c, options_.directory, r.files));
    if (r.segment == nullptr) return absl::OkStatus();
    FW_RETURN_IF_ERROR(c->Execute("DETACH DATABASE IF EXISTS " + r.segment->alias()));
    if (r.segment->in_memory()) return absl::OkStatus();
    return DeleteSegment(c, options_.directory, r.segment->name());
  };
  for (auto r = free.begin(); r != free.end(); ++r) {
    if (const Status s = drop(*r); !s.ok()) {
      std::lock_guard lock(state_mutex_);
      std::move(r, free.end(), std::back_inserter(retired_));  // the next call tries again
      return s;
    }
  }
  return absl::OkStatus();
}

// --- writing ---

Status DuckDbStore::CheckDisk(std::string_view doing) const {
  FW_ASSIGN_OR_RETURN(const uint64_t free, FreeDiskBytes(options_.directory));
  if (free >= options_.min_free_disk_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{}: the disk of {} has {} MiB free, less than the {} MiB kept in reserve: free "
                  "some space or shorten "
                  "store.raw_retention; nothing that was stored is lost",
                  doing, options_.directory, free >> 20, options_.min_free_disk_bytes >> 20));
}

Status DuckDbStore::Write(std::string_view doing, Engine::Use use, const Work& work) {
  if (options_.read_only) {
    return absl::FailedPreconditionError(fmt::format("{}: the store was opened read-only", doing));
  }
  FW_RETURN_IF_ERROR(EnsureUp());
  FW_ASSIGN_OR_RETURN(Engine::Lease lease, engine_->Acquire(use));
  Status status = work(lease.get());
  if (!status.ok() && lease->fault() == Fault::kMemory) {
    engine_->InterruptBelow(use);
    status = work(lease.get());
  }
  if (status.ok()) return status;
  // A statement that the engine refused leaves everything as it was; anything else may not have.
  if (lease->fault() != Fault::kStatement && lease->fault() != Fault::kNone &&
      lease->fault() != Fault::kMemory) {
    engine_->RequireRestart();
  }
  std::string_view hint = "";
  const bool by_file = lease->fault() == Fault::kDisk ||
                       lease->fault() == Fault::kNone;  // the engine's or the journal's
  if (absl::IsResourceExhausted(status) && by_file) {
    hint =
        ": the disk is full; free some space or shorten store.raw_retention; nothing that was "
        "stored is lost";
  }
  return Status(status.code(), fmt::format("{}: {}{}", doing, std::string(status.message()), hint));
}

void DuckDbStore::Checkpoint(Connection* c, std::string_view alias, const std::string& path) {
  if (MonotonicNow() < next_checkpoint_) return;
  const Status status = CheckpointIfLarge(c, alias, path);
  if (status.ok()) return;
  // What was committed is in the log, so a failure costs a restart of the engine and no rows.
  LogWarn("{}", std::string(status.message()));
  next_checkpoint_ = MonotonicNow() + kCheckpointRetry;
  engine_->RequireRestart();
}

StatusOr<std::shared_ptr<Segment>> DuckDbStore::SegmentFor(Connection* c, Micros arrival) {
  const Micros hour = FloorTo(arrival, kMicrosPerHour);
  const std::shared_ptr<const Layout> now = layout();
  int sequence = 0;
  std::shared_ptr<Segment> found;
  const auto consider = [&](const std::shared_ptr<Segment>& s, bool usable) {
    if (s == nullptr || s->hour() != hour) return;
    Micros ignored = 0;
    int n = 0;
    Segment::ParseName(s->name(), &ignored, &n);
    if (n <= sequence) return;
    sequence = n;
    found = usable ? s : nullptr;
  };
  for (const auto& s : now->hot) consider(s, !s->Describe().closed);
  {
    std::lock_guard lock(state_mutex_);
    for (const Retired& r : retired_) {
      if (r.segment != nullptr && !r.segment->in_memory()) consider(r.segment, false);
    }
  }
  if (found != nullptr) return found;
  FW_ASSIGN_OR_RETURN(found, Segment::Open(c, options_.directory,
                                           Segment::NameOf(arrival, sequence + 1), dimensions_,
                                           /*read_only=*/false));
  FW_RETURN_IF_ERROR(SyncPath(options_.directory + "/hot"));
  FW_RETURN_IF_ERROR(Publish(c, [&](Layout* l) { l->hot.push_back(found); }).status());
  return found;
}

Status DuckDbStore::AppendRows(size_t rows, Micros arrival,
                               const std::function<Status(Connection*, StagedRows*)>& fill,
                               absl::FunctionRef<void(StoreStats*)> count) {
  std::lock_guard lock(write_mutex_);
  const std::string doing = fmt::format("storing {} rows", rows);
  Status status = CheckDisk(doing);
  if (status.ok()) {
    status = Write(doing, Engine::Use::kWrite, [&](Connection* c) -> Status {
      StagedRows added;
      FW_RETURN_IF_ERROR(fill(c, &added));
      const bool due =
          staged_.bytes() >= kAbsorbBytes ||
          FloorTo(arrival, kMicrosPerHour) != FloorTo(staged_arrival_, kMicrosPerHour) ||
          MonotonicNow() - staged_since_ >= std::max(kAbsorbAge, options_.journal_age) ||
          (journal_ != nullptr && journal_->broken());
      if (journal_ != nullptr && due) {
        FW_RETURN_IF_ERROR(Absorb(c));
      } else if (journal_ != nullptr && staged_.rows() >= kAbsorbRows &&
                 (staged_.rows() >= kAbsorbEnoughRows || staged_.bytes() >= kAbsorbEnoughBytes)) {
        FW_RETURN_IF_ERROR(AbsorbWholeGroups(c));
      }
      return Stage(added, arrival);
    });
  }
  std::lock_guard state(state_mutex_);
  if (!status.ok()) {
    ++stats_.append_errors;
    stats_.last_error = std::string(status.message());
    return status;
  }
  stats_.rows_appended += rows;
  ++stats_.batches;
  count(&stats_);
  return status;
}

Status DuckDbStore::Append(const telemetry::SampleBatch& batch,
                           const telemetry::FieldRegistry& registry, Micros arrival) {
  if (batch.rows.empty()) return absl::OkStatus();
  if (batch.stride <= 0 ||
      batch.values.size() != batch.rows.size() * static_cast<size_t>(batch.stride)) {
    return absl::InvalidArgumentError(fmt::format("a batch of {} rows with stride {} has {} values",
                                                  batch.rows.size(), batch.stride,
                                                  batch.values.size()));
  }
  telemetry::FieldMask present;
  uint64_t samples = 0;
  for (const telemetry::RowHeader& h : batch.rows) {
    for (size_t w = 0; w < present.words.size(); ++w) {
      present.words[w] |= h.present.words[w];
      samples += static_cast<uint64_t>(__builtin_popcountll(h.present.words[w]));
    }
  }
  uint64_t unstorable = 0;
  const auto fill = [&](Connection* c, StagedRows* added) -> Status {
    // What rollups read is there from the start, so their SQL need not ask.
    if (batch.kind == EntityKind::kGpu || batch.kind == EntityKind::kGpuInstance) {
      for (std::string_view input : kInputColumns) {
        const std::optional<FieldId> id = registry.FindColumn(input);
        if (!id.has_value()) return absl::InternalError(Cat("the field registry has no ", input));
        FW_RETURN_IF_ERROR(
            dimensions_.PutField(c, std::string(input), registry.spec(*id)).status());
      }
    }
    std::vector<StagedTable::Source> sources;
    for (int id = 0; id < telemetry::kMaxFields; ++id) {
      if (!present.Test(static_cast<FieldId>(id))) continue;
      if (id >= batch.stride || id >= registry.size()) {
        return absl::InvalidArgumentError(
            fmt::format("a row has field {}, the batch {} fields", id, batch.stride));
      }
      const telemetry::FieldSpec& spec = registry.spec(static_cast<FieldId>(id));
      FW_ASSIGN_OR_RETURN(StoredField field,
                          dimensions_.PutField(c, StoredColumn(spec.column), spec));
      sources.push_back({static_cast<FieldId>(id), std::move(field)});
    }
    unstorable = added->tables[static_cast<size_t>(batch.kind)].Fill(batch, sources);
    return absl::OkStatus();
  };
  return AppendRows(batch.rows.size(), arrival, fill, [&](StoreStats* stats) {
    stats->samples_appended += samples - unstorable;
    stats->unstorable_values += unstorable;
  });
}

Status DuckDbStore::AppendMetrics(absl::Span<const telemetry::MetricRow> rows, Micros arrival) {
  if (rows.empty()) return absl::OkStatus();
  const auto fill = [&](Connection*, StagedRows* added) -> Status {
    added->tables[StagedRows::kMetrics].Fill(rows);
    return absl::OkStatus();
  };
  return AppendRows(rows.size(), arrival, fill,
                    [&](StoreStats* stats) { stats->samples_appended += rows.size(); });
}

Status DuckDbStore::AppendApplication(absl::Span<const telemetry::ApplicationSample> samples,
                                      Micros arrival) {
  if (samples.empty()) return absl::OkStatus();
  for (const telemetry::ApplicationSample& sample : samples)
    FW_RETURN_IF_ERROR(telemetry::CheckSample(sample));
  const auto fill = [&](Connection*, StagedRows* added) -> Status {
    added->tables[StagedRows::kApplication].Fill(samples);
    return absl::OkStatus();
  };
  return AppendRows(samples.size(), arrival, fill,
                    [&](StoreStats* stats) { stats->samples_appended += samples.size(); });
}

// --- describing tables ---

Status DuckDbStore::PutClaims(absl::Span<const telemetry::ApplicationClaim> records) {
  if (records.empty()) return absl::OkStatus();
  for (const telemetry::ApplicationClaim& claim : records)
    FW_RETURN_IF_ERROR(telemetry::CheckClaim(claim));
  std::lock_guard lock(write_mutex_);
  return Write("storing claims", Engine::Use::kWrite,
               [&](Connection* c) { return dimensions_.PutClaims(c, records); });
}

Status DuckDbStore::PutEntities(absl::Span<const EntityRecord> records) {
  if (records.empty()) return absl::OkStatus();
  std::lock_guard lock(write_mutex_);
  return Write("storing GPUs", Engine::Use::kWrite,
               [&](Connection* c) { return dimensions_.PutEntities(c, records); });
}
Status DuckDbStore::PutModels(absl::Span<const ModelRecord> records) {
  if (records.empty()) return absl::OkStatus();
  std::lock_guard lock(write_mutex_);
  return Write("storing GPU models", Engine::Use::kWrite,
               [&](Connection* c) { return dimensions_.PutModels(c, records); });
}
Status DuckDbStore::PutSeries(absl::Span<const SeriesRecord> records) {
  if (records.empty()) return absl::OkStatus();
  std::lock_guard lock(write_mutex_);
  return Write("storing series", Engine::Use::kWrite,
               [&](Connection* c) { return dimensions_.PutSeries(c, records); });
}
Status DuckDbStore::PutJobs(const jobs::Changes& changes) {
  if (changes.empty()) return absl::OkStatus();
  std::lock_guard lock(write_mutex_);
  return Write("storing jobs", Engine::Use::kWrite,
               [&](Connection* c) { return dimensions_.PutJobs(c, changes); });
}

// --- reading ---

template <typename F>
auto DuckDbStore::Read(F&& f) const {
  using Answer = decltype(f(std::declval<Connection*>(), std::declval<const Layout&>()));
  // What there is to read does not change by this, only where it is read from.
  if (const Status s = const_cast<DuckDbStore*>(this)->SettleForReading(); !s.ok())
    return Answer(s);
  const auto once = [&](Fault* fault) {
    StatusOr<Engine::Lease> lease = engine_->Acquire(Engine::Use::kRead);
    if (!lease.ok()) return Answer(lease.status());
    // After the lease: what this layout names stays until the lease is back.
    const std::shared_ptr<const Layout> now = layout();
    Answer answer = f(lease->get(), *now);
    *fault = answer.ok() ? Fault::kNone : (*lease)->fault();
    return answer;
  };
  Fault fault = Fault::kNone;
  Answer answer = once(&fault);
  if (fault == Fault::kFatal || fault == Fault::kInterrupted || engine_->needs_restart()) {
    // The engine went down under this reader. Only user queries are also interrupted for other
    // reasons, and those have another status by now.
    if (!answer.ok() && absl::IsDeadlineExceeded(answer.status())) return answer;
    if (const Status up = EnsureUp(); !up.ok()) return Answer(up);
    if (!answer.ok()) answer = once(&fault);
  }
  return answer;
}

StatusOr<Dimensions> DuckDbStore::LoadDimensions() const {
  return Read([](Connection* c, const Layout&) { return DimensionTables::Load(c); });
}
StatusOr<std::vector<JobUsage>> DuckDbStore::UsageByJob(Window w) const {
  return Read([&](Connection* c, const Layout& l) { return UsageReader(c, l, Scales()).ByJob(w); });
}
StatusOr<std::vector<GpuUsage>> DuckDbStore::UsageByGpu(Window w, int32_t job) const {
  return Read(
      [&](Connection* c, const Layout& l) { return UsageReader(c, l, Scales()).ByGpu(w, job); });
}
StatusOr<std::vector<UsagePoint>> DuckDbStore::FleetSeries(Window w, Micros step) const {
  FW_ASSIGN_OR_RETURN(const std::vector<ModelPoint> by_model, FleetByModel(w, step));
  std::vector<UsagePoint> points;
  for (const ModelPoint& p : by_model) {
    if (points.empty() || points.back().ts != p.ts) points.push_back({p.ts, {}});
    points.back().sums += p.sums;
  }
  return points;
}
StatusOr<std::vector<ModelPoint>> DuckDbStore::FleetByModel(Window w, Micros step) const {
  return Read(
      [&](Connection* c, const Layout& l) { return UsageReader(c, l, Scales()).Fleet(w, step); });
}
StatusOr<std::vector<UsagePoint>> DuckDbStore::JobSeries(int32_t job, Window w, Micros step) const {
  return Read([&](Connection* c, const Layout& l) {
    return UsageReader(c, l, Scales()).Job(job, w, step);
  });
}
StatusOr<std::vector<UsagePoint>> DuckDbStore::GpuSeries(int32_t entity, Window w,
                                                         Micros step) const {
  return Read([&](Connection* c, const Layout& l) {
    return UsageReader(c, l, Scales()).Gpu(entity, w, step);
  });
}
StatusOr<std::vector<JobUsage>> DuckDbStore::UsageByJobExact(Window w) const {
  return Read(
      [&](Connection* c, const Layout& l) { return UsageReader(c, l, Scales()).ByJobExact(w); });
}
StatusOr<std::vector<JobUsage>> DuckDbStore::UsageByJobWindows(absl::Span<const JobWindow> windows,
                                                               bool exact) const {
  return Read([&](Connection* c, const Layout& l) {
    UsageReader reader(c, l, Scales());
    return exact ? reader.ByJobWindowsExact(windows) : reader.ByJobWindows(windows);
  });
}
StatusOr<std::vector<telemetry::ApplicationClaim>> DuckDbStore::Claims() const {
  return Read([](Connection* c, const Layout&) { return LoadClaims(c); });
}
StatusOr<std::vector<ApplicationUsage>> DuckDbStore::ApplicationByClaim(
    Window w, absl::Span<const int32_t> claims) const {
  return Read(
      [&](Connection* c, const Layout& l) { return ApplicationReader(c, l).ByClaim(w, claims); });
}
StatusOr<std::vector<ApplicationPoint>> DuckDbStore::ApplicationSeries(
    Window w, absl::Span<const int32_t> claims, Micros step) const {
  return Read([&](Connection* c, const Layout& l) {
    return ApplicationReader(c, l).Series(w, claims, step);
  });
}
StatusOr<std::vector<telemetry::ApplicationSample>> DuckDbStore::ApplicationSamples(
    Window w, absl::Span<const int32_t> claims, uint64_t limit) const {
  return Read([&](Connection* c, const Layout& l) {
    return ApplicationReader(c, l).Samples(w, claims, limit);
  });
}
StatusOr<QueryResult> DuckDbStore::UserSql(std::string_view sql, QueryLimits limits) const {
  return Read([&](Connection* c, const Layout&) { return RunUserSql(c, sql, limits); });
}

StoreStats DuckDbStore::stats() const {
  const std::shared_ptr<const Layout> now = layout();
  StoreStats stats;
  Extent all;
  {
    std::lock_guard lock(state_mutex_);
    stats = stats_;
    all = staged_extent_;
    stats.hot_bytes = journal_bytes_;
    stats.last_arrival = staged_last_arrival_;
  }
  for (const auto& segment : now->hot) {
    ++stats.hot_segments;
    stats.hot_bytes += FileBytes(segment->path()) + WalBytes(segment->path());
    const SegmentState state = segment->Describe();
    for (const auto& table : state.samples) {
      if (table.extent.rows > 0)
        all.Add(table.extent.min_ts, table.extent.max_ts, table.extent.rows);
    }
    stats.last_arrival = std::max(stats.last_arrival, state.last_arrival);
  }
  for (const auto& f : now->files) {
    ++stats.sealed_files;
    stats.sealed_bytes += f->bytes;
    if (f->table == "samples") all.Add(f->min_ts, f->max_ts, f->rows);
  }
  stats.application_kept = options_.hour_retention;
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
