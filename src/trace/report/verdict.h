// The paragraph a person reads first.
#pragma once

#include <string>
#include <vector>

#include "trace/report/report.h"

namespace flopwatch::trace {

// Where time went, who is waited for, the biggest finding and what to do about it, what is missing.
// It reads the other members of `report`.
std::vector<std::string> VerdictOf(const TraceReport& report);

}  // namespace flopwatch::trace
