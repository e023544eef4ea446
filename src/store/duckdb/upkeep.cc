#include "store/duckdb/upkeep.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "store/duckdb/application.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/meta_copy.h"

namespace flopwatch::store::duck {
namespace {

// Values sorted at once while sealing, per MiB of the engine's memory: rows, sort keys and output
// stay well within it.
constexpr uint64_t kSealValuesPerMb = 1 << 16;

// The guard's mark lies in a small file of its own: it changes once a minute, and a commit in a
// database for each would be most of what is written.
constexpr char kMarkFile[] = "/clock";
constexpr uint64_t kMaxMarkBytes = 4096;
// Moved on by less than this it is not written: what a kill takes back makes things younger.
constexpr Micros kMarkStep = kMicrosPerMinute;

// 0 where there is none, or none that can be read: then the data says how late it is.
Micros ReadMark(const std::string& directory) {
  const StatusOr<std::string> text = ReadFile(directory + kMarkFile, kMaxMarkBytes);
  if (!text.ok()) return 0;
  const StatusOr<Micros> mark =
      ParseTime(std::string_view(*text).substr(0, text->find('\n')), /*now=*/0);
  if (mark.ok()) return *mark;
  LogWarn("{}{} cannot be used: {}", directory, kMarkFile, std::string(mark.status().message()));
  return 0;
}

// A full disk must not keep retention from making room: without the file things are younger.
bool KeepMark(const std::string& directory, Micros mark) {
  const Status kept = WriteFileAtomically(
      directory + kMarkFile,
      FormatTime(mark) + "\nUntil then the store was in use (docs/store.md, Retention).\n");
  if (!kept.ok()) LogWarn("keeping the store's time: {}", std::string(kept.message()));
  return kept.ok();
}

Micros KeptFor(std::string_view table, const Options& options) {
  if (table == "gpu_minute" || table == "job_minute") return options.minute_retention;
  if (table == "gpu_hour" || table == "job_hour" || table == "fleet_minute" ||
      table == kApplicationTable)
    return options.hour_retention;
  return options.raw_retention;
}

}  // namespace

Upkeep::Upkeep(const Options& options, Engine* engine, DimensionTables* dimensions,
               Layouts* layouts, Stage* stage)
    : options_(options),
      meta_path_(options.directory + "/meta.duckdb"),
      engine_(*engine),
      dimensions_(*dimensions),
      layouts_(*layouts),
      stage_(*stage),
      opened_(Monotonic()) {}

// --- steps ---

Status Upkeep::Begin(std::string_view doing) {
  doing_ = doing;
  FW_RETURN_IF_ERROR(stage_.EnsureUp());
  const uint64_t epoch = engine_.epoch();
  if (epoch != epoch_) progress_.clear();
  epoch_ = epoch;
  return absl::OkStatus();
}

Status Upkeep::Doubted(Status status) {
  if (SaysDamage(status)) {
    layouts_.Doubt();
    engine_.RequireRestart();
  }
  return status;
}

Status Upkeep::Beside(Engine::Work work) {
  return Doubted(engine_.Write(doing_, Engine::Use::kUpkeep, work, epoch_));
}

Status Upkeep::InTurn(Engine::Work work) {
  return Doubted(stage_.Write(doing_, Engine::Use::kUpkeep, work, epoch_));
}

Status Upkeep::CopyMeta() {
  // Taken before: what is written meanwhile may be in the copy or not.
  const Copied now = {.again = Monotonic() + kCopyMetaEvery,
                      .fields = dimensions_.fields()->size(),
                      .written = dimensions_.RecordsWritten(),
                      .to_be_deleted = layouts_.ToBeDeleted()};
  const StatusOr<uint64_t> free = FreeDiskBytes(options_.directory);
  const uint64_t needed = FileBytes(meta_path_) + WalBytes(meta_path_) + kCheckpointReserveBytes;
  const Status made =
      free.ok() && *free < needed
          ? ResourceExhausted("copying meta.duckdb: the disk has too little room")
          : Beside([&](Connection* c) { return duck::CopyMeta(c, options_.directory); });
  if (made.ok()) {
    copied_ = now;
    forgotten_since_copy_ = false;
  } else {
    LogWarn("{}; were meta.duckdb lost, the way back is the copy of {}",
            std::string(made.message()), FormatTime(MetaCopiedAt(options_.directory)));
  }
  return made;
}

Status Upkeep::CopyMetaIfOwed() {
  if (!forgotten_since_copy_ && layouts_.ToBeDeleted() == copied_.to_be_deleted)
    return absl::OkStatus();
  const Status made = CopyMeta();
  if (!absl::IsResourceExhausted(made)) return made;
  copied_.to_be_deleted = layouts_.ToBeDeleted();
  forgotten_since_copy_ = false;
  return absl::OkStatus();
}

void Upkeep::CopyMetaIfDue() {
  const bool changed = dimensions_.RecordsWritten() != copied_.written;
  if (dimensions_.fields()->size() == copied_.fields && !(changed && Monotonic() >= copied_.again))
    return;
  if (!CopyMeta().ok()) copied_.again = Monotonic() + kCopyMetaEvery;
}

Status Upkeep::Reclaim() {
  if (!CopyMetaIfOwed().ok()) return absl::OkStatus();  // the next call tries again
  return Beside([&](Connection* c) { return layouts_.Reclaim(c); });
}

Sealer Upkeep::SealerOn(Connection* c) const {
  return Sealer(c, options_.directory, options_.memory_limit_mb * kSealValuesPerMb,
                layouts_.next_file_id());
}

// --- rolling up ---

Status Upkeep::RollUpSegment(Connection* c, const Segment& segment) {
  auto it = progress_.find(segment.name());
  if (it == progress_.end()) {
    FW_ASSIGN_OR_RETURN(const Watermarks marks, ReadWatermarks(c, segment));
    it = progress_.emplace(segment.name(), marks).first;
  }
  const InputScales scales = ScalesOf(dimensions_);
  FW_RETURN_IF_ERROR(duck::RollUp(c, segment, Level::kJob, scales, &it->second));
  return duck::RollUp(c, segment, Level::kPresent, scales, &it->second);
}

Status Upkeep::RollUp() {
  MutexLock lock(mutex_);
  FW_RETURN_IF_ERROR(stage_.SettleIfWaiting(options_.journal_age));
  FW_RETURN_IF_ERROR(Begin("rolling up"));
  Micros arrival = rolled_up_to_;
  FW_RETURN_IF_ERROR(Beside([&](Connection* c) FW_REQUIRES(mutex_) -> Status {
    for (const auto hot = layouts_.Now()->hot; const auto& segment : hot) {
      const Micros last = segment->Describe().last_arrival;
      FW_RETURN_IF_ERROR(RollUpSegment(c, *segment));
      engine_.Checkpoint(c, segment->alias(), segment->path());
      arrival = std::max(arrival, last);
    }
    return absl::OkStatus();
  }));
  rolled_up_to_ = arrival;
  return InTurn([&](Connection* c) -> Status {
    FW_RETURN_IF_ERROR(dimensions_.CompactIfWorthwhile(c));
    engine_.Checkpoint(c, "meta", meta_path_);
    return absl::OkStatus();
  });
}

// --- sealing and merging ---

Status Upkeep::SealSegment(const std::shared_ptr<Segment>& segment) {
  FW_RETURN_IF_ERROR(stage_.Close(doing_, segment.get(), epoch_));
  std::vector<SealedFile> files;
  FW_RETURN_IF_ERROR(Beside([&](Connection* c) FW_REQUIRES(mutex_) -> Status {
    FW_RETURN_IF_ERROR(RollUpSegment(c, *segment));
    FW_ASSIGN_OR_RETURN(files, SealerOn(c).WriteSegment(*segment, ScalesOf(dimensions_)));
    return c->FaultPoint("seal:written");
  }));
  const Status status = Replace(files, {.segment = segment, .files = {}});
  progress_.erase(segment->name());
  return status;
}

Status Upkeep::Replace(const std::vector<SealedFile>& added, const Layouts::Gone& gone) {
  const bool seal = gone.segment != nullptr;
  const Status recorded = InTurn([&](Connection* c) {
    return RecordFiles(c, added, gone.files, seal ? gone.segment->name() : "");
  });
  if (!recorded.ok()) {
    // Where the commit may have happened, opening the engine again finds out and tidies up.
    if (!engine_.needs_restart()) DiscardFiles(options_.directory, added);
    return recorded;
  }
  // The change is committed. If a step below fails, memory and disk no longer agree: everything is
  // set up again from disk.
  const Status finished = Beside([&](Connection* c) -> Status {
    FW_RETURN_IF_ERROR(c->FaultPoint(seal ? "seal:recorded" : "replace:recorded"));
    FW_RETURN_IF_ERROR(InstallFiles(c, options_.directory, added));
    if (seal) FW_RETURN_IF_ERROR(c->FaultPoint("seal:installed"));
    const auto change = [&](Layout* l) {
      const std::set<std::shared_ptr<const SealedFile>> files(gone.files.begin(), gone.files.end());
      std::erase(l->hot, gone.segment);
      for (SealedFiles* kept : {&l->files, &l->damaged})
        std::erase_if(*kept, [&](const auto& f) { return files.contains(f); });
      for (const SealedFile& f : added) l->files.push_back(std::make_shared<const SealedFile>(f));
    };
    layouts_.Publish(change, gone);
    return absl::OkStatus();
  });
  if (!finished.ok() && engine_.epoch() == epoch_) engine_.RequireRestart();
  return finished;
}

Status Upkeep::Merge(const SealedFiles& inputs,
                     absl::FunctionRef<StatusOr<std::vector<SealedFile>>(Sealer*)> write) {
  // Damage must not get a good hash. What is left is merged by a later call.
  SealedFiles damaged;
  for (const auto& f : inputs)
    if (!IsSound(options_.directory, *f)) damaged.push_back(f);
  if (!damaged.empty()) {
    SetAside(damaged);
    return absl::OkStatus();
  }
  std::vector<SealedFile> merged;
  FW_RETURN_IF_ERROR(Beside([&](Connection* c) -> Status {
    Sealer sealer = SealerOn(c);
    FW_ASSIGN_OR_RETURN(merged, write(&sealer));
    return absl::OkStatus();
  }));
  FW_RETURN_IF_ERROR(Replace(merged, {.segment = nullptr, .files = inputs}));
  return Reclaim();  // at once, or the disk would hold two copies of more than it must
}

void Upkeep::SetAside(const SealedFiles& damaged) {
  layouts_.Publish([&](Layout* l) { l->SetAside(damaged); });
}

void Upkeep::CheckFiles(uint64_t bytes) {
  SealedFiles damaged;
  for (const SealedFiles files = layouts_.Now()->files; const auto& f : files) {
    // A reader may have found it so.
    const bool look = IsUnchecked(*f) && bytes > 0;
    if (look) bytes -= std::min(bytes, f->bytes);
    if (IsKnownDamaged(*f) || (look && !IsSound(options_.directory, *f))) damaged.push_back(f);
  }
  if (!damaged.empty()) SetAside(damaged);
}

Status Upkeep::MergeRollupDays(Micros now) {
  for (int r = 0; r < kRollupCount; ++r) {
    const auto rollup = static_cast<Rollup>(r);
    std::map<Micros, SealedFiles> days;
    for (const SealedFiles files = layouts_.Now()->files; const auto& f : files)
      if (f->table == SpecOf(rollup).table) days[FloorTo(f->min_ts, kMicrosPerDay)].push_back(f);
    for (const auto& entry : days) {
      const Micros day = entry.first;
      const SealedFiles& files = entry.second;
      const auto unmerged =
          std::count_if(files.begin(), files.end(), [](const auto& f) { return !f->merged; });
      if (day + kMicrosPerDay + kMergeGrace > now || static_cast<size_t>(unmerged) < kMergeFiles)
        continue;
      FW_RETURN_IF_ERROR(
          Merge(files, [&](Sealer* sealer) { return sealer->WriteDay(rollup, day, files); }));
    }
  }
  return absl::OkStatus();
}

Status Upkeep::MergeRawDays(Micros now) {
  // What has been merged before stays: a day's late rows are few, and its merged files large.
  std::map<std::pair<Micros, std::string>, SealedFiles> days;
  for (const SealedFiles all = layouts_.Now()->files; const auto& f : all) {
    const bool rollup = f->table.ends_with("_minute") || f->table.ends_with("_hour");
    if (!rollup && !f->merged) days[{FloorTo(f->min_ts, kMicrosPerDay), f->table}].push_back(f);
  }
  uint64_t rows = 0;
  for (auto& [key, files] : days) {
    const Micros day = key.first;
    if (day + kMicrosPerDay + kMergeGrace > now) continue;
    // Hours were cut into parts of the fleet that are nested or apart (Sealer::Cut): each run of
    // parts that overlap is merged by itself, which bounds the disk needed meanwhile and what a
    // kill undoes.
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a->min_entity < b->min_entity; });
    for (size_t at = 0; at < files.size();) {
      int32_t reach = files[at]->max_entity;
      uint64_t of_part = 0;
      size_t end = at;
      for (; end < files.size() && files[end]->min_entity <= std::max(reach, files[at]->min_entity);
           ++end) {
        reach = std::max(reach, files[end]->max_entity);
        of_part += files[end]->rows;
      }
      const SealedFiles part(files.begin() + static_cast<ptrdiff_t>(at),
                             files.begin() + static_cast<ptrdiff_t>(end));
      at = end;
      if (part.size() < kMergeFiles) continue;
      if (rows > 0 && rows + of_part > kMergeRowsPerCall) return absl::OkStatus();
      rows += of_part;
      FW_RETURN_IF_ERROR(
          Merge(part, [&](Sealer* sealer) { return sealer->WriteRawDay(day, part); }));
    }
  }
  return absl::OkStatus();
}

Status Upkeep::Seal(Micros now) {
  MutexLock lock(mutex_);
  // Hours of arrival that begin before this are due. Rows of theirs go into their file first;
  // others may wait (Options::journal_age).
  const Micros horizon = FloorTo(now - kSealGrace, kMicrosPerHour);
  FW_RETURN_IF_ERROR(stage_.SettleIfArrivedBefore(horizon));
  FW_RETURN_IF_ERROR(Begin("sealing"));
  FW_RETURN_IF_ERROR(Reclaim());
  for (const auto hot = layouts_.Now()->hot; const auto& segment : hot) {
    const bool ahead = segment->hour() > now + kSealAhead;
    if (segment->hour() >= horizon && !ahead) continue;
    FW_RETURN_IF_ERROR(SealSegment(segment));
    FW_RETURN_IF_ERROR(Reclaim());
  }
  FW_RETURN_IF_ERROR(MergeRollupDays(now));
  FW_RETURN_IF_ERROR(MergeRawDays(now));
  CheckFiles(kCheckedPerCall);
  CopyMetaIfDue();
  return Reclaim();
}

// --- retention ---

Extent Upkeep::Data() const {
  StoreStats ignored;
  Extent all = stage_.AddTo(&ignored);
  const std::shared_ptr<const Layout> now = layouts_.Now();
  for (const auto& segment : now->hot) {
    const SegmentState state = segment->Describe();
    for (const auto& table : state.samples) all.Add(table.extent);
    all.Add(state.metrics);
    all.Add(state.application);
  }
  for (const auto& f : now->files) all.Add(f->min_ts, f->max_ts, f->rows);
  return all;
}

Extent Upkeep::MetricsData() const {
  StoreStats ignored;
  Extent metrics = stage_.AddTo(&ignored);  // and of other tables: they are of the last minutes
  const std::shared_ptr<const Layout> now = layouts_.Now();
  for (const auto& segment : now->hot) metrics.Add(segment->Describe().metrics);
  for (const auto& f : now->files)
    if (f->table == "metrics") metrics.Add(f->min_ts, f->max_ts, f->rows);
  return metrics;
}

Micros Upkeep::NewestData() const {
  const Extent all = Data();
  return all.rows > 0 ? all.max_ts : 0;
}

void Upkeep::NoteWhatIsThere() {
  MutexLock lock(mutex_);
  newest_at_open_ = NewestData();
}

Micros Upkeep::AgeBy(Micros now) {
  if (!guard_.has_value()) {
    kept_mark_ = ReadMark(options_.directory);
    guard_.emplace(kept_mark_ != 0 ? kept_mark_ : std::min(newest_at_open_, now), opened_);
  }
  guard_->Advance(now, Monotonic(), NewestData());
  if (guard_->mark() - kept_mark_ >= kMarkStep && KeepMark(options_.directory, guard_->mark()))
    kept_mark_ = guard_->mark();
  const std::string waits_for(guard_->WaitsFor());
  if (waits_for.empty() == said_waiting_) {
    said_waiting_ = !waits_for.empty();
    if (said_waiting_) {
      LogWarn(
          "retention waits ({}): the clock says {}, the store's own time is {}; what is old is so "
          "at {} (docs/store.md, Retention)",
          waits_for, FormatTime(now), FormatTime(guard_->mark()), FormatTime(guard_->AsOf()));
    } else {
      LogInfo("retention goes by the clock again: {}", FormatTime(now));
    }
  }
  MutexLock lock(retention_mutex_);
  retention_.mark = guard_->mark();
  retention_.as_of = guard_->AsOf();
  retention_.behind = now - retention_.as_of;
  retention_.waits_for = waits_for;
  return retention_.as_of;
}

Status Upkeep::DropFiles(Micros as_of) {
  SealedFiles expired;
  std::map<std::string, Extent> gone;  // by table
  const std::shared_ptr<const Layout> now = layouts_.Now();
  for (const SealedFiles* kept : {&now->files, &now->damaged}) {
    for (const auto& f : *kept) {
      if (f->max_ts >= as_of - KeptFor(f->table, options_)) continue;
      expired.push_back(f);
      gone[f->table].Add(f->min_ts, f->max_ts, f->rows);
    }
  }
  if (expired.empty()) return absl::OkStatus();
  const size_t files = expired.size();
  FW_RETURN_IF_ERROR(Replace({}, {.segment = nullptr, .files = std::move(expired)}));
  uint64_t rows = 0;
  for (const auto& [table, extent] : gone) {
    rows += extent.rows;
    LogInfo("retention: {} rows of {} are gone, {} to {}, older than {} at {}", extent.rows, table,
            FormatTime(extent.min_ts), FormatTime(extent.max_ts),
            FormatDuration(KeptFor(table, options_)), FormatTime(as_of));
  }
  MutexLock lock(retention_mutex_);
  retention_.files += files;
  retention_.rows += rows;
  return absl::OkStatus();
}

Status Upkeep::DropIntervals(Micros as_of) {
  if (Monotonic() < next_interval_sweep_) return absl::OkStatus();
  const Micros minutes = as_of - options_.minute_retention;
  const Micros hours = as_of - std::max(options_.minute_retention, options_.hour_retention);
  // A bill of last quarter is made of intervals; a large fleet has one a job in its books instead.
  const bool many = dimensions_.IntervalRecords() > options_.max_old_intervals;
  const Micros before = many ? minutes : hours;
  int64_t gone = 0;
  DimensionTables::DroppedBooks books;
  FW_RETURN_IF_ERROR(InTurn([&](Connection* c) -> Status {
    FW_ASSIGN_OR_RETURN(gone, dimensions_.DropIntervals(c, before));
    FW_ASSIGN_OR_RETURN(books, dimensions_.DropBooks(c, hours));
    return absl::OkStatus();
  }));
  next_interval_sweep_ = Monotonic() + kIntervalSweep;
  if (gone > 0)
    LogInfo("retention: {} records of intervals of jobs are gone, which ended before {}", gone,
            FormatTime(before));
  if (books.attempts + books.nodes > 0) {
    LogInfo(
        "retention: {} records of attempts of jobs and {} of nodes are gone, which ended "
        "before {}",
        books.attempts, books.nodes, FormatTime(hours));
  }
  MutexLock lock(retention_mutex_);
  // Memory goes by this, and must not drop what a call before this one kept for good.
  retention_.intervals_before = std::max(retention_.intervals_before, before);
  retention_.books_before = hours;
  retention_.minutes_before = minutes;
  retention_.intervals += static_cast<uint64_t>(gone);
  retention_.attempts += static_cast<uint64_t>(books.attempts);
  retention_.nodes += static_cast<uint64_t>(books.nodes);
  return absl::OkStatus();
}

void Upkeep::NoteUnnamed(Micros as_of) {
  // What names a job goes by these; and whatever is still there for another reason holds it too.
  Micros before = as_of - std::max({options_.raw_retention, options_.minute_retention,
                                    options_.hour_retention});
  Micros series = as_of - options_.raw_retention;
  if (const Extent all = Data(); all.rows > 0) before = std::min(before, all.min_ts);
  if (const Extent metrics = MetricsData(); metrics.rows > 0)
    series = std::min(series, metrics.min_ts);
  MutexLock lock(retention_mutex_);
  retention_.unnamed_before = before - kSeenLate;
  retention_.unnamed_series_before = series - kSeenLate;
}

Status Upkeep::ForgetJobs(const jobs::Forgotten& forgotten) {
  MutexLock lock(mutex_);
  FW_RETURN_IF_ERROR(Begin("forgetting jobs"));
  DimensionTables::Deleted gone;
  FW_RETURN_IF_ERROR(InTurn([&](Connection* c) -> Status {
    FW_ASSIGN_OR_RETURN(gone, dimensions_.ForgetJobs(c, forgotten));
    return absl::OkStatus();
  }));
  forgotten_since_copy_ |= gone.jobs + gone.sets > 0;
  FW_RETURN_IF_ERROR(CopyMetaIfOwed());  // before their ids are others'
  if (gone.jobs + gone.sets > 0)
    LogInfo("retention: {} jobs and {} job sets are gone, which nothing has named for long",
            gone.jobs, gone.sets);
  if (forgotten.early > 0) {
    LogWarn(
        "retention: {} jobs were forgotten early, because hardly any more can be remembered: "
        "older hours say that their owner is not known (docs/jobs.md, Limits)",
        forgotten.early);
  }
  MutexLock counts(retention_mutex_);
  // One that the store never had is counted as what it had.
  const uint64_t early = std::min<uint64_t>(forgotten.early, static_cast<uint64_t>(gone.jobs));
  retention_.jobs_early += early;
  retention_.jobs += static_cast<uint64_t>(gone.jobs) - early;
  retention_.job_sets += static_cast<uint64_t>(gone.sets);
  return absl::OkStatus();
}

Status Upkeep::ForgetDevices(const ForgottenDevices& forgotten) {
  MutexLock lock(mutex_);
  FW_RETURN_IF_ERROR(Begin("forgetting GPUs"));
  DimensionTables::DeletedDevices gone;
  FW_RETURN_IF_ERROR(InTurn([&](Connection* c) -> Status {
    FW_ASSIGN_OR_RETURN(gone, dimensions_.ForgetDevices(c, forgotten));
    return absl::OkStatus();
  }));
  forgotten_since_copy_ |= gone.entities + gone.models + gone.series > 0;
  FW_RETURN_IF_ERROR(CopyMetaIfOwed());  // before their ids are others'
  if (gone.entities + gone.models + gone.series > 0)
    LogInfo(
        "retention: {} GPUs, instances and parts of nodes, {} models and {} series are gone, "
        "of which no row is kept",
        gone.entities, gone.models, gone.series);
  MutexLock counts(retention_mutex_);
  retention_.entities += static_cast<uint64_t>(gone.entities);
  retention_.models += static_cast<uint64_t>(gone.models);
  retention_.series += static_cast<uint64_t>(gone.series);
  return absl::OkStatus();
}

Status Upkeep::ForgetClaims(absl::Span<const int32_t> claims) {
  MutexLock lock(mutex_);
  FW_RETURN_IF_ERROR(Begin("forgetting claims of applications"));
  int64_t gone = 0;
  FW_RETURN_IF_ERROR(InTurn([&](Connection* c) -> Status {
    FW_ASSIGN_OR_RETURN(gone, dimensions_.ForgetClaims(c, claims));
    return absl::OkStatus();
  }));
  forgotten_since_copy_ |= gone > 0;
  FW_RETURN_IF_ERROR(CopyMetaIfOwed());  // before their ids are others'
  if (gone > 0)
    LogInfo("retention: {} claims of applications are gone, of which no sample is kept", gone);
  MutexLock counts(retention_mutex_);
  retention_.claims += static_cast<uint64_t>(gone);
  return absl::OkStatus();
}

Status Upkeep::ApplyRetention(Micros now) {
  MutexLock lock(mutex_);
  FW_RETURN_IF_ERROR(Begin("applying retention"));
  const Micros as_of = AgeBy(now);
  if (as_of > 0) {
    FW_RETURN_IF_ERROR(DropFiles(as_of));
    FW_RETURN_IF_ERROR(DropIntervals(as_of));
    NoteUnnamed(as_of);
  }
  return Reclaim();
}

RetentionStats Upkeep::retention() const {
  MutexLock lock(retention_mutex_);
  return retention_;
}

}  // namespace flopwatch::store::duck
