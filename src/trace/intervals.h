// Sets of half-open time intervals [begin, end) in nanoseconds: the arithmetic under every "how
// long was X busy" answer. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "trace/table_file.h"

namespace flopwatch::trace {

using Nanos = int64_t;

struct Interval {
  Nanos begin = 0, end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

using Intervals = TableVector<Interval>;  // any, in any order

// Sorted by begin, disjoint, none touching the next, none empty: what Merge() gives and the other
// functions take.
using IntervalSet = Intervals;

// Touching ones join, empty and inverted ones vanish.
IntervalSet Merge(Intervals intervals);
Nanos Length(const IntervalSet& set);
IntervalSet Union(const IntervalSet& a, const IntervalSet& b);
IntervalSet Intersect(const IntervalSet& a, const IntervalSet& b);
// The part of `a` that `b` does not cover.
IntervalSet Subtract(const IntervalSet& a, const IntervalSet& b);
// Length of the part of `set` inside [begin, end). Log in the size of the set plus the pieces
// inside.
Nanos LengthWithin(const IntervalSet& set, Nanos begin, Nanos end);
// The part of `set` inside [begin, end).
IntervalSet Clip(const IntervalSet& set, Nanos begin, Nanos end);

}  // namespace flopwatch::trace
