#include "trace/work_guard.h"

#include <utility>

#include <fmt/format.h>

namespace flopwatch::trace {

void WorkGuard::End(Status why) {
  const MutexLock lock(mutex_);
  if (why_.ok()) why_ = std::move(why);
  ended_.store(true, std::memory_order_release);
}

Status WorkGuard::status() const {
  if (!ended()) return absl::OkStatus();
  const MutexLock lock(mutex_);
  return why_;
}

Status WorkGuard::Take(uint64_t more, std::atomic<uint64_t>* taken, uint64_t limit,
                       std::string_view what) {
  if (taken->fetch_add(more, std::memory_order_relaxed) + more > limit) {
    End(ResourceExhausted(
        "the files of this trace have more than {} {} together; trace fewer steps or "
        "ranks, or raise the limit",
        limit, what));
  }
  return status();
}

}  // namespace flopwatch::trace
