#include "trace/intervals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bitset>

namespace flopwatch::trace {
namespace {

using ::testing::ElementsAre;

TEST(Intervals, MergeJoinsWhatTouches) {
  EXPECT_THAT(Merge({{5, 7}, {0, 2}, {2, 3}, {6, 9}, {20, 20}, {30, 29}}),
              ElementsAre(Interval{0, 3}, Interval{5, 9}));
}

// Outside judge: the same sets as bits, one a nanosecond.
using Bits = std::bitset<64>;

Bits BitsOf(const Intervals& pieces) {
  Bits out;
  for (const Interval& i : pieces) {
    for (Nanos t = i.begin; t < i.end; ++t) out.set(static_cast<size_t>(t));
  }
  return out;
}

Intervals Pieces() {
  return *rc::gen::container<Intervals>(
      rc::gen::map(rc::gen::pair(rc::gen::inRange<Nanos>(0, 64), rc::gen::inRange<Nanos>(0, 20)),
                   [](const std::pair<Nanos, Nanos>& p) {
                     return Interval{p.first, std::min<Nanos>(p.first + p.second, 64)};
                   }));
}

void ExpectCanonical(const IntervalSet& set) {
  for (size_t i = 0; i < set.size(); ++i) {
    RC_ASSERT(set[i].begin < set[i].end);
    if (i > 0) RC_ASSERT(set[i - 1].end < set[i].begin);
  }
}

RC_GTEST_PROP(Intervals, AgreeWithBits, ()) {
  const Intervals raw_a = Pieces(), raw_b = Pieces();
  const IntervalSet a = Merge(raw_a), b = Merge(raw_b);
  for (const IntervalSet& set : {a, b, Union(a, b), Intersect(a, b), Subtract(a, b)})
    ExpectCanonical(set);
  RC_ASSERT(BitsOf(a) == BitsOf(raw_a));
  RC_ASSERT(BitsOf(Union(a, b)) == (BitsOf(a) | BitsOf(b)));
  RC_ASSERT(BitsOf(Intersect(a, b)) == (BitsOf(a) & BitsOf(b)));
  RC_ASSERT(BitsOf(Subtract(a, b)) == (BitsOf(a) & ~BitsOf(b)));
  RC_ASSERT(Length(a) == static_cast<Nanos>(BitsOf(a).count()));
  const Nanos from = *rc::gen::inRange<Nanos>(0, 64), to = *rc::gen::inRange<Nanos>(from, 65);
  RC_ASSERT(BitsOf(Clip(a, from, to)) == (BitsOf(a) & BitsOf({{from, to}})));
  RC_ASSERT(LengthWithin(a, from, to) == Length(Clip(a, from, to)));
}

}  // namespace
}  // namespace flopwatch::trace
