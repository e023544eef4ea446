// The memory that one analysis may take, watched from outside: what a trace makes of itself while
// it is read, sorted and analysed is known by experience alone, and no count of its events bounds
// it.
#pragma once

#include <cstdint>
#include <thread>

#include "trace/work_guard.h"

namespace flopwatch::uploads {

// Bytes of this process that are in memory now; 0 where the system does not say.
uint64_t ResidentBytes();

// While it lives, it ends the guard's work when the process has grown by more than `max_bytes`.
class MemoryWatch {
 public:
  MemoryWatch(uint64_t max_bytes, trace::WorkGuard* guard);

 private:
  std::jthread thread_;
};

}  // namespace flopwatch::uploads
