// Of which kind a straggler is whose clock is low, by what its counters show beside those of its
// peers. Private to the folder.
#pragma once

#include "fleet/stragglers/ranks.h"

namespace flopwatch::fleet {

// `rank`: index into JobEstimate::ranks.
Straggler StragglerByClock(const StragglerJob& job, const JobEstimate& estimate, size_t rank);

}  // namespace flopwatch::fleet
