// OpenTelemetry metrics (OTLP 1.x, ExportMetricsServiceRequest), protobuf or its JSON form. Taken:
// gauges and cumulative sums with a number. Left out and counted: delta sums (a value since the
// last report is no value now), histograms, summaries, points without a recorded value, points
// without a time. Attributes of the resource come after those of the point; the point's win.
// Source: opentelemetry-proto metrics/v1/metrics.proto, common/v1/common.proto,
// collector/metrics/v1/metrics_service.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "telemetry/metric_series.h"

namespace flopwatch::telemetry {

struct OtlpStats {
  uint64_t points = 0;  // given
  uint64_t delta = 0, histograms = 0, no_value = 0, no_time = 0, not_finite = 0,
           too_many_labels = 0, unnamed = 0;
  uint64_t rejected() const {
    return delta + histograms + not_finite + no_time + too_many_labels + unnamed;
  }
};

// Each point is given as a series of its own. InvalidArgument where the body is no such request;
// what was given before stands.
Status DecodeOtlpMetrics(std::string_view body, absl::FunctionRef<void(const MetricSeries&)> series,
                         OtlpStats* stats);
Status DecodeOtlpMetricsJson(std::string_view body,
                             absl::FunctionRef<void(const MetricSeries&)> series, OtlpStats* stats);

// ExportMetricsServiceResponse; a partial success where points were rejected.
std::string OtlpMetricsResponse(uint64_t rejected, std::string_view message, bool json);
// google.rpc.Status, what OTLP answers errors with.
std::string OtlpError(const Status& status, bool json);

}  // namespace flopwatch::telemetry
