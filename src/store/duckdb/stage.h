// What stands between a flush and the hour's file: the journal, and its rows in memory until a
// segment takes them in (docs/store.md, "Journal"). With it goes the turn to write: whoever
// appends, describes, or records what upkeep has made holds the stage's mutex, and takes a lease
// after it.
//
// So this is also who opens the engine again after an error: that waits for every lease, and nobody
// waits for the mutex with a lease in hand.
//
// Reading is not only looking: what was acknowledged is moved to where it is read from, when
// somebody asks (MakeReadable), and the engine is opened again when it has to be (EnsureUp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "store/duckdb/dimensions.h"
#include "store/duckdb/engine.h"
#include "store/duckdb/journal.h"
#include "store/duckdb/layouts.h"
#include "store/duckdb/staged.h"
#include "store/store.h"

namespace flopwatch::store::duck {

// After staged rows could not be moved into a segment, readers are shown them in memory for so long
// before the next try.
inline constexpr Micros kAbsorbRetry = 5 * kMicrosPerSecond;
// Readers who are shown rows in memory are given so long to end before these rows go into a
// segment. Those who do not end in time put it off.
inline constexpr Micros kWaitForReaders = 5 * kMicrosPerSecond;

// Staged rows go into a segment when somebody reads or rolls up (Options::journal_age), or when
// they are so many, so large or so old. Whole row groups are cheapest: the engine writes them
// straight into the file, without a log of its own and without writing them again later; but not a
// single one, which goes through the log. More of them at once leave fewer blocks half full.
inline constexpr size_t kRowGroupRows = 122'880;
inline constexpr size_t kAbsorbRows = 2 * kRowGroupRows;  // of GPUs, and then so large or so many:
inline constexpr size_t kAbsorbEnoughBytes = 64ull << 20, kAbsorbEnoughRows = 4 * kRowGroupRows;
inline constexpr size_t kAbsorbBytes = 192ull << 20;
inline constexpr Micros kAbsorbAge = 30 * kMicrosPerSecond;
// With so much that readers keep from going into a segment, appends are refused.
inline constexpr size_t kMaxStagedBytes = 2 * kAbsorbBytes;

class Stage {
 public:
  // `open` fills the engine, when that has been opened, with everything but staged rows.
  Stage(const Options& options, Engine* engine, const DimensionTables* dimensions, Layouts* layouts,
        std::function<Status(Connection*)> open);

  // The mutex is for declaring what is taken before it, and before a lease.
  Mutex& mutex() FW_RETURN_CAPABILITY(mutex_) { return mutex_; }

  // The engine is open, with everything that is on disk: at the start, and after an error.
  Status EnsureUp() FW_EXCLUDES(mutex_);
  // Engine::Write() in the turn to write.
  Status Write(std::string_view doing, Engine::Use use, Engine::Work work,
               std::optional<uint64_t> epoch = {}) FW_EXCLUDES(mutex_);

  struct Filled {
    uint64_t samples = 0, unstorable = 0;
  };
  // Rows are on disk afterwards. `fill` turns the caller's rows into columns; it may add fields.
  using Fill = absl::FunctionRef<StatusOr<Filled>(Connection*, StagedRows*)>;
  Status Append(size_t rows, Micros arrival, Fill fill) FW_EXCLUDES(mutex_);

  // What was acknowledged is in a segment afterwards: all of it, or where the oldest waits for so
  // long, or where the last arrived before `horizon`.
  Status Settle() FW_EXCLUDES(mutex_) { return SettleIfWaiting(0); }
  Status SettleIfWaiting(Micros age) FW_EXCLUDES(mutex_);
  Status SettleIfArrivedBefore(Micros horizon) FW_EXCLUDES(mutex_);
  // What was acknowledged can be read afterwards, from a segment or from memory: in the instance of
  // the engine whose epoch is returned. (Moving rows may itself lead to another one.)
  StatusOr<uint64_t> MakeReadable() FW_EXCLUDES(mutex_);
  // Nobody appends, or moves rows on, meanwhile.
  Status InTurn(absl::FunctionRef<Status()> work) FW_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return work();
  }
  // The segment takes no more rows, and no journal is left of which it alone says that it is in.
  Status Close(std::string_view doing, Segment* segment, uint64_t epoch) FW_EXCLUDES(mutex_);

  // Adds what was appended and what waits. Returns the times of the rows that wait.
  Extent AddTo(StoreStats* stats) const FW_EXCLUDES(seen_mutex_);

 private:
  Status EnsureUpInTurn() FW_REQUIRES(mutex_);
  Status WriteInTurn(std::string_view doing, Engine::Use use, Engine::Work work,
                     std::optional<uint64_t> epoch = {}) FW_REQUIRES(mutex_);
  // Unavailable where readers of rows in memory do not end in so long.
  Status SettleInTurn(Micros longest) FW_REQUIRES(mutex_);

  // All of these with a lease, or while the engine is being opened.
  // Moves rows on where they are due, before others are added.
  Status MakeRoom(Connection* c, Micros arrival) FW_REQUIRES(mutex_);
  Status Add(const StagedRows& rows, Micros arrival) FW_REQUIRES(mutex_);
  Status Absorb(Connection* c) FW_REQUIRES(mutex_);
  // The same for whole row groups of GPU rows; the rest goes to the next journal.
  Status AbsorbWholeGroups(Connection* c) FW_REQUIRES(mutex_);
  Status Absorb(Connection* c, const StagedRows& rows, uint64_t generation, Micros arrival)
      FW_REQUIRES(mutex_);
  // Rows on their way from one journal to the next while the others are being committed.
  struct Carried {
    StagedRows rows;
    std::unique_ptr<Journal> journal;
  };
  Status GoOnWithCarried() FW_REQUIRES(mutex_);          // the commit has happened
  Status TakeBack(Carried carried) FW_REQUIRES(mutex_);  // it has not
  // Replay() follows a crash, or an error.
  Status Replay(Connection* c) FW_REQUIRES(mutex_);
  Status ReplayForReading(Connection* c) FW_REQUIRES(mutex_);
  // The last generation of the journal whose rows are in a segment.
  StatusOr<uint64_t> LastAbsorbed(Connection* c) const;
  // Adds the rows of a journal's file; `last` becomes the latest arrival.
  Status LoadJournal(uint64_t generation, uint64_t absorbed, StagedRows* rows, Micros* last)
      FW_EXCLUDES(seen_mutex_);
  // False: that was done before.
  bool KeepDamaged(uint64_t generation) const;
  std::vector<StoredField> FieldsOf(const StagedRows& rows, telemetry::EntityKind kind) const;
  Status DropJournalsBut(uint64_t generation) const;
  void Changed() FW_REQUIRES(mutex_);

  // Lets readers see rows in memory that cannot be absorbed now.
  Status Show(Connection* c, const StagedRows& rows, Micros arrival) FW_REQUIRES(mutex_);

  const Options& options_;
  Engine& engine_;
  const DimensionTables& dimensions_;
  Layouts& layouts_;
  const std::function<Status(Connection*)> open_;

  Mutex mutex_ FW_ACQUIRED_BEFORE(engine_){kStageRank};
  StagedRows staged_ FW_GUARDED_BY(mutex_);                 // of journal_
  std::unique_ptr<Journal> journal_ FW_GUARDED_BY(mutex_);  // null = nothing staged
  std::optional<Carried> carried_ FW_GUARDED_BY(mutex_);    // while nobody knows
  Micros staged_arrival_ FW_GUARDED_BY(mutex_) = 0;         // of the last staged row
  Micros staged_since_ FW_GUARDED_BY(mutex_) = 0;           // monotonic
  Micros next_absorb_ FW_GUARDED_BY(mutex_) = 0;  // monotonic: after one that failed, for readers
  uint64_t next_journal_ FW_GUARDED_BY(mutex_) = 1;
  size_t shown_rows_ FW_GUARDED_BY(mutex_) = 0;    // of what readers are shown in memory
  int memory_segments_ FW_GUARDED_BY(mutex_) = 0;  // made so far

  // What can be seen of that without the mutex; held briefly.
  struct Seen {
    size_t rows = 0;
    Extent extent;
    uint64_t journal_bytes = 0;
    Micros last_arrival = 0;
    StoreStats appended;  // the counters of appends alone
  };
  mutable Mutex seen_mutex_{kStageSeenRank};
  Seen seen_ FW_GUARDED_BY(seen_mutex_);
};

}  // namespace flopwatch::store::duck
