// Independent pieces of work on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace flopwatch::trace {

// Calls work(0) .. work(count - 1), each once, in any order, on at most `threads` threads with the
// caller's. Returns when all have ended. `work` must not throw.
template <typename Work>
void ForEachOnThreads(size_t count, int threads, const Work& work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) work(i);
  };
  std::vector<std::jthread> helpers;
  for (size_t i = 1; i < std::min<size_t>(static_cast<size_t>(std::max(threads, 1)), count); ++i)
    helpers.emplace_back(run);
  run();
}

}  // namespace flopwatch::trace
