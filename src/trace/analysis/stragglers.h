// Which rank holds the others up, what that costs and why: from matched collectives to one verdict.
//
// Lateness of a rank in a collective = its arrival minus that of the rank that arrived in the
// middle (the lower median of the others). Both have left the group's previous collective together,
// so what differs between their two ways from there to here is the cause: each way is split without
// rest into compute, memory copies, waiting in other collectives, communication, data loading and
// the remaining idle time (CPU, launches), and the parts are subtracted: a rank's own time between
// collectives is compared across its peers, never the length of its collectives, which inverts the
// answer. Lateness that comes from waiting elsewhere (a cascade: TP inside PP inside DP) is
// excused: whoever was last there is blamed there.
//
// Pure; any thread.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/collectives.h"

namespace flopwatch::trace {

enum class LatenessCause : uint8_t {
  kCompute,
  kMemoryCopies,
  kEarlierWait,    // in another group's collective: excused
  kCommunication,  // moving data, not waiting, in another collective
  kDataLoading,    // GPU idle while the data loader runs
  kCpu,            // GPU idle otherwise: Python, launches, synchronisation
  kBefore,         // the way began later: before the window that the trace shows
};
inline constexpr size_t kLatenessCauses = 7;
std::string_view LatenessCauseName(LatenessCause c);  // "compute", "memory copies", ...

struct RankLateness {
  int32_t rank = 0;             // its number
  int64_t collectives = 0;      // synchronising ones it took part in
  int64_t last = 0, first = 0;  // how often it arrived last, first
  // How often it was last by more than kClockNoise after the next to last.
  int64_t late = 0;
  Nanos waited = 0;   // for others
  Nanos caused = 0;   // waits of all others in the collectives where it was last
  Nanos excused = 0;  // of `caused`: because it had itself waited in another group just before
  Nanos communication = 0;  // length of its synchronising collectives, waiting included
  Nanos lateness = 0;       // sum over its last arrivals, against the middle rank
  // The parts of `lateness`; one may be negative (it was faster there).
  std::array<Nanos, kLatenessCauses> causes = {};
  // Mean wait a step that its unexcused lateness costs each of the others, as a share of the step:
  // what the job would gain if it were on time. NaN where there is no step and no GPU span to
  // compare with.
  double share_of_step = 0;
  Nanos blamed() const { return caused - excused; }
};

struct StragglerVerdict {
  std::vector<RankLateness> ranks;  // by blamed wait, largest first
  int64_t collectives = 0;          // synchronising ones with a clear last arrival
  double steps = 0;                 // the window: number of steps (1 without step marks)
  Nanos step_time = 0;              // mean
  // The first of `ranks` where it is last in more than half of the collectives, or causes more than
  // half of all wait, and costs more than kStragglerShare of the step.
  bool straggler = false;
  std::optional<LatenessCause> cause;  // only if one explains at least kCauseShare of its lateness
  double cause_share = 0;              // of the largest part, named or not
  std::string sentence;                // the verdict for people
  std::vector<std::string> notes;      // what limits it: missing ranks, clocks
};

// The source is docs/traces.md, "Ranks: collectives and stragglers".
inline constexpr double kStragglerShare = 0.05;
// As in traceopt-ai/traceml, a cause is named only above this.
inline constexpr double kCauseShare = 0.8;

// FailedPrecondition("not computable: ...") with fewer than two ranks or without a synchronising
// collective.
StatusOr<StragglerVerdict> FindStragglers(const AnalysisInput& input,
                                          const Collectives& collectives);

}  // namespace flopwatch::trace
