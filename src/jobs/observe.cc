// What the labels of samples say: label intervals open, grow and close.
#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/prefetch.h"
#include "jobs/job_index_impl.h"

namespace flopwatch::jobs {
namespace {

using telemetry::OwnerLabels;

bool Same(absl::Span<const OwnerLabels> kept, absl::Span<const OwnerLabels* const> shown) {
  if (kept.size() != shown.size()) return false;
  for (size_t k = 0; k < kept.size(); ++k)
    if (kept[k] != *shown[k]) return false;
  return true;
}

}  // namespace

EntityState* JobIndex::Impl::FindOrMake(Shard& shard, int32_t entity) const {
  if (entity <= 0 || entity > kMaxEntityId) return nullptr;
  const size_t at = PlaceOf(entity);
  if (at >= shard.entities.size()) shard.entities.resize(at + 1);
  EntityState& e = shard.entities[at];
  if (!e.known) {
    e.known = true;
    e.new_jobs_left = static_cast<int16_t>(std::min(limits.new_jobs_per_entity, 32'000));
  }
  return &e;
}

int64_t JobIndex::Impl::NewIntervalId(int32_t job, int32_t entity) {
  if (interval_count.load(std::memory_order_relaxed) >= limits.max_intervals) {
    refused_intervals.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  interval_count.fetch_add(1, std::memory_order_relaxed);
  catalog.NoteEntity(job, entity);
  return next_interval.fetch_add(1, std::memory_order_relaxed);
}

void JobIndex::Impl::Materialise(EntityState& e) {
  auto& list = e.intervals.mutable_all();
  int left = e.open;
  for (size_t k = list.size(); k-- > 0 && left > 0;) {
    if (!list[k].open) continue;
    --left;
    if (e.tail_to > list[k].to) {
      list[k].to = e.tail_to;
      e.intervals.FixFrom(k);
    }
  }
}

void JobIndex::Impl::CloseOpen(EntityState& e, absl::Span<const int32_t> still_shown, Micros reach,
                               Micros until) {
  int left = e.open;
  auto& list = e.intervals.mutable_all();
  for (size_t k = list.size(); k-- > 0 && left > 0;) {
    Interval& i = list[k];
    if (!i.open) continue;
    --left;
    if (i.to >= reach && i.from <= until &&
        std::binary_search(still_shown.begin(), still_shown.end(), i.job))
      continue;
    i.open = false;
    i.dirty = true;
    --e.open;
  }
}

void JobIndex::Impl::Record(Shard& shard, int32_t entity, EntityState& e, Micros from, Micros ts,
                            bool newest, absl::Span<const int32_t> jobs) {
  Materialise(e);
  if (newest) CloseOpen(e, jobs, from - kMaxGap, ts);
  std::vector<Interval> merged;
  for (const int32_t job : jobs) {
    const size_t at = e.intervals.Cover(job, from, ts, kMaxGap, &merged,
                                        [&] { return NewIntervalId(job, entity); });
    if (at == kNoInterval) continue;
    Interval& i = e.intervals.mutable_all()[at];
    if (newest && !i.open) {
      i.open = true;
      i.dirty = true;
    }
  }
  for (const Interval& gone : merged) Withdraw(shard, entity, gone);
  e.open = 0;  // merging may have taken open intervals away, so count anew
  e.tail_from = std::numeric_limits<Micros>::min();
  for (const Interval& i : e.intervals.all()) {
    if (!i.open) continue;
    ++e.open;
    e.tail_from = std::max(e.tail_from, i.from);
  }
  MarkDirty(shard, e);
}

void JobIndex::Impl::Withdraw(Shard& shard, int32_t entity, const Interval& gone) {
  interval_count.fetch_sub(1, std::memory_order_relaxed);
  if (!gone.persisted) return;
  shard.withdrawn.push_back({.id = gone.id,
                             .entity = entity,
                             .job = gone.job,
                             .rank = gone.rank,
                             .from = gone.from,
                             .to = gone.from,
                             .source = gone.source});
}

void JobIndex::Impl::StaticOwners(const EntityState& e, Micros ts, std::vector<int32_t>* jobs,
                                  Micros* until) {
  jobs->clear();
  *until = kOpenEnd;
  int strongest = 0;
  for (const Interval& i : e.intervals.all()) {
    if (i.source == Source::kLabels) continue;
    if (i.from >= ts) {
      *until = std::min(*until, i.from);
    } else if (i.to >= ts) {
      *until = std::min(*until, i.to);
      if (Strength(i.source) < strongest) continue;
      if (Strength(i.source) > strongest) jobs->clear();
      strongest = Strength(i.source);
      jobs->push_back(i.job);
    }
  }
  std::sort(jobs->begin(), jobs->end());
  jobs->erase(std::unique(jobs->begin(), jobs->end()), jobs->end());
}

std::vector<int32_t> JobIndex::Impl::Resolve(const EntityState& e, Micros ts,
                                             absl::Span<const int32_t> label_jobs,
                                             const StaticTimes& times, Micros* until) {
  std::vector<int32_t> jobs;
  StaticOwners(e, ts, &jobs, until);
  if (!jobs.empty()) return jobs;
  for (const int32_t job : label_jobs) {
    const auto it = times.find(job);
    if (it == times.end()) {
      jobs.push_back(job);
    } else if (ts <= it->second.from) {
      *until = std::min(*until, it->second.from);
    } else if (ts <= it->second.to) {
      jobs.push_back(job);
      *until = std::min(*until, it->second.to);
    }
  }
  return jobs;
}

Micros JobIndex::Impl::SteadyFrom(const EntityState& e, absl::Span<const int32_t> jobs,
                                  const StaticTimes& times) {
  Micros from = e.tail_from;
  for (const int32_t job : jobs)
    if (const auto it = times.find(job); it != times.end()) from = std::max(from, it->second.from);
  for (const Interval& i : e.intervals.all())
    if (!i.open) from = std::max(from, i.to);
  return from;
}

int32_t JobIndex::Impl::ObserveSlow(Shard& shard, int32_t entity, EntityState& e, Micros ts,
                                    Micros span, absl::Span<const OwnerLabels* const> owners,
                                    MayMakeKnown may_make) {
  if (owners.size() > limits.max_owners) {
    refused_labels.fetch_add(owners.size() - limits.max_owners, std::memory_order_relaxed);
    owners = owners.subspan(0, limits.max_owners);
  }
  int budget = e.new_jobs_left;
  std::vector<int32_t> jobs;
  const bool complete = catalog.JobsOf(owners, ts, e.cluster, &budget, may_make, &jobs);
  e.new_jobs_left = static_cast<int16_t>(budget);

  const bool newest = ts >= e.last_ts;
  NoteSeen(e);  // until when it had the set that it may lose now
  if (!jobs.empty() || e.open > 0) {
    Record(shard, entity, e, ts - span, ts, newest, jobs);
  } else {
    e.tail_from = std::numeric_limits<Micros>::min();
  }
  const auto [times, generation] = catalog.static_times();
  Micros until = 0;
  const std::vector<int32_t> stamped = Resolve(e, ts, jobs, *times, &until);
  const int32_t set = catalog.SetOf(stamped, ts, may_make);
  if (newest) {
    e.noted_day = DayOf(ts);
    e.last_ts = ts;
    e.tail_to = ts;
    e.owners.clear();
    for (const OwnerLabels* owner : owners) e.owners.push_back(*owner);
    // With a job or a set refused the next sample asks again: it may be granted what this one was
    // not.
    e.owners_valid = complete && (set != 0 || stamped.empty());
    e.stamped_set = set;
    e.valid_until = until;
    e.generation = generation;
    e.steady_from = until == kOpenEnd && stamped == jobs ? SteadyFrom(e, jobs, *times) : kOpenEnd;
  } else {
    e.owners_valid = false;  // what was worked out from the intervals may not hold any more
  }
  return set;
}

void JobIndex::Impl::CloseSilent(Shard& shard, bool sweep, bool shutdown) {
  for (EntityState& e : shard.entities) {
    if (sweep) {
      e.silent_sweeps =
          e.seen ? int8_t{0} : static_cast<int8_t>(std::min(e.silent_sweeps + 1, kSilentSweeps));
      e.seen = false;
    }
    NoteSeen(e);
    if (e.open == 0 || !(shutdown || e.silent_sweeps >= kSilentSweeps)) continue;
    Materialise(e);
    CloseOpen(e, {}, kOpenEnd);
    e.owners_valid = false;
    MarkDirty(shard, e);
  }
}

void JobIndex::Prefetch(int32_t entity) const {
  Shard& shard = impl_->ShardOf(entity);
  const MutexLock lock(shard.mutex);
  PrefetchToWrite(Impl::Find(shard, entity), offsetof(EntityState, intervals));
}

void JobIndex::SetBack(int32_t entity, Micros ts) {
  Shard& shard = impl_->ShardOf(entity);
  const MutexLock lock(shard.mutex);
  EntityState* e = Impl::Find(shard, entity);
  if (e == nullptr || e->last_ts < ts) return;
  Impl::Materialise(*e);  // until when they were seen by the clock as it was
  e->last_ts = e->tail_to = ts - 1;
  e->steady_from = kOpenEnd;
  e->owners_valid = false;
}

int32_t JobIndex::Observe(int32_t entity, Micros ts, Micros span,
                          absl::Span<const OwnerLabels* const> owners, MayMakeKnown may_make,
                          bool of_the_past) {
  if (ts <= 0 || ts > kMaxTime) return 0;
  span = std::clamp<Micros>(span, 0, kMaxSpan);
  Shard& shard = impl_->ShardOf(entity);
  const MutexLock lock(shard.mutex);
  EntityState* e = impl_->FindOrMake(shard, entity);
  if (e == nullptr) return 0;
  e->seen = e->observed = true;
  if (++e->observations >= kObservationsPerNewJob) {
    e->observations = 0;
    if (e->new_jobs_left < impl_->limits.new_jobs_per_entity) ++e->new_jobs_left;
  }
  if (ts >= e->last_ts && (of_the_past || e->of_the_past)) {
    if (!of_the_past)
      for (Interval& i : e->intervals.mutable_all()) i.dirty |= i.open;  // stored with an end
    e->of_the_past = of_the_past;
    if (e->open > 0) Impl::MarkDirty(shard, *e);
  }
  // Nothing is new: the labels are the same, without a gap, and no static change is due.
  if (e->owners_valid && ts > e->last_ts && ts - span - e->last_ts <= kMaxGap &&
      ts - span >= e->tail_from && ts <= e->valid_until &&
      e->generation == impl_->catalog.static_generation() && Same(e->owners, owners)) {
    e->last_ts = ts;
    e->tail_to = ts;
    return e->stamped_set;
  }
  return impl_->ObserveSlow(shard, entity, *e, ts, span, owners, may_make);
}

}  // namespace flopwatch::jobs
