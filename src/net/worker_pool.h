// Threads for requests that take long, with a bounded queue. Internal to the server.
#ifndef FLOPWATCH_NET_WORKER_POOL_H_
#define FLOPWATCH_NET_WORKER_POOL_H_

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/scheduling.h"

namespace flopwatch::net {

class WorkerPool {
 public:
  WorkerPool(int threads, int max_queued) : max_queued_(std::max(max_queued, 1)) {
    for (int i = 0; i < std::max(threads, 1); ++i) {
      threads_.emplace_back([this](std::stop_token stop) { Run(stop); });
    }
  }
  // Waits for running tasks and drops queued ones.
  void Stop() {
    threads_.clear();
    queue_.clear();
  }
  bool TrySubmit(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(task));
    ready_.notify_one();
    return true;
  }

 private:
  void Run(std::stop_token stop) {
    pthread_setname_np(pthread_self(), "http-worker");
    PreferLatency();
    std::unique_lock lock(mutex_);
    while (ready_.wait(lock, stop, [&] { return !queue_.empty(); })) {
      const std::function<void()> task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  const size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable_any ready_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::jthread> threads_;  // last: stops before the queue goes
};

}  // namespace flopwatch::net

#endif  // FLOPWATCH_NET_WORKER_POOL_H_
