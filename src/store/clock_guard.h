// How old things may be believed to be, for whatever deletes by age. A wall clock can jump; a month
// ahead, and everything that is kept for two weeks would go.
//
// The guard keeps an estimate of now, the mark. It goes at the pace of the monotonic clock, and
// with the wall clock as long as that does the same (kDriftPart). When the wall clock has gone
// ahead by more than the time that passed (it jumped, or the process was down: the two look alike),
// the mark stays behind. Once the clock has kept to its new time for kSettled, and data of that
// time has come all the while, the mark goes at twice the pace until it has caught up. So a clock
// that is wrong costs nothing for kSettled and then an hour of the oldest data an hour, and time
// spent switched off is made up for soon. A clock that has gone back is treated alike: the mark
// goes on at the old pace, and after kSettled stands still until the clock is there.
//
// What is deleted is as old as it seems by all three (AsOf): the clock, the mark, and the newest
// data. A fleet that says nothing for a month keeps the two weeks before it.
//
// Pure but for what it is told; its user locks.
#pragma once

#include <string_view>

#include "base/time.h"

namespace flopwatch::store {

class ClockGuard {
 public:
  // A clock that jumped is right again within this, or else somebody should have noticed.
  static constexpr Micros kSettled = 6 * kMicrosPerHour;
  // The pace of a wall clock that is being slewed differs from the monotonic clock's by 500 ppm at
  // most; where both are slewed, not at all.
  static constexpr Micros kDriftPart = 1000;  // one in so many
  // Two clocks that differ by less are taken to agree: it is less than retention is exact to.
  static constexpr Micros kStep = kMicrosPerMinute;
  // Data is of the clock's time when it is no older than this.
  static constexpr Micros kFresh = kMicrosPerHour;
  // More than this is worth saying.
  static constexpr Micros kWorthSaying = kMicrosPerHour;

  // `mark` as it was kept (0 = never), and the monotonic time at which that was read.
  ClockGuard(Micros mark, Micros monotonic) : mark_(mark), monotonic_(monotonic) {}

  // Takes what the clocks say now, and the time of the newest sample there is (0 = none).
  void Advance(Micros wall, Micros monotonic, Micros newest_data);

  Micros mark() const { return mark_; }
  // The clock as it was last told, minus the mark: positive where the clock is ahead.
  Micros ahead() const { return wall_ - mark_; }
  // The time that ages count from: the least of clock, mark and newest data. 0 = not known yet.
  Micros AsOf() const;
  // Why AsOf() is behind the clock by more than kWorthSaying; "" where it is not.
  std::string_view WaitsFor() const;

 private:
  Micros mark_ = 0, monotonic_ = 0, wall_ = 0, newest_data_ = 0;
  // `settled_`: how long the clock has kept to a time other than the mark; `offset_`: its distance
  // from the monotonic clock then. A clock that runs at a pace of its own never settles.
  Micros settled_ = 0, offset_ = 0;
};

}  // namespace flopwatch::store
