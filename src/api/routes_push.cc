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
constexpr int kTryAgainS = 5;
constexpr std::string_view kCannotStore =
    "Nothing was taken: it cannot be stored now (the message says why), or no server takes samples "
    "here. Send it again after Retry-After.";
constexpr PathName kPushingNode("node", "Name of the node it speaks for.");

bool HasBlank(std::string_view text) { return text.find(' ') != std::string_view::npos; }

// Adds a series to those of its exporter: one source an exporter, as if it had been scraped.
// `sender`: who sent it.
void AddSeries(const telemetry::MetricSeries& series, ingest::SourceKind kind,
               std::string_view sender, ingest::ScrapeJoiner::Batch* batch) {
  std::string_view instance;
  for (std::string_view key :
       {"instance", "service.instance.id", "host.name", "Hostname", "hostname"}) {
    if (instance.empty()) instance = series.Label(key);
  }
  std::string_view node = series.Label("host.name");
  if (node.empty()) node = ingest::HostOfInstance(instance);
  for (const std::string_view name : {instance, node}) {
    if (const NameFault fault = FaultOfName(name, kMaxNodeName); fault != NameFault::kNone)
      return batch->Refuse(kind, fault, series);
  }
  if (HasBlank(instance)) instance = node = {};
  if (HasBlank(node)) node = {};
  batch->Add({instance.empty() ? ingest::kUnnamed : instance, node, kind, sender}, series);
}

std::string_view MediaType(const Request& request) {
  const std::string_view type = request.Header("content-type").value_or("");
  return type.substr(0, type.find(';'));
}

// The answers to what is sent promise that it is stored within seconds (docs/store.md): OK where
// that can be kept.
Status CanTake(const ingest::Pipeline* pipeline) {
  if (pipeline == nullptr)
    return Unavailable("no server takes samples here; start flopwatch serve");
  return pipeline->Storing();
}

// Who sends has the samples still.
Response TryAgain(Response refusal, int seconds = kTryAgainS) {
  refusal.headers.emplace_back("Retry-After", std::to_string(seconds));
  return refusal;
}

// All of a body is new and was refused. Budgets come back by the hour, and what is known is taken
// all the while: no hurry.
constexpr int kComeAgainS = 60;
constexpr std::string_view kComeAgain =
    "everything in this body is new here, and this host has made known as much that is new as it "
    "may for now; send it again later";
constexpr std::string_view kAllNew =
    "All of it is new, and more than this host may make known for now; Retry-After says when to "
    "try again. What is known is taken meanwhile.";
Answer NewRefused() { return Refused(429, kAllNew); }
Response ComeAgain(std::string_view what) {
  return TryAgain(net::ErrorResponse(ResourceExhausted("{}: {}", what, kComeAgain)), kComeAgainS);
}

Result PostPush(ingest::Pipeline* pipeline, const Call& call) {
  const std::string_view node = call.name;
  if (const Status s = CanTake(pipeline); !s.ok())
    return TryAgain(net::ErrorResponse(Annotate(s, "push")));
  if (node.empty() || HasBlank(node) || FaultOfName(node, kMaxNodeName) != NameFault::kNone) {
    return InvalidArgument(
        "push: the node name '{}' is not 1 to {} bytes of UTF-8 without blanks and control "
        "characters",
        Printable(node, 60), kMaxNodeName);
  }
  const std::string sender = ingest::SenderOf(call.request.remote);
  const ingest::Origin origin = {node, node, ingest::SourceKind::kPush, sender};
  const int shard = kFirstPushShard + static_cast<int>(absl::HashOf(origin.Text()) %
                                                       (ingest::kMaxShards - kFirstPushShard));
  const ingest::TargetStats stats =
      pipeline->Ingest(origin, call.request.body, pipeline->Clock(), shard);
  if (stats.come_again) return ComeAgain("push");
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

Result PostRemoteWrite(const ingest::Pipeline* pipeline, ingest::ScrapeJoiner* joiner,
                       const Request& request) {
  if (const Status s = CanTake(pipeline); !s.ok())
    return TryAgain(net::ErrorResponse(Annotate(s, "remote write")));
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
  const std::string sender = ingest::SenderOf(request.remote);
  ingest::ScrapeJoiner::Batch batch;
  telemetry::RemoteWriteStats stats;
  FW_RETURN_IF_ERROR(telemetry::DecodeRemoteWrite(
      request.body, version_2, kMaxUnpackedBytes,
      [&](const telemetry::MetricSeries& series) {
        AddSeries(series, ingest::SourceKind::kRemoteWrite, sender, &batch);
      },
      &stats));
  const uint64_t points = batch.points;
  const uint64_t refused = joiner->Add(std::move(batch));
  if (refused > 0 && refused == points) return ComeAgain("remote write");
  Response r;
  r.status = 204;
  r.content_type = "";
  if (version_2) {
    r.headers = {{"X-Prometheus-Remote-Write-Samples-Written", std::to_string(points - refused)},
                 {"X-Prometheus-Remote-Write-Histograms-Written", "0"},
                 {"X-Prometheus-Remote-Write-Exemplars-Written", "0"}};
  }
  return r;
}

// Says what of the points was left out, in words; "" for nothing. `new_sources`: points of sources
// that are new and were refused.
std::string NotTaken(const telemetry::OtlpStats& stats, uint64_t new_sources) {
  std::string why;
  const std::pair<std::string_view, uint64_t> reasons[] = {
      {"delta sums", stats.delta},
      {"histograms and summaries", stats.histograms},
      {"values that are not finite", stats.not_finite},
      {"points without a time", stats.no_time},
      {"too many attributes", stats.too_many_labels},
      {"metrics without a name", stats.unnamed},
      {"points of more new sources than this host may bring for now", new_sources}};
  for (const auto& [what, n] : reasons)
    if (n > 0) why += fmt::format("{}{} {}", why.empty() ? "not taken: " : ", ", n, what);
  return why;
}

Result PostOtlpMetrics(const ingest::Pipeline* pipeline, ingest::ScrapeJoiner* joiner,
                       const Request& request) {
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
  if (const Status s = CanTake(pipeline); !s.ok())
    return TryAgain(answer(503, telemetry::OtlpError(Annotate(s, "metrics"), json)));
  const std::string sender = ingest::SenderOf(request.remote);
  ingest::ScrapeJoiner::Batch batch;
  telemetry::OtlpStats stats;
  const auto give = [&](const telemetry::MetricSeries& series) {
    AddSeries(series, ingest::SourceKind::kOtlp, sender, &batch);
  };
  const Status status = json ? telemetry::DecodeOtlpMetricsJson(request.body, give, &stats)
                             : telemetry::DecodeOtlpMetrics(request.body, give, &stats);
  if (!status.ok()) return answer(400, telemetry::OtlpError(status, json));
  const uint64_t points = batch.points;
  const uint64_t refused = joiner->Add(std::move(batch));
  if (refused > 0 && refused == points) {
    return TryAgain(
        answer(429, telemetry::OtlpError(ResourceExhausted("metrics: {}", kComeAgain), json)),
        kComeAgainS);
  }
  return answer(200, telemetry::OtlpMetricsResponse(stats.rejected() + refused,
                                                    NotTaken(stats, refused), json));
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
           {Gives(200,
                  "What was taken, into memory. Stored within about a second; a process that is "
                  "killed loses that second, and rows that wait for the verdict on a counter "
                  "(docs/store.md).",
                  "Push"),
            BadParameter(), OtherSite(), NewRefused(), Refused(503, kCannotStore)},
           {{"text/plain", kExposition}}),
      {}, [pipeline](const Call& call) { return PostPush(pipeline, call); });
  table->Add(
      Post("/api/v1/write", "remoteWrite",
           "Prometheus remote write 1.0 and 2.0: GPU metrics, and what applications report", {},
           {{204,
             "Taken, into memory. Stored within about eight seconds, as the samples of one scrape "
             "are joined; a process that is killed loses those (docs/store.md)."},
            Refused(400, "No snappy, or no such message."),
            OtherSite(),
            Refused(415, "Another Content-Type."),
            NewRefused(),
            Refused(503, kCannotStore)},
           {{kProtobuf, kRemoteWriteBody}}),
      {}, [pipeline, joiner](const Call& call) {
        return PostRemoteWrite(pipeline, joiner, call.request);
      });
  Route otlp =
      Post("/v1/metrics", "otlpMetrics",
           "OpenTelemetry metrics over HTTP (OTLP), protobuf or JSON: GPU metrics, and what "
           "applications report",
           {},
           {{200,
             "ExportMetricsServiceResponse in the encoding of the request; a partial success "
             "where points were not taken. Those taken are in memory, and stored within about "
             "eight seconds, as for remote write.",
             {{kProtobuf, kBinary}, {kJsonType, kObject}}},
            {400, "No such message; google.rpc.Status in the encoding of the request."},
            {415, "Another Content-Type."},
            {429, kAllNew},
            {503, kCannotStore}},
           {{kProtobuf, kOtlpBody}, {kJsonType, kObject}});
  otlp.any_parameters = true;
  table->Add(otlp, {}, [pipeline, joiner](const Call& call) {
    return PostOtlpMetrics(pipeline, joiner, call.request);
  });
}

}  // namespace flopwatch::api
