// What a child process that works on a stranger's bytes may take of the machine. posix_spawn sets
// no limits, so the child asks for them itself, before it reads a byte of theirs.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/time.h"

namespace flopwatch {

// 0 = no limit.
struct Confinement {
  uint64_t max_memory_bytes = 0;  // that it may write to and shares with nobody (RLIMIT_DATA)
  Micros max_cpu = 0;             // of all its threads together; then SIGXCPU
  uint64_t max_file_bytes = 0;    // of one file; a write past it fails
  int64_t parent = 0;             // the process that started it, as that one calls itself
};

// For the rest of this process: the limits above or those it has already, where they are lower; no
// core file, no new privileges, the first choice of the kernel when memory runs out, and an end by
// SIGKILL when the thread that started it ends or its process is killed.
//
// Under the address and thread sanitizers, whose shadow is counted as data, memory is not limited.
//
// FailedPrecondition: who started it is gone already. Unavailable: the kernel refused a limit.
Status Confine(const Confinement& limits);

}  // namespace flopwatch
