// Completion scripts, from the same command table as the help.
#ifndef FLOPWATCH_CLI_COMPLETION_H_
#define FLOPWATCH_CLI_COMPLETION_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "cli/args.h"

namespace flopwatch::cli {

// `root` is the program; `shell` is bash, zsh or fish.
StatusOr<std::string> CompletionScript(Args root, std::string_view shell);

}  // namespace flopwatch::cli

#endif  // FLOPWATCH_CLI_COMPLETION_H_
