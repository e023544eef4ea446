// The subcommands of `flopwatch trace`, one file each; trace.cc registers them in --help's order.
#pragma once

#include "cli/command.h"

namespace flopwatch::cli {

Args AddTraceReport(Args trace, Run* run);
Args AddTraceInfo(Args trace, Run* run);
Args AddTraceAnalyze(Args trace, Run* run);
Args AddTraceFindings(Args trace, Run* run);
Args AddTraceOps(Args trace, Run* run);
Args AddTraceDiff(Args trace, Run* run);
Args AddTraceStragglers(Args trace, Run* run);
Args AddTraceSql(Args trace, Run* run);
Args AddTraceCut(Args trace, Run* run);
Args AddTraceMerge(Args trace, Run* run);
Args AddTraceUpload(Args trace, Run* run);
Args AddTraceList(Args trace, Run* run);

// Adds what `flopwatch trace PATH…` without a subcommand does: the options and the run of `report`,
// on the group itself.
void AddReportOptions(Args app, Run* run);

}  // namespace flopwatch::cli
