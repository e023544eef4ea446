// The program: command line in, exit code out. Everything it touches outside (streams, environment,
// terminal) is in Streams, so that tests run whole commands in-process.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/config.h"

namespace flopwatch::cli {

struct Streams {
  std::function<void(std::string_view)> out, err;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  std::function<int()> width;  // terminal columns; empty = 80
  GetEnv getenv;
};

// `args` without the program's name.
int RunCommandLine(const std::vector<std::string>& args, const Streams& streams);

// "what: why; next" as three short lines for a person.
std::string FormatError(const Status& status, bool color);

// Colour rules: NO_COLOR, TERM=dumb and CLICOLOR=0 forbid it, CLICOLOR_FORCE wants it even in a
// pipe, else a terminal has it.
bool WantColor(const GetEnv& getenv, bool is_terminal);

// Markdown of all commands and options (docs/cli.md holds it between markers), and of all
// configuration keys (docs/config.md): tests compare, so that documents cannot fall behind.
std::string CommandReference();
std::string ConfigReference();

}  // namespace flopwatch::cli
