// flopwatch regressions: what got worse across the runs of a workflow, or within one run.
#include <memory>
#include <string>

#include "base/json_read.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"
#include "cli/views/regressions.h"

namespace flopwatch::cli {
namespace {

struct RegressionOptions {
  WindowOptions window;
  std::string workflow, user, job;
  int min_percent = 2;
};

Status RunRegressions(Context& context, const RegressionOptions& o) {
  QueryString query("/api/v1/regressions");
  query.Add("from", o.window.from).Add("to", o.window.to);
  query.Add("workflow", o.workflow).Add("user", o.user).Add("job", o.job);
  query.Add("min_percent", std::to_string(o.min_percent));
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  if (answer["rows_total"].integer_or(0) == 0 && context.for_people()) {
    context.Say(NothingGotWorse(answer));
    return absl::OkStatus();
  }
  const Table table = RegressionsTable(answer);
  if (answer["rows_total"].integer_or(0) > static_cast<int64_t>(table.rows.size()))
    context.SetExitCode(ExitCode::kPartial);
  return context.Write(table, kEvidence);
}

}  // namespace

Args AddRegressions(Args app, Run* run) {
  Args sub = app.Command("regressions", "What got worse, since which run, and what counters show");
  auto o = std::make_shared<RegressionOptions>();
  AddWindowOptions(sub, &o->window, "-14d");
  sub.Option("--workflow NAME", o->workflow, "Runs of this workflow alone");
  sub.Option("--user NAME", o->user, "Workflows of this user alone");
  sub.Option("--job ID", o->job, "What began at this run, against the runs of its workflow");
  sub.Option("--min-percent N", o->min_percent, "Leave out changes of less per cent")
      .Range(1, 99)
      .ShowDefault();
  sub.Footer(
      "A run is measured by its OFU while kernels ran, and by its duty apart, so that pauses of a\n"
      "healthy job are no regression; changes of GPU count, GPU model, model or precision are\n"
      "named as that. Workflows with fewer than five runs before get no verdict\n"
      "(docs/regressions.md).\n\n"
      "Examples:\n"
      "  flopwatch regressions                              the last two weeks\n"
      "  flopwatch regressions --from -30d --min-percent 5\n"
      "  flopwatch regressions --workflow llama-sft -o json\n"
      "  flopwatch regressions --job 2100017 -o wide");
  *run = [o](Context& context) { return RunRegressions(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
