// What counters show of a straggler, as a person reads it. Pure.
#pragma once

#include <string>

#include "fleet/stragglers/find.h"

namespace flopwatch::fleet {

// "clock 1,722 MHz (others 2,062 MHz)"; a measure without words has its own name.
std::string EvidenceText(const StragglerEvidence& evidence);

}  // namespace flopwatch::fleet
