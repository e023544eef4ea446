// flopwatch completion SHELL: a script for the shell, made from the command table.
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/completion.h"

namespace flopwatch::cli {

Args AddCompletion(Args app, Run* run) {
  Args sub = app.Command("completion", "Completion script for bash, zsh or fish");
  auto shell = std::make_shared<std::string>();
  sub.Option("shell SHELL", *shell, "bash, zsh or fish").Required().OneOf({"bash", "zsh", "fish"});
  sub.Footer(
      "Examples:\n"
      "  source <(flopwatch completion bash)\n"
      "  flopwatch completion zsh > \"${fpath[1]}/_flopwatch\"\n"
      "  flopwatch completion fish > ~/.config/fish/completions/flopwatch.fish");
  *run = [app, shell](Context& context) -> Status {
    FW_ASSIGN_OR_RETURN(const std::string script, CompletionScript(app, *shell));
    context.Out(script);
    return absl::OkStatus();
  };
  return sub;
}

}  // namespace flopwatch::cli
