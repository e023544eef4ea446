#include "uploads/memory_watch.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stop_token>

#include "base/mutex.h"
#include "base/status.h"

namespace flopwatch::uploads {
namespace {

// An analysis that touches memory as fast as it can takes some 20 MiB meanwhile.
constexpr Micros kLook = 10 * kMicrosPerMilli;

}  // namespace

uint64_t ResidentBytes() {
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[128] = {};
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return 0;
  char* end = nullptr;
  (void)std::strtoull(text, &end, 10);  // the address space; what is resident follows
  return std::strtoull(end, nullptr, 10) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

MemoryWatch::MemoryWatch(uint64_t max_bytes, trace::WorkGuard* guard)
    : thread_([max_bytes, guard, before = ResidentBytes()](const std::stop_token& stop) {
        pthread_setname_np(pthread_self(), "traces-memory");
        Mutex mutex;
        CondVar wake;
        MutexLock lock(mutex);
        while (!stop.stop_requested()) {
          const uint64_t now = ResidentBytes();
          if (now > before && now - before > max_bytes) {
            guard->End(ResourceExhausted(
                "the analysis needs more than {} MiB of memory (traces.max_memory_mb): record "
                "fewer steps, or run \"flopwatch trace report\" on the files",
                max_bytes >> 20));
            return;
          }
          wake.WaitFor(mutex, stop, kLook, [] { return false; });
        }
      }) {}

}  // namespace flopwatch::uploads
