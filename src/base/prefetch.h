// Asking for memory ahead of its use. State of a target, a GPU or a job is cold when its turn comes
// again: thousands of others were there meanwhile. Asked for all at once, the misses overlap; met
// one by one, each is waited for.
#pragma once

#include <cstddef>

namespace flopwatch {

// `data` need not be valid memory. Worth it up to some tens of KB: more pushes out what is in use.
inline void PrefetchToRead(const void* data, size_t bytes) {
  const char* const p = static_cast<const char*>(data);
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(p + at);
}
inline void PrefetchToWrite(const void* data, size_t bytes) {
  const char* const p = static_cast<const char*>(data);
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(p + at, /*rw=*/1);
}

}  // namespace flopwatch
