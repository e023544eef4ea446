#include "store/duckdb/upkeep.h"

#include <algorithm>
#include <set>
#include <utility>

#include "store/duckdb/application.h"

namespace flopwatch::store::duck {
namespace {

// Values sorted at once while sealing, per MiB of the engine's memory: rows, sort keys and output
// stay well within it.
constexpr uint64_t kSealValuesPerMb = 1 << 16;

}  // namespace

Upkeep::Upkeep(const Options& options, Engine* engine, DimensionTables* dimensions,
               Layouts* layouts, Stage* stage)
    : options_(options),
      meta_path_(options.directory + "/meta.duckdb"),
      engine_(*engine),
      dimensions_(*dimensions),
      layouts_(*layouts),
      stage_(*stage) {}

// --- steps ---

Status Upkeep::Begin(std::string_view doing) {
  doing_ = doing;
  FW_RETURN_IF_ERROR(stage_.EnsureUp());
  const uint64_t epoch = engine_.epoch();
  if (epoch != epoch_) progress_.clear();
  epoch_ = epoch;
  return absl::OkStatus();
}

Status Upkeep::Beside(Engine::Work work) {
  return engine_.Write(doing_, Engine::Use::kUpkeep, work, epoch_);
}

Status Upkeep::InTurn(Engine::Work work) {
  return stage_.Write(doing_, Engine::Use::kUpkeep, work, epoch_);
}

Status Upkeep::Reclaim() {
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
  // Committed. If a step below fails, memory and disk no longer agree: everything is set up again
  // from disk.
  const Status finished = Beside([&](Connection* c) -> Status {
    FW_RETURN_IF_ERROR(c->FaultPoint(seal ? "seal:recorded" : "replace:recorded"));
    FW_RETURN_IF_ERROR(InstallFiles(c, options_.directory, added));
    if (seal) FW_RETURN_IF_ERROR(c->FaultPoint("seal:installed"));
    const auto change = [&](Layout* l) {
      const std::set<std::shared_ptr<const SealedFile>> files(gone.files.begin(), gone.files.end());
      std::erase(l->hot, gone.segment);
      std::erase_if(l->files, [&](const auto& f) { return files.contains(f); });
      for (const SealedFile& f : added) l->files.push_back(std::make_shared<const SealedFile>(f));
    };
    return layouts_.Publish(c, change, gone);
  });
  if (!finished.ok() && engine_.epoch() == epoch_) engine_.RequireRestart();
  return finished;
}

Status Upkeep::Merge(const SealedFiles& inputs,
                     absl::FunctionRef<StatusOr<std::vector<SealedFile>>(Sealer*)> write) {
  std::vector<SealedFile> merged;
  FW_RETURN_IF_ERROR(Beside([&](Connection* c) -> Status {
    Sealer sealer = SealerOn(c);
    FW_ASSIGN_OR_RETURN(merged, write(&sealer));
    return absl::OkStatus();
  }));
  FW_RETURN_IF_ERROR(Replace(merged, {.segment = nullptr, .files = inputs}));
  return Reclaim();  // at once, or the disk would hold two copies of more than it must
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
  // Only what has not been merged before: a day's late rows are few, and its merged files large.
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
    if (segment->hour() >= horizon) continue;
    FW_RETURN_IF_ERROR(SealSegment(segment));
    FW_RETURN_IF_ERROR(Reclaim());
  }
  FW_RETURN_IF_ERROR(MergeRollupDays(now));
  FW_RETURN_IF_ERROR(MergeRawDays(now));
  return Reclaim();
}

// --- retention ---

Status Upkeep::ApplyRetention(Micros now) {
  MutexLock lock(mutex_);
  FW_RETURN_IF_ERROR(Begin("applying retention"));
  SealedFiles expired;
  for (const SealedFiles files = layouts_.Now()->files; const auto& f : files) {
    Micros keep = options_.raw_retention;
    if (f->table == "gpu_minute" || f->table == "job_minute") keep = options_.minute_retention;
    if (f->table == "gpu_hour" || f->table == "job_hour" || f->table == "fleet_minute" ||
        f->table == kApplicationTable)
      keep = options_.hour_retention;
    if (f->max_ts < now - keep) expired.push_back(f);
  }
  if (!expired.empty())
    FW_RETURN_IF_ERROR(Replace({}, {.segment = nullptr, .files = std::move(expired)}));
  if (now >= next_interval_sweep_) {
    next_interval_sweep_ = now + kIntervalSweep;
    FW_RETURN_IF_ERROR(InTurn([&](Connection* c) {
      return dimensions_.DropIntervals(c, now - options_.minute_retention);
    }));
  }
  return Reclaim();
}

}  // namespace flopwatch::store::duck
