// How much slower each rank of a job is by its clock, with its error: the step before the verdict
// (find.h). Private to the folder.
#pragma once

#include <span>
#include <vector>

#include "fleet/stragglers/find.h"

namespace flopwatch::fleet {

// Of a rank that did enough tensor work. Logarithms, so that a ratio is a difference.
struct RankEstimate {
  size_t rank = 0;  // in the job
  bool has_tensor = false;
  // Log of how much slower, from some origin that the job's ranks share; and by activity alone.
  double slower = 0, by_activity = 0;
  double sd = 0;  // of `slower`, without the origin's
  // Log of activity x clock beside what it is on the job's other ranks, and what that may be.
  double disagreement = 0, disagreement_sd = 0;
  double clock_sd = 0;  // of log clock
  double power = 0;     // log of power, NaN where there is none
};

struct JobEstimate {
  StragglerVerdict verdict;
  std::vector<RankEstimate> ranks;  // of a judged job
};

JobEstimate EstimateRanks(const StragglerJob& job, const StragglerLimits& limits);

}  // namespace flopwatch::fleet
