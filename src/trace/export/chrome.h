// Chrome trace JSON out of event tables: one step cut out of a long trace, many ranks merged into
// one file. It opens in Perfetto and chrome://tracing and reads back as a Kineto trace.
//
// Strict JSON, written as it goes: memory does not grow with the trace. Times are relative to
// baseTimeNanoseconds, as Kineto writes them, exact to the nanosecond. A file of one rank keeps its
// processes and threads; in a file of several every process has a number of its own (rank * 100 +
// n, or wider), named "rank 3: python", and the clock of each rank is shifted by its offset from
// collectives.h, which the file states under "flopwatch".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "trace/analysis/collectives.h"
#include "trace/analysis/critical_path.h"
#include "trace/event_table.h"

namespace flopwatch::trace {

// The critical path of one rank, to be marked: its rows carry "critical": 1, its launches,
// hand-overs and waits are arrows.
struct ChromeOverlay {
  int32_t rank = 0;
  const CriticalPath* path = nullptr;
};

struct ChromeExportOptions {
  std::vector<int32_t> ranks;  // empty = all
  // N of ProfilerStep#N: CPU rows that start in the step and the GPU rows they launched; GPU rows
  // without a launch by their time. Rows that began before the step and only reach into it are left
  // out.
  std::optional<int64_t> step;
  const Collectives* clocks = nullptr;  // nullptr: times as recorded
  bool arrows = true;  // operator/launch -> GPU work ("ac2g"), forward -> backward ("fwdbwd")
  std::vector<ChromeOverlay> overlays;
};

struct ChromeExport {
  int64_t rows = 0, arrows = 0;
  uint64_t bytes = 0;
  std::vector<int32_t> ranks;      // written
  std::vector<std::string> notes;  // ranks without the step, clocks that nothing links
};

// Gets the text piece by piece (up to kChromeChunk bytes and one event). An error stops the export
// and comes back.
using ChromeSink = std::function<Status(std::string_view)>;
inline constexpr size_t kChromeChunk = 256 << 10;

// NotFound where no rank asked for is there or has the step.
StatusOr<ChromeExport> WriteChromeTrace(const TraceSet& set, const ChromeExportOptions& options,
                                        const ChromeSink& sink);

}  // namespace flopwatch::trace
