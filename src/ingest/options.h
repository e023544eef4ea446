// What the ingest side is told once, at its start.
#pragma once

#include <cstddef>
#include <functional>

#include "base/time.h"
#include "ingest/budget.h"
#include "jobs/job_index.h"
#include "store/store.h"
#include "telemetry/exposition.h"

namespace flopwatch::ingest {

class StoredTime;

inline constexpr int kMaxShards = 64;
// A clock that has gone back by more than this was set; by less, what is live waits for it.
inline constexpr Micros kClockStep = kMicrosPerMinute;

// The highest id of `limit` things of which some are forgotten and others come. Tables by id are
// made for it.
inline constexpr int32_t IdsFor(int32_t limit) { return 2 * limit; }

// How many there may be of what has an id.
struct RegistryLimits {
  int32_t entities = 1 << 20;  // GPUs, instances and parts of nodes
  int32_t models = 4096;
  int32_t series = 1 << 18;  // narrow ones in use
};

struct PipelineOptions {
  Micros flush_interval = kMicrosPerSecond;
  Micros rollup_interval = 15 * kMicrosPerSecond;
  // The interval of a source whose own is not known yet.
  Micros nominal_interval = 10 * kMicrosPerSecond;
  // A longer gap is unobserved time, not a long sample. Raised to 2.5 nominal intervals.
  Micros max_span = 90 * kMicrosPerSecond;
  Micros max_age = store::kDefaultRawRetention;  // older exporter timestamps are refused
  size_t max_queued_rows = 2'000'000;
  size_t max_queued_bytes = 256ull << 20;
  size_t max_sources = 65'536;
  Micros source_idle = kMicrosPerHour;  // one that sends to us is forgotten after so much silence
  RegistryLimits known;
  jobs::Limits jobs;
  // What the sources of one sender may remember between bodies; a fleet of 12,500 nodes with eight
  // GPUs each, sent by one Prometheus, needs about 300 MiB. A source beyond it is forgotten after
  // each body.
  size_t max_sender_bytes = 512ull << 20;
  Allowances allowances = kFleetAllowances;  // of each sender; none in back-fill
  telemetry::DecodeLimits limits;
  bool maintenance = true;  // roll up, seal and apply retention, on a thread of their own
  // Back-fill of simulated or recorded time: rows carry kBackfilled, exporter timestamps are
  // believed however far ahead, and Ingest() waits for the store instead of dropping.
  bool backfill = false;
  // What the store has already: rows of it are not stored again, and only GPUs are taken (not parts
  // of nodes, nor other series). Outlives the pipeline; null: everything is new.
  const StoredTime* stored_time = nullptr;
  // Arrival time of batches and "now" of maintenance. Empty = flopwatch::Now().
  std::function<Micros()> clock;
  // What silence and budgets are measured with. Never empty; tests have their own.
  std::function<Micros()> monotonic = MonotonicNow;

  Micros Clock() const { return clock ? clock() : Now(); }
};

}  // namespace flopwatch::ingest
