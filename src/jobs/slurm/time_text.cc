#include "jobs/slurm/time_text.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "fmt/format.h"

namespace flopwatch::slurm {
namespace {

constexpr int64_t kMaxEpoch = 253'402'300'799;  // the end of the year 9999
constexpr int64_t kMaxDurationSeconds = 100LL * 366 * 86400;

bool OnlyDigits(std::string_view text, size_t max_size) {
  return !text.empty() && text.size() <= max_size &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

int64_t NumberOf(std::string_view digits) {
  int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

Status BadSlurmTime(std::string_view text) {
  return InvalidArgument("'{}' is no time as Slurm writes it", Printable(text, 40));
}

bool IsNoTime(std::string_view text) {
  for (const std::string_view word : {"", "Unknown", "None", "N/A", "NONE", "0", "(null)", "n/a"})
    if (text == word) return true;
  return false;
}

// "2026-11-21T02:41:03", taken off the front of `text`.
std::optional<absl::CivilSecond> TakeCivil(std::string_view* text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd";
  if (text->size() < kForm.size()) return std::nullopt;
  for (size_t k = 0; k < kForm.size(); ++k) {
    const char c = (*text)[k];
    const bool fits = kForm[k] == 'd'   ? c >= '0' && c <= '9'
                      : kForm[k] == 'T' ? c == 'T' || c == ' '
                                        : c == kForm[k];
    if (!fits) return std::nullopt;
  }
  const auto part = [&](size_t at, size_t size) { return NumberOf(text->substr(at, size)); };
  const absl::CivilSecond civil(part(0, 4), part(5, 2), part(8, 2), part(11, 2), part(14, 2),
                                part(17, 2));
  // What is not there (month 13, 31 April, second 61) is normalised by CivilSecond: refused.
  if (civil.year() < 1970 || civil.month() != part(5, 2) || civil.day() != part(8, 2) ||
      civil.hour() != part(11, 2) || civil.minute() != part(14, 2) || civil.second() != part(17, 2))
    return std::nullopt;
  text->remove_prefix(kForm.size());
  return civil;
}

}  // namespace

StatusOr<TimeReading> ReadTime(std::string_view text, const TimeZone* zone) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = text.substr(1, text.size() - 2);
  if (IsNoTime(text)) return TimeReading{};
  if (OnlyDigits(text, 19)) {
    const int64_t seconds = NumberOf(text);
    if (seconds == 0xFFFFFFFE || seconds == 0xFFFFFFFF) return TimeReading{};  // NO_VAL
    if (seconds > kMaxEpoch) return BadSlurmTime(text);
    return TimeReading{TimeOfSeconds(seconds), std::nullopt};
  }
  std::string_view rest = text;
  const std::optional<absl::CivilSecond> civil = TakeCivil(&rest);
  if (!civil) return BadSlurmTime(text);
  if (!rest.empty()) {
    const std::optional<int> offset = ParseUtcOffset(rest);
    if (!offset) return BadSlurmTime(text);
    const int64_t seconds = *civil - absl::CivilSecond() - *offset;
    return TimeReading{TimeOfSeconds(seconds), std::nullopt};
  }
  if (zone == nullptr) {
    return FailedPrecondition(
        "'{}' is local time without a zone; say which (a zone such as Europe/Berlin or UTC), or "
        "export with SLURM_TIME_FORMAT=%s",
        Printable(text, 40));
  }
  StatusOr<TimeReading> reading = zone->Read(*civil);
  if (!reading.ok()) return Annotate(reading.status(), Printable(text, 40));
  return reading;
}

std::optional<Micros> TimeOfSeconds(std::optional<int64_t> seconds) {
  if (!seconds || *seconds <= 0 || *seconds > kMaxEpoch) return std::nullopt;
  return *seconds * kMicrosPerSecond;
}

StatusOr<std::optional<int64_t>> ReadDuration(std::string_view text) {
  const auto bad = [&] {
    return InvalidArgument("'{}' is no duration as Slurm writes it", Printable(text, 40));
  };
  for (const std::string_view word :
       {"", "INVALID", "UNLIMITED", "Partition_Limit", "N/A", "None", "Unknown", "n/a"})
    if (text == word) return std::optional<int64_t>();
  std::string_view rest = text;
  if (const size_t dot = rest.find('.'); dot != std::string_view::npos) {
    if (!OnlyDigits(rest.substr(dot + 1), 9)) return bad();
    rest = rest.substr(0, dot);
  }
  int64_t days = 0;
  if (const size_t dash = rest.find('-'); dash != std::string_view::npos) {
    if (!OnlyDigits(rest.substr(0, dash), 6)) return bad();
    days = NumberOf(rest.substr(0, dash));
    rest.remove_prefix(dash + 1);
  }
  int64_t seconds = 0;
  int parts = 0;
  while (true) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    if (!OnlyDigits(rest.substr(0, colon), 10) || ++parts > 3) return bad();
    seconds = seconds * 60 + NumberOf(rest.substr(0, colon));
    if (colon == rest.size()) break;
    rest.remove_prefix(colon + 1);
  }
  if (days > 0 && parts != 3) return bad();
  seconds += days * 86400;
  if (parts == 1 && (seconds == 0xFFFFFFFE || seconds == 0xFFFFFFFF))  // NO_VAL
    return std::optional<int64_t>();
  if (seconds > kMaxDurationSeconds) return bad();
  return std::optional<int64_t>(seconds);
}

}  // namespace flopwatch::slurm
