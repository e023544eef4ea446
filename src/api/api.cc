// Composition and dispatch: who may ask, which route it is, what its parameters say.
#include "api/api.h"

#include <fmt/format.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "api/arguments.h"
#include "api/for_browsers.h"
#include "api/host_names.h"
#include "api/metrics.h"
#include "api/routes.h"
#include "base/text.h"
#include "query/kept.h"
#include "query/query.h"
#include "sql/runner.h"

namespace flopwatch::api {
namespace {

using net::Request;
using net::Response;

constexpr Micros kMetricsKept = 2 * kMicrosPerMinute;  // after the last scrape of the page
constexpr size_t kMaxPathArgument = 512;

// Whether the URL that a browser gives for a page is one of ours.
bool IsOwnPage(std::string_view url, std::optional<std::string_view> host) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos || !host.has_value()) return false;
  const std::string_view page = url.substr(scheme + 3);
  return EqualsIgnoringCase(page.substr(0, page.find('/')), *host);
}

// Checks what a browser says of where a request is from. Programs send no Origin and any Host. A
// browser that says nothing (plain http, no referrer) may be at any page.
Status CheckOrigin(const Request& request) {
  const auto host = request.Header("host");
  const auto site = request.Header("sec-fetch-site");
  bool other = site.has_value() && *site != "same-origin" && *site != "none";
  bool said = site.has_value();
  for (const std::string_view name : {"origin", "referer"}) {
    const auto page = request.Header(name);
    said = said || page.has_value();
    other = other || (page.has_value() && !IsOwnPage(*page, host));
  }
  const bool browser = request.Header("user-agent").value_or("").starts_with("Mozilla/");
  if (!other && (said || !browser)) return absl::OkStatus();
  return PermissionDenied(
      "a page of another site may not send this: ask from a page of this server, "
      "or with a program");
}

query::MemorySources MemorySourcesOf(const ApiSources& sources) {
  query::MemorySources out{.catalog = sources.catalog,
                           .store_stats = [store = sources.store] { return store->stats(); },
                           .clock = sources.clock,
                           .live = std::nullopt,
                           .inventory = sources.inventory};
  if (const ingest::IngestSide* i = sources.ingest; i != nullptr) {
    out.live = query::LiveSources{.registry = &i->registry,
                                  .jobs = &i->jobs,
                                  .books = &i->books,
                                  .live = &i->live,
                                  .applications = &i->application,
                                  .silent_after = i->options.max_span};
  }
  return out;
}

Response ToResponse(Result result) {
  return ForBrowsers(result.ok() ? *std::move(result) : net::ErrorResponse(result.status()));
}

}  // namespace

struct Api::Impl {
  explicit Impl(ApiSources sources);

  // A request and where it goes, or the answer where it goes nowhere.
  struct Question {
    std::optional<Response> refusal;
    const Endpoint* endpoint = nullptr;
    std::optional<Arguments> args;
    std::string_view name;
    Call call(const Request& request) const { return {request, *args, name}; }
  };
  Question Read(const Request& request) const;
  Response NoSuchRoute(const Request& request, const RouteTable::Match& match) const;

  // Check who may ask, and that a request is of no page of another site; count what they refuse.
  Status CheckDoor(const Request& request) const;
  Status CheckSite(const Request& request) const;

  const std::optional<HostNames> hosts;  // absent: whatever the request names
  mutable DoorCounts door;
  const PageFiles page_files;
  uploads::TraceLibrary* const traces;
  query::Memory memory;
  query::Query query;
  std::unique_ptr<sql::Runner> own_sql;          // null where one was given
  std::unique_ptr<ingest::ScrapeJoiner> joiner;  // null when offline
  std::unique_ptr<history::Intake> intake;       // likewise
  RouteTable table;
  // What /metrics says of a large fleet's jobs and targets: kept while something scrapes it.
  std::optional<query::Kept<std::string>> fleet_metrics;
  std::optional<query::Keeper> keeper;  // last: it uses the others
};

Api::Impl::Impl(ApiSources sources)
    : hosts(std::move(sources.hosts)),
      page_files(sources.ui),
      traces(sources.traces),
      memory(MemorySourcesOf(sources),
             sources.ingest != nullptr ? store::Dimensions() : sources.store->LoadDimensions()),
      query(&memory, sources.store) {
  ingest::IngestSide* const live = sources.ingest;
  ingest::Pipeline* const pipeline = live == nullptr ? nullptr : &live->pipeline;
  const Micros started = Now();
  const auto store_stats = [store = sources.store] { return store->stats(); };
  if (pipeline != nullptr) {
    joiner = std::make_unique<ingest::ScrapeJoiner>(
        pipeline, ingest::ScrapeJoiner::Options{.settle = sources.join_settle});
    intake = std::make_unique<history::Intake>(live, sources.store,
                                               [live] { return live->options.Clock(); });
  }
  const auto render = [this, of = FleetMetrics{&memory, pipeline, sources.scraper}] {
    std::shared_ptr<const query::JobList> jobs;
    if (const auto now = memory.NowView())
      jobs = query.Jobs(*now, query::JobJoin::kStamped).value_or(nullptr);
    return std::make_shared<const std::string>(RenderFleetMetrics(of, jobs.get()));
  };
  fleet_metrics.emplace(render, kMetricsKept, [this] { return memory.IsLarge(); });
  keeper.emplace(std::vector<query::KeptBase*>{&*fleet_metrics});

  AddStatusRoutes({&memory, pipeline, live == nullptr ? ingest::PipelineOptions() : live->options,
                   store_stats, sources.version, started, sources.scheduler},
                  &table);
  AddFleetRoutes(&memory, &query, &table);
  AddSankeyRoutes(&query, sources.prices, &table);
  AddUsageRoutes(&query, sources.prices, &table);
  AddAdviseRoutes(&query, sources.prices, traces, &table);
  AddIdleRoutes(&query, sources.prices, &table);
  AddStragglerRoutes(&query, &table);
  AddRegressionRoutes(&query, &table);
  AddJobRoutes(&memory, &query, &table);
  AddDivergenceRoutes(&query, &table);
  AddApplicationRoutes(&query, live == nullptr ? nullptr : &live->application, &table);
  AddGpuRoutes(&memory, &query, &table);
  AddTargetRoutes({&memory, pipeline, sources.scraper}, &table);
  if (sources.sql == nullptr) own_sql = sql::InProcess(sources.store);
  AddSqlRoutes(own_sql != nullptr ? own_sql.get() : sources.sql, &table);
  AddTraceRoutes(traces, &table);
  AddPushRoutes(pipeline, joiner.get(), &table);
  AddBookRoutes(
      {pipeline, live == nullptr ? nullptr : &live->books, live == nullptr ? nullptr : &live->jobs},
      &table);
  AddHistoryRoutes(intake.get(), pipeline, &table);
  AddAlertRoutes(&query, sources.alert_service, &table);
  AddMetricsRoute(
      {&memory, pipeline, sources.scraper, traces, store_stats, sources.version, started, &door,
       sources.http_stats, sources.scheduler, sources.alert_service, sources.sql},
      [kept = &*fleet_metrics] { return kept->AtHand(); },
      [this, render] { return memory.IsLarge() ? fleet_metrics->Get() : render(); }, &table);
  AddPageRoutes(page_files, &table);
}

Status Api::Impl::CheckDoor(const Request& request) const {
  if (const auto host = request.Header("host"); hosts && host) {
    if (Status s = hosts->Check(*host); !s.ok()) {
      door.unknown_host.fetch_add(1, std::memory_order_relaxed);
      return s;
    }
  }
  // What only reads may be sent by any page: it is not shown the answer.
  return request.method == "GET" ? absl::OkStatus() : CheckSite(request);
}

Status Api::Impl::CheckSite(const Request& request) const {
  Status s = CheckOrigin(request);
  if (!s.ok()) door.other_site.fetch_add(1, std::memory_order_relaxed);
  return s;
}

Response Api::Impl::NoSuchRoute(const Request& request, const RouteTable::Match& match) const {
  // These are files of the page, and its own paths, which the page itself resolves.
  if (page_files && request.method == "GET" && !request.path.starts_with("/api/")) {
    if (auto page = page_files(request.path); page.has_value()) return *std::move(page);
  }
  return table.NoSuchRoute(request, match);
}

Api::Impl::Question Api::Impl::Read(const Request& request) const {
  Question question;
  const auto refuse = [&](Response r) {
    question.refusal = std::move(r);
    return std::move(question);
  };
  if (const Status s = CheckDoor(request); !s.ok()) return refuse(net::ErrorResponse(s));
  const RouteTable::Match match = table.Find(request.method, request.path);
  if (match.endpoint == nullptr) return refuse(NoSuchRoute(request, match));
  const Route& route = match.endpoint->route;
  if (route.apart) {
    if (const Status s = CheckSite(request); !s.ok()) return refuse(net::ErrorResponse(s));
  }
  if (match.name.size() > kMaxPathArgument) {
    return refuse(net::ErrorResponse(InvalidArgument(
        "{}: the last part of the path is longer than {} bytes", route.path, kMaxPathArgument)));
  }
  auto args = Arguments::Read(route, request, [this] { return memory.now(); });
  if (!args.ok()) return refuse(net::ErrorResponse(args.status()));
  question.endpoint = match.endpoint;
  question.args = *std::move(args);
  question.name = match.name;
  return question;
}

Api::Api(ApiSources sources) : impl_(std::make_unique<Impl>(std::move(sources))) {}
Api::~Api() = default;

std::optional<Response> Api::AtOnce(const Request& request) const {
  Impl::Question question = impl_->Read(request);
  if (question.refusal.has_value()) return ForBrowsers(*std::move(question.refusal));
  if (!question.endpoint->at_once) return std::nullopt;
  std::optional<Result> result = question.endpoint->at_once(question.call(request));
  if (!result.has_value()) return std::nullopt;
  return ToResponse(*std::move(result));
}

Response Api::OnWorker(const Request& request) const {
  Impl::Question question = impl_->Read(request);
  if (question.refusal.has_value()) return ForBrowsers(*std::move(question.refusal));
  const Endpoint& endpoint = *question.endpoint;
  const Call call = question.call(request);
  return ToResponse(endpoint.on_worker ? endpoint.on_worker(call) : *endpoint.at_once(call));
}

Response Api::Handle(const Request& request) const {
  if (auto answer = AtOnce(request)) return *std::move(answer);
  return OnWorker(request);
}

net::Uploads Api::Uploads() const {
  net::Uploads out;
  out.is_upload = IsTraceUpload;
  out.open =
      [impl = impl_.get()](const Request& request) -> StatusOr<std::shared_ptr<net::UploadSink>> {
    FW_RETURN_IF_ERROR(impl->CheckDoor(request));
    const RouteTable::Match match = impl->table.Find(request.method, request.path);
    // Only paths that take uploads come here.
    if (match.endpoint == nullptr)
      return NotFound("no such path: {}", Printable(request.path, 100));
    FW_ASSIGN_OR_RETURN(const Arguments args, Arguments::Read(match.endpoint->route, request, {}));
    return OpenTraceUpload(impl->traces, {request, args, match.name});
  };
  return out;
}

const std::vector<Endpoint>& Api::endpoints() const { return impl_->table.endpoints(); }

bool Api::RunsApart(const Request& request) const {
  const Route* const route = RouteOf(request);
  return route != nullptr && route->apart;
}

bool Api::MayTakeLong(const Request& request) const {
  const Route* const route = RouteOf(request);
  if (route == nullptr) return false;
  const auto exact = request.Query(kJoinExactly.name);
  return route->slow || (exact.has_value() && *exact != "0" && *exact != "false");
}

const Route* Api::RouteOf(const Request& request) const {
  const RouteTable::Match match = impl_->table.Find(request.method, request.path);
  return match.endpoint == nullptr ? nullptr : &match.endpoint->route;
}

}  // namespace flopwatch::api
