// The scheduler's books: what is told in any order comes to the same attempts and nodes.
#include "jobs/books.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace flopwatch::jobs {
namespace {

constexpr Micros kS = kMicrosPerSecond;
constexpr Micros kT0 = 1'760'000'000 * kS;

AttemptRecord Ran(std::string job, int64_t start_s, int64_t end_s, int64_t seen_s = 0) {
  AttemptRecord a;
  a.cluster = "c";
  a.job = std::move(job);
  a.start = start_s == 0 ? 0 : kT0 + start_s * kS;
  a.end = end_s == 0 ? kOpenEnd : kT0 + end_s * kS;
  a.seen = seen_s == 0 ? 0 : kT0 + seen_s * kS;
  a.gpus = 8;
  return a;
}
NodeRecord NodeIs(std::string name, Service service, int64_t gpus = 8) {
  NodeRecord n;
  n.node = std::move(name);
  n.service = service;
  n.gpus = gpus;
  return n;
}

class BooksTest : public ::testing::Test {
 protected:
  std::vector<AttemptRecord> Attempts(Micros from = 0, Micros to = kOpenEnd) const {
    std::vector<AttemptRecord> out;
    books_.ForEachAttempt(from, to, [&](const AttemptRecord& a) { out.push_back(a); });
    std::ranges::sort(out, {}, [](const auto& a) { return std::pair(a.job, a.start); });
    return out;
  }
  std::vector<NodeRecord> Nodes(Micros from = 0, Micros to = kOpenEnd) const {
    std::vector<NodeRecord> out;
    books_.ForEachNode(from, to, [&](const NodeRecord& n) { out.push_back(n); });
    std::ranges::sort(out, {}, [](const auto& n) { return std::pair(n.node, n.from); });
    return out;
  }
  Books books_;
};

TEST_F(BooksTest, ARequeuedJobHasAnAttemptForEachStart) {
  books_.Tell({{Ran("7", 10, 100), Ran("7", 300, 0, 400)}});
  ASSERT_EQ(Attempts().size(), 2u);
  EXPECT_EQ(Attempts()[0].end, kT0 + 100 * kS);
  EXPECT_EQ(Attempts()[1].end, kOpenEnd);
}

TEST_F(BooksTest, ToldAgainChangesNothing) {
  books_.Tell({{Ran("7", 10, 100)}});
  EXPECT_EQ(books_.TakeChanges().attempts.size(), 1u);
  books_.Tell({{Ran("7", 10, 100)}});
  EXPECT_TRUE(books_.TakeChanges().empty());
  EXPECT_EQ(Attempts().size(), 1u);
}

TEST_F(BooksTest, WhatOneSourceLacksAnotherFills) {
  AttemptRecord queue = Ran("7", 10, 0, 20);
  queue.placed = true;
  queue.workflow = "train";
  AttemptRecord accounting = Ran("7", 10, 100);
  accounting.account = "vision";
  accounting.state = "TIMEOUT";
  books_.Tell({{queue}});
  books_.Tell({{accounting}});
  const AttemptRecord a = Attempts().at(0);
  EXPECT_TRUE(a.placed);
  EXPECT_EQ(a.workflow, "train");
  EXPECT_EQ(a.account, "vision");
  EXPECT_EQ(a.state, "TIMEOUT");
  EXPECT_EQ(a.end, kT0 + 100 * kS);
}

TEST_F(BooksTest, ALookFromBeforeItsEndDoesNotOpenAnAttemptAgain) {
  books_.Tell({{Ran("7", 10, 100)}});
  AttemptRecord early = Ran("7", 10, 0, 90);
  early.state = "RUNNING";
  books_.Tell({{early}});
  EXPECT_EQ(Attempts()[0].end, kT0 + 100 * kS);
  EXPECT_NE(Attempts()[0].state, "RUNNING");
  books_.Tell({{Ran("7", 10, 0, 110)}});  // the end was wrong
  EXPECT_EQ(Attempts()[0].end, kOpenEnd);
}

TEST_F(BooksTest, AJobThatWaitedIsTheAttemptThatStarts) {
  AttemptRecord waits = Ran("9", 0, 0, 50);
  waits.eligible = kT0 + 40 * kS;
  books_.Tell({{waits}});
  ASSERT_EQ(Attempts(kT0 + 45 * kS, kT0 + 46 * kS).size(), 1u);
  EXPECT_TRUE(Attempts(kT0, kT0 + 40 * kS).empty()) << "not before it was eligible";
  books_.Tell({{Ran("9", 60, 0, 70)}});
  const auto all = Attempts();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].start, kT0 + 60 * kS);
  EXPECT_EQ(all[0].eligible, kT0 + 40 * kS);
}

TEST_F(BooksTest, AnEarlierAttemptThatBecomesKnownLateIsNotTheOneThatWaits) {
  AttemptRecord again = Ran("9", 0, 0, 500);  // requeued, and waits
  again.eligible = kT0 + 400 * kS;
  books_.Tell({{again}});
  books_.Tell({{Ran("9", 10, 380)}});
  ASSERT_EQ(Attempts().size(), 2u);
}

TEST_F(BooksTest, WhatIsGoneFromAWholeLookEndedWhenItWasLastSeen) {
  books_.TellAllOpen("c", kT0 + 100 * kS, {{Ran("1", 10, 0, 100), Ran("2", 20, 0, 100)}});
  AttemptRecord other = Ran("3", 10, 0, 100);
  other.cluster = "d";
  books_.Tell({{other}});
  books_.TellAllOpen("c", kT0 + 130 * kS, {{Ran("2", 20, 0, 130)}});
  const auto all = Attempts();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].end, kT0 + 100 * kS);
  EXPECT_EQ(all[1].end, kOpenEnd);
  EXPECT_EQ(all[2].end, kOpenEnd) << "another cluster's";
  books_.Tell({{Ran("1", 10, 117)}});  // accounting knows when
  EXPECT_EQ(Attempts()[0].end, kT0 + 117 * kS);
}

TEST_F(BooksTest, ANodeIsARecordForEachTimeInWhichItDidNotChange) {
  NodeRecord mixed = NodeIs("g1", Service::kInService);
  mixed.state = "MIXED";
  NodeRecord idle = mixed;
  idle.state = "IDLE";
  books_.TellNodes("c", kT0, {{mixed, NodeIs("g2", Service::kInService)}});
  books_.TellNodes("c", kT0 + 30 * kS, {{idle, NodeIs("g2", Service::kInService)}});
  NodeRecord drained = NodeIs("g1", Service::kDrain);
  drained.reason = "fan";
  books_.TellNodes("c", kT0 + 60 * kS, {{drained, NodeIs("g2", Service::kInService)}});
  books_.TellNodes("c", kT0 + 90 * kS, {{drained}});  // g2 was taken out
  const auto all = Nodes();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].to, kT0 + 60 * kS);
  EXPECT_EQ(all[1].service, Service::kDrain);
  EXPECT_EQ(all[1].reason, "fan");
  EXPECT_EQ(all[1].to, kOpenEnd);
  EXPECT_EQ(all[2].to, kT0 + 90 * kS);
  EXPECT_EQ(books_.LastLook(), kT0 + 90 * kS);
}

TEST_F(BooksTest, BeforeTheFirstLookEventsSayWhatNodesWere) {
  books_.TellNodes("c", kT0 + 1000 * kS, {{NodeIs("g1", Service::kInService)}});
  NodeRecord down = NodeIs("g1", Service::kDown, -1);
  down.from = kT0 + 200 * kS;
  down.to = kT0 + 300 * kS;
  NodeRecord late = NodeIs("g1", Service::kDrain, -1);  // goes on after the first look
  late.from = kT0 + 900 * kS;
  NodeRecord unknown = NodeIs("g9", Service::kDown, -1);  // of a node that no look knows
  unknown.from = kT0;
  for (int again = 0; again < 2; ++again) {
    books_.TellNodesBefore("c", kT0, {{late, down, unknown}});
    const auto all = Nodes();
    ASSERT_EQ(all.size(), 5u);
    const Service services[] = {Service::kInService, Service::kDown, Service::kInService,
                                Service::kDrain, Service::kInService};
    const int64_t from[] = {0, 200, 300, 900, 1000};
    for (size_t k = 0; k < 5; ++k) {
      EXPECT_EQ(all[k].service, services[k]) << k;
      EXPECT_EQ(all[k].from, kT0 + from[k] * kS) << k;
      EXPECT_EQ(all[k].gpus, 8) << k;
    }
  }
}

TEST_F(BooksTest, APastThatATableTellsIsTakenOnce) {
  const auto pool = [](int64_t from, int64_t to, int64_t gpus) {
    NodeRecord n = NodeIs("pool", Service::kInService);
    n.cluster = "c";
    n.from = kT0 + from * kS;
    n.to = kT0 + to * kS;
    n.gpus = gpus;
    return n;
  };
  books_.TellPastNodes({{pool(0, 100, 8), pool(100, 200, 16)}});
  EXPECT_EQ(Nodes().size(), 2u);
  EXPECT_EQ(books_.TakeChanges().nodes.size(), 2u);
  books_.TellPastNodes({{pool(0, 100, 8), pool(100, 200, 16)}});
  EXPECT_TRUE(books_.TakeChanges().empty()) << "the same again";
  books_.TellPastNodes({{pool(100, 250, 24), pool(250, 300, 8)}});
  const auto all = Nodes();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].to, kT0 + 250 * kS) << "told anew";
  EXPECT_EQ(all[1].gpus, 24);
  EXPECT_EQ(books_.TakeChanges().nodes.size(), 2u);
  // Over another record, backwards, and without an end.
  NodeRecord open = pool(400, 500, 8);
  open.to = kOpenEnd;
  books_.TellPastNodes({{pool(50, 60, 8), pool(90, 120, 8), pool(600, 500, 8), open}});
  EXPECT_EQ(Nodes().size(), 3u);
  EXPECT_EQ(books_.stats().refused, 4u);
  // A look goes on after it.
  books_.TellNodes("c", kT0 + 300 * kS, {{NodeIs("pool", Service::kDown)}});
  EXPECT_EQ(Nodes().size(), 4u);
}

TEST_F(BooksTest, ARestartGoesOnWhereTheStoreIs) {
  books_.TellAllOpen("c", kT0 + 100 * kS, {{Ran("1", 10, 0, 100)}});
  books_.TellNodes("c", kT0 + 100 * kS, {{NodeIs("g1", Service::kInService)}});
  const BookChanges stored = books_.TakeChanges();
  Books after;
  after.Load(stored.attempts, stored.nodes);
  EXPECT_TRUE(after.TakeChanges().empty());
  after.TellAllOpen("c", kT0 + 200 * kS, {{Ran("1", 10, 0, 200)}});
  after.TellNodes("c", kT0 + 200 * kS, {{NodeIs("g1", Service::kInService)}});
  EXPECT_TRUE(after.TakeChanges().empty()) << "nothing is new";
  after.Tell({{Ran("2", 150, 0, 200)}});
  const BookChanges more = after.TakeChanges();
  ASSERT_EQ(more.attempts.size(), 1u);
  EXPECT_GT(more.attempts[0].id, stored.attempts[0].id);
}

TEST_F(BooksTest, OldRecordsAreForgottenAndTheRestIsFound) {
  books_.Tell({{Ran("1", 10, 20), Ran("2", 10, 200), Ran("3", 10, 0, 100)}});
  books_.TellNodes("c", kT0, {{NodeIs("g1", Service::kInService), NodeIs("g2", Service::kDown)}});
  books_.TellNodes("c", kT0 + 50 * kS, {{NodeIs("g1", Service::kInService)}});
  EXPECT_EQ(books_.DropBefore(kT0 + 100 * kS), 0u) << "not before the store has them";
  books_.TakeChanges();
  EXPECT_EQ(books_.DropBefore(kT0 + 100 * kS), 2u);
  EXPECT_EQ(Attempts().size(), 2u);
  books_.Tell({{Ran("3", 10, 300)}});
  EXPECT_EQ(Attempts()[1].end, kT0 + 300 * kS) << "the same attempt";
  books_.TellNodes("c", kT0 + 90 * kS, {{NodeIs("g1", Service::kDrain)}});
  EXPECT_EQ(Nodes().size(), 2u);
}

TEST_F(BooksTest, WhatContradictsItselfOrIsTooMuchIsRefused) {
  Books small(BookLimits{.max_attempts = 2, .max_nodes = 1, .max_text_bytes = 8});
  AttemptRecord backwards = Ran("1", 100, 10), nameless = Ran("", 1, 2), endless = Ran("1", 1, 2);
  endless.user = "123456789";
  small.Tell({{backwards, nameless, endless}});
  EXPECT_EQ(small.stats().attempts, 0u);
  EXPECT_EQ(small.stats().refused, 3u);
  small.Tell({{Ran("1", 1, 2), Ran("2", 1, 2), Ran("3", 1, 2), Ran("2", 1, 3)}});
  EXPECT_EQ(small.stats().attempts, 2u) << "a known one is still told";
  small.TellNodes("c", kT0, {{NodeIs("g1", Service::kDown), NodeIs("g2", Service::kDown)}});
  EXPECT_EQ(small.stats().nodes, 1u);
  EXPECT_EQ(small.stats().refused, 5u);
}

}  // namespace
}  // namespace flopwatch::jobs
