// Works on what is stored, beside appends and readers: rolling up, sealing hours, merging days,
// retention.
//
// Long steps have a lease alone. Short ones that nobody may append beside (closing a segment,
// recording files, rewriting the describing tables) take the turn to write first (Stage) and a
// lease after it. So no step waits for the turn with a lease in hand, and between two steps the
// engine may be opened again: each names the instance (epoch) that the work began with, and the
// next call goes on from disk.
#pragma once

#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "store/clock_guard.h"
#include "store/duckdb/dimensions.h"
#include "store/duckdb/engine.h"
#include "store/duckdb/layouts.h"
#include "store/duckdb/roller.h"
#include "store/duckdb/sealer.h"
#include "store/duckdb/stage.h"
#include "store/store.h"

namespace flopwatch::store::duck {

// A segment is sealed so long after its hour of arrival has ended: batches that waited in a queue
// still go into it.
inline constexpr Micros kSealGrace = kMicrosPerMinute;
// Files of a day are merged when the day has ended so long ago and so many files of one segment
// each lie there.
inline constexpr Micros kMergeGrace = 2 * kMicrosPerHour;
// Of sealed files that are looked at again by a call of Seal(): one a minute is 4 MB a second.
inline constexpr uint64_t kCheckedPerCall = 256ull << 20;
inline constexpr size_t kMergeFiles = 8;
// A call of Seal() stops merging after so many raw rows (about a minute of one core at 20 fields)
// and leaves the rest to the next, so that rolling up goes on in between.
inline constexpr uint64_t kMergeRowsPerCall = 50'000'000;
// Intervals are looked through for old ones so often, by the monotonic clock.
inline constexpr Micros kIntervalSweep = kMicrosPerHour;
// Segments of an hour that begins so much later than now are sealed as well: a clock was ahead, and
// they would stay hot until their time comes.
inline constexpr Micros kSealAhead = 2 * kMicrosPerHour;
// How old the copy of the describing tables becomes, by the monotonic clock, where nothing is
// deleted. New fields do not wait for it: without them nobody knows what a column's numbers mean.
inline constexpr Micros kCopyMetaEvery = 10 * kMicrosPerMinute;
// By so much a row may be younger than the last sight of its job that is known: it is told on once
// a minute and a day.
inline constexpr Micros kSeenLate = kMicrosPerDay;

class Upkeep {
 public:
  Upkeep(const Options& options, Engine* engine, DimensionTables* dimensions, Layouts* layouts,
         Stage* stage);

  // Called once, when the store has been opened to write and nobody has appended yet: a directory
  // without a mark was last in use when its newest data came, and what comes next may be of a clock
  // that jumped.
  void NoteWhatIsThere() FW_EXCLUDES(mutex_);
  Status RollUp() FW_EXCLUDES(mutex_);
  Status Seal(Micros now) FW_EXCLUDES(mutex_);
  Status ApplyRetention(Micros now) FW_EXCLUDES(mutex_);
  Status ForgetJobs(const jobs::Forgotten& forgotten) FW_EXCLUDES(mutex_);
  Status ForgetDevices(const ForgottenDevices& forgotten) FW_EXCLUDES(mutex_);
  Status ForgetClaims(absl::Span<const int32_t> claims) FW_EXCLUDES(mutex_);
  // Every row that arrived before this is in a rollup.
  Micros rolled_up_to() const { return rolled_up_to_; }
  RetentionStats retention() const FW_EXCLUDES(retention_mutex_);

 private:
  // The engine is up; what follows is for this instance of it.
  Status Begin(std::string_view doing) FW_REQUIRES(mutex_);
  // A step beside appends, and one between them.
  Status Beside(Engine::Work work) FW_REQUIRES(mutex_);
  Status InTurn(Engine::Work work) FW_REQUIRES(mutex_);
  // Where a file turns out to be damaged, the store is opened again without it.
  Status Doubted(Status status) FW_REQUIRES(mutex_);

  Status RollUpSegment(Connection* c, const Segment& segment) FW_REQUIRES(mutex_);
  Status SealSegment(const std::shared_ptr<Segment>& segment) FW_REQUIRES(mutex_);
  Status MergeRollupDays(Micros now) FW_REQUIRES(mutex_);
  Status MergeRawDays(Micros now) FW_REQUIRES(mutex_);
  // Replaces `inputs` by what `write` makes of them.
  Status Merge(const SealedFiles& inputs,
               absl::FunctionRef<StatusOr<std::vector<SealedFile>>(Sealer*)> write)
      FW_REQUIRES(mutex_);
  // Records `added` in place of `gone`, in one commit, and lets readers see it. An error of the
  // commit, or before it, leaves everything as it was, without the files.
  Status Replace(const std::vector<SealedFile>& added, const Layouts::Gone& gone)
      FW_REQUIRES(mutex_);
  Status Reclaim() FW_REQUIRES(mutex_);
  Status CopyMeta() FW_REQUIRES(mutex_);
  // Where something has gone, or is to go, that the last copy names. An error: it must stay, and
  // its ids nobody else's. But a disk that is full must be freed, whatever becomes of the copy.
  Status CopyMetaIfOwed() FW_REQUIRES(mutex_);
  void CopyMetaIfDue() FW_REQUIRES(mutex_);
  // Looks at sealed files that nobody has looked at for long, so many bytes a call; readers see no
  // more of those that are damaged.
  void CheckFiles(uint64_t bytes) FW_REQUIRES(mutex_);
  void SetAside(const SealedFiles& damaged) FW_REQUIRES(mutex_);
  // Moves the guard on and keeps its mark. Returns by what time things are old; 0 = nothing is.
  Micros AgeBy(Micros now) FW_REQUIRES(mutex_);
  // The times of all rows there are.
  Extent Data() const;
  Extent MetricsData() const;
  Micros NewestData() const;
  // RetentionStats::unnamed_before.
  void NoteUnnamed(Micros as_of) FW_REQUIRES(mutex_);
  Status DropFiles(Micros as_of) FW_REQUIRES(mutex_);
  Status DropIntervals(Micros as_of) FW_REQUIRES(mutex_);
  Micros Monotonic() const { return options_.monotonic ? options_.monotonic() : MonotonicNow(); }
  Sealer SealerOn(Connection* c) const;

  const Options& options_;
  const std::string meta_path_;
  Engine& engine_;
  DimensionTables& dimensions_;
  Layouts& layouts_;
  Stage& stage_;

  const Micros opened_;  // monotonic

  Mutex mutex_ FW_ACQUIRED_BEFORE(stage_.mutex(), engine_){kUpkeepRank};  // held for a whole call
  std::string_view doing_ FW_GUARDED_BY(mutex_);
  uint64_t epoch_ FW_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Watermarks> progress_ FW_GUARDED_BY(mutex_);  // by segment, in this epoch
  Micros next_interval_sweep_ FW_GUARDED_BY(mutex_) = std::numeric_limits<Micros>::min();
  std::optional<ClockGuard> guard_ FW_GUARDED_BY(mutex_);
  Micros newest_at_open_ FW_GUARDED_BY(mutex_) = 0;
  Micros kept_mark_ FW_GUARDED_BY(mutex_) = 0;  // on disk
  bool said_waiting_ FW_GUARDED_BY(mutex_) = false;
  // What of meta.duckdb its copy has, as they count it themselves.
  struct Copied {
    Micros again = std::numeric_limits<Micros>::min();  // monotonic
    size_t fields = 0;
    int64_t written = -1;
    uint64_t to_be_deleted = 0;
  };
  Copied copied_ FW_GUARDED_BY(mutex_);
  bool forgotten_since_copy_ FW_GUARDED_BY(mutex_) = false;
  std::atomic<Micros> rolled_up_to_{0};
  mutable Mutex retention_mutex_{kRetentionRank};
  RetentionStats retention_ FW_GUARDED_BY(retention_mutex_);
};

}  // namespace flopwatch::store::duck
