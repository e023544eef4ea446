#include "telemetry/metric_series.h"

#include <fmt/format.h>

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

void AppendSeries(const SeriesLabels& series, std::string* out) {
  const bool plain = !series.name.empty() && MetricNameLength(series.name) == series.name.size();
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

void AppendPoint(const MetricPoint& point, std::string* out) {
  *out +=
      fmt::format(" {} {}\n", point.value, FloorTo(point.ts, kMicrosPerMilli) / kMicrosPerMilli);
}

}  // namespace flopwatch::telemetry
