// Of which kind a straggler is whose clock is low, by what its counters show beside those of its
// peers. Private to the folder.
#pragma once

#include <vector>

#include "fleet/stragglers/ranks.h"

namespace flopwatch::fleet {

// `rank`: index into JobEstimate::ranks.
Straggler StragglerByClock(const StragglerJob& job, const JobEstimate& estimate, size_t rank);

// Of each rank of the estimate, whether heat, a power limit or a brake holds its clock down, and
// not its peers'. However low the clock is.
std::vector<bool> HeldDownRanks(const StragglerJob& job, const JobEstimate& estimate);

}  // namespace flopwatch::fleet
