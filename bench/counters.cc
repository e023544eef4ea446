// What judging the counters costs beside the decoding of the same samples: bodies of a simulated
// fleet, each target with its decoder, each GPU with its judge, one core. Decoding alone and
// decoding with the judge take turns, so that both see the same machine.
//
//   bin/bench_counters [ROUNDS]
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ingest/judge.h"
#include "measure.h"
#include "simulate/fleet.h"
#include "telemetry/exposition.h"
#include "telemetry/field.h"

namespace flopwatch {
namespace {

constexpr int kHosts = 100, kTicks = 10;

struct Target {
  std::unique_ptr<telemetry::ExpositionDecoder> decoder;
  std::vector<std::string> bodies;
  std::vector<efficiency::CounterJudge> judges;
};

struct Task {
  telemetry::FieldRegistry registry;
  std::vector<Target> targets;
  uint64_t found = 0;
};

void MakeTask(int fields, Task* task) {
  simulate::FleetOptions o;
  o.gpus = kHosts * 8;
  o.fields = fields;
  o.preset = simulate::Preset::kLlm;
  o.duration = 6 * kMicrosPerHour;
  o.faults = simulate::Faults::kNone;
  const auto fleet = Check(simulate::Fleet::Create(o));
  for (int h = 0; h < fleet->hosts(); ++h) {
    Target t{std::make_unique<telemetry::ExpositionDecoder>(&task->registry, "node"), {}, {}};
    for (int k = 0; k < kTicks; ++k) {
      std::string text;
      if (fleet->RenderHost(h, 200 + k, simulate::Stamps::kNone, &text) == simulate::Answer::kOk)
        t.bodies.push_back(std::move(text));
    }
    t.judges.resize(64);
    task->targets.push_back(std::move(t));
  }
}

void Judge(const telemetry::DecodedScrape& scrape, const ingest::ResolvedEntity& device, Task* task,
           Target* target) {
  efficiency::Siblings siblings;
  siblings.Begin();
  for (const telemetry::DecodedRow& row : scrape.rows) {
    if (!telemetry::IsGpu(row.key->kind)) continue;
    siblings.Note(
        ingest::SiblingOf(row, row.key->kind == telemetry::EntityKind::kGpu, 1, 0, false));
  }
  for (const telemetry::DecodedRow& row : scrape.rows) {
    if (!telemetry::IsGpu(row.key->kind) || row.slot >= target->judges.size()) continue;
    ingest::Stamp stamp;
    stamp.header.span_ms = 30'000;
    const ingest::RowToStamp in = {.row = row, .kind = row.key->kind, .entity = device};
    efficiency::CounterJudge& judge = target->judges[row.slot];
    judge.Add(ingest::CountersOf(in, stamp, siblings, /*like_tensor=*/false));
    task->found += judge.Verdict().found;
  }
}

// CPU seconds of one round over all bodies.
double Round(bool judged, const ingest::ResolvedEntity& device, Task* task, uint64_t* samples) {
  const double before = CpuSeconds();
  for (int k = 0; k < kTicks; ++k) {
    for (Target& target : task->targets) {
      if (static_cast<size_t>(k) >= target.bodies.size()) continue;
      const telemetry::DecodedScrape& scrape = target.decoder->Decode(target.bodies[k]);
      *samples += scrape.stats.samples;
      if (judged) Judge(scrape, device, task, &target);
    }
  }
  return CpuSeconds() - before;
}

void Measure(int fields, int rounds) {
  Task task;
  MakeTask(fields, &task);
  ingest::ResolvedEntity device;
  device.device.has_profiling = true;
  device.device.vendor = efficiency::CounterVendor::kNvidia;
  device.device.tdp_w = 700;
  device.device.tensor_clock_max_mhz = 1830;
  uint64_t warm = 0, plain_samples = 0, judged_samples = 0;
  Round(true, device, &task, &warm);
  double plain = 0, judged = 0;
  for (int k = 0; k < rounds; ++k) {
    plain += Round(false, device, &task, &plain_samples);
    judged += Round(true, device, &task, &judged_samples);
  }
  const double a = plain / static_cast<double>(plain_samples) * 1e9;
  const double b = judged / static_cast<double>(judged_samples) * 1e9;
  const double rows = static_cast<double>(judged_samples) / fields;
  fmt::print(
      "{} fields: decode {:.1f} ns a sample, with the judge {:.1f}: {:.1f} ns more ({:.0f} % of "
      "decoding), {:.0f} ns a GPU and scrape\n",
      fields, a, b, b - a, (b - a) / a * 100, (judged - plain) / rows * 1e9);
}

}  // namespace
}  // namespace flopwatch

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  for (const int fields : {20, 100}) flopwatch::Measure(fields, rounds);
}
