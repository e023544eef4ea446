// Mutexes that say what they guard: std::mutex and std::shared_mutex behind clang's thread-safety
// annotations, so that the `threads` preset (clang, -Wthread-safety) refuses a read or write of a
// guarded member without its lock. Not Abseil's mutex: Debian's is not built for the thread
// sanitizer, which then reports races that are none.
//
//   Mutex mutex_;
//   std::deque<Row> rows_ FW_GUARDED_BY(mutex_);
//   void Drop() FW_REQUIRES(mutex_);
//   { MutexLock lock(mutex_); wake_.Wait(mutex_, [this]() FW_REQUIRES(mutex_) { return
//   !rows_.empty(); }); }
//
// The order of locks is said twice: to clang by FW_ACQUIRED_BEFORE, which it checks within a
// function, and by a LockRank, which debug and sanitizer builds check as threads run (and others
// pay nothing for): a thread takes only what ranks higher than everything that it holds. The ranks
// of the process are the table of docs/concurrency.md.
//
// A function that the analysis cannot follow says FW_NO_THREAD_ANALYSIS with its reason beside it,
// and is listed in docs/concurrency.md.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <utility>

#include "base/time.h"

#if defined(__clang__)
#define FW_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define FW_THREAD_ATTRIBUTE(x)  // g++ has no such analysis
#endif
#define FW_CAPABILITY(name) FW_THREAD_ATTRIBUTE(capability(name))
#define FW_SCOPED_CAPABILITY FW_THREAD_ATTRIBUTE(scoped_lockable)
#define FW_GUARDED_BY(...) FW_THREAD_ATTRIBUTE(guarded_by(__VA_ARGS__))
#define FW_PT_GUARDED_BY(...) FW_THREAD_ATTRIBUTE(pt_guarded_by(__VA_ARGS__))
#define FW_REQUIRES(...) FW_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define FW_REQUIRES_SHARED(...) FW_THREAD_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define FW_EXCLUDES(...) FW_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define FW_ACQUIRE(...) FW_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define FW_ACQUIRE_SHARED(...) FW_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define FW_RELEASE(...) FW_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define FW_RELEASE_SHARED(...) FW_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define FW_RELEASE_GENERIC(...) FW_THREAD_ATTRIBUTE(release_generic_capability(__VA_ARGS__))
#define FW_TRY_ACQUIRE(...) FW_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define FW_ASSERT_CAPABILITY(...) FW_THREAD_ATTRIBUTE(assert_capability(__VA_ARGS__))
#define FW_ACQUIRED_BEFORE(...) FW_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))
#define FW_ACQUIRED_AFTER(...) FW_THREAD_ATTRIBUTE(acquired_after(__VA_ARGS__))
#define FW_RETURN_CAPABILITY(x) FW_THREAD_ATTRIBUTE(lock_returned(x))
#define FW_NO_THREAD_ANALYSIS FW_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace flopwatch {

// Where a lock stands in the order of those that a thread may hold together. A lock without a rank
// (0) is not looked at.
struct LockRank {
  int rank = 0;
  const char* name = "";
};

#ifdef NDEBUG
inline constexpr bool kLockRanksChecked = false;
class RankedLock {  // nothing, and no bytes of the lock that has it
 public:
  explicit RankedLock(LockRank) {}
  void Take(bool /*may_wait*/ = true) const {}
  void GiveBack() const {}
};
#else
inline constexpr bool kLockRanksChecked = true;
class RankedLock {
 public:
  explicit RankedLock(LockRank of) : of_(of) {}
  // Called before the lock is waited for, or, where it is only tried, after it was had. Ends the
  // process when this thread holds one that ranks as high: two threads that do so may wait for each
  // other.
  void Take(bool may_wait = true) const {
    if (of_.rank == 0) return;
    for (int i = 0; i < held_count && may_wait; ++i) {
      if (held[i].rank < of_.rank) continue;
      std::fprintf(stderr, "lock order: %s (%d) is taken by a thread that holds %s (%d)\n",
                   of_.name, of_.rank, held[i].name, held[i].rank);
      std::abort();
    }
    if (held_count < kMaxHeld) held[held_count++] = of_;
  }
  void GiveBack() const {
    for (int i = held_count - 1; i >= 0; --i) {
      if (held[i].rank != of_.rank) continue;
      std::copy(held + i + 1, held + held_count, held + i);
      --held_count;
      return;
    }
  }

 private:
  static constexpr int kMaxHeld = 16;  // more are not remembered
  static inline thread_local LockRank held[kMaxHeld];
  static inline thread_local int held_count = 0;
  LockRank of_;
};
#endif

class FW_CAPABILITY("mutex") Mutex {
 public:
  explicit Mutex(LockRank rank = {}) : order_(rank) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() FW_ACQUIRE() {
    order_.Take();
    mutex_.lock();
  }
  void unlock() FW_RELEASE() {
    mutex_.unlock();
    order_.GiveBack();
  }
  bool try_lock() FW_TRY_ACQUIRE(true) {
    if (!mutex_.try_lock()) return false;
    order_.Take(/*may_wait=*/false);
    return true;
  }

 private:
  std::mutex mutex_;
  [[no_unique_address]] RankedLock order_;
};

class FW_CAPABILITY("mutex") SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;
  void lock() FW_ACQUIRE() { mutex_.lock(); }
  void unlock() FW_RELEASE() { mutex_.unlock(); }
  bool try_lock() FW_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void lock_shared() FW_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() FW_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Held from here to the end of the block, but for what lies between Unlock() and Lock().
template <typename M>
class FW_SCOPED_CAPABILITY BasicLock {
 public:
  explicit BasicLock(M& mutex) FW_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~BasicLock() FW_RELEASE() {
    if (held_) mutex_.unlock();
  }
  BasicLock(const BasicLock&) = delete;
  BasicLock& operator=(const BasicLock&) = delete;
  void Unlock() FW_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void Lock() FW_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  M& mutex_;
  bool held_ = true;
};
using MutexLock = BasicLock<Mutex>;
using WriterLock = BasicLock<SharedMutex>;

class FW_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) FW_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() FW_RELEASE_GENERIC() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Waits are only by condition: `ready` is called with the mutex held (annotate the lambda with
// FW_REQUIRES).
class CondVar {
 public:
  void NotifyOne() { wake_.notify_one(); }
  void NotifyAll() { wake_.notify_all(); }
  template <typename F>
  void Wait(Mutex& mutex, F&& ready) FW_REQUIRES(mutex) {
    wake_.wait(mutex, std::forward<F>(ready));
  }
  // False when `stop` was requested first; so for the others, whose result is that of `ready` at
  // the end.
  template <typename F>
  bool Wait(Mutex& mutex, std::stop_token stop, F&& ready) FW_REQUIRES(mutex) {
    return wake_.wait(mutex, std::move(stop), std::forward<F>(ready));
  }
  template <typename F>
  bool WaitFor(Mutex& mutex, Micros longest, F&& ready) FW_REQUIRES(mutex) {
    return wake_.wait_for(mutex, std::chrono::microseconds(longest), std::forward<F>(ready));
  }
  template <typename F>
  bool WaitFor(Mutex& mutex, std::stop_token stop, Micros longest, F&& ready) FW_REQUIRES(mutex) {
    return wake_.wait_for(mutex, std::move(stop), std::chrono::microseconds(longest),
                          std::forward<F>(ready));
  }

 private:
  std::condition_variable_any wake_;
};

}  // namespace flopwatch
