// Exposition text of a fleet -> samples. The task: bodies of 100 fields x 8 GPUs as dcgm-exporter
// writes them (HELP and TYPE lines, about 264 bytes a sample), each target with its own decoder,
// 250 targets = 50 MB a round, so that neither bodies nor caches stay in the processor. Two value
// sets alternate. Beside it, in the same run: the physical floors (read every byte; find every
// newline), a parser as one writes it first, and one big table of hashed prefixes.
//
//   build with -DFLOPWATCH_BENCH=ON, then: bin/bench_parse
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "telemetry/exposition.h"
#include "telemetry/field.h"
#include "telemetry/sequence_cache.h"
#include "telemetry/value.h"

namespace flopwatch {
namespace {

constexpr int kTargets = 250;
constexpr int kGpus = 8;
constexpr int kFields = 100;
constexpr uint64_t kSamplesPerRound = uint64_t{kTargets} * kGpus * kFields;

std::string Uuid(std::mt19937_64& rng) {
  const uint64_t a = rng(), b = rng();
  return fmt::format("GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", a >> 32, (a >> 16) & 0xffff,
                     a & 0xffff, b >> 48, b & 0xffffffffffff);
}

// 38 canonical fields and 62 that get columns of their own, one string a group.
std::vector<std::string> FieldNames() {
  telemetry::FieldRegistry registry;
  std::vector<std::string> names;
  for (int id = 0; id < telemetry::kCanonicalFieldCount; ++id) {
    names.push_back(registry.SpellingsOf(static_cast<telemetry::FieldId>(id))[0].name);
  }
  for (int i = static_cast<int>(names.size()); i < kFields; ++i) {
    names.push_back(fmt::format("DCGM_FI_DEV_EXTRA_COUNTER_{:03}", i));
  }
  return names;
}

// The text of a reading as dcgm-exporter prints it: integers plain, floating point with six
// decimals.
std::string Value(int field, std::mt19937_64& rng) {
  static const telemetry::FieldRegistry registry;
  if (field >= telemetry::kCanonicalFieldCount) {
    return field % 2 == 0 ? fmt::format("{}", rng() % 3'000'000'000)
                          : fmt::format("{:.6f}", rng() % 1'000'000 / 1e3);
  }
  const auto id = static_cast<telemetry::FieldId>(field);
  if (registry.spec(id).kind == telemetry::FieldKind::kRatio) {
    const bool per_cent = registry.SpellingsOf(id)[0].match.divisor == 100;
    return per_cent ? fmt::format("{}", rng() % 101)
                    : fmt::format("{:.6f}", rng() % 1'000'000 / 1e6);
  }
  if (field == telemetry::kPowerW) return fmt::format("{:.6f}", rng() % 700'000 / 1e3);
  if (registry.spec(id).storage == telemetry::StorageType::kInt64)
    return fmt::format("{}", rng() % 2'000'000'000);
  return fmt::format("{}", rng() % 900);
}

std::string Body(int target, uint64_t values_seed, bool shuffled) {
  static const std::vector<std::string> names = FieldNames();
  std::mt19937_64 identity(1000 + target);
  std::vector<std::string> labels;
  for (int g = 0; g < kGpus; ++g) {
    labels.push_back(fmt::format(
        "gpu=\"{}\",UUID=\"{}\",pci_bus_id=\"00000000:{:02X}:00.0\",device=\"nvidia{}\","
        "modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"gpu-node-{:05}\","
        "DCGM_FI_DRIVER_VERSION=\"580.105.08\",hpc_job=\"{}\"",
        g, Uuid(identity), 0x10 + 16 * g, g, target, 2115000 + target / 16));
  }
  std::mt19937_64 rng(values_seed * 7919 + target);
  std::vector<std::string> groups;
  for (int f = 0; f < kFields; ++f) {
    std::string group = fmt::format(
        "# HELP {0} Help text of the field, as the exporter prints it.\n# TYPE {0} gauge\n",
        names[f]);
    for (int g = 0; g < kGpus; ++g) {
      group += fmt::format("{}{{{}}} ", names[f], labels[g]);
      group += Value(f, rng);
      group += '\n';
    }
    groups.push_back(std::move(group));
  }
  if (shuffled) std::shuffle(groups.begin(), groups.end(), rng);
  std::string body;
  for (const std::string& g : groups) body += g;
  return body;
}

const std::vector<std::string>& Bodies(bool shuffled) {
  static const auto make = [](bool s) {
    std::vector<std::string> bodies;
    for (uint64_t set = 0; set < 2; ++set) {
      for (int t = 0; t < kTargets; ++t) bodies.push_back(Body(t, set, s));
    }
    return bodies;
  };
  static const std::vector<std::string> in_order = make(false), in_disorder = make(true);
  return shuffled ? in_disorder : in_order;
}

void Report(benchmark::State& state, uint64_t bytes) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kSamplesPerRound));
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}

void BM_FloorReadEveryByte(benchmark::State& state) {
  const auto& bodies = Bodies(false);
  uint64_t bytes = 0;
  size_t set = 0;
  for (auto _ : state) {
    uint64_t sum[4] = {};
    for (int t = 0; t < kTargets; ++t) {
      const std::string& b = bodies[set * kTargets + t];
      for (size_t i = 0; i + 64 <= b.size(); i += 64) {
        __builtin_prefetch(b.data() + i +
                           4096);  // as the decoder does: without it the floor is half as high
        uint64_t words[8];
        std::memcpy(words, b.data() + i, 64);
        for (int k = 0; k < 8; ++k) sum[k & 3] += words[k];
      }
      bytes += b.size();
    }
    benchmark::DoNotOptimize(sum);
    set ^= 1;
  }
  Report(state, bytes);
}
BENCHMARK(BM_FloorReadEveryByte)->Unit(benchmark::kMillisecond);

void BM_FloorFindNewlines(benchmark::State& state) {
  const auto& bodies = Bodies(false);
  uint64_t bytes = 0;
  size_t set = 0;
  for (auto _ : state) {
    uint64_t lines = 0;
    for (int t = 0; t < kTargets; ++t) {
      const std::string& b = bodies[set * kTargets + t];
      const char *p = b.data(), *end = p + b.size();
      while (p < end) {
        for (int ahead = 0; ahead < 320; ahead += 64) __builtin_prefetch(p + 4096 + ahead);
        p = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end - p))) + 1;
        ++lines;
      }
      bytes += b.size();
    }
    benchmark::DoNotOptimize(lines);
    set ^= 1;
  }
  Report(state, bytes);
}
BENCHMARK(BM_FloorFindNewlines)->Unit(benchmark::kMillisecond);

void BM_Decoder(benchmark::State& state) {
  const bool shuffled = state.range(0) != 0;
  const auto& bodies = Bodies(shuffled);
  telemetry::FieldRegistry registry;
  std::vector<telemetry::ExpositionDecoder> decoders;
  for (int t = 0; t < kTargets; ++t) decoders.emplace_back(&registry, fmt::format("node{}", t));
  for (int t = 0; t < kTargets; ++t) decoders[t].Decode(bodies[t]);
  uint64_t bytes = 0, samples = 0, slow = 0, cache_bytes = 0;
  size_t set = 1;
  for (auto _ : state) {
    for (int t = 0; t < kTargets; ++t) {
      const std::string& b = bodies[set * kTargets + t];
      const auto& scrape = decoders[t].Decode(b);
      samples += scrape.stats.samples;
      slow += scrape.stats.slow_lines;
      bytes += b.size();
    }
    set ^= 1;
  }
  Report(state, bytes);
  for (const auto& d : decoders) cache_bytes += d.cache_bytes();
  if (samples != state.iterations() * kSamplesPerRound) state.SkipWithError("samples were refused");
  state.counters["slow_lines"] = static_cast<double>(slow);
  state.counters["bytes_a_sample"] = static_cast<double>(bytes) / static_cast<double>(samples);
  state.counters["cache_bytes_a_series"] = static_cast<double>(cache_bytes) / kSamplesPerRound;
}
BENCHMARK(BM_Decoder)->Arg(0)->Arg(1)->ArgName("groups_shuffled")->Unit(benchmark::kMillisecond);

void BM_DecoderFirstSight(benchmark::State& state) {
  const auto& bodies = Bodies(false);
  telemetry::FieldRegistry registry;
  uint64_t bytes = 0;
  for (auto _ : state) {
    for (int t = 0; t < kTargets; ++t) {
      telemetry::ExpositionDecoder decoder(&registry, "node");
      benchmark::DoNotOptimize(decoder.Decode(bodies[t]).stats.samples);
      bytes += bodies[t].size();
    }
  }
  Report(state, bytes);
}
BENCHMARK(BM_DecoderFirstSight)->Unit(benchmark::kMillisecond);

// Hash of the bytes before the value looked up in one table for all targets.
void BM_OneBigTable(benchmark::State& state) {
  const auto& bodies = Bodies(false);
  absl::flat_hash_map<uint64_t, uint32_t> table;
  std::vector<double> values;
  const auto pass = [&](const std::string& b) {
    const char *p = b.data(), *end = p + b.size();
    while (p < end) {
      const char* nl = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end - p)));
      if (*p != '#') {
        const char* value = nl;
        while (value[-1] != ' ') --value;
        const auto [it, added] =
            table.try_emplace(XXH3_64bits(p, static_cast<size_t>(value - p)), values.size());
        if (added) values.push_back(0);
        bool integer;
        telemetry::ParsePlainDecimal(value, end, &values[it->second], &integer);
      }
      p = nl + 1;
    }
  };
  for (int t = 0; t < kTargets; ++t) pass(bodies[t]);
  uint64_t bytes = 0;
  size_t set = 1;
  for (auto _ : state) {
    for (int t = 0; t < kTargets; ++t) {
      pass(bodies[set * kTargets + t]);
      bytes += bodies[set * kTargets + t].size();
    }
    set ^= 1;
  }
  Report(state, bytes);
}
BENCHMARK(BM_OneBigTable)->Unit(benchmark::kMillisecond);

// What one writes first: labels into a map, strtod, a map from series to value.
void BM_Naive(benchmark::State& state) {
  const auto& bodies = Bodies(false);
  uint64_t bytes = 0;
  for (auto _ : state) {
    for (int t = 0; t < kTargets; ++t) {
      std::map<std::string, std::map<std::string, double>> rows;
      std::string_view rest = bodies[t];
      bytes += rest.size();
      while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(line.size() + 1);
        if (line[0] == '#') continue;
        const size_t open = line.find('{'), close = line.rfind('}');
        std::map<std::string, std::string> labels;
        for (size_t at = open + 1; at < close;) {
          const size_t equals = line.find('=', at), quote = line.find('"', equals + 2);
          labels[std::string(line.substr(at, equals - at))] =
              line.substr(equals + 2, quote - equals - 2);
          at = quote + 2;
        }
        rows[labels["UUID"]][std::string(line.substr(0, open))] =
            std::strtod(line.data() + close + 1, nullptr);
      }
      benchmark::DoNotOptimize(rows);
    }
  }
  Report(state, bytes);
}
BENCHMARK(BM_Naive)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace flopwatch

BENCHMARK_MAIN();
