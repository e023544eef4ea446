#include "cli/commands/simulate_trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "simulate/trace_job.h"

namespace flopwatch::cli {
namespace {

struct TraceOptions {
  std::string directory, truth_file;
  int ranks = 1, steps = 5;
  uint64_t seed = 1;
  int64_t events_per_step = 2500;
  bool gzip = false;
  std::vector<std::string> plant;
};

Status RunTrace(Context& context, const TraceOptions& o) {
  simulate::TraceJobOptions job;
  job.ranks = o.ranks;
  job.steps = o.steps;
  job.seed = o.seed;
  job.events_per_step = o.events_per_step;
  job.plant.insert(o.plant.begin(), o.plant.end());
  FW_ASSIGN_OR_RETURN(const simulate::TraceJob trace, simulate::TraceJob::Create(job));
  const bool terminal = isatty(STDERR_FILENO) != 0 && context.verbosity() >= 0;
  auto truth = simulate::WriteTraceFiles(trace, o.directory, o.gzip, [&](int done) {
    if (terminal) fmt::print(stderr, "\r\033[K{} of {} ranks", done, o.ranks);
  });
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (!truth.ok()) return truth.status();
  if (!o.truth_file.empty()) FW_RETURN_IF_ERROR(WriteFileAtomically(o.truth_file, simulate::TraceTruthJson(*truth)));
  int64_t events = 0;
  for (const simulate::TraceRankTruth& r : truth->ranks) events += r.events;
  context.Say(fmt::format("{}: {} ranks, {} steps, {} events{}", o.directory, o.ranks, o.steps, events,
                          o.plant.empty() ? "" : fmt::format("; planted: {}", fmt::join(job.plant, ", "))));
  return absl::OkStatus();
}

}  // namespace

CLI::App* AddSimulateTrace(CLI::App& simulate, Run* run) {
  auto o = std::make_shared<TraceOptions>();
  CLI::App* trace =
      simulate.add_subcommand("trace", "Write profiler traces (Kineto JSON) of a simulated training job, a file a rank");
  trace->add_option("--out", o->directory, "Directory for rank0.json, rank1.json, ...")->required()->type_name("DIR");
  trace->add_option("--ranks", o->ranks, "Ranks of the job")->capture_default_str()->type_name("N");
  trace->add_option("--steps", o->steps, "Profiled steps")->capture_default_str()->type_name("K");
  trace->add_option("--seed", o->seed, "The same seed gives the same files")->capture_default_str()->type_name("S");
  trace->add_option("--events-per-step", o->events_per_step, "Events of a rank in a step, about")
      ->capture_default_str()
      ->type_name("M");
  trace->add_flag("--gzip", o->gzip, "Write rank0.json.gz, ...");
  trace->add_option("--plant", o->plant, "Ways of wasting a GPU to plant: ids of findings")
      ->delimiter(',')
      ->type_name("PATTERN,...");
  trace->add_option("--truth", o->truth_file, "Write what really happened (JSON, nanoseconds)")->type_name("FILE");
  trace->footer(
      "Examples:\n"
      "  flopwatch simulate trace --out traces --ranks 8 --steps 5 --plant straggler --truth truth.json\n"
      "  flopwatch simulate trace --out large --steps 100 --events-per-step 17000");
  *run = [o](Context& context) { return RunTrace(context, *o); };
  return trace;
}

}  // namespace flopwatch::cli
