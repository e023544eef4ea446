// A row is of (GPU, time): what the store has is not new.
#include "ingest/stored_time.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace flopwatch::ingest {
namespace {

TEST(StoredTime, OnlyTimeOfTheWindowThatNoRowStandsForIsNew) {
  StoredTime stored;
  stored.Begin({100, 200});
  stored.Add(7, 120, 130);
  stored.Add(7, 150, 150);  // a first sample: for no time, but it is there
  stored.Settle();
  for (const auto& [ts, is_new] : {std::pair(100, false),
                                   {101, true},
                                   {120, true},
                                   {121, false},
                                   {130, false},
                                   {131, true},
                                   {150, false},
                                   {151, true},
                                   {200, true},
                                   {201, false}})
    EXPECT_EQ(stored.Of(7, ts).is_new, is_new) << ts;
  EXPECT_TRUE(stored.Of(8, 125).is_new);
  // A row that continues one from before 130 stands for the time since then.
  EXPECT_EQ(stored.Of(7, 140).until, 130);
  EXPECT_EQ(stored.Of(7, 110).until, 0);
}

// Whatever rows there are and whatever comes: no moment is stood for twice.
RC_GTEST_PROP(StoredTimeProperty, NoMomentTwice, ()) {
  StoredTime stored;
  stored.Begin({0, 1000});
  std::vector<int> covered(1001, 0);
  Micros at = 1;
  while (at < 900) {
    const Micros from = at + *rc::gen::inRange(0, 60), to = from + *rc::gen::inRange(1, 40);
    stored.Add(1, from, to);
    for (Micros t = from + 1; t <= to; ++t) ++covered[t];
    at = to;
  }
  stored.Settle();
  Micros previous = 0;
  for (Micros ts = *rc::gen::inRange(1, 40); ts <= 1000; ts += *rc::gen::inRange(1, 40)) {
    const StoredTime::Verdict verdict = stored.Of(1, ts);
    if (verdict.is_new && previous != 0)
      for (Micros t = std::max(previous, verdict.until) + 1; t <= ts; ++t) ++covered[t];
    previous = ts;
  }
  for (size_t t = 0; t < covered.size(); ++t) RC_ASSERT(covered[t] <= 1);
}

}  // namespace
}  // namespace flopwatch::ingest
