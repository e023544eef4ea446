// The server's end of an import (server_taker.h): one at a time, each window durable before it is
// answered. A session that is not heard of for kSilence gives its place to the next; one that the
// server does not know (it was started anew, or another took its place) is refused and begins
// again, which adds nothing twice.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "history/store_taker.h"

namespace flopwatch::history {

class Intake {
 public:
  static constexpr Micros kSilence = 5 * kMicrosPerMinute;

  // All outlive it. `clock` is the server's.
  Intake(ingest::IngestSide* live, store::Store* store, std::function<Micros()> clock)
      : live_(live), store_(store), clock_(std::move(clock)) {}

  struct Part {
    std::string session;
    bool first = false;  // it begins with this
    bool more = false;   // the same window follows again (taker.h)
    store::Window window;
    TakerOptions options;  // of the first one
  };
  // `fill` gives the series. FailedPrecondition: another import has the place, or there is no such
  // session. Any thread; takes as long as storing does.
  StatusOr<Taken> Take(const Part& part, absl::FunctionRef<Status(Taker*)> fill);
  // The session is over. Fine where it is not known.
  Status End(std::string_view session);

 private:
  ingest::IngestSide* const live_;
  store::Store* const store_;
  const std::function<Micros()> clock_;
  Mutex mutex_;
  std::string session_ FW_GUARDED_BY(mutex_);
  std::unique_ptr<StoreTaker> taker_ FW_GUARDED_BY(mutex_);
  Micros heard_ FW_GUARDED_BY(mutex_) = 0;  // by the monotonic clock
};

}  // namespace flopwatch::history
