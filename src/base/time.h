// Time as the product stores it: int64 microseconds since the Unix epoch, UTC. Durations are int64
// microseconds too. Nothing here reads a clock except Now(); pure rooms take times as arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flopwatch {

using Micros = int64_t;

inline constexpr Micros kMicrosPerMilli = 1'000;
inline constexpr Micros kMicrosPerSecond = 1'000'000;
inline constexpr Micros kMicrosPerMinute = 60 * kMicrosPerSecond;
inline constexpr Micros kMicrosPerHour = 60 * kMicrosPerMinute;
inline constexpr Micros kMicrosPerDay = 24 * kMicrosPerHour;

inline double ToSeconds(Micros d) { return static_cast<double>(d) / kMicrosPerSecond; }

// Wall clock, UTC.
Micros Now();
// Monotonic clock, for measuring; not comparable with Now().
Micros MonotonicNow();

// "2026-11-21T03:42:26Z", with ".250" or ".250125" only where the fraction is not zero.
std::string FormatTime(Micros t);
// "90d", "15m", "1h30m", "2.5s", "250ms".
std::string FormatDuration(Micros d);

// "10s", "250ms", "1h30m", "14d", "2y" (365 d); a bare number is refused because its unit is
// unknown.
StatusOr<Micros> ParseDuration(std::string_view text);

// RFC 3339 with Z or offset, "YYYY-MM-DD", "YYYY-MM-DD HH:MM[:SS]" (read as UTC), "now", "now-2h",
// "-2h", or Unix seconds with optional fraction; in the years 0 to 9999.
StatusOr<Micros> ParseTime(std::string_view text, Micros now);

// Rounds down to a multiple of `step`, also for times before 1970.
Micros FloorTo(Micros t, Micros step);
// The end of the UTC day that `t` is in.
inline Micros EndOfDay(Micros t) { return FloorTo(t, kMicrosPerDay) + kMicrosPerDay; }

}  // namespace flopwatch
