// The analysis of one trace in a process of its own: whatever its files do to it happens to nobody
// else, and it ends at once when the server does.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "uploads/trace_results.h"

namespace flopwatch::uploads {

// AnalyseTrace() by `program`, which calls RunTraceWorker() with its standard input. Its memory,
// time and files are limited by the kernel too. What ends it, other than `stop`, is written down as
// that trace's failure; Cancelled where `stop` was requested.
StatusOr<TraceSummary> AnalyseTraceInWorker(const std::vector<std::string>& program,
                                            const std::string& catalog_overrides,
                                            const TraceWork& work, std::stop_token stop);

// The other side: the work of a process that does nothing else, as its exit code. The result is the
// folder; standard error gets what it does now, a line each, and what went wrong.
int RunTraceWorker(std::string_view job);

}  // namespace flopwatch::uploads
