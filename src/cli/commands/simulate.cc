// flopwatch simulate: fleets (here) and traces (simulate_trace.cc) that are not there, for
// demonstrations, tests and load.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/commands/simulate_trace.h"
#include "simulate/backfill.h"
#include "simulate/fleet.h"
#include "simulate/incidents.h"
#include "simulate/scheduler.h"
#include "simulate/serve.h"
#include "simulate/truth.h"

namespace flopwatch::cli {
namespace {

using simulate::Fleet;
using simulate::FleetOptions;

constexpr std::string_view kDefaultFleetListen = "127.0.0.1:9450";

struct Options {
  int gpus = 256;
  std::string preset = "llm", faults, interval = "10s", start, until;
  uint64_t seed = 1;
  double hours = 24;
  int fields = 20, threads = 1;
  std::string listen, port_file, into, truth_file, jobs_file;
  std::string scheduler, scheduler_version = "25.05";
  std::vector<std::string> incidents, counters;
  double accelerate = 0;
  bool step = false, local_time = false, odd_jobs = false, amd = false;
};

// "HOST:PORT", ":PORT", "[::1]:PORT".
Status SplitAddress(const std::string& listen, std::string* host, uint16_t* port) {
  size_t colon = listen.rfind(':');
  unsigned value = 0;
  const char* end = listen.data() + listen.size();
  if (colon == std::string::npos || colon + 1 == listen.size() ||
      std::from_chars(listen.data() + colon + 1, end, value).ptr != end || value > 65535)
    return InvalidArgument("--listen {}: not an address; write HOST:PORT, port 0 for any free one",
                           listen);
  *host = listen.substr(0, colon);
  if (host->starts_with('[') && host->ends_with(']')) *host = host->substr(1, host->size() - 2);
  if (host->empty()) *host = "127.0.0.1";
  *port = static_cast<uint16_t>(value);
  return absl::OkStatus();
}

StatusOr<FleetOptions> Resolve(const Options& o, Micros now) {
  FleetOptions f;
  f.gpus = o.gpus;
  f.seed = o.seed;
  f.fields = o.fields;
  f.local_time = o.local_time;
  for (const std::string& text : o.incidents)
    FW_RETURN_IF_ERROR(simulate::ParseIncidents(text, &f.incidents));
  for (const std::string& text : o.counters)
    FW_RETURN_IF_ERROR(simulate::ParseCounterLies(text, &f.counters));
  f.odd_jobs = o.odd_jobs;
  f.amd = o.amd;
  FW_ASSIGN_OR_RETURN(f.preset, simulate::ParsePreset(o.preset));
  // A simulation whose books are kept has something in them; a set that is named stays what it is.
  const std::string_view usual = o.scheduler.empty() ? "all" : "scheduler";
  FW_ASSIGN_OR_RETURN(f.faults, simulate::ParseFaults(o.faults.empty() ? usual : o.faults));
  auto interval = ParseDuration(o.interval);
  if (!interval.ok()) return Annotate(interval.status(), "--interval");
  f.interval = *interval;
  if (!(o.hours > 0) || o.hours > static_cast<double>(simulate::kMaxDuration / kMicrosPerHour))
    return InvalidArgument("--hours {}; give hours above 0, at most {}", o.hours,
                           simulate::kMaxDuration / kMicrosPerHour);
  f.duration = static_cast<Micros>(o.hours * static_cast<double>(kMicrosPerHour));
  if (!o.start.empty()) {
    auto start = ParseTime(o.start, now);
    if (!start.ok()) return Annotate(start.status(), "--start");
    f.start = *start;
  } else if (!o.into.empty()) {
    f.start = FloorTo(now - f.duration, kMicrosPerMinute);  // history that ends now
  } else if (o.accelerate == 0 && !o.step) {
    f.start = FloorTo(now, kMicrosPerMinute) -
              10 * kMicrosPerMinute;  // every exporter has collected already
  }
  return f;
}

Status WriteStore(Context& context, const Fleet& fleet, const Options& o, Micros until) {
  const bool terminal = isatty(STDERR_FILENO) != 0 && context.verbosity() >= 0;
  const Micros begun = MonotonicNow(), start = fleet.options().start,
               horizon = start + fleet.options().duration;
  const Micros end = until > 0 ? std::min(until, horizon) : horizon;
  Micros last = 0;
  simulate::BackfillOptions b;
  b.directory = o.into;
  b.until = end;
  b.progress = [&](Micros reached, uint64_t samples) {
    if (!terminal || MonotonicNow() - last < kMicrosPerSecond / 5) return;
    last = MonotonicNow();
    fmt::print(stderr, "\r\033[Kwriting {}: {:.0f} %, {:.1f} M samples", o.into,
               100 * static_cast<double>(reached - start) / static_cast<double>(end - start),
               static_cast<double>(samples) / 1e6);
  };
  auto result = simulate::WriteHistory(fleet, b);
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (!result.ok())
    return Annotate(result.status(), fmt::format("writing history into {}", o.into));
  context.Say(
      fmt::format("{}: {} to {}, {} scrapes, {} rows, {:.1f} M samples, {} reports of {} "
                  "applications in {:.1f} s{}",
                  o.into, FormatTime(start), FormatTime(end), result->scrapes, result->rows,
                  static_cast<double>(result->samples) / 1e6, result->reports, result->applications,
                  static_cast<double>(MonotonicNow() - begun) / kMicrosPerSecond,
                  result->refused > 0 ? fmt::format(", {} values refused", result->refused) : ""));
  return absl::OkStatus();
}

Status WriteBooks(Context& context, const Fleet& fleet, const Options& o, Micros until) {
  simulate::SchedulerOptions s;
  s.directory = o.scheduler;
  s.until = until;
  FW_ASSIGN_OR_RETURN(s.version, simulate::ParseSlurmVersion(o.scheduler_version));
  FW_ASSIGN_OR_RETURN(const simulate::SchedulerResult result, simulate::WriteScheduler(fleet, s));
  context.Say(fmt::format("{}: {} attempts of jobs, {} events of nodes, {} GPUs given out",
                          o.scheduler, result.attempts, result.events, result.allocations));
  return absl::OkStatus();
}

Status Serve(Context& context, const Fleet& fleet, const Options& o) {
  simulate::ServeOptions s;
  FW_RETURN_IF_ERROR(SplitAddress(o.listen.empty() ? std::string(kDefaultFleetListen) : o.listen,
                                  &s.address, &s.port));
  s.threads = o.threads;
  if (o.step) {
    s.pace = simulate::Pace::kStep;
  } else if (o.accelerate > 0) {
    s.pace = simulate::Pace::kAccelerated;
    s.speed = o.accelerate;
  }
  // Blocked before any thread starts, so that only this one takes them.
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  auto server = simulate::FleetServer::Start(&fleet, s);
  if (!server.ok()) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return server.status();
  }
  if (!o.port_file.empty())
    FW_RETURN_IF_ERROR(WriteFileAtomically(o.port_file, fmt::format("{}\n", (*server)->port())));
  context.Say(fmt::format("{} GPUs on {} hosts; targets at http://{}:{}/targets; Ctrl-C ends",
                          fleet.options().gpus, fleet.hosts(), s.address, (*server)->port()));
  int signal = 0;
  sigwait(&signals, &signal);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  context.Say(fmt::format("served {} scrapes", (*server)->scrapes()));
  return absl::OkStatus();
}

// How many of what was asked for there are.
void SayPlanted(Context& context, const Fleet& fleet) {
  const simulate::IncidentCounts& asked = fleet.options().incidents;
  const simulate::IncidentCounts planted = fleet.Planted();
  std::string text;
  for (size_t k = 0; k < simulate::kIncidentKinds; ++k) {
    if (asked.n[k] == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", simulate::IncidentName(static_cast<simulate::IncidentKind>(k)),
                        planted.n[k]);
    if (planted.n[k] < asked.n[k]) text += fmt::format(" of {}", asked.n[k]);
  }
  if (text.empty()) return;
  const bool all = planted.n == asked.n;
  context.Say(fmt::format("planted: {}{}", text,
                          all ? "" : " (no more jobs that fit: more GPUs or hours have them)"));
}

Status RunFleet(Context& context, const Options& o) {
  if (std::ranges::find(o.incidents, "list") != o.incidents.end()) {
    context.Out(simulate::IncidentList());
    return absl::OkStatus();
  }
  if (std::ranges::find(o.counters, "list") != o.counters.end()) {
    context.Out(simulate::CounterLieList());
    return absl::OkStatus();
  }
  const Micros now = Now();
  FW_ASSIGN_OR_RETURN(FleetOptions options, Resolve(o, now));
  Micros until = 0;
  if (!o.until.empty()) {
    auto t = ParseTime(o.until, now);
    if (!t.ok()) return Annotate(t.status(), "--until");
    until = *t;
    if (until <= options.start)
      return InvalidArgument("--until {} is not after the start {}", FormatTime(until),
                             FormatTime(options.start));
  }
  if (o.step && o.accelerate > 0)
    return InvalidArgument("--step and --accelerate are two paces; give one");
  // Before anything is written.
  FW_RETURN_IF_ERROR(simulate::ParseSlurmVersion(o.scheduler_version).status());
  FW_ASSIGN_OR_RETURN(std::unique_ptr<Fleet> fleet, Fleet::Create(options));
  SayPlanted(context, *fleet);
  if (!o.jobs_file.empty())
    FW_RETURN_IF_ERROR(WriteFileAtomically(o.jobs_file, fleet->AssignmentsCsv()));
  if (!o.truth_file.empty()) {
    Micros end = options.start + options.duration;
    const bool scheduler = !o.scheduler.empty() || options.faults == simulate::Faults::kScheduler;
    simulate::Truth truth =
        fleet->TruthOf(options.start, until > 0 ? std::min(until, end) : end, scheduler);
    FW_RETURN_IF_ERROR(WriteFileAtomically(o.truth_file, simulate::TruthJson(truth)));
  }
  if (!o.scheduler.empty()) FW_RETURN_IF_ERROR(WriteBooks(context, *fleet, o, until));
  if (!o.into.empty()) FW_RETURN_IF_ERROR(WriteStore(context, *fleet, o, until));
  // Files alone are a task that ends; anything that names a pace or an address serves, and so does
  // no option at all.
  bool files_only =
      !o.into.empty() || !o.truth_file.empty() || !o.jobs_file.empty() || !o.scheduler.empty();
  if (files_only && o.listen.empty() && !o.step && o.accelerate == 0) return absl::OkStatus();
  return Serve(context, *fleet, o);
}

}  // namespace

Args AddSimulate(Args app, Run* run) {
  Args simulate = app.Command("simulate", "Simulated GPU fleets and traces with exact truth");
  simulate.NeedsCommand();
  auto o = std::make_shared<Options>();
  Args fleet = simulate.Command(
      "fleet", "Serve the exporters of a simulated fleet, or write its history into a store");
  fleet.Option("--gpus N", o->gpus, "GPUs").ShowDefault();
  fleet.Option("--preset NAME", o->preset, "research, llm, serving or seren")
      .Suggest({"research", "llm", "serving", "seren"})
      .ShowDefault();
  fleet.Option("--seed S", o->seed, "The same seed gives the same fleet").ShowDefault();
  fleet.Option("--hours H", o->hours, "Length of the simulated time").ShowDefault();
  fleet.Option("--start TIME", o->start,
               "Its begin (default: so that it fits now; fixed with --step, --accelerate)");
  fleet.Option("--interval DURATION", o->interval, "Collect interval of the exporters")
      .ShowDefault();
  fleet.Option("--fields 20|100", o->fields, "Fields a GPU: 20 or 100").ShowDefault();
  fleet
      .Option("--faults SET", o->faults,
              "none, telemetry (lost, blank, late samples), all (and hosts, GPUs, jobs fail), "
              "scheduler (and jobs are requeued, preempted, suspended, nodes maintained); "
              "default: all, with --scheduler scheduler")
      .Suggest({"none", "telemetry", "all", "scheduler"});
  fleet
      .Option("--incidents KIND=N", o->incidents,
              "Plant N of a kind, with truth; KIND=N,KIND=N@SIZE; `list` has the kinds")
      .OneWord();
  fleet
      .Option("--counters KIND=N", o->counters,
              "Plant counters that lie on N hosts, with truth; KIND=N,KIND=N; `list` has the kinds")
      .OneWord();
  fleet.Flag("--odd-jobs", o->odd_jobs,
             "Some workflows use no tensor core: FP64, FP32 and integer codes, bound by memory");
  fleet.Flag("--amd", o->amd, "Every GPU is an MI300X under AMD's exporter");
  fleet.Flag("--local-time", o->local_time,
             "The last cluster keeps US Pacific time: its day, and timestamps without a zone");
  fleet.Option("--listen HOST:PORT", o->listen,
               fmt::format("Serve here (default {})", kDefaultFleetListen));
  fleet.Option("--port-file FILE", o->port_file, "Write the port that was taken");
  fleet.Option("--threads N", o->threads, "Server threads").ShowDefault().Range(1, 64);
  fleet
      .Option("--accelerate X", o->accelerate, "Simulated seconds a second; timestamps in the text")
      .Positive();
  fleet.Flag("--step", o->step,
             "Each GET gives the host's next sample, whatever the time; 410 after the last");
  fleet.Option("--into DIR", o->into, "Write the history into this data directory");
  fleet.Option("--until TIME", o->until,
               "Files and --into end here, before the end of the simulated time");
  fleet.Option("--truth FILE", o->truth_file, "Write what really happened (JSON, integers)");
  fleet.Option("--jobs-file FILE", o->jobs_file, "Write who owned which GPU when (CSV for serve)");
  fleet.Option("--scheduler DIR", o->scheduler,
               "Write what Slurm would have said: sacct, events, reservations, queue, nodes");
  fleet.Option("--scheduler-version V", o->scheduler_version, "Shape of its JSON: 22.05 or 25.05")
      .ShowDefault();
  fleet.Footer(
      "Examples:\n"
      "  flopwatch simulate fleet --gpus 1000 --listen 127.0.0.1:9450\n"
      "  flopwatch simulate fleet --gpus 512 --preset research --hours 24 --into DIR --truth "
      "truth.json\n"
      "  flopwatch simulate fleet --gpus 64 --hours 1 --step --listen 127.0.0.1:0 --port-file "
      "port");
  auto run_trace = std::make_shared<Run>();
  Args trace = AddSimulateTrace(simulate, run_trace.get());
  *run = [o, trace, run_trace](Context& context) {
    return trace.parsed() ? (*run_trace)(context) : RunFleet(context, *o);
  };
  return simulate;
}

}  // namespace flopwatch::cli
