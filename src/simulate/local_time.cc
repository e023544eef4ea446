#include "simulate/local_time.h"

#include "absl/time/civil_time.h"

namespace flopwatch::simulate {

// A rule and not the zone database: a minimal Debian has none.
int LocalOffsetSeconds(Micros utc) {
  constexpr int kStandard = -8 * 3600, kSummer = -7 * 3600;
  const absl::CivilSecond second =
      absl::CivilSecond(1970) + FloorTo(utc, kMicrosPerSecond) / kMicrosPerSecond;
  auto changes = [&](int month, int sunday, int old_offset) {
    const absl::CivilDay first =
        absl::NextWeekday(absl::CivilDay(second.year(), month, 1) - 1, absl::Weekday::sunday);
    return absl::CivilSecond(first + 7 * (sunday - 1)) + 2 * 3600 - old_offset;
  };
  return second >= changes(3, 2, kStandard) && second < changes(11, 1, kSummer) ? kSummer
                                                                                : kStandard;
}

}  // namespace flopwatch::simulate
