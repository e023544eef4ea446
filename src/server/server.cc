#include "server/server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "alerts/judge.h"
#include "alerts/replay.h"
#include "api/api.h"
#include "api/host_names.h"
#include "api/ui_assets.h"
#include "base/log.h"
#include "base/mutex.h"
#include "discovery/target.h"
#include "server/jobs_file.h"

namespace flopwatch::server {
namespace {

constexpr Micros kListPoll = 20 * kMicrosPerMilli;
constexpr Micros kEndReads = kMicrosPerSecond;

}  // namespace

// Members in the order in which they are made: each uses those before it, and goes before them.
struct Server::Parts {
  explicit Parts(ServerOptions o) : options(std::move(o)) {}

  // What a person can have got wrong, before anything is made: a start that is refused leaves
  // nothing behind.
  Status Check() const;
  Status Open();
  Status StartAlerts();
  Status Listen();
  void Watch(std::stop_token stop);
  // Its order is one in which nothing is used that is gone; returns what the last flush said.
  Status TakeApart();
  Status StoreAll();

  ServerOptions options;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<ingest::IngestSide> ingest;
  std::unique_ptr<JobsFile> jobs_file;
  std::unique_ptr<discovery::SlurmBooks> scheduler;  // null where nobody asks one
  std::unique_ptr<uploads::TraceLibrary> traces;
  std::unique_ptr<net::Scraper> scraper;
  std::unique_ptr<query::Memory> memory;      // of the alerts; null without them
  std::unique_ptr<query::Query> alert_query;  // of the service's judge
  std::unique_ptr<alerts::Judge> judge;
  std::unique_ptr<alerts::Service> alert_service;  // likewise
  std::unique_ptr<sql::Runner> sql;
  std::unique_ptr<api::Api> api;
  std::unique_ptr<net::HttpServer> http;
  // The same, for the requests that ask for its counts: they begin before it is stored there.
  std::atomic<const net::HttpServer*> serving{nullptr};
  std::unique_ptr<discovery::Discovery> discovery;
  std::jthread watcher;
};

Status Server::Parts::Check() const {
  if (!options.jobs_file.empty()) {
    jobs::JobIndex nobody;
    FW_RETURN_IF_ERROR(
        Annotate(JobsFile(options.jobs_file, &nobody).Load(), "cannot use the jobs file"));
  }
  FW_RETURN_IF_ERROR(
      Annotate(discovery::Discovery::Check(options.targets), "cannot use the targets"));
  // Whether the address can be had is known by having it for a moment.
  const auto listener = net::HttpServer::Start(options.http, [](const net::Request&) {
    return net::ErrorResponse(Unavailable("the server is starting; ask again in a moment"));
  });
  return listener.status();
}

Status Server::Parts::Open() {
  FW_ASSIGN_OR_RETURN(store, store::OpenDuckDbStore(options.store));
  ingest::PipelineOptions pipeline_options;
  pipeline_options.nominal_interval = options.scraper.interval;
  pipeline_options.max_age = options.store.raw_retention;
  pipeline_options.clock = options.clock;
  FW_ASSIGN_OR_RETURN(ingest,
                      ingest::IngestSide::Start(pipeline_options, &options.catalog, store.get()));
  jobs_file = std::make_unique<JobsFile>(options.jobs_file, &ingest->jobs);
  FW_RETURN_IF_ERROR(Annotate(jobs_file->Load(), "cannot use the jobs file"));
  if (options.slurm) {
    const auto tell_blocks = [this](const std::vector<slurm::Block>& blocks) {
      ingest::DomainOfNode domains;
      for (const slurm::Block& block : blocks)
        for (const std::string& node : block.nodes) domains.try_emplace(node, block.name);
      ingest->registry.TellDomains(std::move(domains));
    };
    FW_ASSIGN_OR_RETURN(scheduler, discovery::SlurmBooks::Start(*options.slurm, &ingest->books,
                                                                &ingest->jobs, tell_blocks));
  }
  if (options.traces) {
    options.traces->catalog = &options.catalog;
    options.traces->as_of = [this] { return store->stats().retention.as_of; };
    if (options.clock) options.traces->clock = options.clock;
    FW_ASSIGN_OR_RETURN(traces, uploads::TraceLibrary::Open(*options.traces));
  }
  FW_ASSIGN_OR_RETURN(
      scraper,
      net::Scraper::Start(
          options.scraper,
          [this](const net::ScrapeResult& r) {
            ingest->pipeline.Ingest({.name = r.info->url,
                                     .node = r.info->node,
                                     .nvlink_domain = discovery::NvlinkDomainOf(*r.info)},
                                    r.body, r.started, r.thread);
          },
          // Called after the first SetTargets(): `scraper` is set by then.
          [this](uint32_t target, int) { ingest->pipeline.Forget(scraper->Target(target).url); }));
  return absl::OkStatus();
}

Status Server::Parts::StartAlerts() {
  query::MemorySources sources{.catalog = &options.catalog,
                               .store_stats = [this] { return store->stats(); },
                               .clock = [this] { return ingest->options.Clock(); }};
  sources.live = query::LiveSources{.registry = &ingest->registry,
                                    .jobs = &ingest->jobs,
                                    .books = &ingest->books,
                                    .live = &ingest->live,
                                    .applications = &ingest->application,
                                    .silent_after = ingest->options.max_span};
  memory = std::make_unique<query::Memory>(std::move(sources));
  alerts::ServiceOptions of = *options.alerting;
  of.state_file = options.store.directory + "/alerts.json";
  of.clock = [this] { return ingest->options.Clock(); };
  of.recall = [this](const alerts::ServiceOptions::Heard& heard) -> Status {
    const query::Query query(memory.get(), store.get());
    const Micros now = ingest->options.Clock();
    alerts::SaidFeed said(query, now - alerts::kBaselineReach);
    return said.GiveUntil(now, heard);
  };
  of.answers = [this] {
    const alerts::HostAnswers hosts = scraper->Answering();
    alerts::KeepAnswers(hosts, ingest->options.Clock(), &ingest->pipeline);
    return alerts::AnswersByNode(hosts);
  };
  alert_query = std::make_unique<query::Query>(memory.get(), store.get());
  judge = std::make_unique<alerts::Judge>(alert_query.get(), of.rules);
  if (judge->needed())
    of.judge = [this](Micros at, alerts::Verdicts* out) { return judge->At(at, out); };
  FW_ASSIGN_OR_RETURN(alert_service, alerts::Service::Start(std::move(of), memory.get()));
  return absl::OkStatus();
}

Status Server::Parts::Listen() {
  api::ApiSources parts;
  parts.store = store.get();
  parts.ingest = ingest.get();
  parts.scraper = scraper.get();
  parts.catalog = &options.catalog;
  parts.prices = &options.prices;
  parts.inventory = options.inventory;
  parts.traces = traces.get();
  parts.scheduler = scheduler.get();
  parts.alert_service = alert_service.get();
  parts.version = options.version;
  parts.clock = options.clock;
  std::vector<std::string> names = options.host_names;
  if (!options.loopback_only)
    for (const std::string& name : api::MachineNames()) names.push_back(name);
  parts.hosts.emplace(!options.loopback_only, names);
  parts.http_stats = [this] {
    const net::HttpServer* const server = serving.load();
    return server == nullptr ? net::ServerStats() : server->stats();
  };
  if (options.page) parts.ui = api::ServeUi;
  options.sql.directory = options.store.directory + "/copies";
  FW_ASSIGN_OR_RETURN(sql, sql::Confined(store.get(), options.sql));
  parts.sql = sql.get();
  api = std::make_unique<api::Api>(std::move(parts));
  net::ServerOptions listen = options.http;
  listen.is_slow = [this](const net::Request& r) { return api->MayTakeLong(r); };
  listen.is_apart = [this](const net::Request& r) { return api->RunsApart(r); };
  FW_ASSIGN_OR_RETURN(
      http, net::HttpServer::Start(
                listen, [this](const net::Request& r) { return api->AtOnce(r); },
                [this](const net::Request& r) { return api->OnWorker(r); }, api->Uploads()));
  serving = http.get();
  auto started =
      discovery::Discovery::Start(options.targets, [this](std::vector<net::ScrapeTarget> targets) {
        if (alert_service != nullptr)
          alert_service->SetRacks(std::make_shared<const alerts::Racks>(targets));
        scraper->SetTargets(std::move(targets));
      });
  FW_RETURN_IF_ERROR(Annotate(started.status(), "cannot use the targets"));
  discovery = *std::move(started);
  if (!options.jobs_file.empty())
    watcher = std::jthread([this](std::stop_token stop) { Watch(std::move(stop)); });
  return absl::OkStatus();
}

void Server::Parts::Watch(std::stop_token stop) {
  Mutex mutex;
  CondVar wake;
  MutexLock lock(mutex);
  while (!stop.stop_requested()) {
    wake.WaitFor(mutex, stop, options.jobs_file_poll, [] { return false; });
    if (!stop.stop_requested()) jobs_file->LoadIfChanged();
  }
}

StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  auto parts = std::make_unique<Parts>(std::move(options));
  FW_RETURN_IF_ERROR(parts->Check());
  FW_RETURN_IF_ERROR(parts->Open());
  if (parts->options.alerting) FW_RETURN_IF_ERROR(parts->StartAlerts());
  FW_RETURN_IF_ERROR(parts->Listen());
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Server::Server(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)), port_(parts_->http->port()) {}

Server::~Server() {
  if (const Status s = Stop(); !s.ok()) LogWarn("{}", std::string(s.message()));
}

uint16_t Server::port() const { return port_; }

Status Server::Reload() {
  parts_->discovery->RefreshSoon();
  return parts_->jobs_file->Load();
}

Status Server::Parts::TakeApart() {
  if (traces != nullptr) traces->Stop();  // nobody waits for an analysis any more
  if (scheduler != nullptr) scheduler->StopSoon();
  http.reset();
  api.reset();  // it looks at the scraper between requests too
  sql.reset();
  alert_service.reset();
  memory.reset();
  watcher = {};
  discovery.reset();
  scraper.reset();
  scheduler.reset();  // what it was told is stored with the rest
  return StoreAll();
}

Status Server::Parts::StoreAll() {
  ingest->pipeline.Settle();
  return Annotate(ingest->pipeline.Flush(), "cannot store the last samples");
}

// What the thread that takes a server apart and the one that waits for it share; the thread may
// outlive the wait.
struct Server::Ending {
  Mutex mutex;
  CondVar changed;
  std::optional<Status> stored FW_GUARDED_BY(mutex);  // set once; the parts may go from then on
  int helpers FW_GUARDED_BY(mutex) = 0;               // but not below those
  bool done FW_GUARDED_BY(mutex) = false;

  void Store(Status s) FW_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    if (!stored) stored = std::move(s);
    changed.NotifyAll();
  }
};

Status Server::Stop() {
  if (parts_ == nullptr) return absl::OkStatus();
  const std::unique_ptr<Parts> parts = std::move(parts_);
  return parts->TakeApart();
}

Stopped Server::StopWithin(Micros longest) {
  if (parts_ == nullptr) return {};
  const Micros begun = MonotonicNow();
  Parts* const parts = parts_.release();
  const auto ending = std::make_shared<Ending>();
  Ending& e = *ending;
  std::thread([parts, ending] {
    Ending& e = *ending;
    e.Store(parts->TakeApart());
    {
      const MutexLock lock(e.mutex);
      e.changed.Wait(e.mutex, [&e]() FW_REQUIRES(e.mutex) { return e.helpers == 0; });
    }
    delete parts;  // the store may have much to close
    const MutexLock lock(e.mutex);
    e.done = true;
    e.changed.NotifyAll();
  }).detach();
  // Helpers beside that thread, which hangs, are threads too, because these may.
  const auto help = [parts, &ending, &e](auto&& work) FW_REQUIRES(e.mutex) {
    ++e.helpers;
    std::thread([parts, ending, work] {
      Ending& e = *ending;
      work(*parts, e);
      const MutexLock lock(e.mutex);
      --e.helpers;
      e.changed.NotifyAll();
    }).detach();
  };
  const auto wait_until = [&e](Micros when) FW_REQUIRES(e.mutex) {
    return e.changed.WaitFor(e.mutex, std::max<Micros>(when - MonotonicNow(), 1),
                             [&e]() FW_REQUIRES(e.mutex) { return e.done; });
  };
  const MutexLock lock(e.mutex);
  // What runs may end as it should; then it is told to; then what was received is stored beside it.
  // Connections are closed by then, so that nothing is acknowledged after that.
  if (wait_until(begun + longest / 2)) return {.stored = *e.stored};
  if (!e.stored) help([](Parts& p, Ending&) { p.store->EndReads(kEndReads); });
  if (wait_until(begun + longest * 3 / 4)) return {.stored = *e.stored};
  if (!e.stored) help([](Parts& p, Ending& of) { of.Store(p.StoreAll()); });
  const bool all = wait_until(begun + longest);
  return {.stored = e.stored ? *e.stored
                             : Unavailable("the last samples could not be stored within {}",
                                           FormatDuration(longest)),
          .all_ended = all};
}

std::vector<discovery::DiscoveryHealth> Server::TargetLists() const {
  return parts_->discovery->Health();
}

void Server::WaitForFirstLists(Micros longest) const {
  const Micros begun = MonotonicNow();
  const auto waiting = [this] {
    const auto lists = TargetLists();
    return std::any_of(lists.begin(), lists.end(), [](const discovery::DiscoveryHealth& h) {
      return h.last_refresh == 0 && h.error.empty();
    });
  };
  while (waiting() && MonotonicNow() - begun < longest)
    std::this_thread::sleep_for(std::chrono::microseconds(kListPoll));
}

size_t Server::job_assignments() const { return parts_->jobs_file->assignments(); }

store::StoreStats Server::StoreNow() const { return parts_->store->stats(); }

Progress Server::ProgressNow() const {
  Progress out;
  const std::vector<net::TargetHealth> health = parts_->scraper->Health();
  out.targets = health.size();
  out.targets_up = static_cast<size_t>(
      std::count_if(health.begin(), health.end(),
                    [](const net::TargetHealth& h) { return h.state == net::TargetState::kUp; }));
  out.ingest = parts_->ingest->pipeline.stats();
  out.fleet = parts_->ingest->live.Fleet(5 * kMicrosPerMinute);
  return out;
}

}  // namespace flopwatch::server
