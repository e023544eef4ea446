// Samples of a store in the order of time, read on in pages: what is in memory is bounded however
// many there are. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "store/store.h"

namespace flopwatch::alerts {

template <typename Sample>  // has `ts`
class Pages {
 public:
  static constexpr uint64_t kPage = 100'000;       // samples
  static constexpr Micros kPart = kMicrosPerHour;  // of a read
  // The oldest of a window, by time, at most so many.
  using Ask = std::function<StatusOr<std::vector<Sample>>(store::Window window, uint64_t limit)>;

  Pages(Ask ask, Micros from) : ask_(std::move(ask)), unread_(from) {}

  // Those after the last call, up to and with `ts`.
  Status GiveUntil(Micros ts, absl::FunctionRef<void(const Sample&)> give) {
    while (true) {
      for (; next_ < page_.size() && page_[next_].ts <= ts; ++next_) give(page_[next_]);
      if (next_ < page_.size() || unread_ > ts) return absl::OkStatus();
      FW_RETURN_IF_ERROR(Read());
    }
  }

 private:
  Status Read() {
    page_.clear();
    next_ = 0;
    const Micros to = unread_ + kPart;
    FW_ASSIGN_OR_RETURN(page_, ask_({unread_, to}, kPage));
    if (page_.size() < kPage) {
      unread_ = to;
      return absl::OkStatus();
    }
    // A full page may end within a moment: that moment is read again as a whole. Where a page is of
    // one moment alone, what there is more of it is left out.
    const Micros last = page_.back().ts;
    if (page_.front().ts == last) {
      unread_ = last + 1;
      return absl::OkStatus();
    }
    while (page_.back().ts == last) page_.pop_back();
    unread_ = last;
    return absl::OkStatus();
  }

  const Ask ask_;
  std::vector<Sample> page_;
  size_t next_ = 0;
  Micros unread_;  // from here on nothing was read
};

}  // namespace flopwatch::alerts
