// How help looks, and the same facts as Markdown: all from the one command table.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

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
// All commands with their options as Markdown.
std::string ReferenceOf(const CLI::App& root);

}  // namespace flopwatch::cli
