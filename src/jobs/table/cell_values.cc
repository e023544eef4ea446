#include "jobs/table/cell_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/hostlist.h"
#include "jobs/slurm/time_text.h"

namespace flopwatch::table {
namespace {

constexpr double kLastMicros = 253'402'300'800e6;  // the end of the year 9999
constexpr double kMaxDurationMicros = 100.0 * 366 * 86400e6;
constexpr double kMaxCount = 1e9;
constexpr size_t kMaxNodesText = 64u << 10;  // of a list as the books take it
constexpr size_t kMaxGpuNames = 65'536;

std::string_view Trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

std::optional<double> NumberIn(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

// A whole number without the detour of a double, which has no room for nanoseconds of today.
std::optional<int64_t> WholeIn(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Micros of a number of `unit`; absent where it is none, or too large.
std::optional<Micros> ScaledMicros(std::string_view cell, Micros unit, double limit) {
  if (const auto whole = WholeIn(cell)) {
    if (std::abs(static_cast<double>(*whole)) * static_cast<double>(unit) > limit)
      return std::nullopt;
    return *whole * unit;
  }
  const auto number = NumberIn(cell);
  if (!number || std::abs(*number * static_cast<double>(unit)) > limit) return std::nullopt;
  return static_cast<Micros>(std::llround(*number * static_cast<double>(unit)));
}

bool Digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// What stands between any of `separators`, or between whole ones.
std::vector<std::string_view> Pieces(std::string_view text, std::string_view separators,
                                     bool any = true) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t at = any ? text.find_first_of(separators) : text.find(separators);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + (any ? 1 : separators.size()));
  }
}

// The fraction of a second is cut out of `text`, and what Slurm's reader wants is put in.
Micros CompleteTime(std::string* text) {
  if (text->size() == 10) *text += " 00:00:00";
  if (text->size() >= 16 && (text->size() == 16 || (*text)[16] != ':')) text->insert(16, ":00");
  if (text->size() <= 19 || ((*text)[19] != '.' && (*text)[19] != ',')) return 0;
  size_t end = 20;
  while (end < text->size() && (*text)[end] >= '0' && (*text)[end] <= '9') ++end;
  Micros micros = 0, scale = kMicrosPerSecond;
  for (size_t k = 20; k < end && scale > 1; ++k) micros += ((*text)[k] - '0') * (scale /= 10);
  text->erase(19, end - 19);
  return micros;
}

bool IsGpuName(std::string_view name) {
  if (name.starts_with("GPU-") || name.starts_with("MIG-")) return true;
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string_view index = name.substr(colon + 1);
  if (index.starts_with("nvidia")) index.remove_prefix(6);
  // A PCI address has dots and more than one colon.
  return Digits(index) && index.size() <= 3 && name.find(':') == colon;
}

}  // namespace

StatusOr<TimeReading> ReadTimeCell(std::string_view cell, const Field& field,
                                   const std::optional<TimeZone>& zone) {
  cell = Trimmed(cell);
  const auto bad = [&] { return InvalidArgument("'{}' is no time", Printable(cell, 40)); };
  if (field.unit > 0) {
    const auto micros = ScaledMicros(cell, field.unit, kLastMicros);
    if (!micros) return bad();
    const Micros at = field.origin.value_or(0) + *micros;
    if (!field.origin.has_value() && *micros == 0) return TimeReading{};
    if (at <= 0 || static_cast<double>(at) > kLastMicros) return bad();
    return TimeReading{at, std::nullopt};
  }
  if (Digits(cell) || NumberIn(cell).has_value())
    return InvalidArgument("'{}' is a number; say its unit in the mapping file: unit = \"s\"",
                           Printable(cell, 40));
  if (cell.size() > 64) return bad();
  std::string text(cell);
  const Micros fraction = CompleteTime(&text);
  auto reading = slurm::ReadTime(text, zone.has_value() ? &*zone : nullptr);
  if (absl::IsFailedPrecondition(reading.status()))
    return FailedPrecondition(
        "'{}' is local time; say its zone in the mapping file: time_zone = \"Europe/Berlin\"",
        Printable(cell, 40));
  if (!reading.ok())
    return zone.has_value() && MessageOf(reading.status()).find("skips") != std::string_view::npos
               ? reading.status()
               : bad();
  if (reading->at.has_value()) *reading->at += fraction;
  if (reading->second.has_value()) *reading->second += fraction;
  return reading;
}

StatusOr<Micros> ReadDurationCell(std::string_view cell, const Field& field) {
  cell = Trimmed(cell);
  const auto bad = [&] { return InvalidArgument("'{}' is no duration", Printable(cell, 40)); };
  if (field.unit > 0) {
    const auto micros = ScaledMicros(cell, field.unit, kMaxDurationMicros);
    if (!micros || *micros < 0) return bad();
    return *micros;
  }
  const auto seconds = slurm::ReadDuration(cell);
  if (!seconds.ok() || !seconds->has_value()) return bad();
  return **seconds * kMicrosPerSecond;
}

StatusOr<int64_t> ReadCountCell(std::string_view cell, const Field& field) {
  cell = Trimmed(cell);
  std::string_view number = cell;
  if (!field.tres.empty()) {
    number = "0";
    size_t best = field.tres.size();
    for (const std::string_view entry : Pieces(cell, ",")) {
      const std::string_view e = Trimmed(entry);
      const size_t equals = e.find('=');
      if (equals == std::string_view::npos) continue;
      const auto at = std::find(field.tres.begin(), field.tres.end(), e.substr(0, equals));
      const auto place = static_cast<size_t>(at - field.tres.begin());
      if (place < best) {
        best = place;
        number = e.substr(equals + 1);
      }
    }
  }
  const auto value = NumberIn(number);
  if (!value || *value < 0 || *value > kMaxCount)
    return InvalidArgument("'{}' is no count", Printable(number, 40));
  if (*value != std::floor(*value))
    return OutOfRange("{} is no whole number", Printable(number, 40));
  return static_cast<int64_t>(*value);
}

StatusOr<double> ReadShareCell(std::string_view cell, const Field& field) {
  const auto value = NumberIn(Trimmed(cell));
  if (!value) return InvalidArgument("'{}' is no number", Printable(cell, 40));
  const double share = *value * field.scale;
  if (!(share >= 0 && share <= 1))
    return OutOfRange("'{}' is not from 0 to {}", Printable(cell, 40), field.scale == 1 ? 1 : 100);
  return share;
}

StatusOr<std::string> ReadNodesCell(std::string_view cell, const Field& field) {
  std::vector<std::string> hosts;
  if (field.hostlist) {
    auto expanded = jobs::ExpandHostlist(cell);
    if (!expanded.ok()) return expanded.status();
    hosts = *std::move(expanded);
  } else {
    const std::string between = field.separator.empty() ? "," : field.separator;
    for (const std::string_view piece : Pieces(cell, between, false)) {
      std::string_view host = Trimmed(piece);
      if (!field.strip.empty()) {
        const size_t from = host.find_first_not_of(field.strip);
        if (from == std::string_view::npos) continue;
        host = host.substr(from, host.find_last_not_of(field.strip) - from + 1);
      }
      if (host.empty()) continue;
      if (FaultOfName(host, 255) != NameFault::kNone ||
          host.find_first_of("[], \t") != std::string_view::npos)
        return InvalidArgument("'{}' is no host", Printable(host, 60));
      if (hosts.size() >= jobs::kMaxHosts)
        return ResourceExhausted("more than {} hosts", jobs::kMaxHosts);
      hosts.emplace_back(host);
    }
  }
  std::string list = jobs::CompressHostlist(hosts);
  if (list.size() > kMaxNodesText)
    return ResourceExhausted("a list of hosts of more than {} bytes", kMaxNodesText);
  return list;
}

NamedGpus ReadGpuListCell(std::string_view cell) {
  NamedGpus out;
  bool all = true;
  for (std::string_view g : Pieces(cell, " \t;")) {
    std::string host;
    if (const size_t equals = g.find('='); equals != std::string_view::npos) {
      host = std::string(g.substr(0, equals));
      g.remove_prefix(equals + 1);
    }
    for (const std::string_view name : Pieces(g, ",")) {
      if (name.empty()) continue;
      if (++out.count > kMaxGpuNames) {
        out.names.clear();
        return out;
      }
      std::string gpu(name);
      const std::string_view n = gpu;
      const bool index = Digits(n) || (n.starts_with("nvidia") && Digits(n.substr(6)));
      if (!host.empty() && index) gpu = host + ":" + gpu;
      all = all && gpu.size() <= 256 && IsGpuName(gpu) && FaultOfName(gpu, 256) == NameFault::kNone;
      if (all) out.names.push_back(std::move(gpu));
    }
  }
  if (!all) out.names.clear();
  return out;
}

}  // namespace flopwatch::table
