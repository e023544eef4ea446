// Answers: who owned what when, and for how many GPU-seconds.
#include <algorithm>
#include <tuple>

#include "base/prefetch.h"
#include "jobs/job_index_impl.h"

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
void JobIndex::Impl::ForEachAlike(Micros from, Micros to, const StaticTimes& times, Skip&& skip,
                                  F&& f) {
  // Of one run of entities, so that f is called without a lock.
  struct Part {
    Micros from, to;
    size_t jobs_end;
  };
  struct Group {
    size_t entities_end, parts_end;
  };
  std::vector<int32_t> entities, jobs;
  std::vector<Part> parts, one;
  std::vector<Group> groups;
  std::vector<OwnedStretch> stretches;
  std::vector<int32_t> one_jobs;  // `one` and these are the entity's that is looked at
  const auto is_last_group = [&] {
    if (groups.empty()) return false;
    const size_t begin = groups.size() < 2 ? 0 : groups[groups.size() - 2].parts_end;
    const size_t jobs_begin = begin == 0 ? 0 : parts[begin - 1].jobs_end;
    return std::ranges::equal(one, absl::MakeConstSpan(parts).subspan(begin),
                              [&](const Part& a, const Part& b) {
                                return a.from == b.from && a.to == b.to &&
                                       a.jobs_end == b.jobs_end - jobs_begin;
                              }) &&
           std::ranges::equal(one_jobs, absl::MakeConstSpan(jobs).subspan(jobs_begin));
  };
  size_t most = 0;
  for (Shard& shard : shards) {
    const MutexLock lock(shard.mutex);
    most = std::max(most, shard.entities.size());
  }
  for (size_t run = 0; run < most; run += kRun) {
    for (size_t s = 0; s < kShards; ++s) {
      entities.clear(), jobs.clear(), parts.clear(), groups.clear();
      {
        Shard& shard = shards[s];
        const MutexLock lock(shard.mutex);
        const size_t end = std::min(run + kRun, shard.entities.size());
        for (size_t at = run; at < end; ++at) {
          if (at + kAhead < end) PrefetchEnd(shard.entities[at + kAhead].intervals.all());
          EntityState& e = shard.entities[at];
          if (e.intervals.empty() || skip(e)) continue;
          Materialise(e);
          one.clear(), one_jobs.clear();
          e.intervals.Sweep(from, to, times, &shard.scratch, [&](const Stretch& stretch) {
            for (const Interval* i : stretch.owners) one_jobs.push_back(i->job);
            one.push_back({stretch.from, stretch.to, one_jobs.size()});
          });
          if (one.empty()) continue;
          entities.push_back(EntityId(s, at));
          if (!is_last_group()) {
            for (const Part& p : one) parts.push_back({p.from, p.to, jobs.size() + p.jobs_end});
            jobs.insert(jobs.end(), one_jobs.begin(), one_jobs.end());
            groups.push_back({0, parts.size()});
          }
          groups.back().entities_end = entities.size();
        }
      }
      size_t entity = 0, part = 0, job = 0;
      for (const Group& g : groups) {
        stretches.clear();
        for (; part < g.parts_end; job = parts[part++].jobs_end) {
          stretches.push_back({parts[part].from, parts[part].to,
                               absl::MakeConstSpan(jobs).subspan(job, parts[part].jobs_end - job)});
        }
        f(absl::MakeConstSpan(entities).subspan(entity, g.entities_end - entity),
          absl::MakeConstSpan(stretches));
        entity = g.entities_end;
      }
    }
  }
}

void JobIndex::ForEachOwned(
    Micros from, Micros to,
    absl::FunctionRef<void(absl::Span<const int32_t>, absl::Span<const OwnedStretch>)> f) const {
  const auto times = impl_->catalog.static_times().first;
  impl_->ForEachAlike(
      from, to, *times, [](const EntityState&) { return false; }, f);
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
  // Time a job had to itself is summed in whole microseconds: no rounding grows with the fleet.
  struct Sum {
    int64_t alone_us = 0;
    double shared_us = 0;
  };
  absl::flat_hash_map<int32_t, Sum> sums;
  absl::flat_hash_map<int32_t, int64_t> steady_us;  // by job set
  const auto is_steady = [&](const EntityState& e) {
    if (!e.owners_valid || e.generation != generation || from < e.steady_from) return false;
    const Micros time = std::min(to, e.tail_to) - from;
    if (e.stamped_set != 0 && time > 0) steady_us[e.stamped_set] += time;
    return true;
  };
  impl_->ForEachAlike(
      from, to, *times, is_steady,
      [&](absl::Span<const int32_t> entities, absl::Span<const OwnedStretch> stretches) {
        for (const OwnedStretch& s : stretches) {
          const auto us = (s.to - s.from) * static_cast<Micros>(entities.size());
          for (const int32_t job : s.jobs) {
            if (s.jobs.size() == 1) {
              sums[job].alone_us += us;
            } else {
              sums[job].shared_us += static_cast<double>(us) / static_cast<double>(s.jobs.size());
            }
          }
        }
      });
  for (const auto& [set, us] : steady_us) {
    const std::vector<int32_t> jobs = impl_->catalog.SetMembers(set);
    for (const int32_t job : jobs) {
      if (jobs.size() == 1) {
        sums[job].alone_us += us;
      } else {
        sums[job].shared_us += static_cast<double>(us) / static_cast<double>(jobs.size());
      }
    }
  }
  std::vector<GpuSeconds> out;
  out.reserve(sums.size());
  for (const auto& [job, sum] : sums)
    out.push_back({job, (static_cast<double>(sum.alone_us) + sum.shared_us) / kMicrosPerSecond});
  std::sort(out.begin(), out.end(),
            [](const GpuSeconds& a, const GpuSeconds& b) { return a.job < b.job; });
  return out;
}

}  // namespace flopwatch::jobs
