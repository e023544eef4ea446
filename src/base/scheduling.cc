#include "base/scheduling.h"

#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace flopwatch {
namespace {

constexpr __u64 kShortSliceNs =
    200'000;  // an answer from memory takes less; the kernel's own are about 3 ms

}  // namespace

void PreferLatency() {
  sched_attr attributes{};
  attributes.size = sizeof attributes;
  // Everything else as it is: the policy of a service unit, say, stays.
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.sched_policy != 0)
    return;  // SCHED_OTHER; of others the runtime means something else
  attributes.sched_runtime = kShortSliceNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace flopwatch
