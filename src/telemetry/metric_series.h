// One series of a metrics protocol (remote write, OTLP): name, labels, points. And its way into
// exposition text, which every pipeline of ours reads: whatever brought a metric, one decoder
// decides what it is.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace flopwatch::telemetry {

// A series with more labels is left out, and counted, by every protocol.
inline constexpr size_t kMaxWireLabels = 128;

struct MetricPoint {
  Micros ts = 0;
  double value = 0;  // finite, but of what MayBeNotFiniteName(); never a staleness marker
};

// What a series is called. Views are valid during the callback that gets it.
struct SeriesLabels {
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string_view>> labels;  // in the order sent, no name
  std::string_view Label(std::string_view key) const;                 // "" when absent
  // A pair as Prometheus sends it: `__name__` is the name, an empty value is an absent label.
  void Add(std::string_view key, std::string_view value);
  void Clear();
};

struct MetricSeries : SeriesLabels {
  std::vector<MetricPoint> points;
};

// Whether a metric's name needs no quotes.
bool IsPlainName(std::string_view name);
// "name{a=\"b\"}", names in quotes where they are no plain words (Prometheus 3), values escaped.
void AppendSeries(const SeriesLabels& series, std::string* out);
// "0.5", "12": reads as the same double.
void AppendNumber(double value, std::string* out);
// " 0.5 1735787045000\n"; with `decimals` whole numbers end in ".0".
void AppendPoint(const MetricPoint& point, bool decimals, std::string* out);

// Where the text of a value says its unit (FieldMatch::percent_if_integer), and a protocol carries
// numbers: of one exporter, its values say whether they are per cent, but for a 1 among them.
class PercentOrRatio {
 public:
  void See(double value) {
    const bool whole = value == std::trunc(value);
    if (!whole || value > 1) percent_ = whole;
  }
  // Whether to write it with decimals, which makes it a ratio.
  bool DecimalsOf(double value) const { return value == 1 && !percent_; }

 private:
  bool percent_ = false;  // 100 % is more frequent than 1 %
};

}  // namespace flopwatch::telemetry
