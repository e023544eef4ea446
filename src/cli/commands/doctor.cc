// flopwatch doctor: whether this machine, this configuration and the server are fit, one line a
// check, each with advice.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/doctor_target.h"
#include "cli/commands/environment.h"
#include "cli/commands/site_catalog.h"
#include "cli/commands/site_slurm.h"
#include "cli/context_impl.h"
#include "cli/progress_line.h"
#include "cli/views/style.h"
#include "discovery/discovery.h"
#include "store/store.h"

namespace flopwatch::cli {
namespace {

constexpr int64_t kMaxFiles = 100'000;  // what one query gives
constexpr uint64_t kComfortableDisk =
    20ull << 30;  // 100k GPUs x 20 fields at 10 s write about 36 GB a day (2.1 B a sample)
constexpr uint64_t kLeastDisk = 512ull << 20;
constexpr uint64_t kComfortableFiles = 16'384;  // one connection a target, and the store's own
constexpr double kClockTolerance = 2;           // seconds between us and the server
constexpr Micros kOldestBelievable =
    1'704'067'200 * kMicrosPerSecond;  // 2024-01-01: no build of ours is older

enum class Verdict { kOk, kWarn, kFail };

struct Check {
  std::string name;
  Verdict verdict = Verdict::kOk;
  std::string detail = {}, advice = {};
};

std::string_view Word(Verdict v) {
  return v == Verdict::kOk ? "ok" : v == Verdict::kWarn ? "warn" : "fail";
}

std::string Bytes(uint64_t n) { return HumanCell(static_cast<double>(n), ColumnFormat::kBytes); }

Check CheckConfig(Context& context) {
  Check c{.name = "configuration"};
  const auto file = context.Config("config.file");
  if (!file.ok()) {
    c.verdict = Verdict::kFail;
    c.detail = std::string(file.status().message());
    return c;
  }
  c.detail = file->empty() ? "no file; defaults, environment and flags" : *file;
  const auto catalog = SiteCatalog(context);
  const Status site = catalog.ok() ? SitePrices(context, *catalog).status() : catalog.status();
  if (!site.ok()) {
    c.verdict = Verdict::kFail;
    c.detail = std::string(site.message());
  }
  const std::vector<std::string> unknown = ResolvedConfig::UnknownVariables(EnvironmentNames());
  if (!unknown.empty()) {
    c.verdict = std::max(c.verdict, Verdict::kWarn);
    c.advice = unknown.front();
  }
  return c;
}

Check CheckDirectory(const std::string& directory) {
  Check c{.name = "data directory"};
  std::error_code error;
  // What does not exist yet is made by serve, if the nearest folder that exists lets it.
  std::filesystem::path at = directory;
  while (!at.empty() && !std::filesystem::exists(at, error)) {
    const std::filesystem::path up = at.parent_path();
    if (up == at) break;
    at = up;
  }
  if (at.empty()) at = ".";
  const bool exists = at == std::filesystem::path(directory);
  if (access(at.c_str(), W_OK | X_OK) != 0) {
    c.verdict = Verdict::kFail;
    c.detail = fmt::format("{} cannot be written by this user", at.string());
    c.advice = "change its owner, or name another with --data-dir or store.directory";
    return c;
  }
  const auto free = FreeDiskBytes(at.string());
  c.detail = fmt::format("{}{}, {} free", directory, exists ? "" : " (serve will create it)",
                         free.ok() ? Bytes(*free) : "unknown");
  if (free.ok() && *free < kLeastDisk) {
    c.verdict = Verdict::kFail;
    c.advice = "free some space: below 256 MiB the store refuses to write";
  } else if (free.ok() && *free < kComfortableDisk) {
    c.verdict = Verdict::kWarn;
    c.advice =
        "1,000 GPUs with 20 fields at 10 s write about 0.4 GB a day; shorten store.raw_retention "
        "or give it more room";
  }
  return c;
}

// Opens a store in a scratch directory: proves that the library is there, loads and can write.
Check CheckEngine() {
  Check c{.name = "database engine"};
  std::string scratch =
      (std::filesystem::temp_directory_path() / "flopwatch-doctor-XXXXXX").string();
  if (mkdtemp(scratch.data()) == nullptr) {
    c.verdict = Verdict::kWarn;
    c.detail = "no scratch directory could be made, so it was not tried";
    return c;
  }
  {
    store::Options options;
    options.directory = scratch;
    options.memory_limit_mb = 512;
    options.threads = 1;
    auto store = store::OpenDuckDbStore(options);
    if (!store.ok()) {
      c.verdict = Verdict::kFail;
      c.detail = std::string(store.status().message());
    } else if (const auto version = (*store)->UserSql("SELECT version() AS v", {});
               version.ok() && !version->table.rows.empty()) {
      c.detail = "DuckDB " + HumanCell(version->table.rows[0][0], ColumnFormat::kPlain) +
                 ", opens and writes";
    } else {
      c.detail = "opens and writes";
    }
  }
  std::error_code error;
  std::filesystem::remove_all(scratch, error);
  return c;
}

Check CheckFiles() {
  Check c{.name = "open files"};
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto show = [](rlim_t n) {
    return n == RLIM_INFINITY ? std::string("unlimited") : Count(n);
  };
  c.detail = fmt::format("{} now, {} at most", show(limit.rlim_cur), show(limit.rlim_max));
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < kComfortableFiles) {
    c.verdict = Verdict::kWarn;
    c.advice = fmt::format(
        "serve keeps one connection a target: for more than {} targets raise the hard limit "
        "(ulimit -Hn, LimitNOFILE=)",
        Count(static_cast<double>(limit.rlim_max) - 256));
  }
  return c;
}

// Bytes from the first number of a line "MemAvailable:  123 kB", or of a cgroup file.
std::optional<uint64_t> NumberAfter(const std::string& text, std::string_view label) {
  const size_t at = text.find(label);
  if (at == std::string::npos) return std::nullopt;
  const size_t digit = text.find_first_of("0123456789", at + label.size());
  if (digit == std::string::npos) return std::nullopt;
  return std::strtoull(text.c_str() + digit, nullptr, 10);
}

Check CheckMemory(int64_t limit_mb) {
  Check c{.name = "memory"};
  uint64_t available = UINT64_MAX;
  if (const auto text = ReadFile("/proc/meminfo", 1 << 16); text.ok()) {
    if (const auto kib = NumberAfter(*text, "MemAvailable:")) available = *kib << 10;
  }
  bool of_group = false;
  if (const auto text = ReadFile("/sys/fs/cgroup/memory.max", 64); text.ok()) {
    if (const auto bytes = NumberAfter(*text, ""); bytes && *bytes < available)
      available = *bytes, of_group = true;
  }
  const uint64_t wanted = (static_cast<uint64_t>(limit_mb) + 512) << 20;
  c.detail = available == UINT64_MAX
                 ? "not known"
                 : fmt::format("{} {}; serve wants up to {}", Bytes(available),
                               of_group ? "allowed" : "available", Bytes(wanted));
  if (available != UINT64_MAX && available < wanted) {
    c.verdict = Verdict::kWarn;
    c.advice = "lower store.memory_limit_mb (at least 512), or give the machine more";
  }
  return c;
}

Check CheckClock() {
  Check c{.name = "clock"};
  const Micros now = Now();
  c.detail = FormatTime(FloorTo(now, kMicrosPerSecond));
  timex t{};
  const int state = adjtimex(&t);
  if (now < kOldestBelievable) {
    c.verdict = Verdict::kFail;
    c.advice = "set the clock: samples are stored under the time they arrive";
  } else if (state == TIME_ERROR || (t.status & STA_UNSYNC) != 0) {
    c.verdict = Verdict::kWarn;
    c.detail += ", not synchronised";
    c.advice =
        "run an NTP service (chrony, systemd-timesyncd): jobs are joined with samples by time";
  } else {
    c.detail += ", synchronised";
  }
  return c;
}

// Whether this machine can ask Slurm, where the configuration wants it.
void CheckSlurm(Context& context, std::vector<Check>* out) {
  const auto options = SiteSlurm(context);
  if (!options.ok() || !options->has_value()) return;
  Check c{.name = "slurm"};
  const auto cluster = discovery::AskSlurmCluster(**options);
  if (cluster.ok()) {
    c.detail = "the controller of cluster " + Printable(*cluster, 80) + " answers";
  } else {
    c.verdict = Verdict::kFail;
    c.detail = std::string(MessageOf(cluster.status()));
    c.advice = absl::IsNotFound(cluster.status())
                   ? "install Slurm's commands here, or say where they are with slurm.path"
                   : "run \"scontrol show config\" as this user; slurm.conf names another "
                     "configuration file";
  }
  out->push_back(c);
}

// How the server gets on with its scheduler.
void CheckSchedulerOf(const Json& s, std::vector<Check>* out) {
  if (!s.is_object()) return;
  Check c{.name = "scheduler"};
  const std::string error = s["error"].text();
  const auto age = s["last_look_age_s"].number();
  c.detail =
      fmt::format("cluster {}, {} jobs with GPUs, {} nodes, {}", Printable(s["cluster"].text(), 80),
                  s["attempts"].integer_or(0), s["nodes"].integer_or(0),
                  age ? "looked at " + Ago(*age) + " ago" : "no look yet");
  if (!error.empty()) {
    c.verdict = age ? Verdict::kWarn : Verdict::kFail;
    c.detail += ": " + Printable(error, 200);
    c.advice = "what was known last stays; see that the server's user can run scontrol";
  } else if (const std::string why = s["accounting"]["error"].text(); !why.empty()) {
    c.verdict = Verdict::kWarn;
    c.detail += "; accounting: " + Printable(why, 200);
    c.advice = "ends that no look saw are not known until it answers";
  }
  out->push_back(c);
}

void CheckServer(Context& context, std::vector<Check>* out) {
  Check c{.name = "server"};
  const auto named = context.Config("client.server");
  const auto listen = context.Config("server.listen");
  if (!named.ok() || !listen.ok()) return;  // said under configuration
  const bool remote = !named->empty();
  const std::string url = ServerUrl(remote ? *named : ClientAddress(*listen));
  if (!ServerAnswers(url, 3 * kMicrosPerSecond)) {
    c.verdict = remote ? Verdict::kFail : Verdict::kWarn;
    c.detail = url + " does not answer";
    c.advice = remote ? "check the name and port, and that \"flopwatch serve\" runs there"
                      : "start it with \"flopwatch serve\"";
    out->push_back(c);
    return;
  }
  const std::unique_ptr<ApiClient> client = HttpClient(url);
  const auto get = [&](const std::string& path) {
    const auto body = client->Request(path, "");
    auto json = body.ok() ? Json::Parse(*body) : StatusOr<Json>(body.status());
    return json.ok() ? *std::move(json) : Json();
  };
  const Json status = get("/api/v1/status");
  c.detail = fmt::format("{} is flopwatch {}, up {}, {} GPUs", url,
                         Printable(status["version"].text(), 40),
                         Ago(status["uptime_s"].number_or(0)), Count(status["gpus"].number_or(0)));
  out->push_back(c);

  if (const auto theirs = TimeOf(status["now"].text())) {
    const double apart = static_cast<double>(std::llabs(Now() - *theirs)) / kMicrosPerSecond;
    if (apart > kClockTolerance) {
      out->push_back({"server's clock", Verdict::kWarn,
                      fmt::format("{:.1f} s away from this machine's", apart),
                      "synchronise both with NTP"});
    }
  }
  Check ingest{.name = "ingest"};
  const Json& i = status["ingest"];
  const Json& s = status["store"];
  ingest.detail =
      fmt::format("{} samples/s, {} rows queued", Count(i["samples_per_s"].number_or(0)),
                  Count(i["queued_rows"].number_or(0)));
  if (const std::string error = s["last_error"].text(); !error.empty()) {
    ingest.verdict = Verdict::kFail;
    ingest.detail = "the store fails: " + Printable(error, 200);
    ingest.advice = "see the server's log; rows are kept in memory until the queue is full";
  } else if (i["dropped_rows"].number_or(0) > 0) {
    ingest.verdict = Verdict::kWarn;
    ingest.detail += fmt::format(", {} rows dropped", Count(i["dropped_rows"].number_or(0)));
    ingest.advice =
        "the store was slower than the exporters: a faster disk, or a longer scrape.interval";
  }
  out->push_back(ingest);
  if (const Json& damaged = s["damaged"]; damaged.is_object()) {
    out->push_back(
        {"damage", Verdict::kFail,
         fmt::format(
             "{} files are not what was written; {} rows{} are lost",
             damaged["files"].integer_or(0), Count(damaged["rows"].number_or(0)),
             damaged["from"].text().empty()
                 ? std::string()
                 : fmt::format(" of {} to {}", damaged["from"].text(), damaged["to"].text())),
         "they are left out of every answer: \"flopwatch doctor --verify\" names them; copy "
         "them back from a backup, and look after the disk"});
  }

  CheckSchedulerOf(status["scheduler"], out);

  const Json targets = get("/api/v1/targets?limit=1");
  const int64_t total = targets["total"].integer_or(0), up = targets["up"].integer_or(0);
  Check t{.name = "targets", .detail = fmt::format("{} of {} up", up, total)};
  if (total == 0) {
    t.verdict = Verdict::kWarn;
    t.advice =
        "nothing is scraped: name exporters with serve --target, --targets-file, --file-sd or "
        "--http-sd";
  } else if (up < total) {
    t.verdict = up == 0 ? Verdict::kFail : Verdict::kWarn;
    const Json& first = targets["targets"].array()[0];
    t.detail += fmt::format("; {}: {}", Printable(first["url"].text(), 120),
                            Printable(first["error"].text(), 120));
    t.advice = "\"flopwatch targets --state down\" lists them";
  }
  out->push_back(t);
}

Check CheckExporters() {
  Check c{.name = "local exporters"};
  const auto found = discovery::FindLocalExporters();
  for (const discovery::LocalExporter& e : found)
    c.detail += fmt::format("{}{} at {}", c.detail.empty() ? "" : ", ", e.kind, e.url);
  if (found.empty()) c.detail = "none on the usual ports (fine unless this machine has GPUs)";
  return c;
}

Status RunDoctor(Context& context) {
  std::vector<Check> checks;
  checks.push_back(CheckConfig(context));
  const auto directory = context.Config("store.directory");
  if (directory.ok()) {
    checks.push_back(CheckDirectory(*directory));
    checks.push_back(CheckMemory(
        context.ConfigInteger("store.memory_limit_mb").value_or(store::kDefaultMemoryMb)));
  }
  checks.push_back(CheckEngine());
  checks.push_back(CheckFiles());
  checks.push_back(CheckClock());
  checks.push_back(CheckExporters());
  CheckSlurm(context, &checks);
  CheckServer(context, &checks);

  size_t failed = 0, warned = 0;
  for (const Check& c : checks) {
    failed += c.verdict == Verdict::kFail;
    warned += c.verdict == Verdict::kWarn;
  }
  if (failed > 0) context.SetExitCode(ExitCode::kUnhealthy);
  if (!context.for_people()) {
    Table table;
    table.columns = {{"check", ""}, {"verdict", ""}, {"detail", ""}, {"advice", ""}};
    for (const Check& c : checks) {
      table.rows.push_back({c.name, std::string(Word(c.verdict)), c.detail,
                            c.advice.empty() ? Cell() : Cell(c.advice)});
    }
    return context.Write(table);
  }
  ViewOptions v;
  v.color = context.color();
  v.width = context.width() > 0 ? context.width() : 100;
  for (const Check& c : checks) {
    const Tone tone = c.verdict == Verdict::kOk     ? Tone::kGood
                      : c.verdict == Verdict::kWarn ? Tone::kLost
                                                    : Tone::kBad;
    const std::string indent(24, ' ');
    context.Out(Paint(v, tone, PadRight(Word(c.verdict), 6)) +
                Wrap(c.detail, v.width - 6, PadRight(c.name, 18), indent));
    if (!c.advice.empty()) context.Out(Wrap(c.advice, v.width, indent, indent));
  }
  context.Out(failed == 0 && warned == 0
                  ? "\nAll is well.\n"
                  : fmt::format("\n{} failed, {} to look at.\n", failed, warned));
  return absl::OkStatus();
}

constexpr std::string_view kAllOfThatTime = "all of that time";

// Whose rows a sealed file may have: of GPUs that were there by then, whose numbers lie in its
// range.
std::string WhoseRows(Context& context, const Json::Array& file) {
  if (file[8].integer_or(0) == 0) return std::string(kAllOfThatTime);
  std::string body;
  JsonWriter(&body)
      .BeginObject()
      .Field("query",
             fmt::format("SELECT count(DISTINCT gpu), count(DISTINCT node), min(node), max(node) "
                         "FROM gpus WHERE entity BETWEEN {} AND {} AND first_seen <= '{}'",
                         file[7].integer_or(0), file[8].integer_or(0), file[6].text()))
      .EndObject();
  const StatusOr<std::string> text = context.ApiPost("/api/v1/sql", body);
  const StatusOr<Json> answer = text.ok() ? Json::Parse(*text) : StatusOr<Json>(text.status());
  if (!answer.ok() || (*answer)["rows"].array().empty()) return "not known";
  const Json::Array& row = (*answer)["rows"].array()[0].array();
  const int64_t gpus = row[0].integer_or(0), nodes = row[1].integer_or(0);
  if (gpus == 0) return "no GPU's";
  const std::string first = Printable(row[2].text(), 40), last = Printable(row[3].text(), 40);
  return fmt::format("{} GPUs, {}", gpus, nodes == 1 ? first : first + " to " + last);
}

// Every sealed file against the hash that was recorded with it; and what hot files have lost.
Status RunVerify(Context& context) {
  constexpr std::string_view kList =
      "SELECT \"table\", path, rows, bytes, hash, min_ts, max_ts, min_entity, max_entity FROM "
      "sealed_files ORDER BY path";
  constexpr int kNamed = 50;  // files whose GPUs are looked up
  FW_ASSIGN_OR_RETURN(const std::string directory, context.Config("store.directory"));
  std::string body;
  JsonWriter(&body).BeginObject().Field("query", kList).Field("limit", kMaxFiles).EndObject();
  FW_ASSIGN_OR_RETURN(const std::string text, context.ApiPost("/api/v1/sql", body));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(text));
  const Json::Array& files = answer["rows"].array();
  Table table;
  table.columns = {{"table", "table"},
                   {"path", "file"},
                   {"rows", "rows"},
                   {"from", "from", ColumnFormat::kTime},
                   {"to", "to", ColumnFormat::kTime},
                   {"of", "of"},
                   {"why", "why"}};
  uint64_t bytes = 0, done = 0, unknown = 0;
  for (const Json& f : files) bytes += static_cast<uint64_t>(f.array()[3].integer_or(0));
  {
    ProgressLine progress(context);
    for (const Json& file : files) {
      const Json::Array& f = file.array();
      const std::string hash = f[4].text(), path = directory + "/" + f[1].text();
      progress.Show(fmt::format("{} of {}  {}", Bytes(done), Bytes(bytes), f[1].text()));
      done += static_cast<uint64_t>(f[3].integer_or(0));
      if (hash.empty()) {
        ++unknown;
        continue;
      }
      const StatusOr<std::string> now = store::HashOfSealedFile(path);
      if (now.ok() && *now == hash) continue;
      const auto time = [](const Json& t) {
        const auto at = TimeOf(t.text());
        return at ? Cell(static_cast<int64_t>(*at)) : Cell();
      };
      table.rows.push_back(
          {f[0].text(), f[1].text(), f[2].integer_or(0), time(f[5]), time(f[6]),
           table.rows.size() < kNamed ? Cell(WhoseRows(context, f)) : Cell(),
           now.ok() ? std::string("not what was written") : std::string(MessageOf(now.status()))});
    }
  }
  const size_t sealed = table.rows.size();
  const std::vector<store::HotLoss> losses = store::LossesOfHotFiles(directory);
  for (const store::HotLoss& loss : losses) {
    const bool known = loss.rows > 0;
    table.rows.push_back({std::string("hot"),
                          std::filesystem::path(loss.file).lexically_relative(directory).string(),
                          known ? Cell(static_cast<int64_t>(loss.rows)) : Cell(),
                          known ? Cell(loss.from) : Cell(), known ? Cell(loss.to) : Cell(),
                          std::string(kAllOfThatTime),
                          std::string("rows are lost; what is left of the file lies beside it")});
  }
  if (answer["truncated"].boolean())
    table.notes.push_back(fmt::format(
        "Only {} files were looked at: there are more than one answer has.", files.size()));
  table.notes.push_back(fmt::format("{} of {} files are damaged ({} read, from {}).", sealed,
                                    files.size(), Bytes(done), directory));
  if (unknown > 0) {
    table.notes.push_back(fmt::format(
        "{} files were sealed before hashes were recorded: nothing is known of them.", unknown));
  }
  if (sealed > 0) {
    table.notes.push_back(
        "Stop the server, copy them back from a backup, and start it again: it leaves out, and "
        "keeps, what it finds damaged, but looks at a file once a week. Look after the disk.");
  }
  if (!losses.empty()) {
    table.notes.push_back(
        "Hot files are the newest hours. Delete FILE.lost and FILE.damaged when you have seen to "
        "them. Look after the disk.");
  }
  if (!table.rows.empty()) context.SetExitCode(ExitCode::kUnhealthy);
  return context.Write(table);
}

// meta.duckdb from its copy.
Status RunRestore(Context& context) {
  store::Options options;
  FW_ASSIGN_OR_RETURN(options.directory, context.Config("store.directory"));
  FW_ASSIGN_OR_RETURN(const store::Restored done, store::RestoreDescriptions(options));
  const auto said = [&](const std::string& text) {
    context.Out(Wrap(text, context.width() > 0 ? context.width() : 100, "", "  "));
  };
  said(fmt::format("meta.duckdb of {} is the copy of {} again.", options.directory,
                   FormatTime(FloorTo(done.as_of, kMicrosPerSecond))));
  if (!done.kept.empty()) said("What was there is kept as " + done.kept + ".");
  if (done.gpus + done.jobs + done.models + done.series + done.claims > 0) {
    said(fmt::format(
        "{} GPUs ({} rows), {} models, {} jobs, {} series and {} claims of applications came after "
        "it: their rows are there, under names \"lost-NUMBER\". GPUs and jobs that report again "
        "get "
        "new numbers and their own names.",
        done.gpus, done.rows, done.models, done.jobs, done.series, done.claims));
  } else {
    said("Nothing that has rows came after it.");
  }
  if (done.unrecorded_files > 0) {
    said(fmt::format(
        "{} sealed files came after it; their rows are in older files too. They lie in {}/"
        "unrecorded: delete them when answers are whole.",
        done.unrecorded_files, options.directory));
  }
  if (done.missing_files > 0) {
    context.SetExitCode(ExitCode::kUnhealthy);
    said(fmt::format("{} files with {} rows that it names are gone.", done.missing_files,
                     done.missing_rows));
  }
  said("Intervals of jobs, the scheduler's books and claims are as of the copy.");
  return absl::OkStatus();
}

}  // namespace

Args AddDoctor(Args app, Run* run) {
  Args sub =
      app.Command("doctor", "Whether this machine, the configuration and the server are fit");
  auto o = std::make_shared<DoctorTargetOptions>();
  sub.Option("--target HOST:PORT", o->target,
             "Judge the counters of this exporter instead, which need not be watched yet");
  sub.Option("--scrapes N", o->scrapes, "With --target: so many scrapes")
      .Range(3, 100)
      .ShowDefault();
  sub.Option("--every DURATION", o->every, "With --target: so far apart").ShowDefault();
  auto verify = std::make_shared<bool>(false);
  sub.Flag("--verify", *verify,
           "Read every sealed file in the data directory and compare it with its hash instead");
  auto restore = std::make_shared<bool>(false);
  sub.Flag(
      "--restore", *restore,
      "Put the server's own copy in the place of a meta.duckdb that is lost or cannot be read");
  sub.Footer(
      "Examples:\n"
      "  flopwatch doctor\n"
      "  flopwatch doctor --verify                      exits with 3 when a file is damaged\n"
      "  flopwatch doctor --target gpu-node-1:9400      what its counters are worth, and what to "
      "switch on\n"
      "  flopwatch doctor --server head:9530 -q || echo unhealthy     exits with 3 when a check "
      "fails\n"
      "  flopwatch doctor -o json");
  *run = [o, verify, restore](Context& context) {
    if (*restore) return RunRestore(context);
    if (*verify) return RunVerify(context);
    return o->target.empty() ? RunDoctor(context) : RunDoctorTarget(context, *o);
  };
  return sub;
}

}  // namespace flopwatch::cli
