// flopwatch advise: what to do first, each action with what it brings and its evidence.
#include <memory>
#include <string>

#include "base/json_read.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"
#include "cli/views/advise.h"

namespace flopwatch::cli {
namespace {

Status RunAdvise(Context& context, const WindowOptions& window) {
  const std::string from = window.from.empty() && window.to.empty() ? "-1d" : window.from;
  QueryString query("/api/v1/advise");
  FW_ASSIGN_OR_RETURN(const std::string body,
                      context.ApiGet(query.Add("from", from).Add("to", window.to).text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  if (context.picks_columns()) return context.Write(AdviceTable(answer));
  if (context.format() == OutputFormat::kJson && context.format_given()) {
    context.Out(AdviceJson(answer));
    return absl::OkStatus();
  }
  if (context.for_people()) {
    context.Out(AdviceCard(answer, context.view()));
    return absl::OkStatus();
  }
  return context.Write(AdviceTable(answer));
}

}  // namespace

Args AddAdvise(Args app, Run* run) {
  Args sub = app.Command("advise", "What to do first: at most ten actions, with what each brings");
  auto window = std::make_shared<WindowOptions>();
  AddWindowOptions(sub, window.get(), "-1d");
  sub.Footer(
      "What an action brings is reckoned from what comparable runs reach, never from 100 %, and no "
      "GPU-second\nstands in two actions (docs/advise.md). Money needs prices in the configuration "
      "file (docs/usage.md).\n\n"
      "Examples:\n"
      "  flopwatch advise                        this morning: the last day\n"
      "  flopwatch advise --from -7d\n"
      "  flopwatch advise -o json | jq '.[0]'\n"
      "  flopwatch idle, regressions, stragglers   all that was found, of each kind");
  *run = [window](Context& context) { return RunAdvise(context, *window); };
  return sub;
}

}  // namespace flopwatch::cli
