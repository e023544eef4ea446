// What changed between two traces of one program: before and after a change, a fast and a slow run.
//
// Default: everything is an average of one step on one rank (of the complete steps; the whole trace
// where it marks none), so that traces of different length compare. A step's time is split without
// rest by what its GPU does: compute, communication that no compute hides, copies that neither
// hides, idle. The parts' changes add up to the change of the step. Kernels and CPU work stand in
// lists of their own, by the time that changed; CPU work counts its own time, without what it
// calls. hta: HTA's table (diff_hta.cc), one rank and one iteration a side, inclusive durations,
// by name.
//
// Pure; any thread. Linear in the rows of both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/table.h"
#include "trace/analysis/analysis.h"
#include "trace/event_table.h"

namespace flopwatch::trace {

enum class DiffDevice : uint8_t { kCpu, kGpu, kAll };

struct DiffOptions {
  std::optional<int32_t> rank_a, rank_b;  // default: all ranks (hta: the first)
  std::optional<int64_t> step_a,
      step_b;                // N of ProfilerStep#N; default: all complete steps (hta: the first)
  bool short_names = false;  // ShortName(): kernels of one template together
  std::vector<std::string> communication_names;
};

enum class DiffChange : uint8_t {
  kAdded,
  kRemoved,
  kMore,
  kFewer,
  kSame
};                                              // by how often it occurs
std::string_view DiffChangeName(DiffChange c);  // "added", "removed", "more", "fewer", "same"

// One name. Averages a step and rank.
struct DiffLine {
  std::string name;
  std::string kind;  // "compute", "communication", "memory"; "operator", "annotation", "runtime"
  double count_a = 0, count_b = 0;
  double us_a = 0, us_b = 0;              // kernels: length; CPU rows: own time
  double total_us_a = 0, total_us_b = 0;  // CPU rows: with what they call; kernels: as us
  DiffChange change = DiffChange::kSame;
  double delta_us() const { return us_b - us_a; }
};

// One part of the step's time.
struct DiffPart {
  std::string name;  // "compute", "exposed_communication", "exposed_memory", "idle"
  double us_a = 0, us_b = 0;
  double delta_us() const { return us_b - us_a; }
};

struct DiffSide {
  int64_t ranks = 0, steps = 0;  // steps of all ranks that were averaged
  bool marked = false;  // false: no step marks, the whole trace of each rank counts as one step
  double step_us = 0;
};

struct TraceDiff {
  DiffSide a, b;
  std::vector<DiffPart> parts;      // they add up to the step
  std::vector<DiffLine> kernels;    // by |delta_us|, largest first
  std::vector<DiffLine> operators;  // likewise
  std::string sentence;             // the verdict for people
  std::vector<std::string> notes;
};

// NotFound for a rank or step that is not there; FailedPrecondition ("not computable: ...") where a
// side has no time at all.
StatusOr<TraceDiff> DiffTraces(const TraceSet& a, const TraceSet& b, const DiffOptions& options);

// Parts "" (the step and its parts), "kernels", "operators"; at most `most` lines of each list (0 =
// all).
AnalysisTables DiffTables(const TraceDiff& diff, size_t most = 0);

// NotFound: the rank is not in that trace, which has these.
Status NoRank(const TraceSet& set, int32_t rank, std::string_view side);

// HTA's table: name, control_counts, control_total_duration, test_counts, test_total_duration,
// diff_counts, diff_duration (µs), counts_change_categories ("+", "-", "="); `a` is the control.
// The control's names in their order, then those of the test alone. HTA's event selection
// (analysis/hta.h).
StatusOr<Table> HtaTraceDiff(const TraceSet& a, const TraceSet& b, const DiffOptions& options,
                             DiffDevice device);

}  // namespace flopwatch::trace
