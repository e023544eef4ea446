// What the ingest side counts, of one source and of all, and the names under which it refuses.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "efficiency/counters/honesty.h"
#include "ingest/claims.h"
#include "ingest/origin.h"
#include "telemetry/exposition.h"

namespace flopwatch::ingest {

using Counts = std::vector<std::pair<std::string, uint64_t>>;  // reason, count; zeros left out

// Reasons a row or a body is refused: the decoder's, then those of the later stages.
enum class IngestRefusal : uint8_t {
  // The GPU is already reported by another source that has not been silent for 2.5 intervals and
  // names the same node.
  kDuplicateExporter = static_cast<uint8_t>(telemetry::Refusal::kCount),
  kUuidConflict,     // the same, but it names another node, and its claim is the stronger one
  kStaleTimestamp,   // not newer than the last row of that GPU, or older than max_age
  kFutureTimestamp,  // an exporter's own timestamp more than an hour ahead of the clock
  kEntityLimit,
  kSourceLimit,
  // The sender has made known as much that is new as it may (budget.h); in the order of NewThing.
  kEntityBudget,
  kModelBudget,  // the GPU's rows are stored, its model is not known
  kJobBudget,    // the GPU's rows are stored, as if the label were absent
  kSeriesBudget,
  kSourceBudget,
  kSourceMemory,  // the source was forgotten after a body: those of its sender hold too much
  kCount,
};
inline constexpr size_t kRefusalCount = static_cast<size_t>(IngestRefusal::kCount);
std::string_view RefusalName(size_t reason);
using RefusalCounts = std::array<uint64_t, kRefusalCount>;
Counts NonZero(const RefusalCounts& counts);

struct TargetStats {
  uint64_t samples = 0, narrow = 0, rows = 0, entities = 0, scrapes = 0;
  // Rows of the last scrape whose readings have not changed for longer than max_span.
  uint64_t frozen = 0;
  // GPUs and instances of the last scrape by what is thought of their counters, and by finding.
  std::array<uint32_t, 4> opinions{};  // by efficiency::CounterOpinion
  std::array<uint32_t, efficiency::kCounterRules> findings{};
  Micros last_ingest = 0;
  Counts refused;  // since start
  // Nothing of this body was taken, and for want of room or budget: later it may be.
  bool come_again = false;
  std::vector<std::string> examples;  // of the last scrape that refused something
  std::vector<TargetConflict> conflicts;
};

struct SourceInfo {
  std::string source, node;  // Origin::Text() and Origin::node
  SourceKind kind = SourceKind::kExporter;
  TargetStats stats;
};

struct PipelineStats {
  uint64_t scrapes = 0, rows = 0, samples = 0, narrow = 0, sources = 0;
  uint64_t dropped_rows = 0;  // queue full
  // Rows of batches the store called invalid, and of GPUs and series that it refused to describe.
  uint64_t refused_by_store = 0;
  uint64_t refused_describing = 0;  // records of GPUs, models, series and jobs, of those it refused
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

// Totals are of all sources since start; those that begin with `held` are of now.
struct Totals {
  std::atomic<uint64_t> scrapes{0}, rows{0}, samples{0}, narrow{0}, late_rows{0},
      zero_weight_rows{0}, frozen_rows{0};
  std::atomic<uint64_t> held_rows{0}, held_bytes{0};
  std::array<std::atomic<uint64_t>, kRefusalCount> refused{};
};

}  // namespace flopwatch::ingest
