// One round of the shipped rules over a large fleet, beside a plain pass over the same live state:
// every GPU's newest sample read once, the sums of every job and of the fleet over five minutes.
//
//   bench_alerts [GPUS [JOBS [ROUNDS]]]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "alerts/engine.h"
#include "alerts/look.h"
#include "ingest/pipeline.h"
#include "measure.h"

namespace flopwatch {
namespace {

constexpr int kGpusOfNode = 8;
constexpr Micros kT0 = 1'793'491'200 * kMicrosPerSecond, kInterval = 15 * kMicrosPerSecond;

std::string Scrape(int node, int scrape, int jobs, int nodes) {
  std::string text;
  const std::string job = std::to_string(static_cast<int64_t>(node) * jobs / nodes);
  for (int gpu = 0; gpu < kGpusOfNode; ++gpu) {
    const double noise = (scrape * 7 + gpu * 3 + node) % 101 * 1e-4;
    const auto line = [&](std::string_view name, double value) {
      fmt::format_to(std::back_inserter(text),
                     "{}{{gpu=\"{}\",UUID=\"GPU-{:08}\",modelName=\"NVIDIA H100 80GB HBM3\","
                     "Hostname=\"n{}\",hpc_job=\"{}\"}} {:.6g}\n",
                     name, gpu, node * kGpusOfNode + gpu, node, job, value);
    };
    line("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", .4 + noise);
    line("DCGM_FI_PROF_SM_ACTIVE", .7 + noise);
    line("DCGM_FI_DEV_GPU_UTIL", 99 - (scrape + gpu * 5 + node) % 4);
    line("DCGM_FI_DEV_SM_CLOCK", 1680 + (scrape * 7 + gpu * 13 + node * 5) % 47);
    line("DCGM_FI_DEV_POWER_USAGE", 600 + noise * 1000);
    line("DCGM_FI_DEV_GPU_TEMP", 60);
    line("DCGM_FI_DEV_XID_ERRORS", 0);
    line("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 4);
    line("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0);
    line("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", 0);
  }
  return text;
}

double Plain(const ingest::LiveState& live, Micros now) {
  double sum = 0;
  live.ForEachGpu(0, [&](const ingest::GpuNow& gpu) {
    sum += gpu.ofu + gpu.tensor_active + gpu.sm_active + gpu.gpu_util + gpu.power_w +
           gpu.sm_clock_mhz + gpu.gpu_temp_c + static_cast<double>(gpu.troubles.xid);
  });
  for (const store::JobUsage& job : live.JobsSince(now - alerts::kWindow + 1))
    sum += job.sums.ofu.ofu_s;
  return sum + live.FleetSince(now - alerts::kWindow + 1).ofu.ofu_s;
}

double MedianMs(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2] * 1e3;
}

int Main(int argc, char** argv) {
  const int gpus = argc > 1 ? std::atoi(argv[1]) : 100'000;
  const int jobs = argc > 2 ? std::atoi(argv[2]) : 4'000;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 11;
  const int nodes = gpus / kGpusOfNode;
  Micros now = kT0;
  ingest::PipelineOptions options;
  options.clock = [&now] { return now; };
  options.backfill = true;  // no budget of what is new
  const auto side =
      Check(ingest::IngestSide::Start(options, &hardware::Catalog::Builtin(), nullptr));
  query::MemorySources sources;
  sources.clock = [&now] { return now; };
  sources.live = query::LiveSources{.registry = &side->registry,
                                    .jobs = &side->jobs,
                                    .books = &side->books,
                                    .live = &side->live,
                                    .applications = &side->application};
  const query::Memory memory(std::move(sources));
  alerts::Look look(&memory);
  alerts::Engine engine(alerts::ShippedRules(), {.grace = 0});
  alerts::Round round;
  round.wanted = engine.quantities();
  std::vector<double> plain, looks, runs;
  double sum = 0;
  for (int k = 0; k < rounds; ++k) {
    now += kInterval;
    for (int node = 0; node < nodes; ++node) {
      const std::string name = "n" + std::to_string(node);
      side->pipeline.Ingest({name + ":9400", name, ingest::SourceKind::kExporter},
                            Scrape(node, k, jobs, nodes), now, 0);
    }
    const double begun = CpuSeconds();
    sum += Plain(side->live, now);
    const double passed = CpuSeconds();
    look.Take(now, &round);
    const double looked = CpuSeconds();
    engine.Run(round);
    const double done = CpuSeconds();
    if (k < 2) continue;  // the first rounds make what later ones keep
    plain.push_back(passed - begun);
    looks.push_back(looked - passed);
    runs.push_back(done - looked);
  }
  const double pass = MedianMs(plain), look_ms = MedianMs(looks), run_ms = MedianMs(runs);
  fmt::print(
      "{} GPUs, {} jobs, {} rules; medians of {}, CPU\n"
      "plain pass          {:8.1f} ms   (sum {:.6g})\n"
      "round: look         {:8.1f} ms\n"
      "round: rules        {:8.1f} ms\n"
      "round over the pass {:8.2f} times; {} alerts\n",
      gpus, round.of(alerts::Scope::kJob).size(), engine.rules().size(), plain.size(), pass, sum,
      look_ms, run_ms, (look_ms + run_ms) / pass, engine.Alerts(true).size());
  return 0;
}

}  // namespace
}  // namespace flopwatch

int main(int argc, char** argv) { return flopwatch::Main(argc, argv); }
