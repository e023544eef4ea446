// The report on a trace in a terminal. Pure: the structure and the width in, text out.
#pragma once

#include <string>

#include "cli/views/style.h"
#include "trace/report/report.h"

namespace flopwatch::cli {

std::string TraceReportText(const trace::TraceReport& report, const ViewOptions& view);
// Findings alone, and what was not checked.
std::string FindingsText(const trace::Findings& findings, trace::Nanos origin,
                         const ViewOptions& view);
// One bar of exactly `width` columns: compute, exposed communication, exposed copies, idle, each
// told apart without colour too.
std::string SplitBar(const trace::TimeSplit& split, int width, const ViewOptions& view);

}  // namespace flopwatch::cli
