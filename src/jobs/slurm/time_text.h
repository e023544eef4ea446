// Slurm's times and durations. By default its commands print local time without a zone
// ("2026-11-21T02:41:03"); with SLURM_TIME_FORMAT=%s they print Unix seconds, and a site's format
// may add an offset ("+0100"). "Unknown", "None", "N/A" and 0 are no time. Pure but for
// TimeZone::Load; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "base/time.h"

namespace flopwatch::slurm {

// A time as its text gives it. Once a year an hour of local time comes twice: such a text has two
// readings, and `second` is the later one.
struct TimeReading {
  std::optional<Micros> at;      // absent: the text says there is none
  std::optional<Micros> second;  // in a repeated hour only
};

// The rules of a site's wall clock.
class TimeZone {
 public:
  // "UTC", "+02:00", "-0530", or a name of the zone database ("Europe/Berlin"). NotFound where the
  // machine does not have that name. Reads the machine's zone database.
  static StatusOr<TimeZone> Load(std::string_view name);
  const std::string& name() const { return name_; }
  // InvalidArgument for a time that the clock skips in spring.
  StatusOr<TimeReading> Read(const absl::CivilSecond& local) const;

 private:
  std::string name_;
  absl::TimeZone zone_;
};

// FailedPrecondition where the text is local time and `zone` is null.
StatusOr<TimeReading> ReadTime(std::string_view text, const TimeZone* zone);
// A number of a JSON document: Unix seconds; 0, negative and NO_VAL are no time.
std::optional<Micros> TimeOfSeconds(std::optional<int64_t> seconds);

// "1-02:03:04", "03:04:05", "04:05", "04:05.678", "" and "INVALID", "UNLIMITED", "Partition_Limit",
// "N/A" (absent). Seconds, the fraction cut off; a bare number is seconds (ElapsedRaw).
StatusOr<std::optional<int64_t>> ReadDuration(std::string_view text);

}  // namespace flopwatch::slurm
