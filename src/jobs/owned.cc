// Answers: who owned what when, and for how many GPU-seconds.
#include <algorithm>
#include <tuple>

#include "base/prefetch.h"
#include "jobs/job_index_impl.h"
#include "jobs/job_seconds.h"

namespace flopwatch::jobs {
namespace {

// Walks over all entities ask for the intervals of the one so far ahead: those of a window that
// ends now are at the end.
constexpr size_t kAhead = 3;
constexpr size_t kMostAhead = 32;

void PrefetchEnd(const std::vector<Interval>& all) {
  const size_t count = std::min(all.size(), kMostAhead);
  PrefetchToRead(all.data() + (all.size() - count), count * sizeof(Interval));
}

}  // namespace

void JobIndex::Impl::AppendOwned(Shard& shard, int32_t entity, EntityState& e, Micros from,
                                 Micros to, int32_t job, const StaticTimes& times,
                                 std::vector<IntervalRecord>* out) {
  if (e.intervals.empty()) return;
  Materialise(e);
  const size_t first = out->size();
  e.intervals.Sweep(from, to, times, &shard.scratch, [&](const Stretch& stretch) {
    for (const Interval* i : stretch.owners) {
      if (job != 0 && i->job != job) continue;
      // A stretch that begins or ends at the window continues as the interval does.
      const RunTime run = Effective(*i, times);
      const Micros part_from = stretch.from == from ? run.from : stretch.from;
      const Micros part_to = stretch.to == to ? run.to : stretch.to;
      // The same interval in adjoining stretches (another job joined or left) is one record. One
      // that begins with this stretch has none yet.
      bool joined = false;
      for (size_t k = run.from < part_from ? out->size() : first; k-- > first && !joined;) {
        IntervalRecord& before = (*out)[k];
        joined = before.id == i->id && before.to == part_from;
        if (joined) before.to = part_to;
      }
      if (joined) continue;
      out->push_back({.id = i->id,
                      .entity = entity,
                      .job = i->job,
                      .rank = i->rank,
                      .from = part_from,
                      .to = part_to,
                      .source = i->source});
    }
  });
}

int32_t JobIndex::Lookup(int32_t entity, Micros ts) const {
  if (entity <= 0 || ts <= 0 || ts > kMaxTime) return 0;
  const auto times = impl_->catalog.static_times().first;
  Shard& shard = impl_->ShardOf(entity);
  const MutexLock lock(shard.mutex);
  EntityState* e = Impl::Find(shard, entity);
  if (e == nullptr) return 0;
  Impl::Materialise(*e);
  std::vector<int32_t> jobs;
  e->intervals.Sweep(ts - 1, ts, *times, &shard.scratch, [&](const Stretch& s) {
    for (const Interval* i : s.owners) jobs.push_back(i->job);
  });
  return impl_->catalog.SetOf(jobs, /*seen=*/0, [](size_t) { return true; });
}

std::vector<IntervalRecord> JobIndex::Intervals(Micros from, Micros to, int32_t job) const {
  const auto times = impl_->catalog.static_times().first;
  std::vector<IntervalRecord> out;
  if (job != 0) {
    for (const int32_t entity : impl_->catalog.EntitiesOf(job)) {
      Shard& shard = impl_->ShardOf(entity);
      const MutexLock lock(shard.mutex);
      if (EntityState* e = Impl::Find(shard, entity))
        Impl::AppendOwned(shard, entity, *e, from, to, job, *times, &out);
    }
  } else {
    // In the order of the ids, because to sort millions of records takes longer than to find them.
    size_t most = 0;
    for (Shard& shard : impl_->shards) {
      const MutexLock lock(shard.mutex);
      most = std::max(most, shard.entities.size());
    }
    for (size_t run = 0; run < most; run += kRun) {
      for (size_t s = 0; s < kShards; ++s) {
        Shard& shard = impl_->shards[s];
        const MutexLock lock(shard.mutex);
        const size_t end = std::min(run + kRun, shard.entities.size());
        for (size_t at = run; at < end; ++at) {
          if (at + kAhead < end) PrefetchEnd(shard.entities[at + kAhead].intervals.all());
          Impl::AppendOwned(shard, Impl::EntityId(s, at), shard.entities[at], from, to, job, *times,
                            &out);
        }
      }
      // About as many as there will be.
      if (run == most / (16 * kRun) * kRun) out.reserve(out.size() * most / (run + kRun));
    }
  }
  const auto before = [](const IntervalRecord& a, const IntervalRecord& b) {
    return std::tie(a.entity, a.from, a.id) < std::tie(b.entity, b.from, b.id);
  };
  if (!std::is_sorted(out.begin(), out.end(), before)) std::sort(out.begin(), out.end(), before);
  return out;
}

template <typename Skip, typename F>
void JobIndex::Impl::CollectOwned(Micros from, Micros to, const StaticTimes& times, Skip&& skip,
                                  OwnedTimes* out, F&& after_run) {
  std::vector<OwnedTimes::Part> parts;  // these two are of the entity that is looked at
  std::vector<int32_t> jobs;
  size_t most = 0;
  for (Shard& shard : shards) {
    const MutexLock lock(shard.mutex);
    most = std::max(most, shard.entities.size());
  }
  for (size_t run = 0; run < most; run += kRun) {
    for (size_t s = 0; s < kShards; ++s) {
      {
        Shard& shard = shards[s];
        const MutexLock lock(shard.mutex);
        const size_t end = std::min(run + kRun, shard.entities.size());
        for (size_t at = run; at < end; ++at) {
          if (at + kAhead < end) PrefetchEnd(shard.entities[at + kAhead].intervals.all());
          EntityState& e = shard.entities[at];
          if (e.intervals.empty() || skip(e)) continue;
          Materialise(e);
          parts.clear(), jobs.clear();
          e.intervals.Sweep(from, to, times, &shard.scratch, [&](const Stretch& stretch) {
            for (const Interval* i : stretch.owners) jobs.push_back(i->job);
            parts.push_back({stretch.from, stretch.to, jobs.size()});
          });
          if (!parts.empty()) out->Add(EntityId(s, at), parts, jobs);
        }
      }
      if (!after_run()) return;
    }
  }
}

void JobIndex::ForEachOwned(Micros from, Micros to, VisitOwned f) const {
  const auto times = impl_->catalog.static_times().first;
  OwnedTimes run;  // so that f is called without a lock
  impl_->CollectOwned(
      from, to, *times, [](const EntityState&) { return false; }, &run,
      [&] {
        run.ForEach(f);
        run.clear();
        return true;
      });
}

std::optional<OwnedTimes> JobIndex::Owned(Micros from, Micros to, size_t most) const {
  const auto times = impl_->catalog.static_times().first;
  std::optional<OwnedTimes> out(std::in_place);
  impl_->CollectOwned(
      from, to, *times, [](const EntityState&) { return false; }, &*out,
      [&] { return out->stretches() <= most; });
  if (out->stretches() > most) out.reset();
  return out;
}

std::vector<IntervalRecord> JobIndex::EntityIntervals(int32_t entity, Micros from,
                                                      Micros to) const {
  const auto times = impl_->catalog.static_times().first;
  std::vector<IntervalRecord> out;
  if (entity <= 0) return out;
  Shard& shard = impl_->ShardOf(entity);
  const MutexLock lock(shard.mutex);
  if (EntityState* e = Impl::Find(shard, entity))
    Impl::AppendOwned(shard, entity, *e, from, to, 0, *times, &out);
  return out;
}

std::vector<GpuSeconds> JobIndex::GpuSecondsByJob(Micros from, Micros to) const {
  const auto [times, generation] = impl_->catalog.static_times();
  JobSeconds seconds;
  absl::flat_hash_map<int32_t, int64_t> steady_us;  // by job set
  const auto is_steady = [&](const EntityState& e) {
    if (!e.owners_valid || e.generation != generation || from < e.steady_from) return false;
    const Micros time = std::min(to, e.tail_to) - from;
    if (e.stamped_set != 0 && time > 0) steady_us[e.stamped_set] += time;
    return true;
  };
  OwnedTimes run;
  impl_->CollectOwned(from, to, *times, is_steady, &run, [&] {
    run.ForEach([&](absl::Span<const int32_t> entities, absl::Span<const OwnedStretch> stretches) {
      seconds.Add(entities.size(), stretches);
    });
    run.clear();
    return true;
  });
  for (const auto& [set, us] : steady_us) seconds.Add(us, impl_->catalog.SetMembers(set));
  return seconds.Sorted();
}

}  // namespace flopwatch::jobs
