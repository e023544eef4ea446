// Completion scripts, from the same command table as the help.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "cli/args.h"

namespace flopwatch::cli {

// `root` is the program; `shell` is bash, zsh or fish.
StatusOr<std::string> CompletionScript(Args root, std::string_view shell);

}  // namespace flopwatch::cli
