#include "jobs/interval_list.h"

namespace flopwatch::jobs {

size_t IntervalList::Insert(const Interval& interval) {
  const auto at =
      std::upper_bound(intervals_.begin(), intervals_.end(), interval,
                       [](const Interval& a, const Interval& b) { return a.from < b.from; });
  const auto index = static_cast<size_t>(at - intervals_.begin());
  intervals_.insert(at, interval);
  // max_to of the new element is unset: make FixFrom() see a change here, whatever the value was.
  intervals_[index].max_to = std::numeric_limits<Micros>::min();
  FixFrom(index);
  return index;
}

void IntervalList::Erase(size_t at) {
  intervals_.erase(intervals_.begin() + static_cast<ptrdiff_t>(at));
  FixFrom(at);
}

void IntervalList::FixFrom(size_t at) {
  Micros running = at == 0 ? std::numeric_limits<Micros>::min() : intervals_[at - 1].max_to;
  for (size_t k = at; k < intervals_.size(); ++k) {
    running = std::max(running, intervals_[k].to);
    if (k > at && intervals_[k].max_to == running) return;
    intervals_[k].max_to = running;
  }
}

void IntervalList::RebuildEnds() {
  Micros running = std::numeric_limits<Micros>::min();
  for (Interval& i : intervals_) {
    running = std::max(running, i.to);
    i.max_to = running;
  }
}

size_t IntervalList::Past(Micros to) const {
  // Most windows end after the last one; to look for that costs a miss of the cache a step.
  if (!intervals_.empty() && intervals_.back().from < to) return intervals_.size();
  const auto past = std::lower_bound(intervals_.begin(), intervals_.end(), to,
                                     [](const Interval& i, Micros t) { return i.from < t; });
  return static_cast<size_t>(past - intervals_.begin());
}

void IntervalList::Touching(Micros from, Micros to, const StaticTimes& times,
                            std::vector<const Interval*>* out) const {
  out->clear();
  for (size_t k = Past(to); k-- > 0 && intervals_[k].max_to > from;) {
    const Interval& i = intervals_[k];
    const RunTime run = Effective(i, times);
    if (run.to > from && run.from < to && run.to > run.from) out->push_back(&i);
  }
  std::reverse(out->begin(), out->end());
}

void StrongestOwners(absl::Span<const Interval* const> active,
                     std::vector<const Interval*>* owners) {
  owners->clear();
  int strongest = 0;
  for (const Interval* i : active) strongest = std::max(strongest, Strength(i->source));
  for (const Interval* i : active)
    if (Strength(i->source) == strongest) owners->push_back(i);
  std::sort(owners->begin(), owners->end(), [](const Interval* a, const Interval* b) {
    return a->job != b->job ? a->job < b->job : a->id < b->id;
  });
  owners->erase(std::unique(owners->begin(), owners->end(),
                            [](const Interval* a, const Interval* b) { return a->job == b->job; }),
                owners->end());
}

}  // namespace flopwatch::jobs
