// Counters of simulated fleets, read as serve reads them: each kind of lie that is planted is named
// with its remedy, and honest GPUs are left alone, whatever runs on them (docs/counters.md).
//
// FLOPWATCH_TEST_SEEDS=N: that many seeds instead of one, from FLOPWATCH_TEST_FIRST_SEED on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "efficiency/counters/honesty.h"
#include "hardware/accelerator.h"
#include "ingest/pipeline.h"
#include "make_fleet.h"
#include "simulate/fleet_model.h"

namespace flopwatch::simulate {
namespace {

using efficiency::CounterOpinion;
using efficiency::CounterRuleId;
using efficiency::CounterVerdict;

uint64_t FromEnvironment(const char* name, uint64_t usual) {
  const char* text = std::getenv(name);
  const int n = text == nullptr ? 0 : std::atoi(text);
  return n > 0 ? static_cast<uint64_t>(n) : usual;
}

// What was said of one GPU or instance.
struct Said {
  int32_t gpu = 0;
  CounterVerdict last;
  std::set<std::string> accused;  // rules that were ever told first
  bool undecided = false;         // ever
};

std::string RuleName(CounterRuleId id) {
  return id == CounterRuleId::kNone ? "none" : std::string(efficiency::RuleOf(id).name);
}

// Feeds all exporters of a fleet to the ingest side, and asks every ten minutes what it thinks.
class Watch {
 public:
  explicit Watch(const Fleet& fleet) : fleet_(fleet) {
    for (int32_t gpu = 0; gpu < fleet.options().gpus; ++gpu) gpu_of_[fleet.UuidOf(gpu)] = gpu;
    ingest::PipelineOptions options;
    options.nominal_interval = fleet.options().interval;
    options.clock = [this] { return now_.load(); };
    options.maintenance = false;
    auto side = ingest::IngestSide::Start(options, &hardware::Catalog::Builtin(), nullptr);
    EXPECT_TRUE(side.ok()) << side.status();
    side_ = *std::move(side);
    if (!fleet.options().amd) side_->jobs.SetStatic(fleet.Assignments());
  }

  std::map<int32_t, Said> Run() {
    const FleetOptions& o = fleet_.options();
    std::vector<int64_t> next(fleet_.hosts(), 0);
    std::string text;
    constexpr Micros kPiece = 10 * kMicrosPerMinute;
    for (Micros piece = o.start; piece < o.start + o.duration; piece += kPiece) {
      now_ = piece + kPiece;
      for (int h = 0; h < fleet_.hosts(); ++h) {
        const std::string source = "simulate://" + fleet_.HostName(h);
        for (int64_t& tick = next[h]; tick < fleet_.Ticks(h); ++tick) {
          const Micros t = fleet_.TickTime(h, tick);
          if (t > piece + kPiece) break;
          if (fleet_.RenderHost(h, tick, Stamps::kNone, &text) != Answer::kOk) continue;
          side_->pipeline.Ingest({source, fleet_.HostName(h)}, text, t, 0);
        }
        for (const ingest::GpuCounters& gpu : side_->pipeline.CountersOf(source)) Note(gpu);
      }
    }
    return std::move(said_);
  }

 private:
  void Note(const ingest::GpuCounters& gpu) {
    const auto record = side_->registry.entity(gpu.entity);
    if (!record.has_value()) return;
    const auto known = gpu_of_.find(record->key.uuid);
    if (known == gpu_of_.end()) return;  // a GPU that was put in another's place
    Said& said = said_[gpu.entity];
    said.gpu = known->second;
    said.last = gpu.verdict;
    said.undecided |= gpu.verdict.opinion == CounterOpinion::kUndecided;
    if (gpu.verdict.opinion != CounterOpinion::kFaulty) return;
    said.accused.insert(RuleName(gpu.verdict.rule));
    EXPECT_FALSE(ingest::RemedyLine(gpu).empty());
  }

  const Fleet& fleet_;
  std::atomic<Micros> now_{0};
  std::unique_ptr<ingest::IngestSide> side_;
  std::map<std::string, int32_t> gpu_of_;
  std::map<int32_t, Said> said_;
};

struct Count {
  int planted = 0, named = 0, honest = 0, accused = 0, undecided = 0, judged = 0;
  std::map<std::string, std::map<std::string, int>> missed, wrongly;
  std::map<std::string, int> of_kind;
  Count& operator+=(const Count& o) {
    planted += o.planted, named += o.named, honest += o.honest, accused += o.accused;
    undecided += o.undecided, judged += o.judged;
    for (const auto& [a, m] : o.missed)
      for (const auto& [b, n] : m) missed[a][b] += n;
    for (const auto& [a, m] : o.wrongly)
      for (const auto& [b, n] : m) wrongly[a][b] += n;
    for (const auto& [a, n] : o.of_kind) of_kind[a] += n;
    return *this;
  }
};

// A lie that could show for so long must be named.
constexpr int32_t kEnough = 1800;

Count Measure(const FleetOptions& o, const std::string& name) {
  Count count;
  const auto fleet = Make(o);
  if (fleet == nullptr) return count;
  std::map<int32_t, PlantedLie> lies;
  for (const PlantedLie& lie : fleet->Lies()) lies[lie.gpu] = lie;
  const TelemetryFaults& faults = fleet->model().faults;
  for (const auto& [entity, said] : Watch(*fleet).Run()) {
    const auto lie = lies.find(said.gpu);
    std::string expected;
    // These have a fault of their own, beside what is planted.
    if (faults.TensorMissing(said.gpu) || faults.TensorDead(said.gpu, 86399)) continue;
    if (lie != lies.end()) {
      if (lie->second.shows_s < kEnough) continue;
      expected = CounterLieName(lie->second.lie);
    }
    if (expected.empty()) {
      ++count.honest;
      count.judged += said.last.opinion == CounterOpinion::kHonest;
      count.undecided += said.undecided;
      count.accused += !said.accused.empty();
      for (const std::string& rule : said.accused) ++count.wrongly[name][rule];
    } else {
      ++count.planted;
      ++count.of_kind[expected];
      const bool named =
          RuleName(said.last.rule) == expected ||
          (said.last.rule == CounterRuleId::kNone && said.accused.contains(expected));
      count.named += named;
      if (!named) ++count.missed[expected][RuleName(said.last.rule)];
    }
  }
  return count;
}

std::string Text(const Count& c) {
  std::string text = fmt::format(
      "{} of {} planted named; {} of {} honest GPUs accused, {} ever undecided, {} called ok at "
      "the "
      "end\n",
      c.named, c.planted, c.accused, c.honest, c.undecided, c.judged);
  for (const auto& [kind, said] : c.missed) {
    text += fmt::format("  missed {} (of {}):", kind, c.of_kind.at(kind));
    for (const auto& [rule, n] : said) text += fmt::format(" {} {}", rule, n);
    text += "\n";
  }
  for (const auto& [fleet, said] : c.wrongly) {
    text += fmt::format("  accused in {}:", fleet);
    for (const auto& [rule, n] : said) text += fmt::format(" {} {}", rule, n);
    text += "\n";
  }
  return text;
}

struct Setting {
  std::string_view name;
  Preset preset;
  int fields;
  int interval_s;
  bool amd = false;
};
constexpr Setting kSettings[] = {
    {"research 20", Preset::kResearch, 20, 30}, {"research 100", Preset::kResearch, 100, 30},
    {"llm 20", Preset::kLlm, 20, 30},           {"llm 100", Preset::kLlm, 100, 15},
    {"serving 20", Preset::kServing, 20, 30},   {"serving 100", Preset::kServing, 100, 30},
    {"seren 20", Preset::kSeren, 20, 15},       {"research amd", Preset::kResearch, 20, 30, true},
    {"llm amd", Preset::kLlm, 20, 30, true},
};

FleetOptions OptionsOf(const Setting& setting, uint64_t seed, int gpus, double hours) {
  FleetOptions o = Options(setting.preset, gpus, hours, Faults::kAll, seed, setting.fields);
  o.interval = setting.interval_s * kMicrosPerSecond;
  o.odd_jobs = true;
  o.amd = setting.amd;
  return o;
}

enum class Plant { kNothing, kNvidia, kAmd };

void MeasureAll(Plant plant, Count* all) {
  const bool planted = plant != Plant::kNothing;
  const uint64_t first = FromEnvironment("FLOPWATCH_TEST_FIRST_SEED", 501);
  const uint64_t seeds = FromEnvironment("FLOPWATCH_TEST_SEEDS", 1);
  const auto gpus = static_cast<int>(FromEnvironment("FLOPWATCH_TEST_GPUS", 256));
  for (const Setting& setting : kSettings) {
    if (planted && setting.amd != (plant == Plant::kAmd)) continue;
    Count of_setting;
    for (uint64_t seed = first; seed < first + seeds; ++seed) {
      FleetOptions o = OptionsOf(setting, seed, gpus, planted ? 8 : 6);
      if (planted) {
        const auto n = std::max(1, gpus / 8 / static_cast<int>(kCounterLies));
        o.counters.n.fill(n);
        // What no 20 fields tell: the zero of a code without tensor work from that of a counter.
        const auto cycles = static_cast<size_t>(CounterLie::kTensorAgainstCycles);
        if (setting.fields == 20)
          o.counters.n[cycles] = o.counters.n[static_cast<size_t>(CounterLie::kTensorDead)] = 0;
        // Matrix and vector units run side by side: neither bounds the other there.
        if (setting.amd) o.counters.n[static_cast<size_t>(CounterLie::kSmBelowTensor)] = 0;
      }
      of_setting += Measure(o, std::string(setting.name));
    }
    fmt::print("{}: {}", setting.name, Text(of_setting));
    *all += of_setting;
  }
  fmt::print("all: {}", Text(*all));
}

TEST(SimulatedCounters, HonestGpusAreLeftAlone) {
  Count all;
  MeasureAll(Plant::kNothing, &all);
  EXPECT_GT(all.honest, 1000);
  EXPECT_LE(all.accused, all.honest / 1000);
}

TEST(SimulatedCounters, EveryLieIsNamed) {
  Count all;
  MeasureAll(Plant::kNvidia, &all);
  EXPECT_GT(all.planted, 100);
  EXPECT_GE(all.named, all.planted * 99 / 100);
  EXPECT_LE(all.accused, std::max(1, all.honest / 1000));
}

// AMD's exporter prints whole watts and microjoules; what that hides is in docs/counters.md.
TEST(SimulatedCounters, EveryLieUnderAmdsExporterIsNamed) {
  Count all;
  MeasureAll(Plant::kAmd, &all);
  EXPECT_GT(all.planted, 50);
  EXPECT_GE(all.named, all.planted * 97 / 100);
  EXPECT_LE(all.accused, std::max(1, all.honest / 1000));
}

}  // namespace
}  // namespace flopwatch::simulate
