// Samples that are sent to us: exposition text of one node, Prometheus remote write, and OTLP.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "api/answers.h"
#include "api/routes.h"
#include "base/text.h"
#include "telemetry/otlp_metrics.h"
#include "telemetry/remote_write.h"

namespace flopwatch::api {
namespace {

using net::Request;
using net::Response;

constexpr uint64_t kMaxUnpackedBytes = 64ull << 20;
// Shards of pushes; scraper threads use the lower ones.
constexpr int kFirstPushShard = ingest::kMaxShards / 2;
constexpr std::string_view kProtobuf = "application/x-protobuf";
constexpr PathName kPushingNode("node", "Name of the node it speaks for.");

// Host of "node1:9400", "http://node1:9400/metrics".
std::string_view HostOfInstance(std::string_view instance) {
  if (const size_t scheme = instance.find("://"); scheme != std::string_view::npos)
    instance.remove_prefix(scheme + 3);
  instance = instance.substr(0, instance.find('/'));
  if (instance.starts_with('[')) return instance.substr(1, instance.find(']') - 1);
  return instance.substr(0, instance.find(':'));
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c <= ' ' || c == 0x7f; });
}

// Who sent a series: one source an exporter, as if it had been scraped.
ingest::Origin OriginOf(const telemetry::MetricSeries& series, ingest::SourceKind kind) {
  std::string_view instance;
  for (std::string_view key :
       {"instance", "service.instance.id", "host.name", "Hostname", "hostname"}) {
    if (instance.empty()) instance = series.Label(key);
  }
  std::string_view node = series.Label("host.name");
  if (node.empty()) node = HostOfInstance(instance);
  if (instance.size() > kMaxNodeName || HasControl(instance)) instance = node = {};
  if (node.size() > kMaxNodeName || HasControl(node)) node = {};
  return {instance.empty() ? "unnamed" : instance, node, kind};
}

std::string_view MediaType(const Request& request) {
  const std::string_view type = request.Header("content-type").value_or("");
  return type.substr(0, type.find(';'));
}

Result PostPush(ingest::Pipeline* pipeline, const Call& call) {
  const std::string_view node = call.name;
  if (pipeline == nullptr)
    return Unavailable("push: no server takes samples here; start flopwatch serve");
  if (node.empty() || node.size() > kMaxNodeName || HasControl(node)) {
    return InvalidArgument("push: the node name '{}' is not 1 to {} printable bytes without blanks",
                           Printable(node, 60), kMaxNodeName);
  }
  const ingest::Origin origin = {node, node, ingest::SourceKind::kPush};
  const int shard = kFirstPushShard + static_cast<int>(absl::HashOf(origin.Text()) %
                                                       (ingest::kMaxShards - kFirstPushShard));
  const ingest::TargetStats stats = pipeline->Ingest(origin, call.request.body, Now(), shard);
  std::string body;
  JsonWriter json(&body);
  json.BeginObject()
      .Field("samples", stats.samples)
      .Field("narrow_samples", stats.narrow)
      .Field("rows", stats.rows);
  WriteCounts(json, "refused", stats.refused);
  WriteTexts(json, "examples", stats.examples);
  json.EndObject();
  return JsonResponse(std::move(body));
}

Result PostRemoteWrite(ingest::ScrapeJoiner* joiner, const Request& request) {
  if (joiner == nullptr)
    return Unavailable("remote write: no server takes samples here; start flopwatch serve");
  const std::string_view type = request.Header("content-type").value_or("application/x-protobuf");
  if (MediaType(request) != "application/x-protobuf" &&
      request.Header("content-type").has_value()) {
    Response r = net::ErrorResponse(InvalidArgument(
        "remote write: Content-Type '{}' is not application/x-protobuf", Printable(type, 80)));
    r.status = 415;
    return r;
  }
  const bool version_2 =
      type.find("proto=io.prometheus.write.v2.Request") != std::string_view::npos;
  ingest::ScrapeJoiner::Batch batch;
  telemetry::RemoteWriteStats stats;
  FW_RETURN_IF_ERROR(telemetry::DecodeRemoteWrite(
      request.body, version_2, kMaxUnpackedBytes,
      [&](const telemetry::MetricSeries& series) {
        batch.Add(OriginOf(series, ingest::SourceKind::kRemoteWrite), series);
      },
      &stats));
  const uint64_t points = batch.points;
  joiner->Add(std::move(batch));
  Response r;
  r.status = 204;
  r.content_type = "";
  if (version_2) {
    r.headers = {{"X-Prometheus-Remote-Write-Samples-Written", std::to_string(points)},
                 {"X-Prometheus-Remote-Write-Histograms-Written", "0"},
                 {"X-Prometheus-Remote-Write-Exemplars-Written", "0"}};
  }
  return r;
}

// What of the points was left out, in words; "" for nothing.
std::string NotTaken(const telemetry::OtlpStats& stats) {
  std::string why;
  const std::pair<std::string_view, uint64_t> reasons[] = {
      {"delta sums", stats.delta},
      {"histograms and summaries", stats.histograms},
      {"values that are not finite", stats.not_finite},
      {"points without a time", stats.no_time},
      {"too many attributes", stats.too_many_labels},
      {"metrics without a name", stats.unnamed}};
  for (const auto& [what, n] : reasons)
    if (n > 0) why += fmt::format("{}{} {}", why.empty() ? "not taken: " : ", ", n, what);
  return why;
}

Result PostOtlpMetrics(ingest::ScrapeJoiner* joiner, const Request& request) {
  const bool json = MediaType(request) == "application/json";
  const auto answer = [&](int status, std::string body) {
    Response r;
    r.status = status;
    r.content_type = json ? "application/json" : "application/x-protobuf";
    r.body = std::move(body);
    return r;
  };
  if (!json && MediaType(request) != "application/x-protobuf") {
    return answer(
        415,
        telemetry::OtlpError(
            InvalidArgument(
                "metrics: Content-Type '{}' is neither application/x-protobuf nor application/json",
                Printable(MediaType(request), 60)),
            json));
  }
  if (joiner == nullptr)
    return answer(503,
                  telemetry::OtlpError(Unavailable("metrics: no server takes samples here"), json));
  ingest::ScrapeJoiner::Batch batch;
  telemetry::OtlpStats stats;
  const auto give = [&](const telemetry::MetricSeries& series) {
    batch.Add(OriginOf(series, ingest::SourceKind::kOtlp), series);
  };
  const Status status = json ? telemetry::DecodeOtlpMetricsJson(request.body, give, &stats)
                             : telemetry::DecodeOtlpMetrics(request.body, give, &stats);
  if (!status.ok()) return answer(400, telemetry::OtlpError(status, json));
  joiner->Add(std::move(batch));
  return answer(200, telemetry::OtlpMetricsResponse(stats.rejected(), NotTaken(stats), json));
}

}  // namespace

void AddPushRoutes(ingest::Pipeline* pipeline, ingest::ScrapeJoiner* joiner, RouteTable* table) {
  constexpr std::string_view kExposition =
      R"({"type": "string", "description": "Prometheus exposition text; gzip allowed."})";
  constexpr std::string_view kRemoteWriteBody =
      R"({"type": "string", "format": "binary", "description": "A snappy block of )"
      R"(prometheus.WriteRequest or io.prometheus.write.v2.Request."})";
  constexpr std::string_view kOtlpBody =
      R"({"type": "string", "format": "binary", "description": "ExportMetricsServiceRequest; )"
      R"(gzip allowed."})";
  constexpr std::string_view kBinary = R"({"type": "string", "format": "binary"})";
  constexpr std::string_view kObject = R"({"type": "object"})";
  table->Add(
      Post("/api/v1/push/{node}", "push", "Ingest one body of exposition text", {&kPushingNode},
           {Ok("Push"), BadParameter(), OtherSite(), Refused(503, "Not ready, or offline.")},
           {{"text/plain", kExposition}}),
      {}, [pipeline](const Call& call) { return PostPush(pipeline, call); });
  table->Add(
      Post("/api/v1/write", "remoteWrite",
           "Prometheus remote write 1.0 and 2.0: GPU metrics, and what applications report", {},
           {{204, "Taken; not yet on disk (see docs/application.md)."},
            Refused(400, "No snappy, or no such message."),
            OtherSite(),
            Refused(415, "Another Content-Type."),
            Refused(503, "Offline.")},
           {{kProtobuf, kRemoteWriteBody}}),
      {}, [joiner](const Call& call) { return PostRemoteWrite(joiner, call.request); });
  Route otlp =
      Post("/v1/metrics", "otlpMetrics",
           "OpenTelemetry metrics over HTTP (OTLP), protobuf or JSON: GPU metrics, and what "
           "applications report",
           {},
           {{200,
             "ExportMetricsServiceResponse in the encoding of the request; a partial success "
             "where points were not taken.",
             {{kProtobuf, kBinary}, {kJsonType, kObject}}},
            {400, "No such message; google.rpc.Status in the encoding of the request."},
            {415, "Another Content-Type."},
            {503, "Offline."}},
           {{kProtobuf, kOtlpBody}, {kJsonType, kObject}});
  otlp.any_parameters = true;
  table->Add(otlp, {},
             [joiner](const Call& call) { return PostOtlpMetrics(joiner, call.request); });
}

}  // namespace flopwatch::api
