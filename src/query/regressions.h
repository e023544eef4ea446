// Runs of workflows in a window, gathered for `fleet` to judge (fleet/regressions): what each did
// in the minutes in which it worked, step by step, what it was set to, and where it ran.
//
// A run is a job: its requeued attempts are one. Workflows of one name are told apart by user and
// cluster. Sums are those of minute rollups (kept for minute_retention); jobs without a workflow
// cannot be compared with anything and are counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "fleet/regressions/regressions.h"
#include "query/query.h"

namespace flopwatch::query {

// What a question looks at that names no window: enough runs of weekly work, and cheap.
inline constexpr Micros kRegressionWindow = 14 * kMicrosPerDay;
// The least of a minute in which kernels ran on a job's GPUs for it to be work and no pause.
inline constexpr double kWorkDuty = .1;
// Steps of all runs together that are held in memory; longer windows and larger fleets get longer
// steps.
inline constexpr double kMostRunSteps = 300'000;

// Where and with what a run ran: compared for what else changed.
struct RunPlace {
  std::vector<std::string> nodes, drivers;  // each once, by the alphabet
  // Of its application's claim; "" = not said.
  std::string commit, container_image, formula_version, recompute;
  int64_t seq_len = 0;  // likewise; 0 = not said
};

struct WorkflowSet {
  store::Window window;
  Micros step = 0;
  std::vector<fleet::WorkflowRuns> workflows;
  std::vector<std::vector<RunPlace>> places;  // of the runs, in the same order
  size_t without_workflow = 0;                // jobs whose workflow nobody names
};

struct WorkflowFilter {
  std::string workflow, job, user;  // "" = any; a job gives all runs of its workflow
  bool unnamed = false;             // jobs whose workflow nobody names too, as a workflow named ""
};

// Of the minutes in which kernels ran for at least `least_duty` of the time; 0 = of all time.
StatusOr<WorkflowSet> GatherWorkflows(const Query& query, store::Window window,
                                      const WorkflowFilter& filter, double least_duty);

struct RegressionAnswer {
  WorkflowSet set;
  fleet::RegressionJudgement judgement;
  std::vector<std::string> evidence;  // of each finding, one sentence
};

struct RegressionQuestion {
  store::Window window;
  WorkflowFilter filter;
  fleet::RegressionOptions options;
};

StatusOr<RegressionAnswer> FindRegressions(const Query& query, const RegressionQuestion& question);

}  // namespace flopwatch::query
