// What the ingest side is told once, at its start.
#pragma once

#include <cstddef>
#include <functional>

#include "base/time.h"
#include "telemetry/exposition.h"

namespace flopwatch::ingest {

inline constexpr int kMaxShards = 64;

struct PipelineOptions {
  Micros flush_interval = kMicrosPerSecond;
  Micros rollup_interval = 15 * kMicrosPerSecond;
  // Of a source whose own interval is not known yet.
  Micros nominal_interval = 10 * kMicrosPerSecond;
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

  Micros Clock() const { return clock ? clock() : Now(); }
};

}  // namespace flopwatch::ingest
