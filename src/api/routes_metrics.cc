// GET /metrics. Of a large fleet at once where the part that grows with the fleet is at hand.
#include <utility>

#include "api/answers.h"
#include "api/routes.h"

namespace flopwatch::api {
namespace {

constexpr Flag kPerGpuSeries("gpus", "Also one OFU series a GPU.");

net::Response MetricsPage(std::string fleet, const ServerMetrics& server, bool per_gpu) {
  net::Response r;
  r.content_type = "text/plain; version=0.0.4; charset=utf-8";
  r.body = std::move(fleet);
  RenderServerMetrics(server, per_gpu, &r.body);
  return r;
}

std::optional<Result> MetricsNow(const ServerMetrics& server, const MetricsAtHand& fleet_at_hand,
                                 const Call& call) {
  // Packing a page of hundreds of kilobytes takes longer than making it.
  const std::string_view encoding = call.request.Header("accept-encoding").value_or("");
  if (call.args[kPerGpuSeries] || encoding.find("gzip") != std::string_view::npos)
    return std::nullopt;
  const std::shared_ptr<const std::string> fleet = fleet_at_hand();
  if (fleet == nullptr) return std::nullopt;
  return MetricsPage(*fleet, server, /*per_gpu=*/false);
}

}  // namespace

void AddMetricsRoute(const ServerMetrics& server, MetricsAtHand fleet_at_hand,
                     std::function<std::shared_ptr<const std::string>()> fleet, RouteTable* table) {
  table->Add(
      Get("/metrics", "metrics", "Own health and derived series, as a Prometheus target",
          {&kPerGpuSeries}, {{200, "The answer.", {{"text/plain", kAnyText}}}, BadParameter()}),
      [server, at_hand = std::move(fleet_at_hand)](const Call& call) {
        return MetricsNow(server, at_hand, call);
      },
      [server, fleet](const Call& call) -> Result {
        FW_RETURN_IF_ERROR(server.memory->ready());
        return MetricsPage(*fleet(), server, call.args[kPerGpuSeries]);
      });
}

}  // namespace flopwatch::api
