// Of which kind a straggler is, by what its counters show beside those of its peers. Private to the
// folder.
#pragma once

#include <vector>

#include "fleet/stragglers/ranks.h"

namespace flopwatch::fleet {

// A rank (index into JobEstimate::ranks) whose clock is low: why, with the evidence.
Straggler StragglerByClock(const StragglerJob& job, const JobEstimate& estimate, size_t rank);

// A rank whose clock is not low, and that the others seem to wait for.
struct OtherSuspect {
  size_t rank = 0;
  double innocent = 1;
  Straggler straggler;
};
std::vector<OtherSuspect> SuspectsAtFullClock(const StragglerJob& job, const JobEstimate& estimate);

}  // namespace flopwatch::fleet
