// The ledger: no moment is given twice, and a claim that comes second learns who has it.
#include "trace/findings/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "trace/findings/finding.h"

namespace flopwatch::trace {
namespace {

TEST(Ledger, AMomentIsGivenOnce) {
  Ledger ledger({{0, 100}, {200, 300}});
  const Claimed first = ledger.Take({.time = {{50, 250}}}, 3);
  EXPECT_DOUBLE_EQ(first.nanos, 100);  // 50 to 100 and 200 to 250: the rest is in no window
  EXPECT_DOUBLE_EQ(first.missed, 0);
  EXPECT_EQ(first.by, -1);
  const Claimed second = ledger.Take({.time = {{0, 60}, {240, 260}}}, 4);
  EXPECT_DOUBLE_EQ(second.nanos, 60);
  EXPECT_DOUBLE_EQ(second.missed, 20);
  EXPECT_EQ(second.by, 3);
  EXPECT_DOUBLE_EQ(ledger.taken(), 160);
  EXPECT_DOUBLE_EQ(ledger.TakenWithin({{0, 100}}), 100);
  EXPECT_DOUBLE_EQ(ledger.TakenWithin({{255, 300}}), 5);
}

TEST(Ledger, SharesOfAMomentAddUpToOne) {
  Ledger ledger({{0, 100}});
  EXPECT_DOUBLE_EQ(ledger.Take({.time = {{0, 100}}, .share = 0.75}, 0).nanos, 75);
  const Claimed more = ledger.Take({.time = {{0, 40}}, .share = 0.5}, 1);
  EXPECT_DOUBLE_EQ(more.nanos, 10);
  EXPECT_DOUBLE_EQ(more.missed, 10);
  EXPECT_EQ(more.by, 0);
}

TEST(Ledger, ALimitIsKeptToTheNanosecond) {
  Ledger ledger({{0, 100}});
  ledger.Take({.time = {{0, 10}}}, 0);
  // What others have does not use the limit up.
  EXPECT_DOUBLE_EQ(ledger.Take({.time = {{0, 100}}, .most = 25}, 1).nanos, 25);
  EXPECT_DOUBLE_EQ(ledger.Take({.time = {{0, 100}}, .share = 0.5, .most = 10}, 2).nanos, 10);
  EXPECT_DOUBLE_EQ(ledger.taken(), 45);
  EXPECT_DOUBLE_EQ(ledger.Take({.time = {{0, 100}}, .most = 0}, 3).nanos, 0);
}

TEST(Ledger, EveryRuleHasOnePlaceInTheOrder) {
  std::set<std::string_view> places(ClaimOrder().begin(), ClaimOrder().end());
  EXPECT_EQ(places.size(), Rules().size());
  for (const Rule& rule : Rules()) EXPECT_TRUE(places.contains(rule.id)) << rule.id;
}

}  // namespace
}  // namespace flopwatch::trace
