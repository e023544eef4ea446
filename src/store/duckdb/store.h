// The embedded Store: puts the parts of this folder together. See ../README.md for how they fit.
#ifndef FLOPWATCH_STORE_DUCKDB_STORE_H_
#define FLOPWATCH_STORE_DUCKDB_STORE_H_

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "store/duckdb/dimensions.h"
#include "store/duckdb/engine.h"
#include "store/duckdb/journal.h"
#include "store/duckdb/layout.h"
#include "store/duckdb/roller.h"
#include "store/duckdb/sealer.h"
#include "store/store.h"

namespace flopwatch::store::duck {

// A segment is sealed so long after its hour of arrival has ended: batches that waited in a queue
// still go into it.
inline constexpr Micros kSealGrace = kMicrosPerMinute;
// Files of a day are merged when the day has ended so long ago and so many files of one segment
// each lie there.
inline constexpr Micros kMergeGrace = 2 * kMicrosPerHour;
inline constexpr size_t kMergeFiles = 8;
// A call of Seal() stops merging after so many raw rows (about a minute of one core at 20 fields)
// and leaves the rest to the next, so that rolling up goes on in between.
inline constexpr uint64_t kMergeRowsPerCall = 50'000'000;
// Intervals are looked through for old ones so often.
inline constexpr Micros kIntervalSweep = kMicrosPerHour;
// After a checkpoint that failed, none is tried for so long.
inline constexpr Micros kCheckpointRetry = kMicrosPerMinute;
// After staged rows could not be moved into a segment, readers are shown them in memory for so long
// before the next try.
inline constexpr Micros kAbsorbRetry = 5 * kMicrosPerSecond;
// Readers come and go: a writer that finds them waits so long for the last to leave.
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

class DuckDbStore : public Store {
 public:
  static StatusOr<std::unique_ptr<DuckDbStore>> Open(Options options);
  ~DuckDbStore() override;

  Status Append(const telemetry::SampleBatch& batch, const telemetry::FieldRegistry& fields,
                Micros arrival) override;
  Status AppendMetrics(absl::Span<const telemetry::MetricRow> rows, Micros arrival) override;
  Status AppendApplication(absl::Span<const telemetry::ApplicationSample> samples,
                           Micros arrival) override;
  Status PutClaims(absl::Span<const telemetry::ApplicationClaim> records) override;
  Status PutEntities(absl::Span<const EntityRecord> records) override;
  Status PutModels(absl::Span<const ModelRecord> records) override;
  Status PutSeries(absl::Span<const SeriesRecord> records) override;
  Status PutJobs(const jobs::Changes& changes) override;
  Status RollUp() override;
  Status Seal(Micros now) override;
  Status ApplyRetention(Micros now) override;

  StatusOr<Dimensions> LoadDimensions() const override;
  StatusOr<std::vector<JobUsage>> UsageByJob(Window w) const override;
  StatusOr<std::vector<GpuUsage>> UsageByGpu(Window w, int32_t job) const override;
  StatusOr<std::vector<UsagePoint>> FleetSeries(Window w, Micros step) const override;
  StatusOr<std::vector<ModelPoint>> FleetByModel(Window w, Micros step) const override;
  StatusOr<std::vector<UsagePoint>> JobSeries(int32_t job, Window w, Micros step) const override;
  StatusOr<std::vector<UsagePoint>> GpuSeries(int32_t entity, Window w, Micros step) const override;
  StatusOr<std::vector<JobUsage>> UsageByJobExact(Window w) const override;
  StatusOr<std::vector<JobUsage>> UsageByJobWindows(absl::Span<const JobWindow> windows,
                                                    bool exact) const override;
  StatusOr<std::vector<telemetry::ApplicationClaim>> Claims() const override;
  StatusOr<std::vector<ApplicationUsage>> ApplicationByClaim(
      Window w, absl::Span<const int32_t> claims) const override;
  StatusOr<std::vector<ApplicationPoint>> ApplicationSeries(Window w,
                                                            absl::Span<const int32_t> claims,
                                                            Micros step) const override;
  StatusOr<std::vector<telemetry::ApplicationSample>> ApplicationSamples(
      Window w, absl::Span<const int32_t> claims, uint64_t limit) const override;
  StatusOr<QueryResult> UserSql(std::string_view sql, QueryLimits limits) const override;
  StoreStats stats() const override;

 private:
  using Work = std::function<Status(Connection*)>;

  explicit DuckDbStore(Options options);

  // Everything in memory from what is on disk: at open, and after an error that ended the engine.
  Status SetUp(Connection* c);
  Status EnsureUp() const;
  Status CheckDisk(std::string_view doing) const;
  // Runs `work` on a connection that may write. Out of memory: interrupts lesser uses and tries
  // once more. An error that leaves the engine in doubt makes the next one open everything again
  // from disk.
  Status Write(std::string_view doing, Engine::Use use, const Work& work);

  // Merges the log of a file into it when it is large.
  void Checkpoint(Connection* c, std::string_view alias, const std::string& path);

  // What there is now. Held only while it is read: old segments and files go when no layout names
  // them any more. A loop over a part of it takes a copy first (`for (const auto hot =
  // layout()->hot; ...`): a temporary is gone in the loop's body, and another thread may publish
  // the next layout.
  std::shared_ptr<const Layout> layout() const;
  // Changes what there is to read: views first, then the layout. Returns the new generation.
  StatusOr<uint64_t> Publish(Connection* c, const std::function<void(Layout*)>& change);
  // Detaches and deletes what no reader can still be using.
  Status Reclaim(Connection* c);
  StatusOr<std::shared_ptr<Segment>> SegmentFor(Connection* c, Micros arrival);

  // The journal and what is in it. All of these under write_mutex_ and with a lease, or while the
  // engine is being set up.
  Status Stage(const StagedRows& rows, Micros arrival);
  Status Absorb(Connection* c);
  // The same for whole row groups of GPU rows; the rest goes to the next journal.
  Status AbsorbWholeGroups(Connection* c);
  // Rows on their way from one journal to the next while the others are being committed.
  struct Carried {
    StagedRows rows;
    std::unique_ptr<Journal> journal;
  };
  Status GoOnWithCarried();          // the commit has happened
  Status TakeBack(Carried carried);  // it has not
  Status Absorb(Connection* c, const StagedRows& rows, uint64_t generation, Micros arrival);
  Status Replay(Connection* c);  // after a crash, and after an error
  Status ReplayForReading(Connection* c, Layout* layout) const;
  StatusOr<std::shared_ptr<Segment>> InMemory(Connection* c, const StagedRows& rows,
                                              Micros arrival) const;
  // Lets readers see staged rows that cannot be absorbed now; ends that before they are.
  Status ShowStaged(Connection* c);
  Status HideStaged(Connection* c);
  // Adds the rows of a journal's file; `last` becomes the latest arrival.
  Status LoadJournal(uint64_t generation, uint64_t absorbed, StagedRows* rows, Micros* last) const;
  std::vector<StoredField> FieldsOf(const StagedRows& rows, int kind) const;
  Status DropJournalsBut(uint64_t generation) const;
  void StagedChanged();
  // What was acknowledged is in a segment afterwards. Takes write_mutex_.
  Status Settle();
  // What was acknowledged can be read afterwards, from a segment or from memory. Takes
  // write_mutex_.
  Status SettleForReading();
  // Common to both kinds of Append. `fill` turns the caller's rows into columns; it may add fields.
  Status AppendRows(size_t rows, Micros arrival,
                    const std::function<Status(Connection*, StagedRows*)>& fill,
                    absl::FunctionRef<void(StoreStats*)> count);
  // write_mutex_ for upkeep, which has a lease. It never just waits: an append that has the mutex
  // may wait for every lease to come back, to open the engine again.
  StatusOr<std::unique_lock<std::mutex>> HoldWrites();
  InputScales Scales() const;

  Status RollUpSegment(Connection* c, const Segment& segment);
  Status SealSegment(Connection* c, const std::shared_ptr<Segment>& segment);
  Status MergeRollupDays(Connection* c, Micros now);
  Status MergeRawDays(Connection* c, Micros now);
  // Replaces `inputs` by what `write` makes of them.
  Status Merge(Connection* c, const SealedFiles& inputs,
               const std::function<StatusOr<std::vector<SealedFile>>(Sealer*)>& write);
  Status Replace(Connection* c, const std::vector<SealedFile>& added, const SealedFiles& removed);
  template <typename F>
  auto Read(F&& f) const;

  Options options_;
  std::string meta_path_;
  FileLock lock_;
  mutable std::unique_ptr<Engine> engine_;

  mutable std::mutex recover_mutex_;
  std::mutex maintain_mutex_;  // RollUp, Seal, ApplyRetention; taken before write_mutex_
  // Append*, Put*; checkpoints and rewrites of meta.duckdb. Taken before a lease; with one only by
  // HoldWrites().
  std::mutex write_mutex_;
  std::mutex publish_mutex_;
  DimensionTables dimensions_;           // written under write_mutex_
  StagedRows staged_;                    // of journal_
  std::unique_ptr<Journal> journal_;     // null = nothing staged
  std::optional<Carried> carried_;       // while nobody knows
  Micros staged_arrival_ = 0;            // of the last staged row
  std::atomic<Micros> staged_since_{0};  // monotonic
  uint64_t next_journal_ = 1;
  Micros next_absorb_ = 0;  // monotonic: after one that failed, readers do not try before this
  size_t shown_rows_ = 0;   // of layout_->staged
  mutable std::atomic<int> memory_segments_{0};  // made so far
  std::atomic<size_t> staged_rows_{0};
  std::map<std::string, Watermarks> progress_;  // by segment; under maintain_mutex_
  std::atomic<int64_t> next_file_id_{1};
  std::atomic<Micros> next_checkpoint_{0};  // monotonic
  Micros next_interval_sweep_ = 0;          // under maintain_mutex_

  struct Retired {
    uint64_t generation = 0;  // the first that does not have it
    std::shared_ptr<Segment> segment;
    SealedFiles files;
  };
  mutable std::mutex state_mutex_;  // guards what follows; held briefly
  std::shared_ptr<const Layout> layout_;
  std::deque<std::pair<uint64_t, std::weak_ptr<const Layout>>> old_layouts_;
  std::vector<Retired> retired_;
  StoreStats stats_;
  Extent staged_extent_;
  uint64_t journal_bytes_ = 0;
  Micros staged_last_arrival_ = 0;
};

}  // namespace flopwatch::store::duck

#endif  // FLOPWATCH_STORE_DUCKDB_STORE_H_
