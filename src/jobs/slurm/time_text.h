// Slurm's times and durations. By default its commands print local time without a zone
// ("2026-11-21T02:41:03"); with SLURM_TIME_FORMAT=%s they print Unix seconds, and a site's format
// may add an offset ("+0100"). "Unknown", "None", "N/A" and 0 are no time. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "base/time_zone.h"

namespace flopwatch::slurm {

// FailedPrecondition where the text is local time and `zone` is null.
StatusOr<TimeReading> ReadTime(std::string_view text, const TimeZone* zone);
// A number of a JSON document: Unix seconds; 0, negative and NO_VAL are no time.
std::optional<Micros> TimeOfSeconds(std::optional<int64_t> seconds);

// "1-02:03:04", "03:04:05", "04:05", "04:05.678", "" and "INVALID", "UNLIMITED", "Partition_Limit",
// "N/A" (absent). Seconds, the fraction cut off; a bare number is seconds (ElapsedRaw).
StatusOr<std::optional<int64_t>> ReadDuration(std::string_view text);

}  // namespace flopwatch::slurm
