// flopwatch doctor --target: whether the counters of one exporter can be believed, before it is
// watched.
#pragma once

#include <string>

#include "cli/command.h"

namespace flopwatch::cli {

struct DoctorTargetOptions {
  std::string target;
  int scrapes = 4;
  std::string every = "10s";
};

// Reads the exporter a few times and says what is thought of each of its GPUs.
Status RunDoctorTarget(Context& context, const DoctorTargetOptions& options);

}  // namespace flopwatch::cli
