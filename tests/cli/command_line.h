// Runs whole commands in this process and keeps what they wrote.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/app.h"

namespace flopwatch::cli {

struct Outcome {
  int code = 0;
  std::string out, err;
};

struct Surroundings {
  std::map<std::string, std::string> environment = {};
  bool terminal = false;
  int width = 100;
};

inline Outcome RunCommand(const std::vector<std::string>& args, const Surroundings& around = {}) {
  Outcome outcome;
  Streams s;
  s.out = [&](std::string_view text) { outcome.out += text; };
  s.err = [&](std::string_view text) { outcome.err += text; };
  s.out_is_terminal = s.err_is_terminal = around.terminal;
  s.width = [&] { return around.width; };
  s.getenv = [&](std::string_view name) -> std::optional<std::string> {
    const auto it = around.environment.find(std::string(name));
    return it != around.environment.end() ? std::optional<std::string>(it->second) : std::nullopt;
  };
  outcome.code = RunCommandLine(args, s);
  return outcome;
}

}  // namespace flopwatch::cli
