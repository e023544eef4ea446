// The simulator's own cost: exporter text a second on one core beside a plain copy of the same
// bytes (the limit of the machine), the time to lay out a fleet, and its truth.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <string>

#include "simulate/fleet.h"
#include "simulate/truth.h"

namespace flopwatch::simulate {
namespace {

std::unique_ptr<Fleet> Make(int gpus, int fields, Preset preset, double hours = 24) {
  FleetOptions o;
  o.gpus = gpus;
  o.fields = fields;
  o.preset = preset;
  o.duration = static_cast<Micros>(hours * kMicrosPerHour);
  o.faults = Faults::kNone;
  return std::move(*Fleet::Create(o));
}

// One tick of all hosts after the other, as a scraper sees them.
void Render(benchmark::State& state) {
  auto fleet =
      Make(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), Preset::kLlm);
  std::string text;
  int64_t tick = 100, bytes = 0;
  int host = 0;
  for (auto _ : state) {
    fleet->RenderHost(host, tick, Stamps::kNone, &text);
    bytes += static_cast<int64_t>(text.size());
    if (++host == fleet->hosts()) host = 0, tick = tick % 8000 + 1;
  }
  state.SetBytesProcessed(bytes);
  state.counters["samples/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * 8 * static_cast<double>(state.range(1)),
      benchmark::Counter::kIsRate);
}
BENCHMARK(Render)->Args({1000, 20})->Args({1000, 100})->Args({100000, 20})->Args({100000, 100});

void CopyTheSameBytes(benchmark::State& state) {
  auto fleet = Make(1000, static_cast<int>(state.range(0)), Preset::kLlm);
  std::string text, out;
  fleet->RenderHost(0, 100, Stamps::kNone, &text);
  for (auto _ : state) {
    out.resize(text.size());
    std::memcpy(out.data(), text.data(), text.size());
    benchmark::DoNotOptimize(out.data());
    out.clear();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}
BENCHMARK(CopyTheSameBytes)->Arg(20)->Arg(100);

void LayOut(benchmark::State& state) {
  size_t bytes = 0;
  for (auto _ : state)
    bytes = Make(static_cast<int>(state.range(0)), 20, static_cast<Preset>(state.range(1)))
                ->memory_bytes();
  state.SetLabel(std::string(PresetName(static_cast<Preset>(state.range(1)))));
  state.counters["MB"] = static_cast<double>(bytes) / 1e6;
}
BENCHMARK(LayOut)->ArgsProduct({{1000, 100000}, {0, 1, 2, 3}})->Unit(benchmark::kMillisecond);

void WholeTruth(benchmark::State& state) {
  auto fleet = Make(static_cast<int>(state.range(0)), 20, Preset::kResearch);
  for (auto _ : state) benchmark::DoNotOptimize(fleet->TruthOf());
}
BENCHMARK(WholeTruth)->Arg(1000)->Arg(100000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace flopwatch::simulate

BENCHMARK_MAIN();
