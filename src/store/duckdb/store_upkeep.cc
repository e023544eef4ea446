// The part of DuckDbStore that works on what is stored: rolling up, sealing hours, merging days,
// retention.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "store/duckdb/application.h"
#include "store/duckdb/fault_point.h"
#include "store/duckdb/roller.h"
#include "store/duckdb/sealer.h"
#include "store/duckdb/store.h"

namespace flopwatch::store::duck {
namespace {

// Values sorted at once while sealing, per MiB of the engine's memory: rows, sort keys and output
// stay well within it.
constexpr uint64_t kSealValuesPerMb = 1 << 16;

}  // namespace

StatusOr<std::unique_lock<std::mutex>> DuckDbStore::HoldWrites() {
  std::unique_lock lock(write_mutex_, std::defer_lock);
  while (!lock.try_lock()) {
    if (engine_->needs_restart())
      return absl::UnavailableError("the store is being opened again after an error");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return lock;
}

InputScales DuckDbStore::Scales() const { return ScalesOf(dimensions_); }

Status DuckDbStore::RollUpSegment(Connection* c, const Segment& segment) {
  auto it = progress_.find(segment.name());
  if (it == progress_.end()) {
    FW_ASSIGN_OR_RETURN(const Watermarks marks, ReadWatermarks(c, segment));
    it = progress_.emplace(segment.name(), marks).first;
  }
  FW_RETURN_IF_ERROR(duck::RollUp(c, segment, Level::kJob, Scales(), &it->second));
  return duck::RollUp(c, segment, Level::kPresent, Scales(), &it->second);
}

Status DuckDbStore::RollUp() {
  std::lock_guard maintaining(maintain_mutex_);
  if (MonotonicNow() - staged_since_ >= options_.journal_age) FW_RETURN_IF_ERROR(Settle());
  Micros arrival = 0;
  FW_RETURN_IF_ERROR(Write("rolling up", Engine::Use::kUpkeep, [&](Connection* c) -> Status {
    const std::shared_ptr<const Layout> now = layout();
    for (const auto& segment : now->hot) {
      const Micros last = segment->Describe().last_arrival;
      FW_RETURN_IF_ERROR(RollUpSegment(c, *segment));
      Checkpoint(c, segment->alias(), segment->path());
      arrival = std::max(arrival, last);
    }
    FW_ASSIGN_OR_RETURN(const auto writing, HoldWrites());
    FW_RETURN_IF_ERROR(dimensions_.CompactIfWorthwhile(c));
    Checkpoint(c, "meta", meta_path_);
    return absl::OkStatus();
  }));
  std::lock_guard lock(state_mutex_);
  stats_.rolled_up_to_arrival = std::max(stats_.rolled_up_to_arrival, arrival);
  return absl::OkStatus();
}

Status DuckDbStore::SealSegment(Connection* c, const std::shared_ptr<Segment>& segment) {
  {
    FW_ASSIGN_OR_RETURN(const auto writing,
                        HoldWrites());  // an append that has chosen this segment ends first
    segment->Close();
    // Which generations are in is written in the segment: no older journal may outlive it.
    FW_RETURN_IF_ERROR(DropJournalsBut(journal_ == nullptr ? 0 : journal_->generation()));
  }
  FW_RETURN_IF_ERROR(RollUpSegment(c, *segment));
  Sealer sealer(c, options_.directory, options_.memory_limit_mb * kSealValuesPerMb, &next_file_id_);
  FW_ASSIGN_OR_RETURN(const std::vector<SealedFile> files, sealer.WriteSegment(*segment, Scales()));
  FW_RETURN_IF_ERROR(FaultPoint("seal:written"));
  {
    const auto writing = HoldWrites();
    if (const Status s =
            writing.ok() ? RecordFiles(c, files, {}, segment->name()) : writing.status();
        !s.ok()) {
      sealer.Discard(files);
      return s;
    }
  }
  // Committed. If a step below fails, memory and disk no longer agree: everything is set up again
  // from disk.
  const auto finish = [&]() -> Status {
    FW_RETURN_IF_ERROR(FaultPoint("seal:recorded"));
    FW_RETURN_IF_ERROR(InstallFiles(options_.directory, files));
    FW_RETURN_IF_ERROR(FaultPoint("seal:installed"));
    FW_ASSIGN_OR_RETURN(const uint64_t generation, Publish(c, [&](Layout* l) {
                          std::erase(l->hot, segment);
                          for (const SealedFile& f : files)
                            l->files.push_back(std::make_shared<const SealedFile>(f));
                        }));
    std::lock_guard lock(state_mutex_);
    retired_.push_back({generation, segment, {}});
    return absl::OkStatus();
  };
  const Status status = finish();
  if (!status.ok()) engine_->RequireRestart();
  progress_.erase(segment->name());
  return status;
}

Status DuckDbStore::Replace(Connection* c, const std::vector<SealedFile>& added,
                            const SealedFiles& removed) {
  {
    FW_ASSIGN_OR_RETURN(const auto writing, HoldWrites());
    FW_RETURN_IF_ERROR(RecordFiles(c, added, removed, ""));
  }
  const auto finish = [&]() -> Status {
    FW_RETURN_IF_ERROR(FaultPoint("replace:recorded"));
    FW_RETURN_IF_ERROR(InstallFiles(options_.directory, added));
    FW_ASSIGN_OR_RETURN(const uint64_t generation, Publish(c, [&](Layout* l) {
                          const std::set<std::shared_ptr<const SealedFile>> gone(removed.begin(),
                                                                                 removed.end());
                          std::erase_if(l->files, [&](const auto& f) { return gone.contains(f); });
                          for (const SealedFile& f : added)
                            l->files.push_back(std::make_shared<const SealedFile>(f));
                        }));
    std::lock_guard lock(state_mutex_);
    retired_.push_back({generation, nullptr, removed});
    return absl::OkStatus();
  };
  const Status status = finish();
  if (!status.ok()) engine_->RequireRestart();
  return status;
}

Status DuckDbStore::Merge(Connection* c, const SealedFiles& inputs,
                          const std::function<StatusOr<std::vector<SealedFile>>(Sealer*)>& write) {
  Sealer sealer(c, options_.directory, options_.memory_limit_mb * kSealValuesPerMb, &next_file_id_);
  FW_ASSIGN_OR_RETURN(const std::vector<SealedFile> merged, write(&sealer));
  if (const Status s = Replace(c, merged, inputs); !s.ok()) {
    if (!engine_->needs_restart()) sealer.Discard(merged);
    return s;
  }
  return Reclaim(c);  // at once, or the disk would hold two copies of more than it must
}

Status DuckDbStore::MergeRollupDays(Connection* c, Micros now) {
  for (int r = 0; r < kRollupCount; ++r) {
    const auto rollup = static_cast<Rollup>(r);
    std::map<Micros, SealedFiles> days;
    for (const SealedFiles files = layout()->files; const auto& f : files) {
      if (f->table == SpecOf(rollup).table) days[FloorTo(f->min_ts, kMicrosPerDay)].push_back(f);
    }
    for (const auto& entry : days) {
      const Micros day = entry.first;
      const SealedFiles& files = entry.second;
      const auto unmerged =
          std::count_if(files.begin(), files.end(), [](const auto& f) { return !f->merged; });
      if (day + kMicrosPerDay + kMergeGrace > now || static_cast<size_t>(unmerged) < kMergeFiles)
        continue;
      FW_RETURN_IF_ERROR(
          Merge(c, files, [&](Sealer* sealer) { return sealer->WriteDay(rollup, day, files); }));
    }
  }
  return absl::OkStatus();
}

Status DuckDbStore::MergeRawDays(Connection* c, Micros now) {
  // Only what has not been merged before: a day's late rows are few, and its merged files large.
  std::map<std::pair<Micros, std::string>, SealedFiles> days;
  for (const SealedFiles all = layout()->files; const auto& f : all) {
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
          Merge(c, part, [&](Sealer* sealer) { return sealer->WriteRawDay(day, part); }));
    }
  }
  return absl::OkStatus();
}

Status DuckDbStore::Seal(Micros now) {
  std::lock_guard maintaining(maintain_mutex_);
  const auto is_due = [&](Micros hour) { return hour + kMicrosPerHour + kSealGrace <= now; };
  // Rows of an hour that is due go into its file first; others may wait (Options::journal_age).
  Micros staged = 0;
  {
    std::lock_guard lock(state_mutex_);
    staged = staged_last_arrival_;
  }
  if (staged != 0 && is_due(FloorTo(staged, kMicrosPerHour))) FW_RETURN_IF_ERROR(Settle());
  return Write("sealing", Engine::Use::kUpkeep, [&](Connection* c) -> Status {
    FW_RETURN_IF_ERROR(Reclaim(c));
    std::vector<std::shared_ptr<Segment>> due;
    for (const auto hot = layout()->hot; const auto& segment : hot) {
      if (is_due(segment->hour())) due.push_back(segment);
    }
    for (const auto& segment : due) {
      FW_RETURN_IF_ERROR(SealSegment(c, segment));
      FW_RETURN_IF_ERROR(Reclaim(c));
    }
    FW_RETURN_IF_ERROR(MergeRollupDays(c, now));
    FW_RETURN_IF_ERROR(MergeRawDays(c, now));
    return Reclaim(c);
  });
}

Status DuckDbStore::ApplyRetention(Micros now) {
  std::lock_guard maintaining(maintain_mutex_);
  return Write("applying retention", Engine::Use::kUpkeep, [&](Connection* c) -> Status {
    SealedFiles expired;
    for (const SealedFiles files = layout()->files; const auto& f : files) {
      Micros keep = options_.raw_retention;
      if (f->table == "gpu_minute" || f->table == "job_minute") keep = options_.minute_retention;
      if (f->table == "gpu_hour" || f->table == "job_hour" || f->table == "fleet_minute" ||
          f->table == kApplicationTable)
        keep = options_.hour_retention;
      if (f->max_ts < now - keep) expired.push_back(f);
    }
    if (!expired.empty()) FW_RETURN_IF_ERROR(Replace(c, {}, expired));
    if (now >= next_interval_sweep_) {
      next_interval_sweep_ = now + kIntervalSweep;
      FW_ASSIGN_OR_RETURN(const auto writing, HoldWrites());
      FW_RETURN_IF_ERROR(dimensions_.DropIntervals(c, now - options_.minute_retention));
    }
    return Reclaim(c);
  });
}

}  // namespace flopwatch::store::duck
