// flopwatch simulate trace: the second command of `simulate`.
#pragma once

#include <functional>

#include "cli/command.h"

namespace flopwatch::cli {

// Adds it; `run` does what its options say.
Args AddSimulateTrace(Args simulate, Run* run);

}  // namespace flopwatch::cli
