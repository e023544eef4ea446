// Answers: who owned what when, and for how many GPU-seconds.
#include <algorithm>
#include <tuple>

#include "jobs/job_index_impl.h"

namespace flopwatch::jobs {

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
    for (size_t at = 0; at < most; ++at) {
      for (size_t s = 0; s < kShards; ++s) {
        Shard& shard = impl_->shards[s];
        const MutexLock lock(shard.mutex);
        if (at < shard.entities.size()) {
          Impl::AppendOwned(shard, Impl::EntityId(s, at), shard.entities[at], from, to, job, *times,
                            &out);
        }
      }
      if (at == most / 16) out.reserve(out.size() * 17);  // about as many as there will be
    }
  }
  const auto before = [](const IntervalRecord& a, const IntervalRecord& b) {
    return std::tie(a.entity, a.from, a.id) < std::tie(b.entity, b.from, b.id);
  };
  if (!std::is_sorted(out.begin(), out.end(), before)) std::sort(out.begin(), out.end(), before);
  return out;
}

void JobIndex::ForEachOwned(
    Micros from, Micros to,
    absl::FunctionRef<void(int32_t, Micros, Micros, absl::Span<const int32_t>)> f) const {
  const auto times = impl_->catalog.static_times().first;
  // One entity's, so that f is called without its lock.
  struct Part {
    Micros from, to;
    size_t jobs_end;
  };
  std::vector<Part> parts;
  std::vector<int32_t> jobs;
  for (size_t s = 0; s < kShards; ++s) {
    Shard& shard = impl_->shards[s];
    for (size_t at = 0;; ++at) {
      parts.clear();
      jobs.clear();
      {
        const MutexLock lock(shard.mutex);
        if (at >= shard.entities.size()) break;
        EntityState& e = shard.entities[at];
        if (e.intervals.empty()) continue;
        Impl::Materialise(e);
        e.intervals.Sweep(from, to, *times, &shard.scratch, [&](const Stretch& stretch) {
          for (const Interval* i : stretch.owners) jobs.push_back(i->job);
          parts.push_back({stretch.from, stretch.to, jobs.size()});
        });
      }
      size_t begin = 0;
      for (const Part& p : parts) {
        f(Impl::EntityId(s, at), p.from, p.to,
          absl::MakeConstSpan(jobs).subspan(begin, p.jobs_end - begin));
        begin = p.jobs_end;
      }
    }
  }
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
  for (Shard& shard : impl_->shards) {
    const MutexLock lock(shard.mutex);
    for (EntityState& e : shard.entities) {
      if (e.owners_valid && e.generation == generation && from >= e.steady_from) {
        const Micros time = std::min(to, e.tail_to) - from;
        if (e.stamped_set != 0 && time > 0) steady_us[e.stamped_set] += time;
        continue;
      }
      if (e.intervals.empty()) continue;
      Impl::Materialise(e);
      e.intervals.Sweep(from, to, *times, &shard.scratch, [&](const Stretch& s) {
        for (const Interval* i : s.owners) {
          if (s.owners.size() == 1) {
            sums[i->job].alone_us += s.to - s.from;
          } else {
            sums[i->job].shared_us +=
                static_cast<double>(s.to - s.from) / static_cast<double>(s.owners.size());
          }
        }
      });
    }
  }
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
