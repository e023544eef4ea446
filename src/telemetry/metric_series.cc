#include "telemetry/metric_series.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>

#include "telemetry/labels.h"

namespace flopwatch::telemetry {
namespace {

void AppendQuoted(std::string_view text, std::string* out) {
  *out += '"';
  for (const char c : text) {
    if (c == '\\' || c == '"') *out += '\\';
    // What else is no text is the decoder's to refuse: replaced here, two series could become one.
    if (c == '\n') {
      *out += "\\n";
    } else {
      *out += c;
    }
  }
  *out += '"';
}

bool IsPlainLabel(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name) {
    const bool word =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!word) return false;
  }
  return true;
}

}  // namespace

std::string_view SeriesLabels::Label(std::string_view key) const {
  for (const auto& [name, value] : labels)
    if (name == key) return value;
  return {};
}

void SeriesLabels::Add(std::string_view key, std::string_view value) {
  if (key == "__name__") {
    name = value;
  } else if (!key.empty() && !value.empty()) {
    labels.emplace_back(key, value);
  }
}

void SeriesLabels::Clear() {
  name = {};
  labels.clear();
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && MetricNameLength(name) == name.size();
}

void AppendSeries(const SeriesLabels& series, std::string* out) {
  const bool plain = IsPlainName(series.name);
  char separator = '{';
  if (plain) {
    out->append(series.name);
  } else {
    *out += '{';
    AppendQuoted(series.name, out);
    separator = ',';
  }
  for (const auto& [name, value] : series.labels) {
    *out += separator;
    separator = ',';
    if (IsPlainLabel(name)) {
      out->append(name);
    } else {
      AppendQuoted(name, out);
    }
    *out += '=';
    AppendQuoted(value, out);
  }
  if (!plain || !series.labels.empty()) *out += '}';
}

// Counters are whole numbers or have few decimals, and printing the shortest text of any double
// takes ten times as long.
void AppendNumber(double value, std::string* out) {
  constexpr double kMillion = 1e6, kLargest = 1e9;
  constexpr size_t kDecimals = 6;
  const double millionths = std::nearbyint(value * kMillion);
  // A quotient of whole numbers below 2^53 and the reading of its decimals are rounded alike.
  if (!(std::abs(value) < kLargest) || millionths / kMillion != value ||
      (value == 0 && std::signbit(value))) {
    fmt::format_to(std::back_inserter(*out), "{}", value);
    return;
  }
  char digits[24];
  auto left = static_cast<uint64_t>(std::abs(millionths));
  char* const end = digits + sizeof digits;
  char* at = end;
  const uint64_t whole = left / static_cast<uint64_t>(kMillion);
  left -= whole * static_cast<uint64_t>(kMillion);
  if (left != 0) {
    size_t places = kDecimals;
    while (left % 10 == 0) {
      left /= 10;
      --places;
    }
    for (; places > 0; --places, left /= 10) *--at = static_cast<char>('0' + left % 10);
    *--at = '.';
  }
  char text[24];
  if (value < 0) *out += '-';
  out->append(text, std::to_chars(text, text + sizeof text, whole).ptr);
  out->append(at, end);
}

void AppendPoint(const MetricPoint& point, bool decimals, std::string* out) {
  *out += ' ';
  AppendNumber(point.value, out);
  if (decimals) *out += ".0";
  *out += fmt::format(" {}\n", FloorTo(point.ts, kMicrosPerMilli) / kMicrosPerMilli);
}

}  // namespace flopwatch::telemetry
