// The ingest pipeline: body of one scrape -> decoded rows -> job stamp, span, flags -> live state +
// batches -> store.
//
// Time a row stands for. A sample at ts stands for (previous ts of that GPU, ts] when the two are
// at most PipelineOptions::max_span apart. The first sample of a GPU and the first after a longer
// gap stand for nothing: span 0, kSpanUnknown, no weight in any sum. They are stored all the same.
// Repeats (an exporter that collects more slowly than it is scraped) count and are flagged
// kStaleRepeat; a run of them longer than max_span is a frozen exporter: kFrozen, no weight. On the
// cycle path repeats have no weight at once, and the row that moves the totals stands for the whole
// time since they last moved: nothing is lost to missed scrapes and slow exporters.
//
// MIG. An instance's OFU uses the board's clock, which the decoder copies into its row. While
// instances are listed, the GPU's own row is kMigParent: it carries board values (power) and no
// OFU. The exception is an exporter that gives the tensor activity of the GPU and of no instance:
// then the GPU's row counts and the instances' have no weight.
//
// What is refused, each counted by reason, for its exporter and in total:
//   duplicate_exporter  the GPU is already reported by another source that has not been silent
//   for 2.5 intervals and
//                       names the same node
//   uuid_conflict       the same, but it names another node, and its claim is the stronger one
//   (claims.h) stale_timestamp     not newer than the last row of that GPU, or older than max_age
//   future_timestamp    an exporter's own timestamp more than an hour ahead of the clock
//   entity_limit, source_limit, and every reason of the decoder (telemetry::ReasonName)
//
// Zeros of a counter that may be dead (docs/ofu.md) are not computable from the first one on. Their
// rows wait here, at most kDeadCounterSeconds and within a bound of memory, until it is known what
// they were; the live sums, which have them already, are corrected then. A process that is killed
// loses the rows that wait.
//
// Ingest() runs on scraper threads (or an API thread for pushes). Batches are handed to one writer
// thread that flushes every flush_interval; another rolls up, seals and applies retention beside
// it. The queue between them is bounded by rows and bytes; when the store cannot keep up or fails,
// the oldest batch that it has not begun to write is dropped and counted. What Append()
// acknowledged is never lost, and a batch whose Append() failed is tried again until it is stored
// or the store refuses it as invalid.
#ifndef FLOPWATCH_INGEST_PIPELINE_H_
#define FLOPWATCH_INGEST_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "hardware/accelerator.h"
#include "jobs/job_index.h"
#include "ingest/application.h"
#include "ingest/claims.h"
#include "ingest/live.h"
#include "ingest/registry.h"
#include "store/store.h"
#include "telemetry/exposition.h"

namespace flopwatch::ingest {

inline constexpr int kMaxShards = 64;
inline constexpr std::string_view kPushPrefix =
    "push:";  // of the source of what is pushed, before the node's name

struct PipelineOptions {
  Micros flush_interval = kMicrosPerSecond;
  Micros rollup_interval = 15 * kMicrosPerSecond;
  Micros nominal_interval =
      10 * kMicrosPerSecond;  // of a source whose own interval is not known yet
  // A longer gap is unobserved time, not a long sample. Raised to 2.5 nominal intervals.
  Micros max_span = 90 * kMicrosPerSecond;
  Micros max_age = 15 * kMicrosPerDay;  // older exporter timestamps are refused
  size_t max_queued_rows = 2'000'000;
  size_t max_queued_bytes = 256ull << 20;
  size_t max_sources = 65'536;
  telemetry::DecodeLimits limits;
  bool maintenance = true;  // roll up, seal and apply retention, on a thread of their own
  // Back-fill of simulated or recorded time: rows carry kBackfilled, exporter timestamps are
  // believed however far ahead, and Ingest() waits for the store instead of dropping.
  bool backfill = false;
  // Arrival time of batches and "now" of maintenance. Empty = flopwatch::Now().
  std::function<Micros()> clock;
};

using Counts = std::vector<std::pair<std::string, uint64_t>>;  // reason, count; zeros left out

struct TargetStats {
  uint64_t samples = 0, narrow = 0, rows = 0, entities = 0, scrapes = 0;
  uint64_t frozen =
      0;  // rows of the last scrape whose readings have not changed for longer than max_span
  Micros last_ingest = 0;
  Counts refused;                     // since start
  std::vector<std::string> examples;  // of the last scrape that refused something
  std::vector<TargetConflict> conflicts;
};

struct SourceInfo {
  std::string source, node;
  TargetStats stats;
};

struct PipelineStats {
  uint64_t scrapes = 0, rows = 0, samples = 0, narrow = 0, sources = 0;
  uint64_t dropped_rows = 0;      // queue full
  uint64_t refused_by_store = 0;  // rows of batches the store called invalid
  uint64_t queued_rows = 0, queued_bytes = 0, flushes = 0, flush_errors = 0;
  uint64_t late_rows = 0;         // more than a minute behind the newest row
  uint64_t zero_weight_rows = 0;  // span not known, or frozen
  uint64_t frozen_rows = 0;
  uint64_t held_rows = 0;                           // waiting for the verdict on a counter
  uint64_t uuid_conflicts = 0, duplicate_gpus = 0;  // GPUs that two sources claim now
  double samples_per_s = 0;                         // over the last ten seconds
  double last_flush_ms = 0, last_rollup_ms = 0;
  Micros last_flush = 0;         // clock of the last flush without error
  std::string last_store_error;  // "" when the last flush worked
  Counts refused;
};

class Pipeline {
 public:
  // All pointers outlive the pipeline. `store` may be null (live only).
  static StatusOr<std::unique_ptr<Pipeline>> Start(const PipelineOptions& options,
                                                   const hardware::Catalog* catalog,
                                                   store::Store* store);
  virtual ~Pipeline() = default;  // flushes what is queued

  // `source` identifies the exporter (URL or push node); `node` names its host where labels do not.
  // `ts` is the time of samples without their own timestamp. `shard` < kMaxShards selects the batch
  // to fill: callers on different threads use different ones to stay out of each other's way.
  // Returns what this body gave.
  virtual TargetStats Ingest(std::string_view source, std::string_view node, std::string_view body,
                             Micros ts, int shard) = 0;
  virtual void Forget(std::string_view source) = 0;
  // Hands everything queued to the store, rolls up, and returns when it is durable (tests,
  // shutdown, back-fill). The error is the store's; what could not be stored stays queued.
  virtual Status Flush() = 0;
  // Before the last Flush(): no sample will follow, so rows that wait for a verdict are stored as
  // suspected.
  virtual void Settle() = 0;

  virtual jobs::JobIndex& jobs() = 0;
  virtual ApplicationIntake& application() = 0;
  virtual LiveState& live() = 0;
  virtual telemetry::FieldRegistry& fields() = 0;
  virtual const Registry& registry() const = 0;
  virtual const PipelineOptions& options() const = 0;
  virtual PipelineStats stats() const = 0;
  virtual TargetStats StatsOf(std::string_view source) const = 0;
  virtual std::vector<SourceInfo> Sources() const = 0;  // without conflicts
  // How many GPUs of each source another one claims as well; sources without any are left out.
  virtual Counts ContestedGpus() const = 0;
  // Entity and model tables for names in answers.
  std::vector<store::EntityRecord> Entities() const { return registry().Entities(); }
  std::vector<store::ModelRecord> Models() const { return registry().Models(); }
};

}  // namespace flopwatch::ingest

#endif  // FLOPWATCH_INGEST_PIPELINE_H_
