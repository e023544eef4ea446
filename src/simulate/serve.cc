#include "simulate/serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/json_writer.h"
#include "net/http.h"
#include "simulate/application.h"
#include "simulate/truth.h"

namespace flopwatch::simulate {
namespace {

constexpr std::string_view kHelp =
    "flopwatch simulate: the exporters of a simulated GPU fleet\n\n"
    "/targets             Prometheus http_sd target list\n"
    "/targets.txt         one URL a line\n"
    "/node/NAME/metrics   exposition text of one host\n"
    "/applications/metrics   what training jobs say of themselves (not with --step)\n"
    "/jobs.csv            who owned which GPU when (flopwatch serve --jobs-file)\n"
    "/truth?from=&to=     what really happened, as integers\n";

constexpr std::string_view kApplicationsPath = "/applications/metrics";

net::Response Text(int status, std::string body,
                   std::string_view type = "text/plain; charset=utf-8") {
  net::Response r;
  r.status = status;
  r.content_type = type;
  r.body = std::move(body);
  return r;
}

// A body in chunks of the size in which Go's server (bufio before its chunkWriter), and with it
// most exporters, sends one.
std::string GoChunks(std::string_view body) {
  constexpr size_t kChunkBytes = 2 << 10;
  std::string out;
  out.reserve(body.size() + (body.size() / kChunkBytes + 2) * 8);
  for (size_t at = 0; at < body.size(); at += kChunkBytes) {
    const std::string_view piece = body.substr(at, kChunkBytes);
    out += fmt::format("{:x}\r\n", piece.size());
    out.append(piece).append("\r\n");
  }
  out += "0\r\n\r\n";
  return out;
}

class FleetServerImpl final : public FleetServer {
 public:
  FleetServerImpl(const Fleet* fleet, const ServeOptions& options)
      : fleet_(*fleet),
        options_(options),
        next_(fleet->hosts()),
        applications_(Applications(*fleet)) {
    started_ = MonotonicNow();
  }

  Status Listen() {
    net::ServerOptions o;
    o.address = options_.address;
    o.port = options_.port;
    o.threads = options_.threads;
    // Each host and scraper has one connection, kept between scrapes.
    o.max_connections = std::max(4096, 4 * fleet_.hosts());
    FW_ASSIGN_OR_RETURN(server_, net::HttpServer::Start(
                                     o,
                                     [this](const net::Request& r) -> std::optional<net::Response> {
                                       if (!r.path.starts_with("/node/")) return std::nullopt;
                                       return Handle(r);
                                     },
                                     [this](const net::Request& r) { return Handle(r); }));
    return absl::OkStatus();
  }

  uint16_t port() const override { return server_->port(); }
  uint64_t scrapes() const override { return scrapes_.load(std::memory_order_relaxed); }
  bool done() const override {
    if (options_.pace != Pace::kStep) return false;
    for (int h = 0; h < fleet_.hosts(); ++h)
      if (next_[h].load(std::memory_order_relaxed) < fleet_.Ticks(h)) return false;
    return true;
  }

 private:
  Micros SimulatedNow() const {
    if (options_.pace == Pace::kRealTime) return Now();
    return fleet_.options().start +
           static_cast<Micros>(static_cast<double>(MonotonicNow() - started_) * options_.speed);
  }

  net::Response Handle(const net::Request& r) {
    if (r.path.starts_with("/node/") && r.path.ends_with("/metrics"))
      return Metrics(r, std::string_view(r.path).substr(6, r.path.size() - 6 - 8));
    if (r.path == kApplicationsPath) return ApplicationsText();
    if (r.path == "/") return Text(200, std::string(kHelp));
    if (r.path == "/targets") return Targets(r);
    if (r.path == "/targets.txt") return TargetsText(r);
    if (r.path == "/jobs.csv") return Text(200, fleet_.AssignmentsCsv(), "text/csv; charset=utf-8");
    if (r.path == "/truth") return TruthAnswer(r);
    return net::ErrorResponse(NotFound("nothing at {}; see / for what there is", r.path));
  }

  // The text of a host as dcgm-exporter sends it: in chunks (not in HTTP/1.0), and never packed.
  static net::Response Exposition(const net::Request& r, std::string text) {
    net::Response out;
    out.content_type = "text/plain; version=0.0.4; charset=utf-8";
    out.no_gzip = true;
    if (!r.http_1_0) out.headers.emplace_back("Transfer-Encoding", "chunked");
    out.body = r.http_1_0 ? std::move(text) : GoChunks(text);
    return out;
  }

  net::Response Metrics(const net::Request& r, std::string_view name) {
    int host = fleet_.FindHost(name);
    if (host < 0) return net::ErrorResponse(NotFound("no host '{}'; /targets lists them", name));
    scrapes_.fetch_add(1, std::memory_order_relaxed);
    std::string text;
    if (options_.pace == Pace::kStep) {
      const int64_t ticks = fleet_.Ticks(host);
      while (true) {
        int64_t tick = next_[host].fetch_add(1, std::memory_order_relaxed);
        if (tick >= ticks) {
          next_[host].store(ticks, std::memory_order_relaxed);
          return Text(410, "the simulated time of this host is over\n");
        }
        if (fleet_.RenderHost(host, tick, Stamps::kExplicit, &text) == Answer::kOk)
          return Exposition(r, std::move(text));
      }
    }
    const Micros now = SimulatedNow(), end = fleet_.options().start + fleet_.options().duration;
    if (now >= end + fleet_.options().interval) return Text(410, "the simulated time is over\n");
    Stamps stamps = options_.pace == Pace::kRealTime ? Stamps::kNone : Stamps::kExplicit;
    if (fleet_.RenderHost(host, fleet_.TickAt(host, now), stamps, &text) == Answer::kOk)
      return Exposition(r, std::move(text));
    return Text(503, "this exporter does not answer at the moment\n");
  }

  // Applications push to a gateway; what it shows is the newest of each that is running. One target
  // whatever jobs come and go.
  bool ShowsApplications() const { return options_.pace != Pace::kStep && !applications_.empty(); }
  net::Response ApplicationsText() {
    if (!ShowsApplications())
      return net::ErrorResponse(NotFound(
          "no application reports here: preset llm has those that do, and --step has none"));
    const Micros now = SimulatedNow(), end = fleet_.options().start + fleet_.options().duration;
    if (now >= end + fleet_.options().interval) return Text(410, "the simulated time is over\n");
    net::Response out;
    out.content_type = "text/plain; version=0.0.4; charset=utf-8";
    RenderApplications(fleet_, applications_, now, &out.body);
    return out;
  }

  std::string Authority(const net::Request& r) const {
    auto host = r.Header("host");
    return host && !host->empty() ? std::string(*host)
                                  : fmt::format("{}:{}", options_.address, port());
  }

  net::Response Targets(const net::Request& r) {
    std::string body, authority = Authority(r);
    JsonWriter w(&body);
    w.BeginArray();
    for (int h = 0; h < fleet_.hosts(); ++h) {
      std::string name = fleet_.HostName(h);
      w.BeginObject().Key("targets").BeginArray().Value(authority).EndArray();
      w.Key("labels").BeginObject().Field("__metrics_path__",
                                          fmt::format("/node/{}/metrics", name));
      w.Field("node", name).Field("cluster", fleet_.ClusterName(h)).EndObject().EndObject();
    }
    if (ShowsApplications()) {
      w.BeginObject().Key("targets").BeginArray().Value(authority).EndArray();
      w.Key("labels").BeginObject().Field("__metrics_path__", kApplicationsPath);
      w.Field("node", "applications").EndObject().EndObject();
    }
    w.EndArray();
    body += '\n';
    return Text(200, std::move(body), "application/json");
  }

  net::Response TargetsText(const net::Request& r) {
    std::string body, authority = Authority(r);
    for (int h = 0; h < fleet_.hosts(); ++h)
      body += fmt::format("http://{}/node/{}/metrics\n", authority, fleet_.HostName(h));
    if (ShowsApplications()) body += fmt::format("http://{}{}\n", authority, kApplicationsPath);
    return Text(200, std::move(body));
  }

  net::Response TruthAnswer(const net::Request& r) {
    const FleetOptions& o = fleet_.options();
    Micros now = options_.pace == Pace::kStep ? o.start + o.duration
                                              : std::min(SimulatedNow(), o.start + o.duration);
    Micros from = o.start, to = now;
    for (auto [name, value] : {std::pair{"from", &from}, {"to", &to}}) {
      auto text = r.Query(name);
      if (!text) continue;
      StatusOr<Micros> t = ParseTime(*text, now);
      if (!t.ok()) return net::ErrorResponse(t.status());
      *value = *t;
    }
    return Text(200, TruthJson(fleet_.TruthOf(from, to)), "application/json");
  }

  const Fleet& fleet_;
  ServeOptions options_;
  Micros started_ = 0;
  std::vector<std::atomic<int64_t>> next_;
  const std::vector<Application> applications_;
  std::atomic<uint64_t> scrapes_{0};
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace

StatusOr<std::unique_ptr<FleetServer>> FleetServer::Start(const Fleet* fleet,
                                                          const ServeOptions& options) {
  if (options.pace == Pace::kAccelerated && !(options.speed > 0 && std::isfinite(options.speed)))
    return InvalidArgument("simulated time must run forward; give a speed above 0");
  auto server = std::make_unique<FleetServerImpl>(fleet, options);
  FW_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace flopwatch::simulate
