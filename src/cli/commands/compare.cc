// flopwatch compare: two runs or windows side by side.
#include <memory>
#include <string>

#include "base/json_read.h"
#include "cli/commands/commands.h"
#include "cli/commands/query_string.h"
#include "cli/views/regressions.h"

namespace flopwatch::cli {
namespace {

struct CompareOptions {
  std::string a, b, workflow, user;
};

Status RunCompare(Context& context, const CompareOptions& o) {
  QueryString query("/api/v1/compare");
  query.Add("a", o.a).Add("b", o.b).Add("workflow", o.workflow).Add("user", o.user);
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  return context.Write(CompareTable(answer));
}

}  // namespace

Args AddCompare(Args app, Run* run) {
  Args sub = app.Command("compare", "Two runs or windows side by side, against their scatter");
  auto o = std::make_shared<CompareOptions>();
  sub.Option("A", o->a, "A job id, or a window FROM/TO").Required();
  sub.Option("B", o->b, "The other one").Required();
  sub.Option("--workflow NAME", o->workflow, "Of windows: runs of this workflow alone");
  sub.Option("--user NAME", o->user, "Of windows: runs of this user alone");
  sub.Footer(
      "Figures are over all of each side's time, pauses included; the scatter is that of single\n"
      "runs of the workflow with the same setting (docs/regressions.md).\n\n"
      "Examples:\n"
      "  flopwatch compare 2100017 2100423\n"
      "  flopwatch compare 2026-11-01/2026-11-08 2026-11-08/2026-11-15 --workflow llama-sft\n"
      "  flopwatch compare -2d/-1d -1d/now -o json");
  *run = [o](Context& context) { return RunCompare(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
