// The paragraph a person reads first.
#ifndef FLOPWATCH_TRACE_REPORT_VERDICT_H_
#define FLOPWATCH_TRACE_REPORT_VERDICT_H_

#include <string>
#include <vector>

#include "trace/report/report.h"

namespace flopwatch::trace {

// Where time went, who is waited for, the biggest finding and what to do about it, what is missing.
// From the other members of `report`.
std::vector<std::string> VerdictOf(const TraceReport& report);

}  // namespace flopwatch::trace

#endif  // FLOPWATCH_TRACE_REPORT_VERDICT_H_
