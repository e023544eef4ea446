#include "base/time_zone.h"

#include <charconv>

#include "base/text.h"

namespace flopwatch {
namespace {

bool TwoDigits(std::string_view text, int* value) {
  return text.size() == 2 && text.find_first_not_of("0123456789") == std::string_view::npos &&
         std::from_chars(text.data(), text.data() + 2, *value).ec == std::errc();
}

}  // namespace

std::optional<int> ParseUtcOffset(std::string_view text) {
  if (text == "Z" || text == "z") return 0;
  if (text.size() < 5 || (text[0] != '+' && text[0] != '-')) return std::nullopt;
  const int sign = text[0] == '-' ? -1 : 1;
  int hours = 0, minutes = 0;
  if (!TwoDigits(text.substr(1, 2), &hours) ||
      !TwoDigits(text.substr(text[3] == ':' ? 4 : 3), &minutes) || hours > 14 || minutes > 59)
    return std::nullopt;
  return sign * (hours * 3600 + minutes * 60);
}

StatusOr<TimeZone> TimeZone::Load(std::string_view name) {
  TimeZone out;
  out.name_ = std::string(name);
  if (name == "UTC" || name == "utc") {
    out.zone_ = absl::UTCTimeZone();
    return out;
  }
  if (const std::optional<int> offset = ParseUtcOffset(name)) {
    out.zone_ = absl::FixedTimeZone(*offset);
    return out;
  }
  // The database's names are paths below its folder: nothing that leads out of it.
  const bool plain = !name.empty() && name.size() <= 64 && name.front() != '/' &&
                     name.find("..") == std::string_view::npos &&
                     FaultOfName(name, 64) == NameFault::kNone;
  if (!plain || !absl::LoadTimeZone(out.name_, &out.zone_)) {
    return NotFound(
        "no time zone '{}' on this machine; give a name of the zone database (Europe/Berlin), UTC "
        "or an offset (+02:00)",
        Printable(name, 40));
  }
  return out;
}

StatusOr<TimeReading> TimeZone::Read(const absl::CivilSecond& local) const {
  const absl::TimeZone::TimeInfo info = zone_.At(local);
  if (info.kind == absl::TimeZone::TimeInfo::SKIPPED)
    return InvalidArgument("a local time that the clock of {} skips", name_);
  TimeReading out;
  out.at = absl::ToUnixMicros(info.pre);
  if (info.kind == absl::TimeZone::TimeInfo::REPEATED) out.second = absl::ToUnixMicros(info.post);
  return out;
}

absl::CivilSecond TimeZone::Local(Micros t) const {
  return absl::ToCivilSecond(absl::FromUnixMicros(t), zone_);
}

}  // namespace flopwatch
