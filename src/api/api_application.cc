// What applications report: reports in (POST .../mfu), metrics in (remote write, OTLP), answers
// out.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "api/api_impl.h"
#include "api/application_json.h"
#include "base/text.h"
#include "telemetry/otlp_metrics.h"
#include "telemetry/remote_write.h"

namespace flopwatch::api {
namespace {

using net::Request;
using net::Response;

constexpr int64_t kDefaultApplicationPoints = 300;
constexpr uint64_t kMaxUnpackedBytes = 64ull << 20;
constexpr size_t kMaxRefusedShown = 8;
constexpr ptrdiff_t kMaxJobNames = 10'000;  // compared for "did you mean"

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

}  // namespace

Api::Impl::Result Api::Impl::GetApplication(const Request& request, std::string_view job) {
  // A job may be called ".../application" itself.
  const std::string whole = fmt::format("{}/application", job);
  if (query.applications().ClaimsOf(job).empty() && query.jobs().FindJob(whole).has_value())
    return GetJob(request, whole);
  FW_ASSIGN_OR_RETURN(const Params params, Params::Parse(request, {"from", "to", "points"}));
  FW_RETURN_IF_ERROR(query.ready());
  FW_ASSIGN_OR_RETURN(const int64_t points,
                      params.Int("points", kDefaultApplicationPoints, 1, kMaxPoints));
  const std::string gpu_seen = query.ModelOfJob(job);
  FW_ASSIGN_OR_RETURN(store::Window window, params.WindowOrAll(query.now()));
  const bool bounded = params.Has("from") || params.Has("to");
  FW_ASSIGN_OR_RETURN(const std::vector<query::ClaimUsage> claims, query.Application(job, window));
  if (claims.empty() && !query.jobs().FindJob(job).has_value()) {
    const std::vector<std::string> known = query.applications().Jobs();
    std::vector<std::string_view> keys(
        known.begin(), known.begin() + std::min<ptrdiff_t>(kMaxJobNames, std::ssize(known)));
    const std::string_view near = Nearest(job, keys);
    return absl::NotFoundError(
        fmt::format("no job '{}'{}", Printable(job, 100),
                    near.empty() ? std::string(" and nothing was reported under that name")
                                 : fmt::format("; did you mean '{}'?", near)));
  }
  store::ApplicationSums all;
  std::vector<int32_t> ids;
  for (const query::ClaimUsage& c : claims) {
    all += c.sums;
    ids.push_back(c.claim.id);
  }
  if (!bounded && all.samples > 0) window = {all.first_ts, all.last_ts + 1};
  const Micros step = std::max<Micros>(
      FloorTo((window.to - window.from) / points, kMicrosPerSecond) + kMicrosPerSecond,
      kMicrosPerSecond);
  std::vector<store::ApplicationPoint> series;
  if (all.samples > 0) {
    FW_ASSIGN_OR_RETURN(series, parts.store->ApplicationSeries(window, ids, step));
  }
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("job", job);
  json.Key("window");
  if (bounded || all.samples > 0) {
    json.BeginObject()
        .Field("from", FormatTime(window.from))
        .Field("to", FormatTime(window.to))
        .EndObject();
  } else {
    json.Null();
  }
  json.Key("reason");
  if (all.samples > 0) {
    json.Null();
  } else {
    json.Value(claims.empty() ? "nothing_reported" : "nothing_in_window");
  }
  json.Key("application");
  WriteApplicationSummary(json, claims, parts.catalog, gpu_seen);
  json.Key("claims").BeginArray();
  for (const query::ClaimUsage& c : claims) {
    if (c.sums.samples > 0) WriteClaim(json, c, parts.catalog, gpu_seen);
  }
  json.EndArray();
  json.Key("series");
  WriteApplicationSeries(json, claims, series, step, parts.catalog, gpu_seen);
  json.EndObject();
  return JsonResponse(std::move(body));
}

Api::Impl::Result Api::Impl::PostMfu(const Request& request, std::string_view job) {
  FW_RETURN_IF_ERROR(Params::Parse(request, {}).status());
  if (parts.ingest == nullptr)
    return absl::UnavailableError("reports: no server takes them here; start flopwatch serve");
  FW_ASSIGN_OR_RETURN(const std::vector<ApplicationReport> reports,
                      ParseReports(request.body, job, query.now()));
  ingest::ApplicationOutcome total;
  for (const ApplicationReport& report : reports) {
    FW_ASSIGN_OR_RETURN(const ingest::ApplicationOutcome one,
                        parts.ingest->application.Add(report.claim, report.samples));
    total.accepted += one.accepted;
    total.duplicates += one.duplicates;
    total.claim_completed |= one.claim_completed;
    for (size_t k = 0; k < ingest::kApplicationRefusals; ++k) total.refused[k] += one.refused[k];
    for (const std::string& e : one.examples) {
      if (total.examples.size() < kMaxRefusedShown) total.examples.push_back(e);
    }
  }
  // One report that is wrong is an error; of many, those that are right count.
  if (total.accepted + total.duplicates == 0 &&
      total.refused[static_cast<size_t>(ingest::ApplicationRefusal::kInvalid)] == 1 &&
      !total.examples.empty()) {
    return absl::InvalidArgumentError(fmt::format("report: {}", total.examples.front()));
  }
  std::string body;
  JsonWriter json(&body);
  WriteOutcome(json, total);
  return JsonResponse(std::move(body));
}

Api::Impl::Result Api::Impl::PostRemoteWrite(const Request& request, std::string_view) {
  FW_RETURN_IF_ERROR(Params::Parse(request, {}).status());
  if (joiner == nullptr)
    return absl::UnavailableError(
        "remote write: no server takes samples here; start flopwatch serve");
  const std::string_view type = request.Header("content-type").value_or("application/x-protobuf");
  if (MediaType(request) != "application/x-protobuf" &&
      request.Header("content-type").has_value()) {
    Response r = net::ErrorResponse(absl::InvalidArgumentError(fmt::format(
        "remote write: Content-Type '{}' is not application/x-protobuf", Printable(type, 80))));
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

Api::Impl::Result Api::Impl::PostOtlpMetrics(const Request& request, std::string_view) {
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
            absl::InvalidArgumentError(fmt::format(
                "metrics: Content-Type '{}' is neither application/x-protobuf nor application/json",
                Printable(MediaType(request), 60))),
            json));
  }
  if (joiner == nullptr)
    return answer(503, telemetry::OtlpError(
                           absl::UnavailableError("metrics: no server takes samples here"), json));
  ingest::ScrapeJoiner::Batch batch;
  telemetry::OtlpStats stats;
  const auto give = [&](const telemetry::MetricSeries& series) {
    batch.Add(OriginOf(series, ingest::SourceKind::kOtlp), series);
  };
  const Status status = json ? telemetry::DecodeOtlpMetricsJson(request.body, give, &stats)
                             : telemetry::DecodeOtlpMetrics(request.body, give, &stats);
  if (!status.ok()) return answer(400, telemetry::OtlpError(status, json));
  joiner->Add(std::move(batch));
  std::string why;
  const std::pair<std::string_view, uint64_t> reasons[] = {
      {"delta sums", stats.delta},
      {"histograms and summaries", stats.histograms},
      {"values that are not finite", stats.not_finite},
      {"points without a time", stats.no_time},
      {"too many attributes", stats.too_many_labels},
      {"metrics without a name", stats.unnamed}};
  for (const auto& [what, n] : reasons) {
    if (n > 0) why += fmt::format("{}{} {}", why.empty() ? "not taken: " : ", ", n, what);
  }
  return answer(200, telemetry::OtlpMetricsResponse(stats.rejected(), why, json));
}

}  // namespace flopwatch::api
