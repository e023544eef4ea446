// flopwatch simulate trace: the second command of `simulate`.
#ifndef FLOPWATCH_CLI_COMMANDS_SIMULATE_TRACE_H_
#define FLOPWATCH_CLI_COMMANDS_SIMULATE_TRACE_H_

#include <functional>

#include "cli/command.h"

namespace flopwatch::cli {

// Adds it; `run` does what its options say.
Args AddSimulateTrace(Args simulate, Run* run);

}  // namespace flopwatch::cli

#endif  // FLOPWATCH_CLI_COMMANDS_SIMULATE_TRACE_H_
