// Simulated history written straight into a store, through the same pipeline a scrape takes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "simulate/fleet.h"

namespace flopwatch::simulate {

struct BackfillOptions {
  std::string directory;
  Micros until = 0;  // 0 = the end of the fleet's window
  int threads = 2;
  // Called a few times a second with the simulated time reached; on the calling thread.
  std::function<void(Micros reached, uint64_t samples)> progress;
};
struct BackfillResult {
  uint64_t scrapes = 0, samples = 0, rows = 0, bytes = 0;
  uint64_t refused = 0;
  uint64_t applications = 0, reports = 0;  // jobs that report, and their samples
};

// Errors are the store's (another process holds it, disk full, ...).
StatusOr<BackfillResult> WriteHistory(const Fleet& fleet, const BackfillOptions& options);

}  // namespace flopwatch::simulate
