// Attempts of jobs and what nodes were, in the store: round trip, later records, SQL, retention.
#include "fixture.h"

namespace flopwatch::store::testing {
namespace {

class StoredBooksTest : public StoreTest {
 protected:
  static jobs::AttemptRecord Attempt(int64_t id, Micros start, Micros end) {
    jobs::AttemptRecord a;
    a.id = id;
    a.cluster = "c";
    a.job = std::to_string(100 + id);
    a.account = "vision";
    a.partition = "gpu";
    a.nodes = "gpu[001-002]";
    a.start = start;
    a.end = end;
    a.seen = start + kSecond;
    a.gpus = 16;
    a.suspended_s = 3;
    a.duty = 0.25;
    a.placed = true;
    a.gpu_list = "gpu[001-002]:nvidia0-7";
    return a;
  }
  static jobs::NodeRecord Node(int64_t id, Micros from, Micros to) {
    jobs::NodeRecord n;
    n.id = id;
    n.cluster = "c";
    n.node = "gpu001";
    n.from = from;
    n.to = to;
    n.gpus = 8;
    n.service = jobs::Service::kDrain;
    n.reason = "fan, \"2\"";
    n.partitions = "gpu,debug";
    return n;
  }
};

TEST_F(StoredBooksTest, ComeBackAsTheyWere) {
  jobs::AttemptRecord bare;  // nothing is known of it but that it waits
  bare.id = 3;
  bare.job = "9";
  const jobs::BookChanges told = {
      {Attempt(1, kT0, kT0 + kHour), Attempt(2, kT0, jobs::kOpenEnd), bare},
      {Node(1, kT0, kT0 + kHour), Node(2, kT0 + kHour, jobs::kOpenEnd)}};
  ASSERT_FW_OK(store_->PutBooks(told));
  jobs::BookChanges ended = {{Attempt(2, kT0, kT0 + 2 * kHour)}, {}};
  ASSERT_FW_OK(store_->PutBooks(ended));
  store_.reset();
  Open();
  auto found = store_->LoadDimensions().value();
  std::ranges::sort(found.attempts, {}, &jobs::AttemptRecord::id);
  std::ranges::sort(found.nodes, {}, &jobs::NodeRecord::id);
  ASSERT_EQ(found.attempts.size(), 3u);
  EXPECT_EQ(found.attempts[0], told.attempts[0]);
  EXPECT_EQ(found.attempts[1], ended.attempts[0]);
  EXPECT_EQ(found.attempts[2], bare);
  EXPECT_EQ(found.nodes, told.nodes);
}

TEST_F(StoredBooksTest, SqlSeesTheLatestOfEach) {
  ASSERT_FW_OK(store_->PutBooks({{Attempt(1, kT0, jobs::kOpenEnd)}, {Node(1, kT0, kT0 + kHour)}}));
  ASSERT_FW_OK(store_->PutBooks({{Attempt(1, kT0, kT0 + kHour)}, {}}));
  EXPECT_EQ(Sql("SELECT gpus * epoch(ended - started) || ' ' || account FROM attempts"),
            "57600.0 vision");
  EXPECT_EQ(Sql("SELECT service || ' ' || gpus || ' ' || reason FROM nodes"),
            "drained 8 fan, \"2\"");
}

TEST_F(StoredBooksTest, AreKeptAsLongAsHoursAre) {
  options_.hour_retention = 200 * kMicrosPerDay;
  store_.reset();
  Open();
  ASSERT_FW_OK(store_->PutBooks({{Attempt(1, kT0, kT0 + kHour), Attempt(2, kT0, jobs::kOpenEnd)},
                                 {Node(1, kT0, kT0 + kHour), Node(2, kT0, jobs::kOpenEnd)}}));
  PassUntil(kT0 + 199 * kMicrosPerDay);
  EXPECT_EQ(store_->LoadDimensions().value().attempts.size(), 2u);
  PassUntil(kT0 + 201 * kMicrosPerDay);
  EXPECT_EQ(store_->LoadDimensions().value().attempts.size(), 1u);
  EXPECT_EQ(store_->LoadDimensions().value().nodes.size(), 1u);
  EXPECT_EQ(store_->stats().retention.attempts, 1u);
  EXPECT_EQ(store_->stats().retention.books_before, kT0 + kMicrosPerDay);
}

}  // namespace
}  // namespace flopwatch::store::testing
