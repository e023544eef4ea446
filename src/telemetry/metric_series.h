// One series of a metrics protocol (remote write, OTLP): name, labels, points. And its way into
// exposition text, which every pipeline of ours reads: whatever brought a metric, one decoder
// decides what it is.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace flopwatch::telemetry {

struct MetricPoint {
  Micros ts = 0;
  double value = 0;  // finite
};

// Views are valid during the callback that gets it.
struct MetricSeries {
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string_view>> labels;  // in the order sent, no name
  std::vector<MetricPoint> points;
  std::string_view Label(std::string_view key) const;  // "" when absent
};

// "name{a=\"b\"}", names in quotes where they are no plain words (Prometheus 3), values escaped.
void AppendSeries(const MetricSeries& series, std::string* out);
// " 0.5 1735787045000\n"
void AppendPoint(const MetricPoint& point, std::string* out);

}  // namespace flopwatch::telemetry
