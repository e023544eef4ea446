// Why a stream was idle, for our definition of its gaps and for HTA's. Internal to the two.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "trace/analysis/tables.h"

namespace flopwatch::trace {

// Shorter gaps between work that was queued in time are the GPU's own delay. HTA's threshold, which
// it documents as 30 ns and compares in µs.
inline constexpr Nanos kKernelDelay = 30'000;

enum Idle : size_t { kHostWait, kKernelWait, kOtherWait, kNotKnown, kIdleKinds };
inline constexpr std::string_view kIdleNames[kIdleKinds] = {"host_wait", "kernel_wait", "other",
                                                            "launch_unknown"};

struct Gaps {
  double sum = 0;  // µs
  bool any =
      false;  // HTA shows a category that has only the first row of a stream, which has no gap
  std::vector<double> micros;
};
using GapsByKind = std::array<Gaps, kIdleKinds>;

inline double Total(const GapsByKind& gaps) {
  double sum = 0;
  for (const Gaps& g : gaps) sum += g.sum;
  return sum;
}

// The analysis' two tables.
struct IdleTables {
  Table by_category, stats;

  AnalysisTables Parts(const AnalysisInput& input) && {
    AnalysisTables out;
    out.parts.push_back({"by_category", std::move(by_category)});
    out.parts.push_back({"interval_stats", std::move(stats)});
    for (AnalysisTables::Part& part : out.parts)
      AddNotes(input, "idle_time_breakdown", &part.table);
    return out;
  }
};

}  // namespace flopwatch::trace
