// The Store: where samples, rollups and the tables that describe them live. One implementation
// today, duckdb/ (embedded).
//
// Layout of a data directory (docs/store.md):
//   LOCK                   one writer process at a time
//   clock                  until when the store was in use (clock_guard.h)
//   meta.duckdb            schema version, entities, models, jobs, intervals, segments, and the
//                          rollups of open days
//   meta-copy.duckdb       a copy of it of the last minutes, the way back (RestoreDescriptions)
//   hot/journal-*.log      flushes not yet in a segment
//   hot/seg-*.duckdb       rows as they arrive; one file spans one hour of arrival; appended only,
//                          no index, no key
//   sealed/samples/day=…/hour=…/*.parquet      GPU-sorted, zstd
//   sealed/gpu_minute/day=… job_minute/… gpu_hour/… fleet_minute/…
//
// Durability: Append() returns after the rows are on disk (fsync). Rollups are derived from the hot
// rows in arrival order, in one transaction with their watermark, so they are exact after any crash
// and late rows simply add a partial sum.
//
// Threads (docs/concurrency.md): reads from any thread. Append* and Put* from one
// thread at a time. RollUp, Seal and ApplyRetention from any thread, beside everything else; among
// themselves they wait for one another. What they hold an append up for is short and does not grow
// with what they work on: closing a segment, the commit that records sealed files, and about once
// an hour a rewrite of the describing tables. A segment's checkpoint (16 MB of log) holds up
// appends to that segment, whoever runs it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/status.h"
#include "base/table.h"
#include "base/time.h"
#include "efficiency/usage_sums.h"
#include "jobs/books.h"
#include "jobs/job_index.h"
#include "store/fault_points.h"
#include "telemetry/application.h"
#include "telemetry/batch.h"
#include "telemetry/field.h"

namespace flopwatch::store {

inline constexpr int kSchemaVersion = 15;

// What the engine may take. It takes all of it within minutes, because it keeps the blocks that it
// has read and written until there is no room for others: with what a server knows of 100,000 GPUs
// that stays below 1.5 GiB.
inline constexpr uint64_t kDefaultMemoryMb = 512;

inline constexpr Micros kDefaultRawRetention = 15 * kMicrosPerDay;

// Options::journal_age of a server: within it a fleet of 2,000 GPUs scraped every second fills a
// row group, and what a kill leaves to be replayed stays a matter of seconds.
inline constexpr Micros kServerJournalAge = 4 * kMicrosPerMinute;

// A write-ahead log of this size is merged into its file. Whole row groups do not pass through it
// (duckdb/stage.h), so what does is rollups, parts of the fleet that have few rows, and small
// fleets; a limit four times as high costs 0.05 bytes a sample at 100k GPUs and saves nothing.
// Replaying so much at the next start takes a fraction of a second.
inline constexpr uint64_t kCheckpointLogBytes = 16ull << 20;

struct Options {
  std::string directory;
  bool read_only = false;
  // The limit of the engine, which takes no less than 512 (duckdb/engine.h says why).
  uint64_t memory_limit_mb = kDefaultMemoryMb;
  int threads = 2;
  // The one place that says how long what is kept; what else goes by it asks for it
  // (StoreStats::retention).
  Micros raw_retention = kDefaultRawRetention;
  Micros minute_retention = 90 * kMicrosPerDay;
  // And the scheduler's books, and intervals of jobs (here and in memory) as long as there are at
  // most max_old_intervals of them: the oldest beyond that go with the minutes.
  Micros hour_retention = 730 * kMicrosPerDay;
  int64_t max_old_intervals = 4'000'000;
  // Flushed rows no older than this may stay in the journal when RollUp is called; readers see them
  // all the same. A server of a few thousand GPUs gives the engine whole row groups that way
  // instead of a commit with every roll-up.
  Micros journal_age = 0;
  // A column of a hot file that must become wider is written anew where that is no more work than
  // this; else the hour goes on in another file. The engine writes tens of millions a second and
  // holds them all in memory: many columns may grow at once.
  uint64_t max_rewritten_values = 4'000'000;
  uint64_t min_free_disk_bytes =
      256ull << 20;  // below: appends are refused with a clear error before the disk is full
  uint64_t checkpoint_log_bytes = kCheckpointLogBytes;
  FaultPoints* faults = nullptr;  // of a test; outlives the store
  // What wall clocks are held against (clock_guard.h). Empty: MonotonicNow().
  std::function<Micros()> monotonic = {};
};

struct EntityRecord {
  int32_t id = 0;
  telemetry::EntityKey key;
  telemetry::EntityLabels labels;
  int32_t parent = 0;  // GPU of an instance; 0 = none
  int32_t model = 0;
  int32_t sm_count = 0;  // of the instance or device; 0 = unknown
  Micros first_seen = 0;
  // No row of it is of later; told on once a day, so that it may be the end of a day.
  Micros last_seen = 0;
};

struct ModelRecord {
  int32_t id = 0;
  std::string name;  // as reported
  std::optional<double>
      tensor_clock_max_mhz;  // nullopt = not in the hardware table: OFU not computable
  int32_t sm_count = 0;
  double tdp_w = 0;
  bool half_rate = false;
  Micros last_seen = 0;  // as of entities: of any GPU that is said to be one
};

struct SeriesRecord {  // of the narrow table
  int32_t id = 0;
  std::string target, name, labels;
  Micros last_seen = 0;  // as of entities
};

// What ingest has forgotten of what has been silent for longer than any row is kept.
struct ForgottenDevices {
  std::vector<int32_t> entities, models;
  Micros series_before = 0;  // all that were last seen before this; 0 = none
  bool empty() const { return entities.empty() && models.empty() && series_before == 0; }
};

struct Dimensions {
  std::vector<EntityRecord> entities;
  std::vector<ModelRecord> models;
  std::vector<jobs::JobRecord> jobs;
  std::vector<jobs::IntervalRecord> intervals;
  std::vector<jobs::JobSetRecord> sets;
  std::vector<SeriesRecord> series;
  std::vector<telemetry::ApplicationClaim> claims;
  std::vector<jobs::AttemptRecord> attempts;
  std::vector<jobs::NodeRecord> nodes;
};

struct Window {
  Micros from = 0;
  Micros to = 0;  // exclusive
};
// InvalidArgument, with its ends, for a window that is empty.
Status CheckWindow(Window w);

using efficiency::UsageSums;

// Of GPU time that had an owner, when nobody knows any more who that was: the table of jobs was
// full and its job forgotten before the rollups that name it (jobs::JobIndex::Forget).
inline constexpr int32_t kUnknownJob = -1;
inline constexpr int32_t kAnyJob = -2;
inline constexpr std::string_view kUnknownJobName = "(unknown)";

struct JobUsage {
  int32_t job = 0;  // 0 = GPU time no job owned; kUnknownJob
  UsageSums sums;
};
// A job over a time of its own: a training window, from the first to the last report of its
// application.
struct JobWindow {
  int32_t job = 0;
  Window window;
};
struct GpuUsage {
  int32_t entity = 0;
  UsageSums sums;
};
struct UsagePoint {
  Micros ts = 0;  // start of the step
  UsageSums sums;
};

struct JobPoint {
  int32_t job = 0;
  Micros ts = 0;  // start of the step
  UsageSums sums;
};
struct GpuPoint {
  int32_t entity = 0;
  Micros ts = 0;  // start of the step
  UsageSums sums;
};

struct ModelPoint {
  Micros ts = 0;      // start of the step
  int32_t model = 0;  // 0 = not known
  UsageSums sums;
};

struct MetricSample {  // of the narrow table
  Micros ts = 0;
  std::string labels;  // as they came: a="b",c="d"
  double value = 0;
};

// What applications said over some time, as sums: parts of a window, and claims where that makes
// sense, add up. A mean is weighted by the time each sample stands for; samples whose time is not
// known count, and weigh nothing.
struct ApplicationSums {
  struct Field {
    int64_t count = 0;      // samples that have it
    double weighted_s = 0;  // sum of value x s
    double span_s = 0;      // the seconds behind it
    double last = 0;        // of the newest sample that has it; meaningful where count > 0
    Micros last_ts = 0;
  };
  int64_t samples = 0;
  double span_s = 0;
  std::array<Field, telemetry::kApplicationFields> fields;
  Micros first_ts = 0,
         last_ts = 0;  // begin of what the first stands for, and end of the last; 0 = no sample
  std::optional<int64_t> first_step, last_step;  // lowest and highest

  const Field& operator[](telemetry::ApplicationField f) const {
    return fields[static_cast<size_t>(f)];
  }
  // Nothing where no sample with a weight has it.
  std::optional<double> Mean(telemetry::ApplicationField f) const;
  std::optional<double> Last(telemetry::ApplicationField f) const;
  void Add(const telemetry::ApplicationSample& sample);
  ApplicationSums& operator+=(const ApplicationSums& o);
};

struct ApplicationUsage {
  int32_t claim = 0;
  ApplicationSums sums;
};
struct ApplicationPoint {
  Micros ts = 0;  // start of the step
  int32_t claim = 0;
  ApplicationSums sums;
};

// Up to 2,048 rows of GPUs and their instances, as they are stored. Valid during the call alone.
struct GpuRows {
  size_t count = 0;
  const Micros* ts = nullptr;  // the row stands for (ts - span, ts]
  const int32_t* entity = nullptr;
  const int32_t* span_ms = nullptr;  // 0: for no time (a first sample, one after a gap)
  const int32_t* flags = nullptr;    // efficiency/sample_flags.h
  const int32_t* job_set = nullptr;  // as stamped; 0 = nobody's
  // Of each column asked for, in canonical units; NaN where the row has no value. A column is a
  // field's, or "tensor_mhz": the rate of the cycle totals, of rows with kCyclePath.
  std::vector<const double*> values;
};
enum class RowOrder : uint8_t {
  kAny,    // as they are stored: about as fast as a scan
  kByGpu,  // hour by hour; within one GPU by GPU, and of a GPU by time: sorted, some ten times as
           // slow
};
inline constexpr size_t kMaxVisitedColumns = 32;

inline constexpr size_t kMaxSqlBytes = 64 * 1024;  // of a query's text

struct QueryLimits {
  uint64_t max_rows = 10'000;
  uint64_t max_bytes = 64ull << 20;  // of text in cells, about; what is over either is left out
  Micros timeout = 30 * kMicrosPerSecond;
};
struct QueryResult {
  Table table;
  std::vector<std::string> types;  // SQL type of each column
  bool truncated = false;
  double elapsed_ms = 0;
};

// What goes for its age, and by which time: docs/store.md, "Retention".
struct RetentionStats {
  Micros mark = 0;        // the store's own estimate of now; 0 = retention was not applied yet
  Micros as_of = 0;       // by which time things are old; 0 = nothing is
  Micros behind = 0;      // how far that is behind the clock
  std::string waits_for;  // why, where it is much: clock_ahead, clock_behind, no_new_data
  Micros intervals_before = 0;  // intervals of jobs that ended before this are gone
  Micros books_before = 0;      // attempts of jobs, and what nodes were, likewise
  Micros minutes_before = 0;    // rollups by minute of before this are gone, or may go
  // What was last seen before this no stored row names: rows go first, then the names in them. 0 =
  // not known.
  Micros unnamed_before = 0;
  Micros unnamed_series_before = 0;  // of series, whose rows are kept for raw_retention
  uint64_t files = 0, rows = 0;      // deleted since the start
  uint64_t intervals = 0, jobs = 0, job_sets = 0, attempts = 0, nodes = 0;
  uint64_t claims = 0;
  uint64_t entities = 0, models = 0, series = 0;
  uint64_t jobs_early = 0;  // for want of room, although rows name them; not among `jobs`
};

struct StoreStats {
  uint64_t rows_appended = 0, samples_appended = 0, batches = 0;
  uint64_t hot_bytes = 0, sealed_bytes = 0, meta_bytes = 0;
  uint64_t hot_segments = 0, sealed_files = 0;
  // Files that are not what was written: left out of every answer, and kept. Their rows, and those
  // that are gone from hot files.
  uint64_t damaged_files = 0, damaged_rows = 0;
  Micros damaged_from = 0, damaged_to = 0;  // times of their rows
  Micros oldest_ts = 0, newest_ts = 0;
  Micros meta_copied = 0;  // when meta.duckdb was copied last; 0 = there is no copy
  Micros rolled_up_to_arrival = 0;
  uint64_t append_errors = 0;
  uint64_t journal_damaged_bytes = 0;  // of acknowledged flushes, found since the start; lost
  uint64_t unstorable_values = 0;      // not finite, or too large for the column: stored as absent
  Micros last_arrival = 0;
  Micros application_kept = 0;  // older samples of applications are dropped; 0 = not known
  RetentionStats retention;
  std::string last_error;
};

class Store {
 public:
  virtual ~Store() = default;

  // --- writing (one thread at a time) ---
  virtual Status Append(const telemetry::SampleBatch& batch, const telemetry::FieldRegistry& fields,
                        Micros arrival) = 0;
  virtual Status AppendMetrics(absl::Span<const telemetry::MetricRow> rows, Micros arrival) = 0;
  // Appends what applications report; the claims that samples name were put before. Durable as
  // Append(). These two from any thread, also beside the thread that appends rows.
  virtual Status AppendApplication(absl::Span<const telemetry::ApplicationSample> samples,
                                   Micros arrival) = 0;
  virtual Status PutClaims(absl::Span<const telemetry::ApplicationClaim> records) = 0;
  virtual Status PutEntities(absl::Span<const EntityRecord> records) = 0;
  virtual Status PutModels(absl::Span<const ModelRecord> records) = 0;
  virtual Status PutSeries(absl::Span<const SeriesRecord> records) = 0;
  virtual Status PutJobs(const jobs::Changes& changes) = 0;
  virtual Status PutBooks(const jobs::BookChanges& changes) = 0;

  // --- upkeep (any thread) ---
  // Rolls up every row that arrived since the last call; seals hours that closed before `now` and
  // merges closed days, some of the work a call; applies retention. An error changes nothing: the
  // next call tries again. What `now` of a clock that jumped may delete is ClockGuard's to say.
  virtual Status RollUp() = 0;
  virtual Status Seal(Micros now) = 0;
  virtual Status ApplyRetention(Micros now) = 0;
  // Deletes what jobs::JobIndex has forgotten, which decides by RetentionStats: it knows what is
  // being stored just now. The highest ids stay: they say from where on ids are new.
  virtual Status ForgetJobs(const jobs::Forgotten& forgotten) = 0;
  // Deletes what ingest::Registry has forgotten, likewise.
  virtual Status ForgetDevices(const ForgottenDevices& forgotten) = 0;
  virtual Status ForgetClaims(absl::Span<const int32_t> claims) = 0;

  // --- reading (any thread) ---
  // Reads change how things are stored, never what is: rows that wait in the journal are moved to
  // where they are read from, and after an error the files are opened again.
  virtual StatusOr<Dimensions> LoadDimensions() = 0;
  // Reads job-minute rollups (whole minutes of [from, to), widened to minutes); shared GPUs are
  // already divided by share.
  virtual StatusOr<std::vector<JobUsage>> UsageByJob(Window w) = 0;
  // Of one job, of all time (0), or of the time in which any job had the GPU (kAnyJob).
  virtual StatusOr<std::vector<GpuUsage>> UsageByGpu(Window w, int32_t job = 0) = 0;
  virtual StatusOr<std::vector<UsagePoint>> FleetSeries(Window w, Micros step) = 0;
  // FleetSeries() divided by GPU model (MIG instances by their share of the GPU): over the models
  // of a step it adds up to it. As cheap, over any window.
  virtual StatusOr<std::vector<ModelPoint>> FleetByModel(Window w, Micros step) = 0;
  virtual StatusOr<std::vector<UsagePoint>> JobSeries(int32_t job, Window w, Micros step) = 0;
  virtual StatusOr<std::vector<UsagePoint>> GpuSeries(int32_t entity, Window w, Micros step) = 0;
  // What UsageByGpu() of each step says of one job, sorted by GPU and time.
  virtual StatusOr<std::vector<GpuPoint>> UsageByGpuSteps(Window w, Micros step, int32_t job) = 0;
  // Every job over steps of whole minutes, sorted by job and time, of the minutes in which its GPUs
  // had kernels running for at least `least_duty` of the time (0 = all; 0..1) or nobody says
  // whether they had: pauses are left out. Rows that no rollup has yet are all there. Reads
  // minutes, which are kept for minute_retention. One pass, whatever the number of jobs; memory
  // goes with the number of points.
  virtual StatusOr<std::vector<JobPoint>> UsageByJobSteps(Window w, Micros step,
                                                          double least_duty) = 0;
  // The same as UsageByJob but joining raw rows with the interval table instead of trusting the
  // stamped job: for jobs whose metadata came late. Costs a raw scan.
  virtual StatusOr<std::vector<JobUsage>> UsageByJobExact(Window w) = 0;
  // Each job over its own window, one question for all of them; a job is named once. From job
  // rollups, whole minutes that lie inside the window: at most a minute is left out at either end.
  // `exact`: raw rows joined with the interval table and cut at the window's ends; one raw scan
  // over all windows. Jobs without a row are left out.
  virtual StatusOr<std::vector<JobUsage>> UsageByJobWindows(absl::Span<const JobWindow> windows,
                                                            bool exact) = 0;
  // Every claim that is stored, sorted by id.
  virtual StatusOr<std::vector<telemetry::ApplicationClaim>> Claims() = 0;
  // What applications reported with from <= ts < to: of these claims, or of all when there is none.
  // Sorted by claim, and then by time. Claims without a sample in the window are left out. `step`
  // in whole milliseconds.
  virtual StatusOr<std::vector<ApplicationUsage>> ApplicationByClaim(
      Window w, absl::Span<const int32_t> claims) = 0;
  virtual StatusOr<std::vector<ApplicationPoint>> ApplicationSeries(
      Window w, absl::Span<const int32_t> claims, Micros step) = 0;
  // The samples themselves, oldest first; at most `limit` of them.
  virtual StatusOr<std::vector<telemetry::ApplicationSample>> ApplicationSamples(
      Window w, absl::Span<const int32_t> claims, uint64_t limit) = 0;
  // What series of this name had (the view `metrics`), oldest first; at most `limit` samples. Quick
  // where there is none.
  virtual StatusOr<std::vector<MetricSample>> Metrics(Window w, std::string_view name,
                                                      uint64_t limit) = 0;
  // Calls `visit` with every raw row of GPUs and instances with from <= ts < to, from one thread at
  // a time, not always the same; at most kMaxVisitedColumns of the names in docs/fields.md. An
  // error of `visit` ends the visit and is returned. Unavailable: the engine failed when some rows
  // had been visited; what they came to is to be thrown away. Nothing may be asked of the store
  // within `visit`.
  virtual Status VisitGpuRows(Window w, absl::Span<const std::string_view> columns, RowOrder order,
                              absl::FunctionRef<Status(const GpuRows&)> visit) = 0;
  // Read-only SQL of a user: SELECT/EXPLAIN/DESCRIBE only, no files outside the data directory,
  // bounded rows and time.
  virtual StatusOr<QueryResult> UserSql(std::string_view sql, QueryLimits limits) = 0;
  virtual StoreStats stats() const = 0;
  // Makes `directory`, which must not be there but in the file system of the data, a data directory
  // of what is stored now, for another process to open read-only. It is what a kill at a moment
  // within this call would have left: sealed files are linked, hot ones copied, but for those that
  // `previous` ("" = none), an earlier copy, has as they are. Appends wait while logs of a few MB
  // are copied.
  // An error leaves nothing. ResourceExhausted: too little disk. Unavailable: not now.
  virtual Status CopyTo(const std::string& /*directory*/, const std::string& /*previous*/) {
    return Unimplemented("this store cannot be copied");
  }
  // Ends reading: what is read from now on is Unavailable, and what is being read is interrupted
  // until it has ended or `longest` is over. Writing goes on. True: nobody reads any more.
  virtual bool EndReads(Micros /*longest*/) { return true; }
};

// 128 bits of XXH3 over the whole file, as 32 hexadecimal digits: what `sealed_files` has of each.
// DataLoss: it cannot be read.
StatusOr<std::string> HashOfSealedFile(const std::string& path);

// What hot files have lost (docs/store.md, "Damage"), as noted in a data directory.
struct HotLoss {
  std::string file;
  uint64_t rows = 0;        // 0 = nobody knows how many
  Micros from = 0, to = 0;  // of these rows, where they are known
};
std::vector<HotLoss> LossesOfHotFiles(const std::string& directory);

// Puts the periodic copy of meta.duckdb in the place of one that is gone or cannot be read, while
// no server runs. What came after the copy has no names there: GPUs, jobs, models, series and
// claims whose rows are in hot files or the journal get "lost-NUMBER", and no number is given to
// another. The file that was there is kept. NotFound: there is no copy; FailedPrecondition: the
// file can be read, or somebody uses the directory.
struct Restored {
  Micros as_of = 0;  // of the copy
  std::string kept;  // what was there lies here; "" = nothing was
  uint64_t gpus = 0, jobs = 0, models = 0, series = 0, claims = 0;  // that have no name
  uint64_t rows = 0;                                                // of these GPUs
  uint64_t unrecorded_files = 0;                 // sealed later; moved to DIRECTORY/unrecorded
  uint64_t missing_files = 0, missing_rows = 0;  // that the copy names and nobody has
};
StatusOr<Restored> RestoreDescriptions(Options options);

// Opens or creates. Errors: another process holds the directory; newer schema; disk full; damaged
// file (named).
StatusOr<std::unique_ptr<Store>> OpenDuckDbStore(const Options& options);

}  // namespace flopwatch::store
