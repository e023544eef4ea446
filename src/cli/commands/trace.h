// The subcommands of `flopwatch trace`: one file each; trace.cc registers them in the order of --help.
#ifndef FLOPWATCH_CLI_COMMANDS_TRACE_H_
#define FLOPWATCH_CLI_COMMANDS_TRACE_H_

#include "cli/command.h"

namespace flopwatch::cli {

CLI::App* AddTraceReport(CLI::App& trace, Run* run);
CLI::App* AddTraceInfo(CLI::App& trace, Run* run);
CLI::App* AddTraceAnalyze(CLI::App& trace, Run* run);
CLI::App* AddTraceFindings(CLI::App& trace, Run* run);
CLI::App* AddTraceOps(CLI::App& trace, Run* run);
CLI::App* AddTraceDiff(CLI::App& trace, Run* run);
CLI::App* AddTraceStragglers(CLI::App& trace, Run* run);
CLI::App* AddTraceSql(CLI::App& trace, Run* run);
CLI::App* AddTraceCut(CLI::App& trace, Run* run);
CLI::App* AddTraceMerge(CLI::App& trace, Run* run);
CLI::App* AddTraceUpload(CLI::App& trace, Run* run);
CLI::App* AddTraceList(CLI::App& trace, Run* run);

// What `flopwatch trace PATH…` without a subcommand does: the options and the run of `report`, on the group itself.
void AddReportOptions(CLI::App* app, Run* run);

}  // namespace flopwatch::cli

#endif  // FLOPWATCH_CLI_COMMANDS_TRACE_H_
