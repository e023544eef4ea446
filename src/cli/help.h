// How help looks, and the same facts as Markdown and as completion scripts: all from the one command table.
#ifndef FLOPWATCH_CLI_HELP_H_
#define FLOPWATCH_CLI_HELP_H_

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flopwatch::cli {

class HelpFormatter final : public CLI::Formatter {
 public:
  void set_color(bool color) { color_ = color; }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 private:
  bool color_ = false;
};

// "ID" of a positional argument, "--gpu NAME" of an option.
std::string DisplayName(const CLI::Option* option);
// All commands with their options as Markdown.
std::string ReferenceOf(const CLI::App& root);
// `shell` is bash, zsh or fish.
StatusOr<std::string> CompletionScript(const CLI::App& root, std::string_view shell);

}  // namespace flopwatch::cli

#endif  // FLOPWATCH_CLI_HELP_H_
