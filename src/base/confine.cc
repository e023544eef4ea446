#include "base/confine.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace flopwatch {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;
#else
constexpr bool kLimitsMemory = true;
#endif

Status Limit(__rlimit_resource resource, rlim_t soft, rlim_t hard, std::string_view what) {
  // Where the machine's own limit is lower, that one holds: nobody may raise it.
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) limit.rlim_max = RLIM_INFINITY;
  limit = {std::min(soft, limit.rlim_max), std::min(hard, limit.rlim_max)};
  if (::setrlimit(resource, &limit) != 0)
    return Unavailable("cannot limit the {} of a worker: {}", what, std::strerror(errno));
  return absl::OkStatus();
}

// Where that is forbidden the kernel chooses by size, as it does for everybody.
void EndFirstWhenMemoryIsShort() {
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!::write(fd, "1000", 4);
  ::close(fd);
}

}  // namespace

Status Confine(const Confinement& limits) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    return Unavailable("cannot tie a worker to its server: {}", std::strerror(errno));
  // Who ended before that call was made is not told of.
  if (limits.parent > 0 && ::getppid() != limits.parent)
    return FailedPrecondition("process {}, which started this worker, has ended", limits.parent);
  (void)::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  EndFirstWhenMemoryIsShort();
  FW_RETURN_IF_ERROR(Limit(RLIMIT_CORE, 0, 0, "core file"));
  if (kLimitsMemory && limits.max_memory_bytes > 0)
    FW_RETURN_IF_ERROR(
        Limit(RLIMIT_DATA, limits.max_memory_bytes, limits.max_memory_bytes, "memory"));
  if (limits.max_cpu > 0) {
    const auto seconds =
        static_cast<rlim_t>((limits.max_cpu + kMicrosPerSecond - 1) / kMicrosPerSecond);
    FW_RETURN_IF_ERROR(Limit(RLIMIT_CPU, seconds, seconds + 1, "processor time"));
  }
  if (limits.max_file_bytes > 0) {
    // As an error of the write that is too much, and not as a signal.
    ::signal(SIGXFSZ, SIG_IGN);
    FW_RETURN_IF_ERROR(Limit(RLIMIT_FSIZE, limits.max_file_bytes, limits.max_file_bytes, "files"));
  }
  return absl::OkStatus();
}

}  // namespace flopwatch
