// flopwatch help [COMMAND]: what --help says, for those who type it first.
#include "cli/help.h"

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/commands.h"

namespace flopwatch::cli {

Args AddHelp(Args app, Run* run) {
  Args sub = app.Command("help", "How to use a command, with examples; without one, what there is");
  auto words = std::make_shared<std::vector<std::string>>();
  sub.Option("command COMMAND", *words, "Name of the command: jobs, trace report");
  sub.Footer(
      "Examples:\n"
      "  flopwatch help jobs\n"
      "  flopwatch help trace report");
  *run = [app, words](Context& context) -> Status {
    FW_ASSIGN_OR_RETURN(const std::string text, HelpOf(*app.app(), *words));
    context.Out(text);
    return absl::OkStatus();
  };
  return sub;
}

}  // namespace flopwatch::cli
