#include "cli/commands/simulate_trace.h"

#include <fmt/format.h>
#include <unistd.h>

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
  if (!o.truth_file.empty())
    FW_RETURN_IF_ERROR(WriteFileAtomically(o.truth_file, simulate::TraceTruthJson(*truth)));
  int64_t events = 0;
  for (const simulate::TraceRankTruth& r : truth->ranks) events += r.events;
  context.Say(
      fmt::format("{}: {} ranks, {} steps, {} events{}", o.directory, o.ranks, o.steps, events,
                  o.plant.empty() ? "" : fmt::format("; planted: {}", fmt::join(job.plant, ", "))));
  return absl::OkStatus();
}

}  // namespace

Args AddSimulateTrace(Args simulate, Run* run) {
  auto o = std::make_shared<TraceOptions>();
  Args trace = simulate.Command(
      "trace", "Write profiler traces (Kineto JSON) of a simulated training job, a file a rank");
  trace.Option("--out DIR", o->directory, "Directory for rank0.json, rank1.json, ...").Required();
  trace.Option("--ranks N", o->ranks, "Ranks of the job").ShowDefault();
  trace.Option("--steps K", o->steps, "Profiled steps").ShowDefault();
  trace.Option("--seed S", o->seed, "The same seed gives the same files").ShowDefault();
  trace.Option("--events-per-step M", o->events_per_step, "Events of a rank in a step, about")
      .ShowDefault();
  trace.Flag("--gzip", o->gzip, "Write rank0.json.gz, ...");
  trace.Option("--plant PATTERN,...", o->plant, "Ways of wasting a GPU to plant: ids of findings")
      .Delimiter(',');
  trace.Option("--truth FILE", o->truth_file, "Write what really happened (JSON, nanoseconds)");
  trace.Footer(
      "Examples:\n"
      "  flopwatch simulate trace --out traces --ranks 8 --steps 5 --plant straggler --truth "
      "truth.json\n"
      "  flopwatch simulate trace --out large --steps 100 --events-per-step 17000");
  *run = [o](Context& context) { return RunTrace(context, *o); };
  return trace;
}

}  // namespace flopwatch::cli
