// What Slurm would have said of a simulated fleet: accounting, node events, reservations, and the
// queue and the nodes at the end, in the formats of its own commands (docs/simulate.md, The
// scheduler's books). Files are streamed; beside the fleet this holds 8 bytes a placement.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "simulate/fleet.h"

namespace flopwatch::simulate {

// Whose JSON: the numbers of 22.05 are plain and its states texts, 25.05 wraps most numbers as
// {set, infinite, number} and lists states. Text is the same.
enum class SlurmVersion : uint8_t { k2205, k2505 };
StatusOr<SlurmVersion> ParseSlurmVersion(std::string_view text);

struct SchedulerOptions {
  std::string directory;  // made if missing; files in it are replaced
  Micros until = 0;       // the moment of asking; 0 = the end of the fleet's window
  SlurmVersion version = SlurmVersion::k2505;
};
struct SchedulerResult {
  uint64_t attempts = 0, events = 0, allocations = 0;  // rows of sacct, events, gpu_map
};

// FailedPrecondition where no cluster of the fleet is under Slurm; else errors of the file system.
StatusOr<SchedulerResult> WriteScheduler(const Fleet& fleet, const SchedulerOptions& options);

}  // namespace flopwatch::simulate
