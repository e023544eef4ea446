#include "api/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "api/api_impl.h"
#include "api/metrics.h"
#include "api/plain_page.h"
#include "base/log.h"
#include "base/text.h"

namespace flopwatch::api {
namespace {

using net::Request;
using net::Response;

// "host:port", "[::1]:port" or "host" -> host, lower case.
std::string HostOf(std::string_view authority) {
  if (authority.starts_with('['))
    return absl::AsciiStrToLower(std::string(authority.substr(0, authority.find(']') + 1)));
  return absl::AsciiStrToLower(std::string(authority.substr(0, authority.find(':'))));
}

bool IsLoopbackName(std::string_view host) {
  if (host == "localhost" || host == "[::1]" || host.ends_with(".localhost")) return true;
  // 127.0.0.0/8 in dotted form only: a name such as 127.evil.example must not pass.
  return host.starts_with("127.") &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

Response JsonResponse(std::string body) {
  Response r;
  r.body = std::move(body);
  r.headers.emplace_back("Cache-Control", "no-store");
  return r;
}

void WriteTime(JsonWriter& json, std::string_view name, Micros t) {
  json.Key(name);
  if (t > 0) {
    json.Value(FormatTime(t));
  } else {
    json.Null();
  }
}

void WriteWindow(JsonWriter& json, const query::View& view) {
  json.Key("window").BeginObject();
  json.Field("from", FormatTime(view.window.from)).Field("to", FormatTime(view.window.to));
  json.Field("source", query::UsageSourceName(view.source)).EndObject();
}

void WriteCounts(JsonWriter& json, std::string_view name, const ingest::Counts& counts) {
  json.Key(name).BeginObject();
  for (const auto& [reason, n] : counts) json.Field(reason, n);
  json.EndObject();
}

std::vector<std::string_view> FlagNames(uint32_t flags) {
  static constexpr std::pair<uint32_t, std::string_view> kNames[] = {
      {telemetry::kTensorMissing, "tensor_missing"},
      {telemetry::kClockMissing, "clock_missing"},
      {telemetry::kModelUnknown, "model_unknown"},
      {telemetry::kDeadCounter, "dead_counter"},
      {telemetry::kOutOfRange, "out_of_range"},
      {telemetry::kSpanUnknown, "span_unknown"},
      {telemetry::kStaleRepeat, "stale_repeat"},
      {telemetry::kHalfRateBoard, "half_rate_board"},
      {telemetry::kCyclePath, "cycle_path"},
      {telemetry::kCounterReset, "counter_reset"},
      {telemetry::kBackfilled, "backfilled"},
      {telemetry::kMigParent, "mig_parent"},
      {telemetry::kSuspectCounter, "suspect_counter"},
      {telemetry::kFrozen, "frozen"},
  };
  std::vector<std::string_view> out;
  for (const auto& [bit, name] : kNames) {
    if ((flags & bit) != 0) out.push_back(name);
  }
  return out;
}

namespace {

query::Sources SourcesOf(const ApiParts& parts) {
  query::Sources sources{.store = parts.store, .clock = parts.clock};
  if (parts.catalog != nullptr) sources.catalog = parts.catalog;
  if (ingest::IngestSide* i = parts.ingest; i != nullptr) {
    sources.live = query::LiveSources{.registry = &i->registry,
                                      .jobs = &i->jobs,
                                      .live = &i->live,
                                      .applications = &i->application,
                                      .silent_after = i->options.max_span};
  }
  return sources;
}

}  // namespace

Api::Impl::Impl(ApiParts p)
    : parts(std::move(p)),
      query(SourcesOf(parts)),
      started(Now()),
      fleet_metrics(
          [this] { return std::make_shared<const std::string>(RenderFleetMetrics(parts, query)); },
          kMetricsKept, [this] { return query.IsLarge(); }),
      keeper({&fleet_metrics}) {
  if (parts.ingest != nullptr) {
    joiner = std::make_unique<ingest::ScrapeJoiner>(
        &parts.ingest->pipeline, ingest::ScrapeJoiner::Options{.settle = parts.join_settle});
  }
}

const std::vector<Api::Impl::Route>& Api::Impl::Table() {
  using enum Route::Cost;
  static const std::vector<Route> routes = {
      {"GET", "/api/v1/status", &Impl::GetStatus, kMemory},
      {"GET", "/api/v1/fleet", &Impl::GetFleet, kMemoryUnlessWindow},
      {"GET", "/api/v1/jobs", &Impl::GetJobs, kMemoryUnlessWindow},
      {"GET", "/api/v1/divergence", &Impl::GetDivergence, kStore},
      {"GET", "/api/v1/jobs/{job}/divergence", &Impl::GetJobDivergence,
       kStore},  // before the one that takes the whole rest
      {"GET", "/api/v1/jobs/{job}/application", &Impl::GetApplication, kStore},
      {"POST", "/api/v1/jobs/{job}/mfu", &Impl::PostMfu, kStore},
      {"GET", "/api/v1/jobs/{job}", &Impl::GetJob, kMemoryIfLiveJob},
      {"GET", "/api/v1/gpus", &Impl::GetGpus, kMemoryUnlessText},
      {"GET", "/api/v1/gpus/{uuid}", &Impl::GetGpu, kStore},
      {"GET", "/api/v1/targets", &Impl::GetTargets, kStore},
      {"GET", "/api/v1/sql", &Impl::GetSql, kStore},
      {"POST", "/api/v1/sql", &Impl::PostSql, kStore},
      {"POST", "/api/v1/traces", &Impl::PostTrace, kStore},
      {"GET", "/api/v1/traces", &Impl::GetTraces, kStore},
      {"GET", "/api/v1/traces/{id}/report", &Impl::GetTraceReport,
       kStore},  // before the one that takes the whole rest
      {"GET", "/api/v1/traces/{id}/findings", &Impl::GetTraceFindings, kStore},
      {"GET", "/api/v1/traces/{id}/analyses", &Impl::GetTraceAnalyses, kStore},
      {"GET", "/api/v1/traces/{id}", &Impl::GetTrace, kStore},
      {"DELETE", "/api/v1/traces/{id}", &Impl::DeleteTrace, kStore},
      {"POST", "/api/v1/push/{node}", &Impl::PostPush, kStore},
      {"POST", "/api/v1/write", &Impl::PostRemoteWrite, kStore},
      {"POST", "/v1/metrics", &Impl::PostOtlpMetrics, kStore},
      {"GET", "/metrics", &Impl::GetMetrics, kMemoryIfKept},
      {"GET", "/healthz", &Impl::GetHealth, kMemory},
      {"GET", "/readyz", &Impl::GetReady, kMemory},
      {"GET", "/openapi.json", &Impl::GetOpenApi, kMemory},
      {"GET", "/", &Impl::GetPage, kMemory},
  };
  return routes;
}

const Api::Impl::Route* Api::Impl::Find(std::string_view method, std::string_view path,
                                        std::string_view* arg, bool* other_method) const {
  *other_method = false;
  for (const Route& route : Table()) {
    const size_t brace = route.pattern.find('{');
    if (brace == std::string_view::npos) {
      if (path != route.pattern) continue;
      *arg = {};
    } else {
      // The argument takes the rest of the path: job keys ("namespace/pod") and stand-in UUIDs
      // contain slashes.
      const std::string_view prefix = route.pattern.substr(0, brace);
      const std::string_view suffix = route.pattern.substr(route.pattern.find('}') + 1);
      if (path.size() <= prefix.size() + suffix.size() || !path.starts_with(prefix) ||
          !path.ends_with(suffix))
        continue;
      *arg = path.substr(brace, path.size() - brace - suffix.size());
    }
    if (route.method == method) return &route;
    *other_method = true;
  }
  return nullptr;
}

Status Api::Impl::NoSuchRoute(const Request& request, bool other_method) const {
  if (other_method) {
    return absl::UnimplementedError(
        fmt::format("{} {}: this path does not take that method; see /openapi.json",
                    Printable(request.method, 16), Printable(request.path, 100)));
  }
  std::vector<std::string_view> paths;
  for (const Route& route : Table())
    paths.push_back(route.pattern.substr(0, route.pattern.find('{')));
  const std::string_view near = Nearest(request.path, paths);
  return absl::NotFoundError(fmt::format("no such path: {}; {}", Printable(request.path, 100),
                                         near.empty() ? std::string("/openapi.json lists them all")
                                                      : fmt::format("did you mean {}?", near)));
}

// What a browser says about where a request comes from. Programs send no Origin and any Host.
Status Api::Impl::CheckOrigin(const Request& request) const {
  const auto host = request.Header("host");
  if (parts.loopback_only && host.has_value() && !IsLoopbackName(HostOf(*host))) {
    return absl::PermissionDeniedError(
        fmt::format("host '{}' is not this machine: the server listens on loopback only; use "
                    "http://127.0.0.1, or start "
                    "it with an outside address",
                    Printable(*host, 100)));
  }
  if (request.method == "GET") return absl::OkStatus();
  const auto site = request.Header("sec-fetch-site");
  const bool cross_site = site.has_value() && *site != "same-origin" && *site != "none";
  const auto origin = request.Header("origin");
  bool other_origin = false;
  if (origin.has_value()) {
    const size_t scheme = origin->find("://");
    other_origin = scheme == std::string_view::npos || !host.has_value() ||
                   absl::AsciiStrToLower(std::string(origin->substr(scheme + 3))) !=
                       absl::AsciiStrToLower(std::string(*host));
  }
  if (cross_site || other_origin) {
    return absl::PermissionDeniedError(
        "a page of another site may not send this: cross-origin POST is refused");
  }
  return absl::OkStatus();
}

Response Api::Impl::Handle(const Request& request) {
  if (const Status s = CheckOrigin(request); !s.ok()) return net::ErrorResponse(s);
  std::string_view arg;
  bool other_method = false;
  const Route* route = Find(request.method, request.path, &arg, &other_method);
  if (route == nullptr) {
    // Files of the page, and its own paths, which the page itself resolves.
    if (parts.ui && request.method == "GET" && !request.path.starts_with("/api/")) {
      if (auto page = parts.ui(request.path); page.has_value()) return *std::move(page);
    }
    Response r = net::ErrorResponse(NoSuchRoute(request, other_method));
    if (other_method) r.status = 405;
    return r;
  }
  if (arg.size() > kMaxPathArgument) {
    return net::ErrorResponse(absl::InvalidArgumentError(
        fmt::format("{}: the last part of the path is longer than {} bytes", route->pattern,
                    kMaxPathArgument)));
  }
  auto response = (this->*route->handler)(request, arg);
  return response.ok() ? *std::move(response) : net::ErrorResponse(response.status());
}

Api::Impl::Result Api::Impl::GetStatus(const Request& request, std::string_view) {
  FW_RETURN_IF_ERROR(Params::Parse(request, {}).status());
  FW_RETURN_IF_ERROR(query.ready());
  std::string body;
  JsonWriter json(&body);
  const Micros now = query.now();
  json.BeginObject();
  json.Field("version", parts.version).Field("started", FormatTime(started));
  json.Field("uptime_s", static_cast<double>(Now() - started) / kMicrosPerSecond)
      .Field("now", FormatTime(now));
  json.Field("mode", parts.ingest != nullptr ? "live" : "offline");
  json.Field("gpus", query.deployed()->Gpus(now));
  json.Key("gpus_reporting");
  if (query.live() != nullptr) {
    json.Value(query.live()->GpusReporting(now - query.silent_after()));
  } else {
    json.Null();
  }
  json.Field("nodes", query.registry().node_count());
  json.Field("jobs_running", query.RunningJobCount());
  json.Key("ingest");
  if (parts.ingest != nullptr) {
    const ingest::PipelineStats s = parts.ingest->pipeline.stats();
    json.BeginObject();
    json.Field("samples_per_s", s.samples_per_s).Field("scrapes", s.scrapes).Field("rows", s.rows);
    json.Field("samples", s.samples).Field("narrow_samples", s.narrow).Field("sources", s.sources);
    json.Field("queued_rows", s.queued_rows).Field("queued_bytes", s.queued_bytes);
    json.Field("dropped_rows", s.dropped_rows).Field("late_rows", s.late_rows);
    json.Field("zero_weight_rows", s.zero_weight_rows);
    json.Field("flushes", s.flushes).Field("flush_errors", s.flush_errors);
    json.Field("last_flush_ms", s.last_flush_ms);
    WriteTime(json, "last_flush", s.last_flush);
    WriteCounts(json, "refused", s.refused);
    json.EndObject();
  } else {
    json.Null();
  }
  json.Key("store");
  if (parts.store != nullptr) {
    const store::StoreStats s = parts.store->stats();
    json.BeginObject();
    json.Field("hot_bytes", s.hot_bytes)
        .Field("sealed_bytes", s.sealed_bytes)
        .Field("meta_bytes", s.meta_bytes);
    json.Field("hot_segments", s.hot_segments).Field("sealed_files", s.sealed_files);
    json.Field("rows_appended", s.rows_appended).Field("samples_appended", s.samples_appended);
    WriteTime(json, "oldest", s.oldest_ts);
    WriteTime(json, "newest", s.newest_ts);
    WriteTime(json, "rolled_up_to", s.rolled_up_to_arrival);
    json.Field("append_errors", s.append_errors);
    json.Key("last_error");
    s.last_error.empty() ? json.Null() : json.Value(s.last_error);
    json.EndObject();
  } else {
    json.Null();
  }
  json.EndObject();
  return JsonResponse(std::move(body));
}

Api::Impl::Result Api::Impl::GetMetrics(const Request& request, std::string_view) {
  FW_ASSIGN_OR_RETURN(const Params params, Params::Parse(request, {"gpus"}));
  FW_ASSIGN_OR_RETURN(const bool per_gpu, params.Bool("gpus", false));
  FW_RETURN_IF_ERROR(query.ready());
  Response r;
  r.content_type = "text/plain; version=0.0.4; charset=utf-8";
  r.body = query.IsLarge() ? *fleet_metrics.Get() : RenderFleetMetrics(parts, query);
  RenderServerMetrics(parts, query, started, per_gpu, &r.body);
  return r;
}

Api::Impl::Result Api::Impl::GetHealth(const Request&, std::string_view) {
  return JsonResponse(R"({"status":"ok"})");
}

Api::Impl::Result Api::Impl::GetReady(const Request&, std::string_view) {
  std::vector<std::string> reasons;
  if (!query.ready().ok()) reasons.emplace_back(query.ready().message());
  if (parts.ingest != nullptr) {
    const ingest::PipelineStats s = parts.ingest->pipeline.stats();
    if (!s.last_store_error.empty())
      reasons.push_back(fmt::format("store: {}", s.last_store_error));
    if (s.queued_rows > parts.ingest->options.max_queued_rows / 2 ||
        s.queued_bytes > parts.ingest->options.max_queued_bytes / 2) {
      reasons.push_back(fmt::format("queue: {} rows wait to be stored", s.queued_rows));
    }
  }
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("ready", reasons.empty()).Key("reasons").BeginArray();
  for (const std::string& reason : reasons) json.Value(reason);
  json.EndArray().EndObject();
  Response r = JsonResponse(std::move(body));
  r.status = reasons.empty() ? 200 : 503;
  return r;
}

Api::Impl::Result Api::Impl::GetOpenApi(const Request&, std::string_view) {
  Response r;
  r.static_body = OpenApiDocument();
  return r;
}

Api::Impl::Result Api::Impl::GetPage(const Request& request, std::string_view) {
  if (parts.ui) {
    if (auto page = parts.ui(request.path); page.has_value()) return *std::move(page);
  }
  Response r;
  r.content_type = "text/html; charset=utf-8";
  r.static_body = kPlainPage;
  return r;
}

Api::Api(ApiParts parts) : impl_(std::make_unique<Impl>(std::move(parts))) {}
Api::~Api() = default;

Response Api::Handle(const Request& request) { return impl_->Handle(request); }

bool Api::IsSlow(const Request& request) const {
  std::string_view arg;
  bool other_method = false;
  const Impl::Route* route = impl_->Find(request.method, request.path, &arg, &other_method);
  if (route == nullptr) return false;
  switch (route->cost) {
    case Impl::Route::Cost::kMemory:
      return impl_->parts.ingest == nullptr;
    case Impl::Route::Cost::kMemoryUnlessText: {
      // Names of a whole fleet are compared only when asked for.
      const auto sort = request.Query("sort").value_or("");
      return impl_->parts.ingest == nullptr || sort == "node" || sort == "gpu" ||
             request.Query("node").has_value() || request.Query("model").has_value();
    }
    case Impl::Route::Cost::kMemoryUnlessWindow:
    case Impl::Route::Cost::kMemoryIfLiveJob: {
      for (const std::string_view name : {"from", "to", "exact", "ci"}) {
        if (request.Query(name).has_value()) return true;
      }
      // For its first hour a server that was restarted answers the last hour from the store.
      const Micros now = impl_->query.now();
      const query::View view =
          impl_->query.Resolve({now - query::kDefaultWindow, now}, /*allow_live=*/true);
      if (view.source != query::UsageSource::kLive) return true;
      if (route->cost == Impl::Route::Cost::kMemoryUnlessWindow) return false;
      if (!impl_->query.applications().ClaimsOf(arg).empty())
        return true;  // its samples are in the store
      const auto job = impl_->query.jobs().FindJob(arg);
      return !job.has_value() || impl_->query.jobs().GpusEver(job->id) > kMaxInlineJobGpus ||
             !impl_->query.LiveJobGpus(job->id, view).has_value();
    }
    case Impl::Route::Cost::kMemoryIfKept:
      // Packing a page of hundreds of kilobytes takes longer than making it.
      return request.Query("gpus").has_value() ||
             request.Header("accept-encoding").value_or("").find("gzip") !=
                 std::string_view::npos ||
             !impl_->fleet_metrics.Has();
    case Impl::Route::Cost::kStore:
      return true;
  }
  return true;
}

std::vector<std::string> Api::Routes() {
  std::vector<std::string> out;
  for (const Impl::Route& route : Impl::Table())
    out.push_back(fmt::format("{} {}", route.method, route.pattern));
  return out;
}

}  // namespace flopwatch::api
