// flopwatch trace info: what is in a trace.
#include <memory>

#include "cli/commands/trace.h"
#include "cli/commands/trace_input.h"
#include "trace/report/info.h"

namespace flopwatch::cli {
namespace {

Status RunInfo(Context& context, const TraceInputOptions& o) {
  FW_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(context, o, /*say=*/false));
  if (context.format() == OutputFormat::kJson && !context.picks_columns()) {
    context.Out(trace::InfoJson(loaded->set(), loaded->losses));
    return absl::OkStatus();
  }
  std::vector<std::pair<std::string, Table>> tables = {{"ranks", trace::InfoRanks(loaded->set())}};
  if (context.for_people() || context.format() == OutputFormat::kMarkdown) {
    tables.emplace_back("events by category", trace::InfoCategories(loaded->set()));
    if (Table groups = trace::InfoGroups(loaded->set()); !groups.rows.empty())
      tables.emplace_back("process groups", std::move(groups));
    if (Table losses = trace::LossTable(loaded->losses); !losses.rows.empty())
      tables.emplace_back("left out or repaired", std::move(losses));
  }
  return WriteTables(context, tables);
}

}  // namespace

Args AddTraceInfo(Args trace, Run* run) {
  Args sub = trace.Command(
      "info", "What is in a trace: ranks, steps, devices, events by category, what was left out");
  auto o = std::make_shared<TraceInputOptions>();
  AddTraceInput(sub, o.get());
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace info rank0.json.gz\n"
      "  flopwatch trace info traces/ -o json | jq .losses");
  *run = [o](Context& context) { return RunInfo(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
