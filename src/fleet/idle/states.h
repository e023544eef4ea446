// The idle-held ledger of one job: what its GPUs' runs (track.h) were, seen together. A GPU alone
// does not tell a start-up from a pause, nor a wait that ends from a hang; the job's other GPUs and
// what came after do. docs/idle.md: how each state is told, and what cannot be told. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "base/time.h"
#include "fleet/idle/track.h"

namespace flopwatch::fleet {

enum class IdleState : uint8_t {
  kNoProcess,        // nothing in memory, nothing runs
  kNoWork,           // memory is held, nothing runs
  kStartup,          // nothing ran yet on any GPU of the job; later it did
  kBarrier,          // kernels spin without tensor work, and then work goes on
  kHung,             // they spin, and work never comes back
  kAfterLastOutput,  // the job's work is over, the job is not
  kUnusedGpu,        // this GPU never ran anything while others of the job did
};
inline constexpr std::string_view kIdleStateNames[] = {
    "no_process", "no_work", "startup", "barrier", "hung", "after_last_output", "unused_gpu"};
inline constexpr size_t kIdleStates = std::size(kIdleStateNames);
constexpr std::string_view IdleStateName(IdleState s) {
  return kIdleStateNames[static_cast<size_t>(s)];
}

// One GPU of the job.
struct IdleGpu {
  const IdleTrack* track = nullptr;
  // What the empty board has in use; NaN = not known.
  double empty_memory_mib = std::numeric_limits<double>::quiet_NaN();
  // Whether it ran anything before rows of it are known; nullopt = not known.
  std::optional<bool> worked_before = false;
};

// One run of a job: an attempt, from its start to its end.
struct IdleJob {
  Micros from = 0, to = 0;  // `to`: its end, or until when it is known
  bool ended = false;
  Micros known_from = 0;  // rows before are not known: later than `from` where it began earlier
  // What it did before then; nullopt = not known.
  std::optional<bool> worked_before = false;
  IdleMean tensor_before, power_before, sm_before;  // of a GPU, over all of that time
  std::vector<IdleGpu> gpus;
};

// A time of one GPU in one state.
struct IdleStretch {
  size_t gpu = 0;  // in IdleJob::gpus
  IdleState state = IdleState::kNoWork;
  Micros from = 0, to = 0;
  double gpu_s = 0;           // with samples; what has none is unknown, never idle
  double covered_s = 0;       // of to - from
  bool began_before = false;  // at the first moment that is known
  bool goes_on = false;       // at the last
  // What the counters showed; NaN = absent.
  double duty = 0, sm_active = 0, power_w = 0, work_power_w = 0, memory_mib = 0;
};

// The tensor activity at work, of all GPUs of the job together, makes it one whose waits are told.
bool UsesTensor(const IdleJob& job);
// In order of GPU, then time; they do not overlap.
std::vector<IdleStretch> JudgeIdle(const IdleJob& job);

}  // namespace flopwatch::fleet
