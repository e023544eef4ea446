// Threads for requests that take long, with a bounded queue. Internal to the server.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstddef>
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
  WorkerPool(int threads, int max_queued) : max_queued_(std::max(max_queued, 1)) {
    for (int i = 0; i < std::max(threads, 1); ++i)
      threads_.emplace_back([this](std::stop_token stop) { Run(stop); });
  }
  // Waits for running tasks and drops queued ones.
  void Stop() {
    threads_.clear();
    std::deque<std::function<void()>> dropped;
    const MutexLock lock(mutex_);
    dropped.swap(queue_);
  }
  bool TrySubmit(std::function<void()> task) {
    const MutexLock lock(mutex_);
    if (queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(task));
    ready_.NotifyOne();
    return true;
  }

 private:
  void Run(std::stop_token stop) {
    pthread_setname_np(pthread_self(), "http-worker");
    PreferLatency();
    MutexLock lock(mutex_);
    while (ready_.Wait(mutex_, stop, [this]() FW_REQUIRES(mutex_) { return !queue_.empty(); })) {
      const std::function<void()> task = std::move(queue_.front());
      queue_.pop_front();
      lock.Unlock();
      task();
      lock.Lock();
    }
  }

  const size_t max_queued_;
  Mutex mutex_;
  CondVar ready_;
  std::deque<std::function<void()>> queue_ FW_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  // last: stops before the queue goes
};

}  // namespace flopwatch::net
