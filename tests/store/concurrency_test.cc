// Who waits for whom: readers of rows in memory, an engine that is opened again beneath readers and
// upkeep, and the order of locks. Threads are held at named points, so nothing here depends on
// time.
#include <atomic>
#include <future>
#include <thread>

#include "base/mutex.h"
#include "store/duckdb/engine.h"
#include "store/duckdb/journal.h"
#include "store/duckdb/lock_order.h"
#include "store/duckdb/segment.h"
#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using namespace telemetry;  // NOLINT: field names

constexpr Micros kLater = kT0 + 3 * kMicrosPerHour;

// Stops the first thread that comes to a point until it is let go.
class Gate {
 public:
  explicit Gate(std::string point) : point_(std::move(point)) {}
  void Pass(std::string_view point) {
    if (point != point_ || taken_.exchange(true)) return;
    reached_.set_value();
    go_.get_future().wait();
  }
  void WaitUntilReached() { reached_.get_future().wait(); }
  void LetGo() { go_.set_value(); }

 private:
  const std::string point_;
  std::atomic<bool> taken_{false};
  std::promise<void> reached_, go_;
};

class ConcurrencyTest : public StoreTest {
 protected:
  void TearDown() override { faults_.Clear(); }  // what a test set names what it had
  // Three GPUs for ten seconds each.
  Status Append(int number, Micros hour = kT0) {
    BatchBuilder b(fields_);
    for (int r = 0; r < 3; ++r)
      b.Row(kT0 + number * kSecond, r + 1, {{kTensorActive, 0.25}, {kSmClockMhz, 1500}});
    return store_->Append(b.batch(), fields_, hour + number * kSecond);
  }
  // GPU-seconds of the hour; -1 = no answer.
  double Observed() {
    const auto usage = store_->UsageByJob({kT0, kT0 + kMicrosPerHour});
    EXPECT_FW_OK(usage);
    return !usage.ok() || usage->size() != 1 ? -1 : usage->at(0).sums.ofu.observed_s;
  }
  size_t Journals() const { return duck::FindJournals(dir_.path()).size(); }
};

TEST_F(ConcurrencyTest, RowsSomebodyReadsFromMemoryAreNotMovedBeforeHeEnds) {
  ASSERT_FW_OK(Append(1));
  faults_.Refuse("append:sent");
  EXPECT_FALSE(store_->RollUp().ok());
  // They cannot be moved, so this reader gets them from memory.
  Gate gate("read:begun");
  faults_.Set([&](std::string_view point) {
    gate.Pass(point);
    return absl::OkStatus();
  });
  std::future<double> slow = std::async(std::launch::async, [&] { return Observed(); });
  gate.WaitUntilReached();
  // They could be moved now, but for the reader: the wait for it ends without moving them.
  const Status put_off = store_->RollUp();
  EXPECT_TRUE(absl::IsUnavailable(put_off)) << put_off;
  EXPECT_EQ(Journals(), 1u);
  EXPECT_EQ(Observed(), 30) << "others read them from memory too";
  ASSERT_FW_OK(Append(2));
  EXPECT_EQ(Observed(), 60);
  gate.LetGo();
  EXPECT_EQ(slow.get(), 30) << "each row once";
  ASSERT_FW_OK(store_->RollUp());
  EXPECT_EQ(Journals(), 0u);
  EXPECT_EQ(Observed(), 60);
  Open();
  EXPECT_EQ(Observed(), 60);
}

// A move that fails opens the engine again beneath the very reader that asked for it.
TEST_F(ConcurrencyTest, AReaderWhoseOwnMoveFailsIsAnsweredFromMemory) {
  ASSERT_FW_OK(Append(1));
  // Shown in memory, rows pass the point too: let those through after the first try.
  std::atomic<int> tries{0}, reads{0};
  faults_.Set([&](std::string_view point) {
    reads += point == "read:begun" ? 1 : 0;
    return point == "append:sent" && tries++ == 0 ? absl::InternalError("injected")
                                                  : absl::OkStatus();
  });
  EXPECT_EQ(Observed(), 30);
  EXPECT_EQ(reads, 1) << "the first try is good";
  EXPECT_EQ(Journals(), 1u);
}

// A commit whose answer was an error: the rows are in the segment and in the journal, until the
// engine has been opened again.
TEST_F(ConcurrencyTest, AReaderBeneathWhomTheEngineIsOpenedAgainCountsEachRowOnce) {
  ASSERT_FW_OK(Append(1));
  EXPECT_EQ(Observed(), 30);
  Gate gate("read:begun");
  faults_.Set([&](std::string_view point) {
    gate.Pass(point);
    return point == "absorb:committed" ? absl::InternalError("injected") : absl::OkStatus();
  });
  std::future<double> reader = std::async(std::launch::async, [&] { return Observed(); });
  gate.WaitUntilReached();
  ASSERT_FW_OK(Append(2));
  EXPECT_FALSE(store_->RollUp().ok());
  faults_.Clear();
  // Whoever comes next opens it, for which the reader must give its lease back.
  std::future<Status> next = std::async(std::launch::async, [&] { return Append(3); });
  gate.LetGo();
  const double seen = reader.get();
  EXPECT_TRUE(seen == 60 || seen == 90) << seen;
  EXPECT_FW_OK(next.get());
  EXPECT_EQ(Observed(), 90);
}

TEST_F(ConcurrencyTest, UpkeepGivesItsLeaseBackBeforeItWaitsForItsTurn) {
  ASSERT_FW_OK(Append(1));
  EXPECT_EQ(Observed(), 30);
  Gate gate("seal:written");
  faults_.Set([&](std::string_view point) {
    gate.Pass(point);
    return point == "absorb:committed" ? absl::InternalError("injected") : absl::OkStatus();
  });
  std::future<Status> seal =
      std::async(std::launch::async, [&] { return store_->Seal(kT0 + 2 * kMicrosPerHour); });
  gate.WaitUntilReached();  // with a lease
  ASSERT_FW_OK(Append(2, kLater));
  EXPECT_FALSE(Append(3, kLater + kMicrosPerHour).ok()) << "another hour: the second is moved";
  faults_.Clear();
  // Who has the turn now opens the engine again and waits for upkeep's lease.
  std::future<Status> next =
      std::async(std::launch::async, [&] { return Append(3, kLater + kMicrosPerHour); });
  gate.LetGo();
  EXPECT_FW_OK(next.get());
  const Status sealed = seal.get();  // in time, or one that begins anew
  EXPECT_TRUE(sealed.ok() || absl::IsUnavailable(sealed)) << sealed;
  EXPECT_EQ(Observed(), 90);
  ASSERT_FW_OK(store_->Seal(kLater + 3 * kMicrosPerHour));
  EXPECT_EQ(store_->stats().hot_segments, 0u);
  EXPECT_EQ(Observed(), 90);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path() + "/sealed/tmp"));
}

TEST_F(ConcurrencyTest, WorkThatBeganOnAnEarlierInstanceIsRefused) {
  duck::Engine engine({.directory = dir_.path(), .spill_directory = ""});
  const auto nothing = [](duck::Connection*) { return absl::OkStatus(); };
  ASSERT_FW_OK(engine.Restart(nothing));
  const uint64_t epoch = engine.epoch();
  ASSERT_FW_OK(engine.Write("a", duck::Engine::Use::kUpkeep, nothing, epoch));
  ASSERT_FW_OK(engine.Restart(nothing));
  EXPECT_TRUE(absl::IsUnavailable(engine.Write("b", duck::Engine::Use::kUpkeep, nothing, epoch)));
  ASSERT_FW_OK(engine.Write("c", duck::Engine::Use::kUpkeep, nothing, engine.epoch()));
}

// --- the order of locks ---

class LockOrderDeathTest : public ConcurrencyTest {
 protected:
  void SetUp() override {
    if (!kLockRanksChecked) GTEST_SKIP() << "locks are not looked at in this build";
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // the store has threads
    StoreTest::SetUp();
  }
};

TEST_F(LockOrderDeathTest, ALockIsNotTakenBelowOneThatIsHeld) {
  Mutex first(LockRank{1, "first"}), second(LockRank{2, "second"}), unranked;
  for (int i = 0; i < 2; ++i) {
    MutexLock a(first);
    MutexLock b(second);
    MutexLock c(unranked);
  }
  MutexLock held(second);
  const bool taken = first.try_lock();
  EXPECT_TRUE(taken) << "who only tries waits for nobody";
  if (taken) first.unlock();
  EXPECT_DEATH(MutexLock again(first), "lock order: first \\(1\\) .* holds second \\(2\\)");
}

TEST_F(LockOrderDeathTest, WhoHasALeaseTakesNoTurn) {
  // As a function would that asks the store for something from within a query.
  faults_.Set([&](std::string_view point) {
    return point == "read:begun" ? store_->PutModels({{H100()}}) : absl::OkStatus();
  });
  EXPECT_DEATH(Observed(), "store: stage .* holds store: lease of the engine");
  faults_.Set([&](std::string_view point) {
    return point == "read:begun" ? store_->RollUp() : absl::OkStatus();
  });
  EXPECT_DEATH(Observed(), "store: upkeep .* holds store: lease of the engine");
}

}  // namespace
}  // namespace flopwatch::store::testing
