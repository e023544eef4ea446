// Snapshots that are costly to make and may be a little old. A thread makes them anew while
// somebody asks, so that no request waits for one; each costs at most a fifth of a percent of a
// core. They are made the more seldom the longer nobody asked: what an answer is made of is at most
// half as old as the question before, and not over eight seconds, unless its cost allows it only
// more seldom.
//
// Readers share an immutable snapshot; it lives while one of them has it. Get() from any thread.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"

namespace flopwatch::query {

class KeptBase {
 public:
  virtual ~KeptBase() = default;

 protected:
  friend class Keeper;
  virtual void RefreshIfDue(Micros now) = 0;

  // A snapshot that is made of others asks for them too. That is nobody's question: it does not
  // keep them, or all would be made anew as long as one of them is.
  static inline thread_local bool on_keeper_ = false;
};

// The thread that refreshes. Declared after the values it keeps, so that it stops first.
class Keeper {
 public:
  static constexpr Micros kLook = 100 * kMicrosPerMilli;

  explicit Keeper(std::vector<KeptBase*> values)
      : values_(std::move(values)), thread_([this](std::stop_token stop) { Run(stop); }) {}

 private:
  void Run(std::stop_token stop) {
    KeptBase::on_keeper_ = true;
    MutexLock lock(mutex_);
    while (!wake_.WaitFor(mutex_, stop, kLook, [&] { return stop.stop_requested(); })) {
      for (KeptBase* value : values_) value->RefreshIfDue(MonotonicNow());
    }
  }

  const std::vector<KeptBase*> values_;
  Mutex mutex_;  // guards nothing: the wait needs one
  CondVar wake_;
  std::jthread thread_;
};

template <typename T>
class Kept : public KeptBase {
 public:
  static constexpr Micros kShortestPeriod = kMicrosPerSecond;
  static constexpr Micros kUsable = 10 * kMicrosPerSecond;  // an older one is not answered with
  static constexpr Micros kLongestSpacing = 8 * kMicrosPerSecond;
  static_assert(kLongestSpacing + 2 * Keeper::kLook < kUsable);
  static constexpr int64_t kShare = 500;

  // `make` may run on any thread. `keep_for`: how long after the last question it is still kept,
  // while `wanted` says so.
  Kept(std::function<std::shared_ptr<const T>()> make, Micros keep_for,
       std::function<bool()> wanted)
      : make_(std::move(make)), keep_for_(keep_for), wanted_(std::move(wanted)) {}

  // Made at once where there is none yet, or only one that is too old.
  std::shared_ptr<const T> Get() {
    std::shared_ptr<const T> known = AtHand();
    return known != nullptr ? known : Make();
  }

  // The same; null where it would have to be made. Never waits.
  std::shared_ptr<const T> AtHand() {
    const Micros now = MonotonicNow();
    MutexLock lock(mutex_);
    if (!on_keeper_) asked_ = now;
    const Micros usable = on_keeper_ ? period_ : std::max(kUsable, 3 * period_);
    return value_ != nullptr && now - made_ <= usable ? value_ : nullptr;
  }

  // How old one gets before the next is made, `since_asked` after the last question; `period` is
  // what its cost allows.
  static Micros Spacing(Micros period, Micros since_asked) {
    return std::max(period, std::min(since_asked / 2, kLongestSpacing));
  }

  // Whether Get() has one at hand.
  bool Has() {
    MutexLock lock(mutex_);
    return value_ != nullptr && MonotonicNow() - made_ <= std::max(kUsable, 3 * period_);
  }

 private:
  void RefreshIfDue(Micros now) override {
    {
      MutexLock lock(mutex_);
      const bool asked = asked_ != 0 && now - asked_ <= keep_for_;
      if (!asked || now - made_ < Spacing(period_, now - asked_)) return;
    }
    if (wanted_()) Make();
  }

  std::shared_ptr<const T> Make() {
    MutexLock making(making_mutex_);
    const Micros begun = MonotonicNow();
    {
      // Another thread made one while this one waited for its turn.
      MutexLock lock(mutex_);
      if (value_ != nullptr && begun - made_ < kShortestPeriod) return value_;
    }
    std::shared_ptr<const T> value = make_();
    MutexLock lock(mutex_);
    made_ = MonotonicNow();
    period_ = std::max(kShortestPeriod, kShare * (made_ - begun));
    value_ = value;
    return value;
  }

  const std::function<std::shared_ptr<const T>()> make_;
  const Micros keep_for_;
  const std::function<bool()> wanted_;
  Mutex mutex_;
  Mutex making_mutex_ FW_ACQUIRED_BEFORE(mutex_);  // one Make() at a time
  // Shared with the requests that still read it.
  std::shared_ptr<const T> value_ FW_GUARDED_BY(mutex_);
  // Monotonic.
  Micros asked_ FW_GUARDED_BY(mutex_) = 0, made_ FW_GUARDED_BY(mutex_) = 0;
  Micros period_ FW_GUARDED_BY(mutex_) = kShortestPeriod;
};

}  // namespace flopwatch::query
