// The rules of a site's wall clock. Pure but for TimeZone::Load; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "base/time.h"

namespace flopwatch {

// "Z", "+0100", "+01:00": seconds ahead of UTC.
std::optional<int> ParseUtcOffset(std::string_view text);

// A time as its text gives it. Once a year an hour of local time comes twice: such a text has two
// readings, and `second` is the later one.
struct TimeReading {
  std::optional<Micros> at;      // absent: the text says there is none
  std::optional<Micros> second;  // in a repeated hour only
};

class TimeZone {
 public:
  // "UTC", "+02:00", "-0530", or a name of the zone database ("Europe/Berlin"). NotFound where the
  // machine does not have that name. Reads the machine's zone database.
  static StatusOr<TimeZone> Load(std::string_view name);
  const std::string& name() const { return name_; }
  // InvalidArgument for a time that the clock skips in spring.
  StatusOr<TimeReading> Read(const absl::CivilSecond& local) const;
  // What the clock shows at `t`.
  absl::CivilSecond Local(Micros t) const;

 private:
  std::string name_;
  absl::TimeZone zone_;
};

}  // namespace flopwatch
