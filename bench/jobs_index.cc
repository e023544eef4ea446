// The job index at fleet size: 100k GPUs with two weeks of history (four jobs a day on each),
// 12,500 jobs of eight GPUs now.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "jobs/job_index.h"

namespace flopwatch::jobs {
namespace {

constexpr int32_t kGpus = 100'000;
constexpr int kJobsPerGpu = 56;
constexpr Micros kStart = 1'793'491'200 * kMicrosPerSecond;
constexpr Micros kJobTime = 6 * kMicrosPerHour;

struct Fleet {
  JobIndex index;
  std::vector<telemetry::OwnerLabels> owners = std::vector<telemetry::OwnerLabels>(kGpus + 1);
  Micros now = kStart;
};

// Built once: it is what the benchmarks share.
Fleet& TheFleet() {
  static Fleet* fleet = [] {
    auto* f = new Fleet;
    std::vector<const telemetry::OwnerLabels*> shown(1);
    for (int k = 0; k < kJobsPerGpu; ++k) {
      for (int32_t gpu = 1; gpu <= kGpus; ++gpu) {
        f->owners[gpu].hpc_job = std::to_string(1'000'000 + k * 12'500 + gpu / 8);
        shown[0] = &f->owners[gpu];
        f->index.Observe(gpu, f->now + 10 * kMicrosPerSecond, 10 * kMicrosPerSecond, shown);
        f->index.Observe(gpu, f->now + kJobTime, kJobTime - 10 * kMicrosPerSecond, shown);
      }
      f->now += kJobTime;
    }
    f->index.TakeChanges();
    return f;
  }();
  return *fleet;
}

void ObserveUnchanged(benchmark::State& state) {
  Fleet& f = TheFleet();
  const telemetry::OwnerLabels* shown[1];
  for (auto _ : state) {
    f.now += 10 * kMicrosPerSecond;
    for (int32_t gpu = 1; gpu <= kGpus; ++gpu) {
      shown[0] = &f.owners[gpu];
      benchmark::DoNotOptimize(f.index.Observe(gpu, f.now, 10 * kMicrosPerSecond, shown));
    }
  }
  state.SetItemsProcessed(state.iterations() * kGpus);
}
BENCHMARK(ObserveUnchanged)->Unit(benchmark::kMillisecond);

void TakeChangesIdle(benchmark::State& state) {
  Fleet& f = TheFleet();
  for (auto _ : state) benchmark::DoNotOptimize(f.index.TakeChanges());
}
BENCHMARK(TakeChangesIdle)->Unit(benchmark::kMillisecond);

void GpuSeconds(benchmark::State& state) {
  Fleet& f = TheFleet();
  const Micros window = state.range(0) * kMicrosPerMinute;
  size_t jobs = 0;
  for (auto _ : state) jobs = f.index.GpuSecondsByJob(f.now - window, f.now).size();
  state.counters["jobs"] = static_cast<double>(jobs);
}
BENCHMARK(GpuSeconds)
    ->Name("GpuSecondsByJob/minutes")
    ->Arg(5)
    ->Arg(60)
    ->Arg(14 * 24 * 60)
    ->Unit(benchmark::kMillisecond);

void IntervalsOfOneJob(benchmark::State& state) {
  Fleet& f = TheFleet();
  const int32_t job = f.index.FindJob(f.owners[800].hpc_job)->id;
  for (auto _ : state)
    benchmark::DoNotOptimize(f.index.Intervals(f.now - kMicrosPerHour, f.now, job));
}
BENCHMARK(IntervalsOfOneJob)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace flopwatch::jobs

BENCHMARK_MAIN();
