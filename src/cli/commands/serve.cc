// flopwatch serve: the server. Exporters in, answers and the page out, until it is told to stop.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "api/host_names.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/commands/commands.h"
#include "cli/commands/listen_address.h"
#include "cli/commands/scrape_tls.h"
#include "cli/commands/site_catalog.h"
#include "cli/commands/site_rules.h"
#include "cli/commands/site_slurm.h"
#include "cli/config.h"
#include "cli/context_impl.h"
#include "cli/terminal.h"
#include "cli/views/style.h"
#include "cli/worker.h"
#include "server/server.h"
#include "store/store.h"

namespace flopwatch::cli {
namespace {

constexpr Micros kProgressInterval = 10 * kMicrosPerSecond;
// The process ends so long after the signal, whatever runs; stopping services waits 10 s or more.
constexpr Micros kStopWithin = 8 * kMicrosPerSecond;
// The start waits so long for discovery's first answer, so that the banner can tell it.
constexpr Micros kFirstListWait = 3 * kMicrosPerSecond;

struct ServeOptions {
  std::string listen, targets_file, jobs_file, interval, timeout, port_file;
  std::vector<std::string> targets, scrape, file_sd, http_sd;
  std::string threads;
  std::vector<std::string> host_names, alertmanagers, webhooks;
  std::string alert_rules, external_url;
  bool allow_remote = false, no_page = false, slurm = false;
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
  set("alerts.rules_file", o.alert_rules, "--alert-rules");
  set("alerts.external_url", o.external_url, "--external-url");
  if (!o.alertmanagers.empty())
    context.SetFlag("alerts.alertmanager", o.alertmanagers, "--alertmanager");
  if (!o.webhooks.empty()) context.SetFlag("alerts.webhook", o.webhooks, "--alert-webhook");
  if (o.no_page) set("ui.enabled", "false", "--no-page");
  if (o.slurm) set("slurm.enabled", "true", "--slurm");
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
  if (!o.host_names.empty()) context.SetFlag("server.hosts", o.host_names, "--host-name");
  if (!o.file_sd.empty()) context.SetFlag("scrape.file_sd", o.file_sd, "--file-sd");
  if (!o.http_sd.empty()) context.SetFlag("scrape.http_sd", o.http_sd, "--http-sd");
}

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

// There are no options where the configuration wants no library of traces.
StatusOr<std::optional<uploads::TraceLibraryOptions>> TraceOptionsOf(Context& context,
                                                                     const std::string& directory) {
  uploads::TraceLibraryOptions o;
  o.directory = directory + "/traces";
  FW_ASSIGN_OR_RETURN(const int64_t room, context.ConfigInteger("traces.max_mb"));
  FW_ASSIGN_OR_RETURN(const int64_t upload, context.ConfigInteger("traces.max_upload_mb"));
  FW_ASSIGN_OR_RETURN(const int64_t events, context.ConfigInteger("traces.max_events"));
  FW_ASSIGN_OR_RETURN(o.retention, context.ConfigDuration("traces.retention"));
  if (room == 0) return std::nullopt;
  o.max_bytes = static_cast<uint64_t>(room) << 20;
  o.max_upload_bytes = static_cast<uint64_t>(upload) << 20;
  o.limits.max_events = static_cast<uint64_t>(events);
  FW_ASSIGN_OR_RETURN(const int64_t memory, context.ConfigInteger("traces.max_memory_mb"));
  o.limits.max_memory_bytes = static_cast<uint64_t>(memory) << 20;
  o.worker = WorkerCommand("trace");
  FW_ASSIGN_OR_RETURN(o.catalog_overrides, SiteCatalogText(context));
  return o;
}

StatusOr<net::ScraperOptions> ScraperOptionsOf(Context& context) {
  net::ScraperOptions o;
  FW_ASSIGN_OR_RETURN(o.tls, ScrapeTlsOf(context));
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
  FW_ASSIGN_OR_RETURN(o.tls, ScrapeTlsOf(context));
  return o;
}

std::string Plural(size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string DataLine(const std::string& directory, const store::StoreStats& stats) {
  if (stats.newest_ts <= 0) return directory + "  (new)";
  const auto bytes = static_cast<double>(stats.hot_bytes + stats.sealed_bytes + stats.meta_bytes);
  return fmt::format("{}  ({}, samples from {} to {} UTC)", directory,
                     HumanCell(bytes, ColumnFormat::kBytes), Minute(stats.oldest_ts),
                     Minute(stats.newest_ts));
}

void SayTargets(Context& context, const std::vector<discovery::DiscoveryHealth>& lists,
                Micros interval, const std::string& url) {
  const std::string every = " every " + FormatDuration(interval);
  std::string first = "  scraping  ";
  for (const discovery::DiscoveryHealth& h : lists) {
    for (const discovery::LocalExporter& e : h.local) {
      context.Say(fmt::format("{}{} found on this machine: {}{}", first, e.kind, e.url, every));
    }
    if (h.source == discovery::kLocal) {
      if (!h.local.empty()) continue;
      context.Say(
          "  scraping  nothing: no targets are configured and no exporter answers on this machine "
          "(looking again every 30s).");
      context.Say(
          "            Name some with --target HOST:9400, --targets-file FILE, --file-sd or "
          "--http-sd, or push samples:");
      context.Say(
          fmt::format("            curl --data-binary @metrics.txt {}/api/v1/push/NODE", url));
      continue;
    }
    context.Say(fmt::format("{}{} from {}{}{}", first, Plural(h.targets, "target"), h.source, every,
                            h.error.empty() ? "" : "  (" + h.error + ")"));
    first = "            ";
  }
}

void Banner(Context& context, const ListenAddress& listen, const server::Server& server,
            const server::ServerOptions& options) {
  const std::string url = fmt::format("http://{}:{}", listen.ForUrl(), server.port());
  context.Say(fmt::format("flopwatch {}", FLOPWATCH_VERSION));
  context.Say(fmt::format(
      "  address   {}{}", url,
      listen.loopback() ? "" : "  (reachable from other machines, without authentication)"));
  context.Say("  data      " + DataLine(options.store.directory, server.StoreNow()));
  SayTargets(context, server.TargetLists(), options.scraper.interval, url);
  if (!options.jobs_file.empty()) {
    context.Say(fmt::format("  jobs      {} from {}",
                            Plural(server.job_assignments(), "assignment"), options.jobs_file));
  }
  if (options.slurm) context.Say("  slurm     asked every " + FormatDuration(options.slurm->poll));
  context.Say(
      fmt::format("  look      flopwatch top{}", server.port() == 9530 ? "" : " --server " + url));
}

std::string ProgressLine(const server::Progress& p) {
  std::string out =
      fmt::format("{} UTC  {} of {} targets up  {} GPUs  {} samples/s  OFU {}",
                  FormatTime(Now()).substr(11, 8), p.targets_up, p.targets, Count(p.fleet.gpus),
                  Count(p.ingest.samples_per_s), Percent(p.fleet.ofu.Ofu()));
  if (p.ingest.dropped_rows > 0)
    out += fmt::format("  {} rows dropped", Count(p.ingest.dropped_rows));
  if (!p.ingest.last_store_error.empty())
    out += "  store: " + Printable(p.ingest.last_store_error, 100);
  return out;
}

Status SetLogLevelOf(Context& context) {
  FW_ASSIGN_OR_RETURN(const std::string level, context.Config("log.level"));
  if (context.verbosity() > 0) return absl::OkStatus();
  SetLogLevel(level == "debug"  ? LogLevel::kDebug
              : level == "info" ? LogLevel::kInfo
              : level == "warn" ? LogLevel::kWarn
                                : LogLevel::kError);
  return absl::OkStatus();
}

// Nullopt: the configuration names no way for mail.
StatusOr<std::optional<alerts::ReceiverOptions>> MailOptionsOf(Context& context) {
  alerts::ReceiverOptions o{.kind = "mail"};
  alerts::MailOptions& mail = o.mail;
  FW_ASSIGN_OR_RETURN(o.url, context.Config("alerts.mail"));
  if (o.url.empty()) return std::nullopt;
  FW_ASSIGN_OR_RETURN(mail.from, context.Config("alerts.mail_from"));
  FW_ASSIGN_OR_RETURN(mail.operators, context.Config("alerts.mail_operators"));
  FW_ASSIGN_OR_RETURN(mail.domain, context.Config("alerts.mail_domain"));
  FW_ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                      context.ConfigList("alerts.mail_addresses"));
  for (const std::string& one : addresses) {
    const size_t at = one.find('=');
    if (at == std::string::npos || at == 0)
      return InvalidArgument(
          "cannot use alerts.mail_addresses: \"{}\" is not USER=ADDRESS; write for example "
          "ann=ann.smith@example.org",
          Printable(one, 100));
    if (!mail.addresses.emplace(one.substr(0, at), one.substr(at + 1)).second)
      return InvalidArgument("cannot use alerts.mail_addresses: {} is there twice",
                             Printable(one.substr(0, at), 100));
  }
  FW_ASSIGN_OR_RETURN(const std::string pages, context.Config("alerts.mail_pages"));
  mail.pages_at_once = pages == "now";
  FW_ASSIGN_OR_RETURN(const int64_t hour, context.ConfigInteger("alerts.mail_digest_hour"));
  mail.digest_hour = static_cast<int>(hour);
  FW_ASSIGN_OR_RETURN(const std::string zone, context.Config("server.time_zone"));
  if (!zone.empty()) mail.time_zone = zone;
  FW_ASSIGN_OR_RETURN(mail.starttls, context.Config("alerts.mail_starttls"));
  FW_ASSIGN_OR_RETURN(o.ca_file, context.Config("alerts.mail_ca_file"));
  FW_ASSIGN_OR_RETURN(const std::string login_file, context.Config("alerts.mail_login_file"));
  if (!login_file.empty()) {
    FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(login_file, 64 << 10));
    std::string line[2];
    std::istringstream lines(text);
    for (std::string& one : line) {
      std::getline(lines, one);
      if (one.ends_with('\r')) one.pop_back();
    }
    if (line[0].empty() || line[1].empty())
      return InvalidArgument(
          "cannot use alerts.mail_login_file: {} must have the user in its first line and the "
          "password in its second",
          Printable(login_file, 200));
    mail.user = line[0];
    mail.password = line[1];
  }
  return o;
}

// There are none where the configuration wants no alerts.
StatusOr<std::optional<alerts::ServiceOptions>> AlertOptionsOf(Context& context) {
  alerts::ServiceOptions o;
  FW_ASSIGN_OR_RETURN(const bool enabled, context.ConfigBool("alerts.enabled"));
  if (!enabled) return std::nullopt;
  FW_ASSIGN_OR_RETURN(o.rules, SiteRules(context));
  FW_ASSIGN_OR_RETURN(o.interval, context.ConfigDuration("alerts.interval"));
  FW_ASSIGN_OR_RETURN(o.engine.grace, context.ConfigDuration("alerts.grace"));
  FW_ASSIGN_OR_RETURN(o.engine.external_url, context.Config("alerts.external_url"));
  FW_ASSIGN_OR_RETURN(const std::string token_file, context.Config("alerts.token_file"));
  std::vector<std::pair<std::string, std::string>> token;
  if (!token_file.empty()) {
    FW_ASSIGN_OR_RETURN(std::string text, ReadFile(token_file, 64 << 10));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    token.emplace_back("Authorization", "Bearer " + text);
  }
  FW_ASSIGN_OR_RETURN(const std::string least, context.Config("alerts.least"));
  const auto* const at = std::ranges::find(alerts::kSeverityNames, least);
  for (const std::string_view kind : {"alertmanager", "webhook", "slack"}) {
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> urls,
                        context.ConfigList(fmt::format("alerts.{}", kind)));
    for (const std::string& url : urls) {
      alerts::ReceiverOptions receiver{
          .kind = std::string(kind),
          .url = url,
          .least = static_cast<alerts::Severity>(at - std::begin(alerts::kSeverityNames))};
      if (kind != "slack") receiver.headers = token;
      FW_RETURN_IF_ERROR(alerts::MakeReceiver(receiver).status());  // before anything begins
      o.receivers.push_back(std::move(receiver));
    }
  }
  FW_ASSIGN_OR_RETURN(std::optional<alerts::ReceiverOptions> mail, MailOptionsOf(context));
  if (mail) {
    mail->least = static_cast<alerts::Severity>(at - std::begin(alerts::kSeverityNames));
    FW_RETURN_IF_ERROR(alerts::MakeReceiver(*mail).status());
    o.receivers.push_back(*std::move(mail));
  }
  return o;
}

StatusOr<server::ServerOptions> ServerOptionsOf(Context& context, const ListenAddress& listen) {
  server::ServerOptions o;
  o.version = FLOPWATCH_VERSION;
  o.http.address = listen.host;
  o.http.port = listen.port;
  o.loopback_only = listen.loopback();
  FW_ASSIGN_OR_RETURN(o.host_names, context.ConfigList("server.hosts"));
  for (const std::string& name : o.host_names) FW_RETURN_IF_ERROR(api::HostNames::Valid(name));
  FW_ASSIGN_OR_RETURN(o.store, StoreOptionsOf(context));
  o.store.journal_age = store::kServerJournalAge;
  FW_ASSIGN_OR_RETURN(o.scraper, ScraperOptionsOf(context));
  FW_ASSIGN_OR_RETURN(o.targets, DiscoveryOptionsOf(context));
  FW_ASSIGN_OR_RETURN(o.jobs_file, context.Config("jobs.static_file"));
  FW_ASSIGN_OR_RETURN(o.slurm, SiteSlurm(context));
  FW_ASSIGN_OR_RETURN(const int64_t http_threads, context.ConfigInteger("server.threads"));
  o.http.threads = static_cast<int>(http_threads);
  FW_ASSIGN_OR_RETURN(o.catalog, SiteCatalog(context));
  FW_ASSIGN_OR_RETURN(o.prices, SitePrices(context, o.catalog));
  FW_ASSIGN_OR_RETURN(const std::string hosts, context.Config("inventory.file"));
  FW_ASSIGN_OR_RETURN(o.inventory, SiteInventory(hosts));
  FW_ASSIGN_OR_RETURN(o.traces, TraceOptionsOf(context, o.store.directory));
  o.sql.program = WorkerCommand("sql");
  FW_ASSIGN_OR_RETURN(o.sql.timeout, context.ConfigDuration("sql.timeout"));
  FW_ASSIGN_OR_RETURN(const int64_t sql_memory, context.ConfigInteger("sql.max_memory_mb"));
  o.sql.memory_mb = static_cast<uint64_t>(sql_memory);
  FW_ASSIGN_OR_RETURN(const int64_t sql_processes, context.ConfigInteger("sql.processes"));
  o.http.apart_workers = static_cast<int>(sql_processes);
  FW_ASSIGN_OR_RETURN(o.alerting, AlertOptionsOf(context));
  FW_ASSIGN_OR_RETURN(o.page, context.ConfigBool("ui.enabled"));
  return o;
}

// Blocked before the first thread starts, so that the thread that waits for them takes them.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&signals_);
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, s);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  // The signal that came within a second, else -1.
  int Wait() const {
    const timespec second{1, 0};
    return sigtimedwait(&signals_, nullptr, &second);
  }
  void Unblock() const { pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr); }

 private:
  sigset_t signals_, before_;
};

// This waits for TERM or INT.
void Watch(Context& context, const BlockedSignals& signals, server::Server& server) {
  const bool progress = context.impl()->streams.err_is_terminal && context.verbosity() >= 0;
  Micros shown = MonotonicNow();
  for (;;) {
    const int signal = signals.Wait();
    if (signal == SIGINT || signal == SIGTERM) break;
    if (signal == SIGHUP) {
      LogInfo("SIGHUP: reading the lists of targets and jobs again");
      if (const Status s = server.Reload(); !s.ok()) LogWarn("{}", std::string(s.message()));
    }
    if (progress && MonotonicNow() - shown >= kProgressInterval) {
      shown = MonotonicNow();
      context.impl()->streams.err("\r\x1b[K" + ProgressLine(server.ProgressNow()));
    }
  }
  if (progress) context.impl()->streams.err("\r\x1b[K");
}

// Whether it can be written is known before the server is there.
Status CheckPortFile(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  if (access(folder.c_str(), W_OK) == 0) return absl::OkStatus();
  return FailedPrecondition(
      "cannot write the port to {}: {} is no folder that can be written to; name another with "
      "--port-file",
      path, folder);
}

Status RunServe(Context& context, const ServeOptions& o) {
  SetFlags(context, o);
  FW_ASSIGN_OR_RETURN(const std::string listen_text, context.Config("server.listen"));
  FW_ASSIGN_OR_RETURN(const ListenAddress listen, ListenAddress::Parse(listen_text));
  if (!listen.loopback() && !o.allow_remote) {
    return PermissionDenied(
        "serve will not listen on {}: other machines could reach it, and it has no authentication "
        "yet, so that anyone could read every job and push samples; listen on {}, put a proxy that "
        "asks who is there in front of it, or say --allow-remote",
        listen_text, kDefaultListen);
  }
  FW_RETURN_IF_ERROR(SetLogLevelOf(context));
  FW_RETURN_IF_ERROR(CheckPortFile(o.port_file));
  FW_ASSIGN_OR_RETURN(const server::ServerOptions options, ServerOptionsOf(context, listen));
  const BlockedSignals signals;
  FW_ASSIGN_OR_RETURN(const std::unique_ptr<server::Server> server, server::Server::Start(options));
  if (!o.port_file.empty())
    FW_RETURN_IF_ERROR(WriteFileAtomically(o.port_file, fmt::format("{}\n", server->port())));
  server->WaitForFirstLists(kFirstListWait);
  Banner(context, listen, *server, options);
  Watch(context, signals, *server);
  signals.Unblock();  // a second Ctrl-C ends it at once
  context.Say("stopping: storing what is queued …");
  const server::Stopped stopped = server->StopWithin(kStopWithin);
  if (!stopped.all_ended) {
    // Everything received is stored, or it cannot be. What still runs uses the server's parts, so
    // that nothing may be taken apart below it.
    LogWarn("something still runs {} after the signal, and is left behind: {}",
            FormatDuration(kStopWithin),
            stopped.stored.ok() ? "every sample received is stored"
                                : std::string(stopped.stored.message()));
    std::fflush(nullptr);
    _exit(stopped.stored.ok() ? 0 : static_cast<int>(ExitCodeFor(stopped.stored)));
  }
  FW_RETURN_IF_ERROR(stopped.stored);
  context.Say("stopped; every sample received is stored.");
  return absl::OkStatus();
}

}  // namespace

Args AddServe(Args app, Run* run) {
  Args sub = app.Command("serve", "Collect from exporters and answer: API, page, /metrics");
  auto o = std::make_shared<ServeOptions>();
  const auto list = [](Arg option) { return option.OneWord(); };
  list(sub.Option(
      "--target TARGET", o->targets,
      "Exporter: HOST, HOST:PORT or URL; gpu[001-128] stands for 128 hosts; may be repeated"));
  list(sub.Option("--scrape TARGET|FILE", o->scrape, "The same, or a file of targets"));
  sub.Option("--targets-file FILE", o->targets_file,
             "TOML file with targets = [...]; read again when it changes");
  list(sub.Option("--file-sd PATTERN", o->file_sd,
                  "Prometheus file_sd file or pattern; may be repeated"));
  list(sub.Option("--http-sd URL", o->http_sd, "Prometheus http_sd URL; may be repeated"));
  sub.Option("--interval DURATION", o->interval,
             "Time between two scrapes of a target (default 10s)");
  sub.Option("--timeout DURATION", o->timeout,
             "Time one scrape may take (default 8s, at most the interval)");
  sub.Option("--threads N", o->threads,
             "Threads that scrape (default 1: enough for 10,000 targets)");
  sub.Option("--jobs-file FILE", o->jobs_file,
             "CSV or TOML: which job owned which GPU when; stronger than labels");
  sub.Flag("--slurm", o->slurm,
           "Ask Slurm who runs where: scontrol, and accounting where the site keeps one");
  sub.Option("--listen HOST:PORT", o->listen,
             "Address of the server (default 127.0.0.1:9530; port 0 takes any free one)");
  sub.Flag("--allow-remote", o->allow_remote,
           "Listen on an address that other machines reach, without authentication");
  list(sub.Option("--host-name NAME", o->host_names,
                  "Answer requests for this host name too, besides addresses and this machine's "
                  "own names; may be repeated"));
  sub.Option("--alert-rules FILE", o->alert_rules,
             "TOML file with own rules, and changes of those that are shipped (docs/alerts.md)");
  list(sub.Option("--alertmanager URL", o->alertmanagers,
                  "Send alerts to this Prometheus Alertmanager; may be repeated"));
  list(sub.Option("--alert-webhook URL", o->webhooks,
                  "POST each alert that fires or ends to this URL; may be repeated"));
  sub.Option("--external-url URL", o->external_url,
             "How people reach the page: links in alerts begin with it");
  sub.Flag("--no-page", o->no_page, "API and /metrics without the page");
  sub.Option("--port-file FILE", o->port_file, "Write the port that was taken");
  sub.Footer(
      "Examples:\n"
      "  flopwatch serve                                what runs on this machine\n"
      "  flopwatch serve --target 'gpu[001-128]:9400'\n"
      "  flopwatch serve --targets-file fleet.toml --jobs-file jobs.csv --data-dir "
      "/data/flopwatch\n"
      "  flopwatch serve --target 'gpu[001-128]:9400' --slurm\n"
      "  flopwatch serve --http-sd http://discovery.example/gpu-exporters --interval 30s\n"
      "Signals: TERM or INT stores what is queued and stops; HUP reads the lists of targets and "
      "jobs again.");
  *run = [o](Context& context) { return RunServe(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
