// flopwatch serve: the server. Exporters in, answers and the page out, until it is told to stop.
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/commands/commands.h"
#include "cli/commands/listen_address.h"
#include "cli/commands/site_catalog.h"
#include "cli/config.h"
#include "cli/context_impl.h"
#include "cli/terminal.h"
#include "cli/views/style.h"
#include "jobs/job_index.h"
#include "net/http.h"
#include "net/scraper.h"
#include "api/api.h"
#include "discovery/discovery.h"
#include "ingest/pipeline.h"
#include "uploads/traces.h"
#include "api/ui_assets.h"
#include "store/store.h"

namespace flopwatch::cli {
namespace {

constexpr uint64_t kMaxJobsFileBytes = 2ull << 30;
constexpr Micros kJobsFilePoll = 5 * kMicrosPerSecond;
constexpr Micros kProgressInterval = 10 * kMicrosPerSecond;
constexpr Micros kFirstListWait =
    3 * kMicrosPerSecond;  // for discovery's first answer, so that the banner can tell it
constexpr Micros kProbeInterval =
    30 * kMicrosPerSecond;  // for a local exporter, while there is nothing to scrape

struct ServeOptions {
  std::string listen, targets_file, jobs_file, interval, timeout, port_file;
  std::vector<std::string> targets, scrape, file_sd, http_sd;
  std::string threads;
  bool allow_remote = false, no_page = false;
};

void SetFlags(Context& context, const ServeOptions& o) {
  const auto set = [&](std::string_view key, const std::string& value, std::string_view flag) {
    if (!value.empty()) context.SetFlag(key, {value}, flag);
  };
  set("server.listen", o.listen, "--listen");
  set("jobs.static_file", o.jobs_file, "--jobs-file");
  set("scrape.interval", o.interval, "--interval");
  set("scrape.timeout", o.timeout, "--timeout");
  set("scrape.threads", o.threads, "--threads");
  if (o.no_page) set("ui.enabled", "false", "--no-page");
  // --scrape takes either kind: a file that exists is one, everything else names exporters.
  std::vector<std::string> targets = o.targets;
  std::string file = o.targets_file;
  for (const std::string& s : o.scrape) {
    if (access(s.c_str(), R_OK) == 0 && file.empty()) {
      file = s;
    } else {
      targets.push_back(s);
    }
  }
  set("scrape.targets_file", file, "--targets-file");
  if (!targets.empty()) context.SetFlag("scrape.targets", targets, "--target");
  if (!o.file_sd.empty()) context.SetFlag("scrape.file_sd", o.file_sd, "--file-sd");
  if (!o.http_sd.empty()) context.SetFlag("scrape.http_sd", o.http_sd, "--http-sd");
}

// Reads the static jobs file again whenever it changed; a broken one leaves the last good
// assignments in force.
class JobsFile {
 public:
  JobsFile(std::string path, jobs::JobIndex* index) : path_(std::move(path)), index_(index) {}

  Status Load() {
    if (path_.empty()) return absl::OkStatus();
    stamp_ = Stamp();
    FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(path_, kMaxJobsFileBytes));
    FW_ASSIGN_OR_RETURN(std::vector<jobs::StaticAssignment> assignments,
                        jobs::ParseStaticFile(text, path_, Now()));
    count_ = assignments.size();
    index_->SetStatic(std::move(assignments));
    return absl::OkStatus();
  }

  void LoadIfChanged() {
    if (path_.empty() || MonotonicNow() - looked_ < kJobsFilePoll) return;
    looked_ = MonotonicNow();
    if (Stamp() == stamp_) return;
    if (const Status s = Load(); s.ok()) {
      LogInfo("read {} again: {} assignments", path_, count_);
    } else {
      LogWarn("the jobs file cannot be used, the last good one stays in force: {}",
              std::string(s.message()));
    }
  }
  size_t count() const { return count_; }

 private:
  std::pair<int64_t, int64_t> Stamp() const {
    struct stat s {};
    if (stat(path_.c_str(), &s) != 0) return {0, 0};
    return {s.st_mtim.tv_sec * 1'000'000'000ll + s.st_mtim.tv_nsec, s.st_size};
  }
  std::string path_;
  jobs::JobIndex* index_;
  std::pair<int64_t, int64_t> stamp_;
  Micros looked_ = 0;
  size_t count_ = 0;
};

// The targets named by configuration, or, where none are, whatever exporter answers on this
// machine.
class Targets {
 public:
  Targets(discovery::DiscoveryOptions options, net::Scraper* scraper)
      : options_(std::move(options)), scraper_(scraper) {}

  bool configured() const {
    return !options_.static_targets.empty() || !options_.target_files.empty() ||
           !options_.file_sd.empty() || !options_.http_sd.empty();
  }
  Status Start() {
    if (!configured()) {
      Probe();
      return absl::OkStatus();
    }
    return Run(options_);
  }
  void WaitForFirstLists() const {
    const Micros begun = MonotonicNow();
    const auto waiting = [this] {
      const auto health = Health();
      return std::any_of(health.begin(), health.end(), [](const discovery::DiscoveryHealth& h) {
        return h.last_refresh == 0 && h.error.empty();
      });
    };
    while (waiting() && MonotonicNow() - begun < kFirstListWait)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // While there is nothing to scrape, an exporter may still come up.
  void Tick() {
    if (discovery_ != nullptr || MonotonicNow() - probed_ < kProbeInterval) return;
    Probe();
    for (const discovery::LocalExporter& e : found_)
      LogInfo("found {} on this machine: {}", e.kind, e.url);
  }
  void Refresh() {
    if (discovery_ != nullptr) discovery_->Refresh();
  }
  const std::vector<discovery::LocalExporter>& found() const { return found_; }
  std::vector<discovery::DiscoveryHealth> Health() const {
    return discovery_ != nullptr ? discovery_->Health() : std::vector<discovery::DiscoveryHealth>{};
  }

 private:
  void Probe() {
    probed_ = MonotonicNow();
    found_ = discovery::FindLocalExporters();
    if (found_.empty()) return;
    discovery::DiscoveryOptions local;
    for (const discovery::LocalExporter& e : found_) local.static_targets.push_back(e.url);
    if (const Status s = Run(std::move(local)); !s.ok())
      LogWarn("cannot scrape the local exporter: {}", std::string(s.message()));
  }
  Status Run(discovery::DiscoveryOptions options) {
    FW_ASSIGN_OR_RETURN(discovery_,
                        discovery::Discovery::Start(std::move(options),
                                                 [this](std::vector<net::ScrapeTarget> targets) {
                                                   scraper_->SetTargets(std::move(targets));
                                                 }));
    return absl::OkStatus();
  }

  discovery::DiscoveryOptions options_;
  net::Scraper* scraper_;
  std::unique_ptr<discovery::Discovery> discovery_;
  std::vector<discovery::LocalExporter> found_;
  Micros probed_ = 0;
};

StatusOr<store::Options> StoreOptionsOf(Context& context) {
  store::Options o;
  FW_ASSIGN_OR_RETURN(o.directory, context.Config("store.directory"));
  FW_ASSIGN_OR_RETURN(const int64_t memory, context.ConfigInteger("store.memory_limit_mb"));
  FW_ASSIGN_OR_RETURN(const int64_t threads, context.ConfigInteger("store.threads"));
  o.memory_limit_mb = static_cast<uint64_t>(memory);
  o.threads = static_cast<int>(threads);
  FW_ASSIGN_OR_RETURN(o.raw_retention, context.ConfigDuration("store.raw_retention"));
  FW_ASSIGN_OR_RETURN(o.minute_retention, context.ConfigDuration("store.minute_retention"));
  FW_ASSIGN_OR_RETURN(o.hour_retention, context.ConfigDuration("store.hour_retention"));
  return o;
}

// Null where the configuration wants none.
StatusOr<std::unique_ptr<uploads::TraceLibrary>> OpenTraces(Context& context,
                                                           const std::string& directory,
                                                           const hardware::Catalog* catalog) {
  uploads::TraceLibraryOptions o;
  o.directory = directory + "/traces";
  o.catalog = catalog;
  FW_ASSIGN_OR_RETURN(const int64_t room, context.ConfigInteger("traces.max_mb"));
  FW_ASSIGN_OR_RETURN(const int64_t upload, context.ConfigInteger("traces.max_upload_mb"));
  FW_ASSIGN_OR_RETURN(const int64_t events, context.ConfigInteger("traces.max_events"));
  FW_ASSIGN_OR_RETURN(o.retention, context.ConfigDuration("traces.retention"));
  if (room == 0) return std::unique_ptr<uploads::TraceLibrary>();
  o.max_bytes = static_cast<uint64_t>(room) << 20;
  o.max_upload_bytes = static_cast<uint64_t>(upload) << 20;
  o.max_events = static_cast<uint64_t>(events);
  return uploads::TraceLibrary::Open(std::move(o));
}

StatusOr<net::ScraperOptions> ScraperOptionsOf(Context& context) {
  net::ScraperOptions o;
  FW_ASSIGN_OR_RETURN(o.interval, context.ConfigDuration("scrape.interval"));
  FW_ASSIGN_OR_RETURN(o.timeout, context.ConfigDuration("scrape.timeout"));
  o.timeout = std::min(o.timeout, std::max(o.interval, kMicrosPerSecond));
  FW_ASSIGN_OR_RETURN(const int64_t body, context.ConfigInteger("scrape.max_body_bytes"));
  FW_ASSIGN_OR_RETURN(const int64_t threads, context.ConfigInteger("scrape.threads"));
  o.max_body_bytes = static_cast<uint64_t>(body);
  // Half of the pipeline's shards belong to pushes.
  o.threads = static_cast<int>(std::min<int64_t>(threads, ingest::kMaxShards / 2));
  return o;
}

StatusOr<discovery::DiscoveryOptions> DiscoveryOptionsOf(Context& context) {
  discovery::DiscoveryOptions o;
  FW_ASSIGN_OR_RETURN(o.static_targets, context.ConfigList("scrape.targets"));
  FW_ASSIGN_OR_RETURN(const std::string file, context.Config("scrape.targets_file"));
  if (!file.empty()) o.target_files = {file};
  FW_ASSIGN_OR_RETURN(o.file_sd, context.ConfigList("scrape.file_sd"));
  FW_ASSIGN_OR_RETURN(o.http_sd, context.ConfigList("scrape.http_sd"));
  return o;
}

std::string Plural(size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

void Banner(Context& context, const ListenAddress& listen, uint16_t port,
            const store::Options& store, const store::StoreStats& stats,
            const net::ScraperOptions& scraper, const Targets& targets, const JobsFile& jobs_file,
            const std::string& jobs_path) {
  const bool remote = !listen.loopback();
  const std::string url = fmt::format("http://{}:{}", listen.ForUrl(), port);
  context.Say(fmt::format("flopwatch {}", FLOPWATCH_VERSION));
  context.Say(
      fmt::format("  address   {}{}", url,
                  remote ? "  (reachable from other machines, without authentication)" : ""));
  std::string data = store.directory;
  if (stats.newest_ts > 0) {
    data += fmt::format(
        "  ({}, samples from {} to {} UTC)",
        HumanCell(static_cast<double>(stats.hot_bytes + stats.sealed_bytes + stats.meta_bytes),
                  ColumnFormat::kBytes),
        Minute(stats.oldest_ts), Minute(stats.newest_ts));
  } else {
    data += "  (new)";
  }
  context.Say("  data      " + data);
  const std::string every = " every " + FormatDuration(scraper.interval);
  if (targets.configured()) {
    std::string first = "  scraping  ";
    for (const discovery::DiscoveryHealth& h : targets.Health()) {
      context.Say(fmt::format("{}{} from {}{}{}", first, Plural(h.targets, "target"), h.source,
                              every, h.error.empty() ? "" : "  (" + h.error + ")"));
      first = "            ";
    }
  } else if (!targets.found().empty()) {
    for (const discovery::LocalExporter& e : targets.found()) {
      context.Say(fmt::format("  scraping  {} found on this machine: {}{}", e.kind, e.url, every));
    }
  } else {
    context.Say(
        "  scraping  nothing: no targets are configured and no exporter answers on this machine "
        "(looking again every 30s).");
    context.Say(
        "            Name some with --target HOST:9400, --targets-file FILE, --file-sd or "
        "--http-sd, or push samples:");
    context.Say(
        fmt::format("            curl --data-binary @metrics.txt {}/api/v1/push/NODE", url));
  }
  if (!jobs_path.empty())
    context.Say(
        fmt::format("  jobs      {} from {}", Plural(jobs_file.count(), "assignment"), jobs_path));
  context.Say(fmt::format("  look      flopwatch top{}", port == 9530 ? "" : " --server " + url));
}

std::string ProgressLine(const ingest::Pipeline& pipeline, const net::Scraper& scraper,
                         const ingest::LiveState& live) {
  const ingest::PipelineStats p = pipeline.stats();
  const std::vector<net::TargetHealth> health = scraper.Health();
  const auto up = std::count_if(health.begin(), health.end(), [](const net::TargetHealth& h) {
    return h.state == net::TargetState::kUp;
  });
  const store::UsageSums fleet = live.Fleet(5 * kMicrosPerMinute);
  std::string out = fmt::format(
      "{} UTC  {} of {} targets up  {} GPUs  {} samples/s  OFU {}", FormatTime(Now()).substr(11, 8),
      up, health.size(), Count(fleet.gpus), Count(p.samples_per_s), Percent(fleet.ofu.Ofu()));
  if (p.dropped_rows > 0)
    out += fmt::format("  {} rows dropped", Count(static_cast<double>(p.dropped_rows)));
  if (!p.last_store_error.empty()) out += "  store: " + Printable(p.last_store_error, 100);
  return out;
}

Status RunServe(Context& context, const ServeOptions& o) {
  SetFlags(context, o);
  FW_ASSIGN_OR_RETURN(const std::string listen_text, context.Config("server.listen"));
  FW_ASSIGN_OR_RETURN(const ListenAddress listen, ListenAddress::Parse(listen_text));
  if (!listen.loopback() && !o.allow_remote) {
    return absl::PermissionDeniedError(
        fmt::format("serve will not listen on {}: other machines could reach it, and it has no "
                    "authentication yet, so that anyone could read "
                    "every job and push samples; listen on {}, put a proxy that asks who is there "
                    "in front of it, or say --allow-remote",
                    listen_text, kDefaultListen));
  }
  FW_ASSIGN_OR_RETURN(const std::string level, context.Config("log.level"));
  if (context.verbosity() <= 0) {
    SetLogLevel(level == "debug"  ? LogLevel::kDebug
                : level == "info" ? LogLevel::kInfo
                : level == "warn" ? LogLevel::kWarn
                                  : LogLevel::kError);
  }
  FW_ASSIGN_OR_RETURN(store::Options store_options, StoreOptionsOf(context));
  store_options.journal_age = store::kServerJournalAge;
  FW_ASSIGN_OR_RETURN(const net::ScraperOptions scraper_options, ScraperOptionsOf(context));
  FW_ASSIGN_OR_RETURN(discovery::DiscoveryOptions discovery_options, DiscoveryOptionsOf(context));
  FW_ASSIGN_OR_RETURN(const std::string jobs_path, context.Config("jobs.static_file"));
  FW_ASSIGN_OR_RETURN(const int64_t http_threads, context.ConfigInteger("server.threads"));
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));

  // Blocked before any thread starts, so that this one alone takes them.
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, s);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  struct Unblock {
    const sigset_t& mask;
    ~Unblock() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } const unblock{before};

  // Built in the order they need each other; torn down in the opposite one: no request, no new
  // target, no scrape, then the last rows are flushed, then the store closes.
  FW_ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> store,
                      store::OpenDuckDbStore(store_options));
  ingest::PipelineOptions pipeline_options;
  pipeline_options.nominal_interval = scraper_options.interval;
  pipeline_options.max_age = store_options.raw_retention;
  FW_ASSIGN_OR_RETURN(const std::unique_ptr<ingest::Pipeline> pipeline,
                      ingest::Pipeline::Start(pipeline_options, &catalog, store.get()));
  JobsFile jobs_file(jobs_path, &pipeline->jobs());
  FW_RETURN_IF_ERROR(Annotate(jobs_file.Load(), "cannot use the jobs file"));
  net::Scraper* scraper_of_callback = nullptr;  // set before the first target is
  FW_ASSIGN_OR_RETURN(std::unique_ptr<net::Scraper> scraper,
                      net::Scraper::Start(
                          scraper_options,
                          [&](const net::ScrapeResult& r) {
                            pipeline->Ingest(r.info->url, r.info->node, r.body, r.started,
                                             r.thread);
                          },
                          [&](uint32_t target, int) {
                            pipeline->Forget(scraper_of_callback->Target(target).url);
                          }));
  scraper_of_callback = scraper.get();
  api::ApiSources parts;
  parts.store = store.get();
  parts.pipeline = pipeline.get();
  parts.scraper = scraper.get();
  parts.catalog = &catalog;
  FW_ASSIGN_OR_RETURN(const std::unique_ptr<uploads::TraceLibrary> traces,
                      OpenTraces(context, store_options.directory, &catalog));
  parts.traces = traces.get();
  parts.version = FLOPWATCH_VERSION;
  parts.loopback_only = listen.loopback();
  FW_ASSIGN_OR_RETURN(const bool page, context.ConfigBool("ui.enabled"));
  if (page) parts.ui = api::ServeUi;
  auto api = std::make_unique<api::Api>(std::move(parts));
  net::ServerOptions server_options;
  server_options.address = listen.host;
  server_options.port = listen.port;
  server_options.threads = static_cast<int>(http_threads);
  FW_ASSIGN_OR_RETURN(std::unique_ptr<net::HttpServer> server,
                      net::HttpServer::Start(
                          server_options, [&](const net::Request& r) { return api->AtOnce(r); },
                          [&](const net::Request& r) { return api->OnWorker(r); },
                          api->Uploads()));
  auto targets = std::make_unique<Targets>(std::move(discovery_options), scraper.get());
  FW_RETURN_IF_ERROR(Annotate(targets->Start(), "cannot use the targets"));
  if (!o.port_file.empty())
    FW_RETURN_IF_ERROR(WriteFileAtomically(o.port_file, fmt::format("{}\n", server->port())));
  targets->WaitForFirstLists();
  Banner(context, listen, server->port(), store_options, store->stats(), scraper_options, *targets,
         jobs_file, jobs_path);

  const bool progress = context.impl()->streams.err_is_terminal && context.verbosity() >= 0;
  Micros shown = MonotonicNow();
  for (;;) {
    const timespec second{1, 0};
    const int signal = sigtimedwait(&signals, nullptr, &second);
    if (signal == SIGINT || signal == SIGTERM) break;
    if (signal == SIGHUP) {
      LogInfo("SIGHUP: reading the lists of targets and jobs again");
      targets->Refresh();
      if (const Status s = jobs_file.Load(); !s.ok()) LogWarn("{}", std::string(s.message()));
    }
    jobs_file.LoadIfChanged();
    targets->Tick();
    if (progress && MonotonicNow() - shown >= kProgressInterval) {
      shown = MonotonicNow();
      context.impl()->streams.err("\r\x1b[K" + ProgressLine(*pipeline, *scraper, pipeline->live()));
    }
  }
  // From here on a second Ctrl-C ends it at once.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  if (progress) context.impl()->streams.err("\r\x1b[K");
  context.Say("stopping: storing what is queued …");
  server.reset();
  api.reset();  // it looks at the scraper between requests too
  targets.reset();
  scraper.reset();
  pipeline->Settle();
  const Status flushed = pipeline->Flush();
  if (!flushed.ok()) return Annotate(flushed, "cannot store the last samples");
  context.Say("stopped; every sample received is stored.");
  return absl::OkStatus();
}

}  // namespace

Args AddServe(Args app, Run* run) {
  Args sub = app.Command("serve", "Collect from exporters and answer: API, page, /metrics");
  auto o = std::make_shared<ServeOptions>();
  const auto list = [](Arg option) { return option.OneWord(); };
  list(
      sub.Option(
             "--target", o->targets,
             "Exporter: HOST, HOST:PORT or URL; gpu[001-128] stands for 128 hosts; may be repeated")
          .Type("TARGET"));
  list(sub.Option("--scrape", o->scrape, "The same, or a file of targets").Type("TARGET|FILE"));
  sub.Option("--targets-file", o->targets_file,
             "TOML file with targets = [...]; read again when it changes")
      .Type("FILE");
  list(sub.Option("--file-sd", o->file_sd, "Prometheus file_sd file or pattern; may be repeated")
           .Type("PATTERN"));
  list(sub.Option("--http-sd", o->http_sd, "Prometheus http_sd URL; may be repeated").Type("URL"));
  sub.Option("--interval", o->interval, "Time between two scrapes of a target (default 10s)")
      .Type("DURATION");
  sub.Option("--timeout", o->timeout, "Time one scrape may take (default 8s, at most the interval)")
      .Type("DURATION");
  sub.Option("--threads", o->threads, "Threads that scrape (default 1: enough for 10,000 targets)")
      .Type("N");
  sub.Option("--jobs-file", o->jobs_file,
             "CSV or TOML: which job owned which GPU when; stronger than labels")
      .Type("FILE");
  sub.Option("--listen", o->listen,
             "Address of the server (default 127.0.0.1:9530; port 0 takes any free one)")
      .Type("HOST:PORT");
  sub.Flag("--allow-remote", o->allow_remote,
           "Listen on an address that other machines reach, without authentication");
  sub.Flag("--no-page", o->no_page, "API and /metrics without the page");
  sub.Option("--port-file", o->port_file, "Write the port that was taken").Type("FILE");
  sub.Footer(
      "Examples:\n"
      "  flopwatch serve                                what runs on this machine\n"
      "  flopwatch serve --target 'gpu[001-128]:9400'\n"
      "  flopwatch serve --targets-file fleet.toml --jobs-file jobs.csv --data-dir "
      "/data/flopwatch\n"
      "  flopwatch serve --http-sd http://discovery.example/gpu-exporters --interval 30s\n"
      "Signals: TERM or INT stores what is queued and stops; HUP reads the lists of targets and "
      "jobs again.");
  *run = [o](Context& context) { return RunServe(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
