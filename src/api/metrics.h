// /metrics: own health and the derived series, in Prometheus exposition text. docs/metrics.md lists
// them; a test compares.
#ifndef FLOPWATCH_API_METRICS_H_
#define FLOPWATCH_API_METRICS_H_

#include <span>
#include <string>
#include <string_view>

#include "api/api.h"
#include "query/query.h"

namespace flopwatch::api {

struct MetricInfo {
  std::string_view name, type, help;
};
std::span<const MetricInfo> AllMetrics();

// Derived series and targets: what grows with the fleet.
std::string RenderFleetMetrics(const ApiParts& parts, const query::Query& query);
// Adds the server's own: always as they are now, because rates are taken from them. `per_gpu` adds
// flopwatch_gpu_ofu_ratio, a series a GPU.
void RenderServerMetrics(const ApiParts& parts, const query::Query& query, Micros started,
                         bool per_gpu, std::string* out);

}  // namespace flopwatch::api

#endif  // FLOPWATCH_API_METRICS_H_
