// How help looks, and the same facts as Markdown: all from the one command table.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::cli {

class HelpFormatter final : public CLI::Formatter {
 public:
  void set_color(bool color) { color_ = color; }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

 private:
  bool color_ = false;
};

// "ID" of a positional argument, "--gpu NAME" of an option.
std::string DisplayName(const CLI::Option* option);
// The help of the command whose names are `words`, one below the other; none: of the program.
StatusOr<std::string> HelpOf(const CLI::App& root, const std::vector<std::string>& words);
// "cannot understand the command line": `at` has no command `word`, and which was probably meant.
Status NoSuchCommand(const CLI::App& at, std::string_view word);
// All commands with their options as Markdown.
std::string ReferenceOf(const CLI::App& root);

}  // namespace flopwatch::cli
