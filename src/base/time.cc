#include "base/time.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/text.h"

namespace flopwatch {
namespace {

using std::chrono::day;
using std::chrono::month;
using std::chrono::sys_days;
using std::chrono::year;
using std::chrono::year_month_day;

absl::string_view Absl(std::string_view s) { return {s.data(), s.size()}; }

constexpr size_t kShownBytes = 80;

Status BadTime(std::string_view text) {
  return InvalidArgument(
      "cannot read \"{}\" as a time; use RFC 3339 (2026-11-21T03:42:26Z), a date, Unix seconds, "
      "or a time before now such as -2h",
      Printable(text, kShownBytes));
}

// Of four-digit years, so that the difference of two never overflows.
StatusOr<Micros> OfFourDigits(std::string_view text, Micros t) {
  constexpr Micros kFirst = -62'167'219'200 * kMicrosPerSecond;  // 0000-01-01
  constexpr Micros kEnd = 253'402'300'800 * kMicrosPerSecond;    // 10000-01-01
  if (t >= kFirst && t < kEnd) return t;
  return InvalidArgument("\"{}\" is no time of the years 0 to 9999", Printable(text, kShownBytes));
}

// Reads exactly `digits` digits at `pos`; false when they are not there.
bool Digits(std::string_view s, size_t pos, int digits, int* out) {
  if (pos + digits > s.size()) return false;
  int v = 0;
  for (int i = 0; i < digits; ++i) {
    if (!absl::ascii_isdigit(s[pos + i])) return false;
    v = v * 10 + (s[pos + i] - '0');
  }
  *out = v;
  return true;
}

}  // namespace

Micros Now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Micros MonotonicNow() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Micros FloorTo(Micros t, Micros step) {
  const Micros r = t % step;
  return r < 0 ? t - r - step : t - r;
}

std::string FormatTime(Micros t) {
  const Micros days = FloorTo(t, kMicrosPerDay) / kMicrosPerDay;
  const Micros rest = t - days * kMicrosPerDay;
  const year_month_day ymd{sys_days{std::chrono::days{days}}};
  std::string out = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", int(ymd.year()),
                                unsigned(ymd.month()), unsigned(ymd.day()), rest / kMicrosPerHour,
                                rest / kMicrosPerMinute % 60, rest / kMicrosPerSecond % 60);
  const Micros frac = rest % kMicrosPerSecond;
  if (frac % 1000 != 0) {
    out += fmt::format(".{:06}", frac);
  } else if (frac != 0) {
    out += fmt::format(".{:03}", frac / 1000);
  }
  return out + "Z";
}

std::string FormatDuration(Micros d) {
  if (d == 0) return "0s";
  std::string out = d < 0 ? "-" : "";
  uint64_t rest = d < 0 ? 0 - static_cast<uint64_t>(d) : static_cast<uint64_t>(d);
  struct Unit {
    uint64_t size;
    const char* name;
  };
  static constexpr Unit kUnits[] = {
      {kMicrosPerDay, "d"}, {kMicrosPerHour, "h"}, {kMicrosPerMinute, "m"}};
  for (const Unit& u : kUnits) {
    if (rest >= u.size) {
      out += fmt::format("{}{}", rest / u.size, u.name);
      rest %= u.size;
    }
  }
  if (rest == 0) return out;
  if (rest % kMicrosPerSecond == 0) return out + fmt::format("{}s", rest / kMicrosPerSecond);
  if (rest < kMicrosPerSecond) return out + fmt::format("{}ms", static_cast<double>(rest) / 1e3);
  return out + fmt::format("{}s", static_cast<double>(rest) / 1e6);
}

StatusOr<Micros> ParseDuration(std::string_view text) {
  const std::string_view whole = text;
  const auto bad = [&](const char* why) {
    return InvalidArgument(
        "cannot read \"{}\" as a duration: {}; use for example 10s, 15m, 1h30m or 14d",
        Printable(whole, kShownBytes), why);
  };
  if (text.empty()) return bad("it is empty");
  double total = 0;
  while (!text.empty()) {
    double number = 0;
    const auto [end, ec] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (ec != std::errc() || number < 0 || std::signbit(number))
      return bad("a non-negative number is expected");
    text.remove_prefix(end - text.data());
    size_t n = 0;
    while (n < text.size() && absl::ascii_isalpha(text[n])) ++n;
    const std::string_view unit = text.substr(0, n);
    double factor = 0;
    if (unit == "us") factor = 1;
    if (unit == "ms") factor = kMicrosPerMilli;
    if (unit == "s") factor = kMicrosPerSecond;
    if (unit == "m" || unit == "min") factor = kMicrosPerMinute;
    if (unit == "h") factor = kMicrosPerHour;
    if (unit == "d") factor = kMicrosPerDay;
    if (unit == "w") factor = 7.0 * kMicrosPerDay;
    if (unit == "y") factor = 365.0 * kMicrosPerDay;
    if (factor == 0) return bad(unit.empty() ? "a unit is missing" : "its unit is unknown");
    total += number * factor;
    text.remove_prefix(n);
  }
  if (!(total < 9.0e18)) return bad("it is too long");
  return static_cast<Micros>(std::llround(total));
}

StatusOr<Micros> ParseTime(std::string_view text, Micros now) {
  const std::string_view whole = text;
  if (text == "now") return now;
  if (absl::StartsWith(Absl(text), "now-")) text.remove_prefix(3);
  if (!text.empty() && text[0] == '-') {
    FW_ASSIGN_OR_RETURN(const Micros back, ParseDuration(text.substr(1)));
    return OfFourDigits(whole, now - back);
  }
  if (!text.empty() && (text.size() < 8 || text.find('-') == std::string_view::npos)) {
    double seconds = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (ec != std::errc() || end != text.data() + text.size() || !(std::fabs(seconds) < 9.0e12))
      return BadTime(whole);
    return OfFourDigits(whole, static_cast<Micros>(std::llround(seconds * 1e6)));
  }
  int y, mo, d, h = 0, mi = 0, s = 0;
  if (!Digits(text, 0, 4, &y) || !Digits(text, 5, 2, &mo) || !Digits(text, 8, 2, &d) ||
      text[4] != '-' || text[7] != '-')
    return BadTime(whole);
  const year_month_day ymd{year{y}, month{unsigned(mo)}, day{unsigned(d)}};
  if (!ymd.ok()) return BadTime(whole);
  Micros t = sys_days{ymd}.time_since_epoch().count() * kMicrosPerDay;
  text.remove_prefix(10);
  if (text.empty()) return t;
  if (text[0] != 'T' && text[0] != 't' && text[0] != ' ') return BadTime(whole);
  text.remove_prefix(1);
  if (!Digits(text, 0, 2, &h) || text.size() < 5 || text[2] != ':' || !Digits(text, 3, 2, &mi))
    return BadTime(whole);
  text.remove_prefix(5);
  if (!text.empty() && text[0] == ':') {
    if (!Digits(text, 1, 2, &s)) return BadTime(whole);
    text.remove_prefix(3);
  }
  if (h > 24 || mi > 59 || s > 60) return BadTime(whole);
  t += h * kMicrosPerHour + mi * kMicrosPerMinute + s * kMicrosPerSecond;
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    Micros scale = kMicrosPerSecond;
    Micros frac = 0;
    size_t n = 0;
    while (n < text.size() && absl::ascii_isdigit(text[n])) {
      if (scale > 1) {
        scale /= 10;
        frac += (text[n] - '0') * scale;
      }
      ++n;
    }
    if (n == 0) return BadTime(whole);
    t += frac;
    text.remove_prefix(n);
  }
  if (text.empty() || text == "Z" || text == "z") return OfFourDigits(whole, t);
  int oh, om;
  if ((text[0] != '+' && text[0] != '-') || text.size() != 6 || text[3] != ':' ||
      !Digits(text, 1, 2, &oh) || !Digits(text, 4, 2, &om))
    return BadTime(whole);
  const Micros offset = oh * kMicrosPerHour + om * kMicrosPerMinute;
  return OfFourDigits(whole, text[0] == '+' ? t - offset : t + offset);
}

}  // namespace flopwatch
