// flopwatch trace [SUBCOMMAND] PATH…: what profiler traces say. One file a subcommand.
#include "cli/commands/trace.h"

#include <memory>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"

namespace flopwatch::cli {
namespace {

// The order of --help, completion and docs/cli.md.
constexpr Register kTraceCommands[] = {
    AddTraceReport, AddTraceInfo,  AddTraceAnalyze,    AddTraceFindings,
    AddTraceOps,    AddTraceDiff,  AddTraceStragglers, AddTraceSql,
    AddTraceCut,    AddTraceMerge, AddTraceUpload,     AddTraceList,
};

}  // namespace

Args AddTrace(Args app, Run* run) {
  Args trace = app.Command("trace",
                           "What profiler traces of one or many ranks say: where time went, who is "
                           "waited for, what to do");
  Run report;
  AddReportOptions(trace, &report);
  auto added = std::make_shared<std::vector<std::pair<Args, Run>>>();
  for (const Register add : kTraceCommands) {
    Run of_one;
    Args sub = add(trace, &of_one);
    added->emplace_back(sub, std::move(of_one));
  }
  trace.Footer(
      "Examples:\n"
      "  flopwatch trace traces/                        all ranks in a folder: verdict, findings, "
      "stragglers\n"
      "  flopwatch trace rank0.json.gz --write report.html\n"
      "  flopwatch trace findings traces/ -o json\n"
      "  flopwatch trace analyze rank0.json --analysis temporal_breakdown,idle_time_breakdown");
  *run = [added, report](Context& context) -> Status {
    for (const auto& [sub, of_one] : *added) {
      if (sub.parsed()) return of_one(context);
    }
    return report(context);
  };
  return trace;
}

}  // namespace flopwatch::cli
