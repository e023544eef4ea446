#include "trace/intervals.h"

#include <algorithm>

namespace flopwatch::trace {
namespace {

void Append(IntervalSet* out, Interval piece) {
  if (piece.end <= piece.begin) return;
  if (!out->empty() && piece.begin <= out->back().end)
    out->back().end = std::max(out->back().end, piece.end);
  else
    out->push_back(piece);
}

// The first piece that ends after `t`.
IntervalSet::const_iterator EndingAfter(const IntervalSet& set, Nanos t) {
  return std::ranges::upper_bound(set, t, {}, &Interval::end);
}

}  // namespace

IntervalSet Merge(Intervals intervals) {
  const auto by_begin = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_begin))
    std::ranges::sort(intervals, by_begin);
  // They are merged in place: the merged pieces never outrun the ones that were read.
  size_t kept = 0;
  for (const Interval piece : intervals) {
    if (piece.end <= piece.begin) continue;
    if (kept > 0 && piece.begin <= intervals[kept - 1].end)
      intervals[kept - 1].end = std::max(intervals[kept - 1].end, piece.end);
    else
      intervals[kept++] = piece;
  }
  intervals.resize(kept);
  return intervals;
}

Nanos Length(const IntervalSet& set) {
  Nanos sum = 0;
  for (const Interval& i : set) sum += i.end - i.begin;
  return sum;
}

IntervalSet Union(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet out;
  out.reserve(a.size() + b.size());
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const bool from_a = j == b.size() || (i < a.size() && a[i].begin <= b[j].begin);
    Append(&out, from_a ? a[i++] : b[j++]);
  }
  return out;
}

IntervalSet Intersect(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    Append(&out, {std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)});
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return out;
}

IntervalSet Subtract(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet out;
  size_t j = 0;
  for (const Interval& whole : a) {
    Nanos at = whole.begin;
    while (j < b.size() && b[j].end <= at) ++j;
    for (size_t k = j; k < b.size() && b[k].begin < whole.end; ++k) {
      Append(&out, {at, b[k].begin});
      at = std::max(at, b[k].end);
    }
    Append(&out, {at, whole.end});
  }
  return out;
}

Nanos LengthWithin(const IntervalSet& set, Nanos begin, Nanos end) {
  Nanos sum = 0;
  for (auto it = EndingAfter(set, begin); it != set.end() && it->begin < end; ++it)
    sum += std::min(it->end, end) - std::max(it->begin, begin);
  return sum;
}

IntervalSet Clip(const IntervalSet& set, Nanos begin, Nanos end) {
  IntervalSet out;
  for (auto it = EndingAfter(set, begin); it != set.end() && it->begin < end; ++it)
    Append(&out, {std::max(it->begin, begin), std::min(it->end, end)});
  return out;
}

}  // namespace flopwatch::trace
