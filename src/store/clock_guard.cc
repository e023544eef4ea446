#include "store/clock_guard.h"

#include <algorithm>
#include <cstdlib>

namespace flopwatch::store {

void ClockGuard::Advance(Micros wall, Micros monotonic, Micros newest_data) {
  const Micros passed = std::max<Micros>(0, monotonic - monotonic_);
  const Micros drift = passed / kDriftPart;
  monotonic_ = std::max(monotonic_, monotonic);
  wall_ = wall;
  newest_data_ = newest_data;
  if (mark_ == 0) {
    // A directory that never had a mark: what is in it tells when it was last in use.
    mark_ = newest_data > 0 ? std::min(newest_data, wall) : wall;
    return;
  }
  const bool agrees = wall >= mark_ + passed - drift && wall <= mark_ + passed + drift;
  if (agrees) {
    mark_ = std::max(mark_, wall);
    settled_ = 0;
    return;
  }
  const bool ahead = wall > mark_ + passed;
  const Micros turned = wall - monotonic_ - offset_;
  const bool kept =
      std::abs(turned) <= kStep + settled_ / kDriftPart && newest_data >= wall - kFresh;
  settled_ = kept ? settled_ + passed : 0;
  if (!kept) offset_ = wall - monotonic_;
  const Micros pace = settled_ < kSettled ? passed : ahead ? 2 * passed : 0;
  mark_ = ahead ? std::min(mark_ + pace + drift, wall) : mark_ + pace;
}

Micros ClockGuard::AsOf() const {
  const Micros by_clocks = std::min(wall_, mark_);
  return newest_data_ > 0 ? std::min(by_clocks, newest_data_) : by_clocks;
}

std::string_view ClockGuard::WaitsFor() const {
  if (wall_ - mark_ > kWorthSaying) return "clock_ahead";
  if (mark_ - wall_ > kWorthSaying) return "clock_behind";
  if (newest_data_ > 0 && wall_ - newest_data_ > kWorthSaying) return "no_new_data";
  return "";
}

}  // namespace flopwatch::store
