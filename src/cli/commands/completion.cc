// flopwatch completion SHELL: a script for the shell, made from the command table.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/help.h"

namespace flopwatch::cli {

CLI::App* AddCompletion(CLI::App& app, Run* run) {
  CLI::App* sub = app.add_subcommand("completion", "Completion script for bash, zsh or fish");
  auto shell = std::make_shared<std::string>();
  sub->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}))->type_name("SHELL");
  sub->footer(
      "Examples:\n"
      "  source <(flopwatch completion bash)\n"
      "  flopwatch completion zsh > \"${fpath[1]}/_flopwatch\"\n"
      "  flopwatch completion fish > ~/.config/fish/completions/flopwatch.fish");
  const CLI::App* root = &app;
  *run = [root, shell](Context& context) -> Status {
    FW_ASSIGN_OR_RETURN(const std::string script, CompletionScript(*root, *shell));
    context.Out(script);
    return absl::OkStatus();
  };
  return sub;
}

}  // namespace flopwatch::cli
