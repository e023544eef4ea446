// Threads for requests that take long, with bounded queues. Internal to the server.
//
// A pace that may take longer leaves a thread more to those that take less: of n threads at most
// n - 2 run what is slow (a query of a user may take half a minute), and at most n - 1 that or
// unpack bodies, so that nobody waits for all of these to end. Otherwise tasks begin in the order
// they came.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/scheduling.h"

namespace flopwatch::net {

class WorkerPool {
 public:
  enum class Pace : uint8_t { kUsual, kUnpacks, kSlow };  // slower and slower

  // At most `max_queued` of each pace wait. Without a thread nothing may be submitted.
  WorkerPool(int threads, int max_queued)
      : max_queued_(std::max(max_queued, 1)), threads_in_all_(std::max(threads, 0)) {
    for (int i = 0; i < threads_in_all_; ++i)
      threads_.emplace_back([this](std::stop_token stop) { Run(stop); });
  }
  // Waits for running tasks and drops queued ones.
  void Stop() {
    threads_.clear();
    std::array<std::deque<Task>, kPaces> dropped;
    const MutexLock lock(mutex_);
    dropped.swap(queues_);
  }
  bool TrySubmit(std::function<void()> task, Pace pace = Pace::kUsual) {
    const MutexLock lock(mutex_);
    std::deque<Task>& queue = queues_[static_cast<size_t>(pace)];
    if (queue.size() >= max_queued_) return false;
    queue.push_back({submitted_++, std::move(task)});
    ready_.NotifyOne();
    return true;
  }

 private:
  static constexpr size_t kPaces = 3;
  struct Task {
    uint64_t number = 0;
    std::function<void()> run;
  };

  // The pace of the task that came first of those that may begin now; kPaces where there is none.
  // It is the same for all threads, and the one that ends a task looks again by itself.
  size_t Next() const FW_REQUIRES(mutex_) {
    size_t next = kPaces;
    int running = 0;  // at this pace or slower
    for (size_t pace = kPaces; pace-- > 0;) {
      running += running_[pace];
      if (queues_[pace].empty()) continue;
      if (running >= std::max(threads_in_all_ - static_cast<int>(pace), 1)) continue;
      if (next == kPaces || queues_[pace].front().number < queues_[next].front().number)
        next = pace;
    }
    return next;
  }

  void Run(std::stop_token stop) {
    pthread_setname_np(pthread_self(), "http-worker");
    PreferLatency();
    MutexLock lock(mutex_);
    const auto ready = [this]() FW_REQUIRES(mutex_) { return Next() < kPaces; };
    while (ready_.Wait(mutex_, stop, ready)) {
      const size_t pace = Next();
      {
        const Task task = std::move(queues_[pace].front());
        queues_[pace].pop_front();
        ++running_[pace];
        lock.Unlock();
        task.run();
      }
      lock.Lock();
      --running_[pace];
    }
  }

  const size_t max_queued_;
  const int threads_in_all_;
  Mutex mutex_;
  CondVar ready_;
  std::array<std::deque<Task>, kPaces> queues_ FW_GUARDED_BY(mutex_);  // by pace
  std::array<int, kPaces> running_ FW_GUARDED_BY(mutex_) = {};
  uint64_t submitted_ FW_GUARDED_BY(mutex_) = 0;
  std::vector<std::jthread> threads_;  // last: stops before the queue goes
};

}  // namespace flopwatch::net
