// The intervals of one entity, sorted by start, and the sweep over them that says who owned it
// when. No locks, no ids made here, no clock: JobIndex wraps it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/time.h"
#include "jobs/job_index.h"

namespace flopwatch::jobs {

struct Interval {
  int64_t id = 0;
  Micros from = 0;
  Micros to = 0;
  Micros max_to = 0;  // largest `to` up to and including this one: where a backward scan may stop
  int32_t job = 0;
  int32_t rank = -1;
  Source source = Source::kLabels;
  bool open = false;       // label source: the newest sample showed it
  bool dirty = false;      // the store does not have this state yet
  bool persisted = false;  // the store has (or was given) some state of it
};

// The time in which the static file says a job ran: from its first assignment's start to its last
// one's end. Outside of it labels naming the job do not count: stale after it (a crashed epilog),
// and before it a sample's span only reaches back too far.
struct RunTime {
  Micros from = 0, to = 0;
};
using StaticTimes = absl::flat_hash_map<int32_t, RunTime>;
// The job ran in this time too.
inline void WidenTo(StaticTimes* times, int32_t job, RunTime run) {
  RunTime& all = times->try_emplace(job, run).first->second;
  all = {std::min(all.from, run.from), std::max(all.to, run.to)};
}

// Time during which the owners of an entity do not change: distinct jobs, all of the strongest
// source, each with an equal share. `owners` is valid during the callback only.
struct Stretch {
  Micros from = 0, to = 0;
  absl::Span<const Interval* const> owners;
};

// Memory that sweeps reuse.
struct SweepScratch {
  struct Edge {
    Micros at;
    const Interval* interval;
    bool start;
  };
  std::vector<const Interval*> touching, active, owners;
  std::vector<Edge> edges;
};

class IntervalList {
 public:
  const std::vector<Interval>& all() const { return intervals_; }
  std::vector<Interval>& mutable_all() { return intervals_; }
  bool empty() const { return intervals_.empty(); }

  // Inserts in order of start; returns where.
  size_t Insert(const Interval& interval);
  void Erase(size_t at);
  // Call after `to` of the interval at `at` changed.
  void FixFrom(size_t at);
  // Call after intervals were removed from mutable_all().
  void RebuildEnds();

  // Adds (from, to) to the label intervals of `job`: those within `gap` of it become one, which
  // keeps the smallest start and the id of the earliest. Returns its place; those that went into it
  // are appended to `merged`. `new_id` is called when no interval is near and may return 0 to
  // refuse (then kNoInterval is returned).
  template <typename NewId>
  size_t Cover(int32_t job, Micros from, Micros to, Micros gap, std::vector<Interval>* merged,
               NewId new_id);

  // Intervals with from < `to` and to > `from`, earliest start first. Of a label interval only what
  // lies within its job's entry in `times` counts.
  void Touching(Micros from, Micros to, const StaticTimes& times,
                std::vector<const Interval*>* out) const;

  // Calls f(Stretch) for every stretch of [from, to) that has an owner, in order of time.
  template <typename F>
  void Sweep(Micros from, Micros to, const StaticTimes& times, SweepScratch* scratch, F&& f) const;

 private:
  // The same where several may own it at a time.
  template <typename F>
  void SweepShared(Micros from, Micros to, const StaticTimes& times, SweepScratch* scratch,
                   F&& f) const;
  // The place of the first that begins at `to` or later.
  size_t Past(Micros to) const;

  std::vector<Interval> intervals_;
};

inline constexpr size_t kNoInterval = static_cast<size_t>(-1);

// An interval as it counts: labels say nothing beyond what the static file knows of their job.
// Empty where to <= from.
inline RunTime Effective(const Interval& i, const StaticTimes& times) {
  if (i.source != Source::kLabels || times.empty()) return {i.from, i.to};
  const auto it = times.find(i.job);
  if (it == times.end()) return {i.from, i.to};
  return {std::max(i.from, it->second.from), std::min(i.to, it->second.to)};
}

inline RunTime Within(RunTime run, Micros from, Micros to) {
  return {std::max(run.from, from), std::min(run.to, to)};
}

// Reduces `active` to the owners of that time: the strongest source only, each job once. Where a
// job appears twice (two ranks sharing a GPU) the interval with the lower id speaks for it.
void StrongestOwners(absl::Span<const Interval* const> active,
                     std::vector<const Interval*>* owners);

template <typename NewId>
size_t IntervalList::Cover(int32_t job, Micros from, Micros to, Micros gap,
                           std::vector<Interval>* merged, NewId new_id) {
  // Everything of this job that starts before to + gap and ends after from - gap. Backwards, until
  // no earlier interval reaches the range.
  size_t first = kNoInterval;
  auto past = std::upper_bound(intervals_.begin(), intervals_.end(), to + gap,
                               [](Micros t, const Interval& i) { return t < i.from; });
  for (size_t k = static_cast<size_t>(past - intervals_.begin());
       k-- > 0 && intervals_[k].max_to >= from - gap;) {
    Interval& candidate = intervals_[k];
    if (candidate.job != job || candidate.source != Source::kLabels || candidate.to < from - gap)
      continue;
    if (first != kNoInterval) {  // a later one, already found, joins this earlier one
      const Interval later = intervals_[first];
      candidate.to = std::max(candidate.to, later.to);
      candidate.open = candidate.open || later.open;
      candidate.dirty = true;
      merged->push_back(later);
      Erase(first);
      FixFrom(k);
    }
    first = k;
  }
  if (first == kNoInterval) {
    Interval fresh;
    fresh.id = new_id();
    if (fresh.id == 0) return kNoInterval;
    fresh.from = from;
    fresh.to = to;
    fresh.job = job;
    fresh.dirty = true;
    return Insert(fresh);
  }
  Interval& kept = intervals_[first];
  if (to > kept.to) {
    kept.to = to;
    if (!kept.open) kept.dirty = true;  // the store knows an open one has no end yet
    FixFrom(first);
  }
  if (from < kept.from) {
    Interval moved = kept;
    moved.from = from;
    moved.dirty = true;
    Erase(first);
    first = Insert(moved);
  }
  return first;
}

template <typename F>
void IntervalList::Sweep(Micros from, Micros to, const StaticTimes& times, SweepScratch* scratch,
                         F&& f) const {
  // Nearly everywhere each interval begins when the one before it has ended, and is a stretch. What
  // counts of them lies within them, so it is in turn too.
  const size_t end = Past(to);
  size_t k = end;
  while (k > 0 && intervals_[k - 1].max_to > from) --k;
  const Interval* before = nullptr;
  RunTime run;
  for (; k < end; ++k) {
    const RunTime next = Within(Effective(intervals_[k], times), from, to);
    if (next.from >= next.to) continue;
    if (before != nullptr) {
      if (intervals_[k].from < before->to)
        return SweepShared(std::max(from, before->from), to, times, scratch, f);
      f(Stretch{run.from, run.to, absl::MakeConstSpan(&before, 1)});
    }
    before = &intervals_[k];
    run = next;
  }
  if (before != nullptr) f(Stretch{run.from, run.to, absl::MakeConstSpan(&before, 1)});
}

template <typename F>
void IntervalList::SweepShared(Micros from, Micros to, const StaticTimes& times, SweepScratch* s,
                               F&& f) const {
  Touching(from, to, times, &s->touching);
  s->edges.clear();
  for (const Interval* i : s->touching) {
    const RunTime run = Within(Effective(*i, times), from, to);
    s->edges.push_back({run.from, i, true});
    s->edges.push_back({run.to, i, false});
  }
  std::sort(s->edges.begin(), s->edges.end(),
            [](const SweepScratch::Edge& a, const SweepScratch::Edge& b) { return a.at < b.at; });
  s->active.clear();
  Micros at = from;
  for (const SweepScratch::Edge& edge : s->edges) {
    if (edge.at > at && !s->active.empty()) {
      StrongestOwners(s->active, &s->owners);
      f(Stretch{at, edge.at, s->owners});
    }
    at = edge.at;
    if (edge.start) {
      s->active.push_back(edge.interval);
    } else {
      s->active.erase(std::find(s->active.begin(), s->active.end(), edge.interval));
    }
  }
}

}  // namespace flopwatch::jobs
