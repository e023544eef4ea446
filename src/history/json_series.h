// A series as Prometheus' API and its kin write it in JSON: {"metric": {labels}, …samples}.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_read.h"
#include "base/time.h"
#include "store/store.h"
#include "telemetry/metric_series.h"

namespace flopwatch::history {

class JsonSeries {
 public:
  // `series` outlives the result.
  explicit JsonSeries(const Json& series) {
    const Json::Object& labels = series["metric"].object();
    texts_.reserve(labels.size());
    for (const auto& [key, value] : labels) texts_.push_back(value.text());
    for (size_t k = 0; k < labels.size(); ++k) series_.Add(labels[k].first, texts_[k]);
  }
  // A sample, where it is one of the window's. False: its time, in milliseconds since 1970, cannot
  // be one.
  [[nodiscard]] bool Add(std::optional<double> ms, std::optional<double> value,
                         store::Window window) {
    constexpr double kLatest = 1e14;  // in the year 5138
    if (!ms.has_value() || !(*ms >= 0 && *ms <= kLatest)) return false;
    const Micros ts = static_cast<Micros>(std::llround(*ms)) * kMicrosPerMilli;
    // No value: a staleness marker, or NaN, which says nothing.
    if (ts > window.from && ts <= window.to && value.has_value() && std::isfinite(*value))
      series_.points.push_back({ts, *value});
    return true;
  }
  const telemetry::MetricSeries& series() const { return series_; }

 private:
  std::vector<std::string> texts_;  // of the labels
  telemetry::MetricSeries series_;
};

}  // namespace flopwatch::history
