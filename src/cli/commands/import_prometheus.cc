// flopwatch import prometheus URL: the past of a fleet out of anything with Prometheus' API, or out
// of a data folder of Prometheus (--tsdb).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/file.h"
#include "base/table.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/api_client.h"
#include "cli/commands/import.h"
#include "cli/commands/site_catalog.h"
#include "cli/context_impl.h"
#include "cli/views/style.h"
#include "history/importer.h"
#include "history/server_taker.h"
#include "history/store_taker.h"
#include "net/http.h"

namespace flopwatch::cli {
namespace {

using history::FirstLook;
using history::ImportResult;

constexpr uint64_t kMaxSecretBytes = 64 << 10;

struct PrometheusImport {
  std::string url, tsdb, into, last, from, to, way = "auto", bearer_file, user, password_file, ca,
                                               cert, key, pause;
  std::vector<std::string> match, headers, replica_labels;
  int parallel = 1, parts = 1;
  bool dry_run = false;
};

// The first line of a file: a token, a password.
StatusOr<std::string> SecretIn(const std::string& file) {
  FW_ASSIGN_OR_RETURN(std::string text, ReadFile(file, kMaxSecretBytes));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty()) return InvalidArgument("{}: its first line is empty", Printable(file));
  return text;
}

// Where no file is named: what does not belong into a command line either.
constexpr const char* kTokenVariable = "FLOPWATCH_PROMETHEUS_TOKEN";
constexpr const char* kPasswordVariable = "FLOPWATCH_PROMETHEUS_PASSWORD";

StatusOr<std::string> SecretOf(Context& context, const std::string& file, const char* variable) {
  if (!file.empty()) return SecretIn(file);
  std::string text = context.impl()->streams.getenv(variable).value_or("");
  if (text.find_first_of("\r\n") != std::string::npos)
    return InvalidArgument("{}: it has several lines", variable);
  return text;
}

// A folder has no server that would want to know who asks.
StatusOr<history::Access> AccessOfFolder(const PrometheusImport& o) {
  if (!o.bearer_file.empty() || !o.user.empty() || !o.password_file.empty() || !o.headers.empty() ||
      !o.ca.empty() || !o.cert.empty() || !o.key.empty() || !o.pause.empty() || o.parallel != 1 ||
      o.parts != 1 || o.way != "auto")
    return InvalidArgument(
        "--tsdb reads files: --way, --bearer-token-file, --user, --password-file, --header, --ca, "
        "--cert, --key, --pause, --parts and --parallel are for a server");
  return history::Access{.tsdb = o.tsdb};
}

StatusOr<history::Access> AccessOf(Context& context, const PrometheusImport& o) {
  if (o.url.empty() == o.tsdb.empty())
    return InvalidArgument(
        "say where from: the URL of a server, or --tsdb DIR, a data folder or snapshot of "
        "Prometheus; one of them");
  if (!o.tsdb.empty()) return AccessOfFolder(o);
  history::Access access;
  access.url = o.url;
  while (access.url.ends_with('/')) access.url.pop_back();
  if (access.url.find("://") == std::string::npos) access.url = "http://" + access.url;
  if (access.url.find('@') != std::string::npos)
    return InvalidArgument(
        "a name and a password do not belong into the URL, where logs show them; give --user and "
        "--password-file");
  access.tls = {.ca = o.ca, .cert = o.cert, .key = o.key};
  if (o.cert.empty() != o.key.empty())
    return InvalidArgument("--cert and --key belong together: a certificate and its key");
  if (o.user.empty()) {
    FW_ASSIGN_OR_RETURN(const std::string token, SecretOf(context, o.bearer_file, kTokenVariable));
    if (!token.empty()) access.headers.emplace_back("Authorization", "Bearer " + token);
  }
  if (!o.user.empty() || !o.password_file.empty()) {
    FW_ASSIGN_OR_RETURN(const std::string password,
                        SecretOf(context, o.password_file, kPasswordVariable));
    if (o.user.empty() || password.empty() || !o.bearer_file.empty())
      return InvalidArgument(
          "--user and --password-file (or {}) belong together, and not to --bearer-token-file",
          kPasswordVariable);
    access.headers.emplace_back("Authorization",
                                "Basic " + absl::Base64Escape(o.user + ":" + password));
  }
  for (const std::string& header : o.headers) {
    const size_t colon = header.find(':');
    if (colon == std::string::npos || colon == 0 ||
        header.find_first_of("\r\n") != std::string::npos)
      return InvalidArgument("--header '{}': write NAME: VALUE", Printable(header, 40));
    access.headers.emplace_back(
        header.substr(0, colon),
        std::string(absl::StripAsciiWhitespace(absl::string_view(header).substr(colon + 1))));
  }
  if (!o.pause.empty()) {
    FW_ASSIGN_OR_RETURN(access.pause, ParseDuration(o.pause));
  }
  return access;
}

StatusOr<store::Window> WindowOf(const PrometheusImport& o) {
  const Micros now = Now();
  store::Window window{now - 14 * kMicrosPerDay, now};
  if (!o.tsdb.empty() && o.last.empty() && (o.from.empty() || o.to.empty())) {
    // All of it: files do not go on while they are read.
    FW_ASSIGN_OR_RETURN(const store::Window all, history::TsdbWindow(o.tsdb));
    if (o.to.empty()) window.to = all.to;
    window.from = all.from;
  }
  if (!o.to.empty()) {
    FW_ASSIGN_OR_RETURN(window.to, ParseTime(o.to, now));
    if (o.tsdb.empty()) window.from = window.to - 14 * kMicrosPerDay;
  }
  if (!o.last.empty()) {
    FW_ASSIGN_OR_RETURN(const Micros last, ParseDuration(o.last));
    window.from = window.to - last;
  }
  if (!o.from.empty()) {
    FW_ASSIGN_OR_RETURN(window.from, ParseTime(o.from, now));
  }
  window.from = FloorTo(window.from, kMicrosPerMilli);
  window.to = FloorTo(window.to, kMicrosPerMilli);
  return window;
}

StatusOr<history::ImportOptions> OptionsOf(Context& context, const PrometheusImport& o) {
  history::ImportOptions options;
  FW_ASSIGN_OR_RETURN(options.access, AccessOf(context, o));
  FW_ASSIGN_OR_RETURN(options.window, WindowOf(o));
  options.way = o.way;
  options.parallel = o.parallel;
  options.parts = o.parts;
  options.taking.replica_labels = o.replica_labels;
  for (const std::string& match : o.match) {
    auto matchers = history::ParseMatchers(match);
    if (!matchers.ok()) return Annotate(matchers.status(), "--match");
    options.matchers.push_back(*std::move(matchers));
  }
  return options;
}

std::string WholeSeconds(double seconds) {
  return FormatDuration(static_cast<Micros>(std::ceil(seconds)) * kMicrosPerSecond);
}

std::string Listed(const std::map<std::string, uint64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto& [name, n] : counts)
    parts.push_back(
        fmt::format("{} {}", Count(n), name.empty() ? "(no model)" : Printable(name, 60)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// What the counters need for OFU and are not there.
std::string_view RemedyOf(std::string_view reason) {
  if (reason == "tensor_missing")
    return "collect DCGM_FI_PROF_PIPE_TENSOR_ACTIVE (dcgm-exporter's counters file)";
  if (reason == "clock_missing")
    return "collect DCGM_FI_DEV_SM_CLOCK (dcgm-exporter's counters file)";
  if (reason == "model_unknown")
    return "name the GPU's peak in the configuration ([[hardware]], docs/hardware.md)";
  return "readings above what is possible: docs/ofu.md";
}

Table LookTable(const FirstLook& look, store::Window window) {
  const double whole = ToSeconds(window.to - window.from);
  const double part = ToSeconds(look.looked_at.to - look.looked_at.from);
  const double times = part > 0 ? whole / part : 0;
  Table t;
  t.columns = {{"what", "WHAT"}, {"value", "VALUE"}, {"about", "ABOUT"}};
  const auto add = [&](std::string_view what, std::string value, std::string about) {
    t.rows.push_back({std::string(what), std::move(value), std::move(about)});
  };
  const auto count = [](double n) { return Count(n); };
  add("way", look.way,
      look.way == history::kTsdbWay ? "files of a data folder, without a server"
                                    : "the cheapest that the server offers");
  add("metrics", count(static_cast<double>(look.metrics.size())),
      fmt::format("of GPUs; {} others are left", look.other_metrics));
  add("GPUs", count(static_cast<double>(look.gpus)), Listed(look.models));
  std::string named = "labels";
  for (const std::string& metric : look.owner_metrics) named += ", " + metric;
  add("jobs", count(static_cast<double>(look.jobs)),
      fmt::format("in the last ten minutes; named by {}", named));
  add("samples", count(static_cast<double>(look.samples) * times),
      fmt::format("about, in {}", FormatDuration(window.to - window.from)));
  add("time", WholeSeconds(look.seconds * times), "about, with storing somewhat more");
  add("bytes", fmt::format("{} MB", count(static_cast<double>(look.samples) * times * 2.1 / 1e6)),
      "about, on the disk");
  for (const auto& [reason, gpus] : look.not_computable)
    add("without OFU", count(static_cast<double>(gpus)),
        fmt::format("GPUs: {}; {}", reason, RemedyOf(reason)));
  for (const auto& [reason, lines] : look.refused)
    add("refused", count(static_cast<double>(lines)), fmt::format("samples: {}", reason));
  return t;
}

// What of the window is not there because it could not be read, and that the command did not do
// all.
void SayUnread(Context& context, const history::Unread& unread, store::Window window) {
  Micros time = 0;
  for (const store::Window& w : unread.windows)
    time += std::max<Micros>(std::min(w.to, window.to) - std::max(w.from, window.from), 0);
  for (const std::string& note : unread.notes) context.Say(note);
  for (const auto& [reason, n] : unread.skipped)
    context.Say(fmt::format("left out: {} blocks, {}", n, reason));
  for (const auto& [reason, n] : unread.reasons)
    context.Say(fmt::format("damaged: {} ({} of these)", reason, Count(n)));
  if (time == 0 && unread.timeless == 0) return;
  context.SetExitCode(ExitCode::kPartial);
  context.Say(fmt::format(
      "{} of the window cannot be read: nothing is taken of that time, which is unobserved{}; the "
      "same command on a whole copy adds it",
      FormatDuration(time),
      unread.timeless > 0 ? fmt::format(", and {} blocks say no time", unread.timeless) : ""));
}

// What becomes of rows that are older than a server keeps them. Nothing is deleted here.
void SayRetention(Context& context, bool into_server, store::Window window,
                  const store::Options& kept) {
  const Micros age = Now() - window.from;
  if (into_server) {  // how long it keeps what is its own matter
    context.Say(
        "rows older than the server keeps raw ones (its store.raw_retention) go at its next look; "
        "their sums stay");
    return;
  }
  if (age <= kept.raw_retention) return;
  std::string_view stays = "by minute";
  if (age > kept.minute_retention) stays = "by hour";
  context.Say(fmt::format(
      "older than {} (store.raw_retention here): a server that has the directory drops the raw "
      "rows; "
      "sums {} stay, for {}",
      FormatDuration(kept.raw_retention), stays,
      FormatDuration(age > kept.minute_retention ? kept.hour_retention : kept.minute_retention)));
}

void SayResult(Context& context, const ImportResult& r, const PrometheusImport& o,
               store::Window window, const store::Options& to) {
  context.Say(fmt::format("{} samples of {} metrics by {}: {} rows new{}; {} {}, {} MB read",
                          Count(r.samples), r.metrics, r.way, Count(r.rows),
                          r.known > 0 ? fmt::format(", {} were there already", Count(r.known)) : "",
                          Count(r.requests), o.tsdb.empty() ? "requests" : "blocks",
                          r.bytes / 1'000'000));
  for (const auto& [reason, n] : r.refused)
    context.Say(fmt::format("refused: {} {}", Count(n), reason));
  for (const std::string& line : r.examples) context.Say("  " + line);
  if (r.unnamed > 0)
    context.Say(fmt::format(
        "{} series name no exporter (no instance, Hostname or node label) and are left out",
        r.unnamed));
  SayRetention(context, o.into.empty(), window, to);
  context.Say(o.into.empty() ? "now: flopwatch report --server " + context.impl()->global.server
                             : "now: flopwatch report --data-dir " + Printable(o.into));
}

Status RunImportPrometheus(Context& context, const PrometheusImport& o) {
  FW_ASSIGN_OR_RETURN(history::ImportOptions options, OptionsOf(context, o));
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  if (o.dry_run) {
    FW_ASSIGN_OR_RETURN(const FirstLook look, history::LookAt(options, catalog));
    SayUnread(context, look.unread, options.window);
    return context.Write(LookTable(look, options.window));
  }
  const std::string& server = context.impl()->global.server;
  if (o.into.empty() == server.empty())
    return InvalidArgument(
        "say where to: --into DIR, a data directory (made where there is none), --server URL, the "
        "flopwatch server that has one, or --dry-run for a first look");
  const Micros begin = MonotonicNow();
  Micros said = 0;
  options.progress = [&](const history::ImportProgress& p) {
    const Micros now = MonotonicNow();
    if (now - said < 2 * kMicrosPerSecond && p.done < p.all.to) return;
    said = now;
    const double share = p.share, spent = ToSeconds(now - begin);
    context.Say(fmt::format(
        "{:3.0f} %  until {}  {} samples, {} a second, {} left", share * 100, FormatTime(p.done),
        Count(p.samples),
        Count(static_cast<int64_t>(static_cast<double>(p.samples) / std::max(spent, 1e-3))),
        WholeSeconds(spent * (1 - share) / std::max(share, 1e-6))));
  };
  StatusOr<ImportResult> result = ImportResult();
  FW_ASSIGN_OR_RETURN(const store::Options to, StoreOptionsOf(context, o.into));
  if (server.empty()) {
    result = history::ImportInto(to, options, catalog);
  } else {
    // What ends later may still come in live there.
    const Micros latest = FloorTo(Now() - 2 * history::kLiveReach, kMicrosPerMinute);
    if (options.window.to > latest) {
      options.window.to = latest;
      context.Say(fmt::format("until {}: what is later, the server may still be told of live",
                              FormatTime(latest)));
    }
    history::ServerTaker taker(options.taking, {.url = ServerUrl(server)});
    result = history::Import(options, [&]() -> StatusOr<history::Taker*> { return &taker; });
  }
  FW_RETURN_IF_ERROR(result.status());
  SayUnread(context, result->unread, options.window);
  SayResult(context, *result, o, options.window, to);
  return absl::OkStatus();
}

}  // namespace

Args AddImportPrometheus(Args app, Run* run) {
  Args sub = app.Command("prometheus", "The past of a fleet out of anything with Prometheus' API");
  auto o = std::make_shared<PrometheusImport>();
  sub.Option(
      "url URL", o->url,
      "Prometheus, VictoriaMetrics, Mimir, Thanos or a proxy of one, with the tenant's path");
  sub.Option("--tsdb DIR", o->tsdb,
             "Instead of a URL: Prometheus' data folder or a snapshot of it, read without a server")
      .OneWord();
  sub.Option("--into DIR", o->into, "Store into this data directory, made where there is none")
      .OneWord();
  sub.Flag("--dry-run", o->dry_run, "Say what is there, how long it takes and what OFU lacks");
  sub.Option("--last DURATION", o->last, "So much of the past (14d; with --tsdb all that is there)")
      .OneWord();
  sub.Option("--from TIME", o->from, "From then on, as in other commands").OneWord();
  sub.Option("--to TIME", o->to, "Until then (now)").OneWord();
  sub.Option("--match MATCHERS", o->match,
             "Only series with these labels: 'cluster=\"a\"'; several "
             "add up")
      .OneWord();
  sub.Option("--way WAY", o->way, "auto is the cheapest that the server has")
      .OneOf({"auto", "remote_read", "export", "query"})
      .OneWord();
  sub.Option("--replica-label LABEL", o->replica_labels,
             "A label that tells replicas of one Prometheus apart, besides prometheus_replica and "
             "replica")
      .OneWord();
  sub.Option("--bearer-token-file FILE", o->bearer_file,
             "Its first line is the token; else FLOPWATCH_PROMETHEUS_TOKEN, where it is set")
      .OneWord();
  sub.Option("--user NAME", o->user, "With --password-file").OneWord();
  sub.Option("--password-file FILE", o->password_file,
             "Its first line is the password; else FLOPWATCH_PROMETHEUS_PASSWORD")
      .OneWord();
  sub.Option("--header LINE", o->headers, "NAME: VALUE, such as X-Scope-OrgID: tenant").OneWord();
  sub.Option("--ca FILE", o->ca, "Certificates (PEM) that the server's is checked against")
      .OneWord();
  sub.Option("--cert FILE", o->cert,
             "The client's own certificate (PEM), for mutual TLS; with --key")
      .OneWord();
  sub.Option("--key FILE", o->key, "That certificate's key (PEM), without a passphrase").OneWord();
  sub.Option("--pause DURATION", o->pause, "Between two requests: gentler (0s)").OneWord();
  sub.Option("--parts N", o->parts,
             "Ask for the exporters in so many parts at least: smaller queries (without it only "
             "where there are more series than memory wants to hold)")
      .Range(1, 1000);
  sub.Option("--parallel N", o->parallel, "Requests at a time: faster, and less gentle")
      .Range(1, 16)
      .ShowDefault();
  sub.Footer(
      "Reads raw samples at their own times, puts them back together into scrapes and stores them\n"
      "as if flopwatch had scraped. What is there already is not added again: a run that was "
      "killed,\n"
      "overlaps another, or covers time that was scraped, can be repeated. No server may hold the\n"
      "directory meanwhile; with --server the one that does is told instead.\n"
      "--tsdb reads blocks. A Prometheus that runs has its newest two or three hours in its "
      "write-ahead\n"
      "log, which is not read; a snapshot, which costs no space, has them too. With\n"
      "--web.enable-admin-api:\n"
      "  curl -XPOST http://localhost:9090/api/v1/admin/tsdb/snapshot\n"
      "and then --tsdb DATA/snapshots/NAME. What is damaged is named, nothing is taken of its "
      "time, "
      "and the\n"
      "exit code is 7.\n"
      "Examples:\n"
      "  flopwatch import prometheus http://prom:9090 --dry-run\n"
      "  flopwatch import prometheus http://prom:9090 --last 30d --into DIR\n"
      "  flopwatch import prometheus --tsdb /var/lib/prometheus --into DIR\n"
      "  flopwatch report --data-dir DIR --from -30d\n"
      "  flopwatch import prometheus http://prom:9090 --server http://head:9530");
  *run = [o](Context& context) { return RunImportPrometheus(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
