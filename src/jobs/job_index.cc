#include "jobs/job_index.h"

#include <algorithm>
#include <utility>

#include "jobs/job_index_impl.h"

namespace flopwatch::jobs {

JobIndex::JobIndex() : JobIndex(Limits{}) {}
JobIndex::JobIndex(const Limits& limits, Micros (*monotonic)())
    : impl_(std::make_unique<Impl>(limits, monotonic)) {}
JobIndex::~JobIndex() = default;

void JobIndex::Load(absl::Span<const JobRecord> jobs, absl::Span<const IntervalRecord> intervals,
                    absl::Span<const JobSetRecord> sets, Micros seen_until) {
  impl_->catalog.Load(jobs, sets);
  if (seen_until == 0) {
    for (const IntervalRecord& r : intervals)
      seen_until = std::max(seen_until, r.to == kOpenEnd ? r.from : r.to);
  }
  {
    const MutexLock lock(impl_->static_mutex);
    impl_->loaded_until = seen_until;
  }
  int64_t highest = 0;
  StaticTimes file_times, scheduled_times;
  for (const IntervalRecord& r : intervals) {
    highest = std::max(highest, r.id);
    if (r.to <= r.from) continue;  // withdrawn
    Shard& shard = impl_->ShardOf(r.entity);
    const MutexLock lock(shard.mutex);
    EntityState* e = impl_->FindOrMake(shard, r.entity);
    if (e == nullptr || impl_->interval_count >= impl_->limits.max_intervals) {
      impl_->refused_intervals.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    Interval i{.id = r.id, .from = r.from, .to = r.to, .job = r.job, .rank = r.rank};
    i.source = r.source;
    i.persisted = true;
    if (r.source == Source::kLabels) {
      if (r.to == kOpenEnd) {  // the process died while it was being seen
        i.open = true;
        i.to = std::max(r.from, seen_until);
        ++e->open;
      }
      e->last_ts = std::max(e->last_ts, i.to);
    } else {
      WidenTo(r.source == Source::kScheduler ? &scheduled_times : &file_times, r.job,
              {r.from, r.to});
    }
    e->intervals.Insert(i);
    impl_->catalog.NoteEntity(i.job, r.entity);
    impl_->interval_count.fetch_add(1, std::memory_order_relaxed);
  }
  impl_->next_interval = std::max<int64_t>(impl_->next_interval, highest + 1);
  const MutexLock lock(impl_->static_mutex);
  impl_->file_times = std::move(file_times);
  impl_->scheduled_times = std::move(scheduled_times);
  impl_->PublishTimes();
}

std::optional<JobRecord> JobIndex::job(int32_t id) const { return impl_->catalog.job(id); }
std::optional<JobRecord> JobIndex::FindJob(std::string_view key) const {
  return impl_->catalog.Find(key);
}
std::optional<JobRecord> JobIndex::FindJobOf(std::string_view cluster, std::string_view id) const {
  return impl_->catalog.Find(cluster, id);
}
std::vector<std::string> JobIndex::KeysOfId(std::string_view id) const {
  return impl_->catalog.KeysOfId(id);
}
std::vector<JobRecord> JobIndex::AllJobs() const { return impl_->catalog.All(); }
std::vector<int32_t> JobIndex::SetMembers(int32_t set) const {
  return impl_->catalog.SetMembers(set);
}

void JobIndex::ForEachMember(int32_t set, absl::FunctionRef<void(int32_t)> visit) const {
  impl_->catalog.ForEachMember(set, visit);
}
bool JobIndex::VisitJob(int32_t id, absl::FunctionRef<void(const JobRecord&)> visit) const {
  return impl_->catalog.VisitJob(id, visit);
}

size_t JobIndex::GpusEver(int32_t job) const { return impl_->catalog.EntityCount(job); }

Changes JobIndex::TakeChanges(bool shutdown) {
  Changes changes;
  const Micros now = impl_->monotonic();
  const bool sweep = now >= impl_->next_sweep.load(std::memory_order_relaxed);
  if (sweep) impl_->next_sweep.store(now + kSweepInterval, std::memory_order_relaxed);
  for (size_t s = 0; s < kShards; ++s) {
    Shard& shard = impl_->shards[s];
    const MutexLock lock(shard.mutex);
    if (sweep || shutdown) impl_->CloseSilent(shard, sweep, shutdown);
    for (const size_t at : shard.dirty) {
      EntityState& e = shard.entities[at];
      e.dirty = false;
      if (e.of_the_past) Impl::Materialise(e);
      for (Interval& i : e.intervals.mutable_all()) {
        const bool grows = i.open && e.of_the_past;
        if (!i.dirty && !grows) continue;
        i.dirty = false;
        i.persisted = true;
        changes.intervals.push_back({.id = i.id,
                                     .entity = Impl::EntityId(s, at),
                                     .job = i.job,
                                     .rank = i.rank,
                                     .from = i.from,
                                     .to = i.open && !grows ? kOpenEnd : i.to,
                                     .source = i.source});
      }
    }
    shard.dirty.clear();
    changes.intervals.insert(changes.intervals.end(), shard.withdrawn.begin(),
                             shard.withdrawn.end());
    shard.withdrawn.clear();
  }
  // The catalogue comes after the intervals: every job they name is in it by now.
  impl_->catalog.TakeChanges(&changes);
  return changes;
}

size_t JobIndex::DropBefore(Micros horizon) {
  size_t dropped = 0;
  std::vector<std::pair<int32_t, int32_t>> left;  // job, entity
  for (size_t s = 0; s < kShards; ++s) {
    Shard& shard = impl_->shards[s];
    const MutexLock lock(shard.mutex);
    left.clear();
    for (size_t at = 0; at < shard.entities.size(); ++at) {
      EntityState& e = shard.entities[at];
      if (e.intervals.empty()) continue;
      Impl::Materialise(e);
      const size_t first = left.size();
      auto& list = e.intervals.mutable_all();
      const size_t gone = std::erase_if(list, [&](const Interval& i) {
        if (i.to > horizon || i.open || i.dirty) return false;
        left.emplace_back(i.job, Impl::EntityId(s, at));
        return true;
      });
      if (gone == 0) continue;
      dropped += gone;
      impl_->interval_count.fetch_sub(gone, std::memory_order_relaxed);
      if (list.capacity() > 4 * list.size()) list.shrink_to_fit();
      e.intervals.RebuildEnds();
      const auto stays = [&](const auto& pair) {
        return std::any_of(list.begin(), list.end(),
                           [&](const Interval& i) { return i.job == pair.first; });
      };
      left.erase(
          std::remove_if(left.begin() + static_cast<std::ptrdiff_t>(first), left.end(), stays),
          left.end());
    }
    // The shard's lock is held: an interval that begins meanwhile notes its entity after this.
    std::sort(left.begin(), left.end());
    impl_->catalog.ForgetEntities(left);
  }
  const MutexLock lock(impl_->static_mutex);
  if (absl::erase_if(impl_->scheduled_times,
                     [&](const auto& times) { return times.second.to < horizon; }) > 0)
    impl_->PublishTimes();
  return dropped;
}

bool JobIndex::HasIntervals(int32_t entity) const {
  Shard& shard = impl_->ShardOf(entity);
  const MutexLock lock(shard.mutex);
  const EntityState* const e = Impl::Find(shard, entity);
  return e != nullptr && !e->intervals.empty();
}

bool JobIndex::Impl::HasInterval(int32_t job) const {
  for (const int32_t entity : catalog.EntitiesOf(job)) {
    Shard& shard = ShardOf(entity);
    const MutexLock lock(shard.mutex);
    const EntityState* e = Find(shard, entity);
    if (e == nullptr) continue;
    const std::vector<Interval>& all = e->intervals.all();
    if (std::any_of(all.begin(), all.end(), [&](const Interval& i) { return i.job == job; }))
      return true;
  }
  return false;
}

bool JobIndex::ShortOfRoom() const { return impl_->catalog.ShortOf(kRoomPart) > 0; }

Forgotten JobIndex::Forget(const ForgetBefore& before) {
  Forgotten out;
  const MutexLock once(impl_->forget_mutex);
  // Without room the others count as well. Times of last sight are whole days: what was looked
  // through on a day has nothing more to give on it.
  const size_t short_of = impl_->catalog.ShortOf(kRoomPart);
  const Micros if_full = short_of > 0 ? before.if_full : 0;
  const std::pair<int32_t, int32_t> days = {DayOf(before.unnamed - 1), DayOf(if_full - 1)};
  if (std::max(before.unnamed, if_full) <= 0 || impl_->forgotten_days == days) return out;

  impl_->catalog.TakeUnloaded(before.unnamed, &out);
  const size_t unloaded = out.jobs.size();
  std::vector<JobCatalog::Silent> silent;
  const std::vector<int32_t> ids = impl_->catalog.Ids();
  for (size_t at = 0; at < ids.size(); at += kForgetSlice) {
    impl_->catalog.FindSilent(absl::MakeConstSpan(ids).subspan(at, kForgetSlice),
                              std::max(before.unnamed, if_full), &silent);
  }
  std::sort(silent.begin(), silent.end(), [](const auto& a, const auto& b) {
    return std::pair(a.last_seen, a.job) < std::pair(b.last_seen, b.job);
  });
  std::vector<JobCatalog::Silent> chosen;
  size_t early = 0;
  bool more = false;
  for (const JobCatalog::Silent& s : silent) {
    const bool named = s.last_seen >= before.unnamed;
    if (named && chosen.size() >= short_of) break;
    more = chosen.size() == kForgetAtOnce;
    if (more) break;
    if (impl_->HasInterval(s.job)) continue;
    chosen.push_back(s);
    early += named ? 1 : 0;
  }
  for (size_t at = 0; at < chosen.size(); at += kForgetSlice) {
    // A file that is being loaded may name a job that it has not listed yet.
    const MutexLock lock(impl_->static_mutex);
    impl_->catalog.Forget(absl::MakeConstSpan(chosen).subspan(at, kForgetSlice), &out);
  }
  out.early = std::min(early, out.jobs.size() - unloaded);
  if (!more) impl_->forgotten_days = days;
  return out;
}

IndexStats JobIndex::stats() const {
  IndexStats stats;
  impl_->catalog.AddTo(&stats);
  stats.intervals = impl_->interval_count;
  stats.refused_labels += impl_->refused_labels;
  stats.refused_intervals = impl_->refused_intervals;
  const MutexLock lock(impl_->static_mutex);
  if (!impl_->has_assignments) return stats;  // every GPU of the fleet has two names there
  for (const auto& [name, gpu] : impl_->names) {
    stats.static_assignments += gpu.assignments.size();
    if (gpu.tenants.empty()) stats.static_waiting += gpu.assignments.size();
  }
  return stats;
}

}  // namespace flopwatch::jobs
