#include "simulate/counter_lies.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "simulate/fleet_model.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

struct LieSpec {
  std::string_view name, about;
};
constexpr LieSpec kLies[] = {
    {"tensor_unlisted", "an exporter whose CSV has no tensor activity"},
    {"tensor_renamed", "tensor activity under a name of the site's own"},
    {"tensor_percent", "tensor activity in per cent"},
    {"power_scaled", "power in mW, or in kW"},
    {"power_missing", "an exporter without power"},
    {"clock_scaled", "the SM clock in Hz"},
    {"clock_missing", "an exporter without the SM clock"},
    {"duty_scaled", "the duty cycle as a ratio under the name of the per cent"},
    {"duty_missing", "an exporter without the duty cycle"},
    {"energy_scaled", "energy in J under the name of the mJ"},
    {"exporter_frozen", "an exporter that answers with old readings"},
    {"tensor_gone", "profiling is paused: no profiling field has a value"},
    {"profiling_dead", "every profiling field is 0"},
    {"tensor_dead", "tensor activity is 0, the other profiling fields are right"},
    {"tensor_frozen", "tensor activity has stopped at some value"},
    {"tensor_without_power", "power and energy are those of an idle board"},
    {"power_dead", "power is 0"},
    {"power_frozen", "power has stopped at some value"},
    {"duty_dead", "the duty cycle is 0"},
    {"duty_stuck", "the duty cycle is 100"},
    {"sm_below_tensor", "SM activity is 0, tensor activity is right"},
    {"tensor_against_cycles", "tensor activity is half of what it is"},
    {"energy_frozen", "the energy total has stopped"},
    {"power_gone", "one GPU of an exporter has no power"},
    {"clock_gone", "one GPU of an exporter has no SM clock"},
    {"duty_gone", "one GPU of an exporter has no duty cycle"},
};
static_assert(std::size(kLies) == kCounterLies);

constexpr int32_t kLooks = 400;      // so often a GPU is looked at, over the window
constexpr int32_t kShowsFor = 1800;  // so long a lie has to be able to show, if it is to count

// Whether a GPU that shows these does what it takes for the lie to show.
bool CanShow(CounterLie lie, const Values& v, const GpuModel& model) {
  const int64_t tdp = static_cast<int64_t>(model.tdp_w) * 1000;
  switch (lie) {
    case CounterLie::kTensorPercent:
      return v[kTensorPpm] > 30'000;
    case CounterLie::kDutyScaled:
      return v[kUtilPct] > 1 && v[kGrPpm] > 550'000;
    case CounterLie::kProfilingDead:
      return v[kUtilPct] > 30 && v[kPowerMw] > tdp * 42 / 100;
    case CounterLie::kTensorDead:
      return v[kUtilPct] > 92 && v[kPowerMw] > tdp * 63 / 100 && v[kTensorPpm] > 10'000;
    case CounterLie::kTensorWithoutPower:
      return v[kTensorPpm] > 270'000 && v[kSmClock] > model.tensor_max_mhz * 62 / 100;
    case CounterLie::kPowerFrozen:
      return v[kSmPpm] > 100'000;
    case CounterLie::kDutyDead:
      return v[kGrPpm] > 350'000 && v[kPowerMw] > tdp * 42 / 100;
    case CounterLie::kDutyStuck:
      return v[kUtilPct] == 0 && v[kGrPpm] == 0 && v[kSmPpm] == 0;
    case CounterLie::kSmBelowTensor:
      return v[kTensorPpm] > 130'000;
    case CounterLie::kTensorAgainstCycles:
      return v[kTensorPpm] > 110'000;
    default:
      return true;
  }
}

// How long a GPU can show a lie from a second on, of the looks that were taken at it.
int32_t ShowsFor(const Fleet::Model& m, int32_t gpu, CounterLie lie, int32_t from) {
  const int32_t step = std::max(60, m.plan.horizon / kLooks);
  Values v{};
  int32_t seconds = 0;
  for (int32_t t = from + step; t <= m.plan.horizon; t += step) {
    ReadLane(m, gpu, t, std::min(t, 10), &v);
    if (CanShow(lie, v, m.activity->ModelOf(gpu))) seconds += step;
  }
  return seconds;
}

// The GPU of the host that shows the lie longest.
PlantedLie OnOneGpu(const Fleet::Model& m, const Host& host, CounterLie lie, int32_t from) {
  PlantedLie best{.gpu = -1, .lie = lie, .from = from};
  for (int g = 0; g < host.gpus; ++g) {
    const int32_t gpu = host.first_gpu + g;
    const int32_t shows = ShowsFor(m, gpu, lie, from);
    if (best.gpu < 0 || shows > best.shows_s) best = {gpu, lie, from, shows};
  }
  return best;
}

}  // namespace

std::string_view CounterLieName(CounterLie lie) { return kLies[static_cast<size_t>(lie)].name; }
std::string_view CounterLieAbout(CounterLie lie) { return kLies[static_cast<size_t>(lie)].about; }

bool CounterLieCounts::any() const {
  return std::ranges::any_of(n, [](int32_t k) { return k > 0; });
}

Status ParseCounterLies(std::string_view text, CounterLieCounts* counts) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    int32_t n = 0;
    const std::string_view number = equals < part.size() ? part.substr(equals + 1) : "";
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
    if (error != std::errc{} || end != number.data() + number.size() || n < 0 || n > 100'000)
      return InvalidArgument("--counters {}: write KIND=N; `list` has the kinds", part);
    bool known = name == "all";
    for (size_t k = 0; k < kCounterLies; ++k) {
      if (name != "all" && name != kLies[k].name) continue;
      counts->n[k] += n;
      known = true;
    }
    if (!known)
      return InvalidArgument("--counters: no kind is named '{}'; `list` has the kinds", name);
  }
  return absl::OkStatus();
}

std::string CounterLieList() {
  std::string out;
  for (const LieSpec& spec : kLies) out += fmt::format("{:<22} {}\n", spec.name, spec.about);
  return out;
}

void PlantCounterLies(Fleet::Model* m) {
  const CounterLieCounts& counts = m->options.counters;
  if (!counts.any()) return;
  const uint64_t seed = m->options.seed;
  std::vector<int32_t> hosts(m->plan.hosts.size());
  std::iota(hosts.begin(), hosts.end(), 0);
  std::ranges::sort(hosts, {}, [&](int32_t h) { return Key(seed, Purpose::kCounterLie, h); });
  // Partitioned and shared GPUs are left as they are.
  std::erase_if(
      hosts, [&](int32_t h) { return m->plan.hosts[h].mig_gpus > 0 || m->plan.hosts[h].shared; });
  std::vector<bool> taken(hosts.size(), false);
  for (size_t k = 0; k < kCounterLies; ++k) {
    const auto lie = static_cast<CounterLie>(k);
    int32_t left = counts.n[k];
    for (size_t i = 0; i < hosts.size() && left > 0; ++i) {
      if (taken[i]) continue;
      const Host& host = m->plan.hosts[hosts[i]];
      const double when = Unit(Key(seed, Purpose::kCounterLie, hosts[i], 1));
      const bool later = !IsOfExporter(lie) || lie >= CounterLie::kExporterFrozen;
      const auto from = later ? static_cast<int32_t>(when * m->plan.horizon / 4) : 0;
      std::vector<PlantedLie> lies;
      if (IsOfExporter(lie)) {
        for (int g = 0; g < host.gpus; ++g) {
          const int32_t gpu = host.first_gpu + g;
          lies.push_back({gpu, lie, from, ShowsFor(*m, gpu, lie, from)});
        }
      } else {
        lies.push_back(OnOneGpu(*m, host, lie, from));
      }
      // A host on which nothing would show is left to the kinds that need less.
      if (std::ranges::none_of(lies, [](const PlantedLie& l) { return l.shows_s >= kShowsFor; }))
        continue;
      taken[i] = true;
      --left;
      for (const PlantedLie& l : lies) m->lies[l.gpu] = l;
    }
  }
}

const PlantedLie* LieOf(const Fleet::Model& m, int32_t gpu, int32_t t) {
  if (m.lies.empty()) return nullptr;
  const auto it = m.lies.find(gpu);
  return it != m.lies.end() && t >= it->second.from ? &it->second : nullptr;
}

void ApplyLie(const Fleet::Model& m, const PlantedLie& lie, int32_t t, Values* out) {
  Values& v = *out;
  const GpuModel& model = m.activity->ModelOf(lie.gpu);
  const uint64_t h = Key(m.options.seed, Purpose::kCounterLie, lie.gpu, 7);
  const uint64_t now = Key(m.options.seed, Purpose::kCounterLie, lie.gpu, 1000 + t);
  const int64_t idle = m.activity->Traits(lie.gpu).idle_mw;
  switch (lie.lie) {
    case CounterLie::kProfilingDead:
      for (const Value field :
           {kGrPpm, kSmPpm, kTensorPpm, kDramPpm, kPcieTx, kPcieRx, kOccupancyPpm, kFp64Ppm,
            kFp32Ppm, kFp16Ppm, kHmmaPpm, kIntPpm, kNvlinkTx, kNvlinkRx})
        v[field] = 0;
      break;
    case CounterLie::kTensorDead:
      v[kTensorPpm] = v[kHmmaPpm] = 0;
      break;
    case CounterLie::kTensorFrozen:
      v[kTensorPpm] = v[kHmmaPpm] = 20'000 + static_cast<int64_t>(Below(h, 400'000));
      break;
    case CounterLie::kTensorWithoutPower:
      v[kPowerMw] = idle + static_cast<int64_t>(now & 1023);
      v[kEnergyMj] = 1'000'000'000 + idle * t;
      break;
    case CounterLie::kPowerDead:
      v[kPowerMw] = 0;
      break;
    case CounterLie::kPowerFrozen:
      v[kPowerMw] = idle + static_cast<int64_t>(Below(h, model.tdp_w * 600)) + 7;
      break;
    case CounterLie::kDutyDead:
      v[kUtilPct] = 0;
      break;
    case CounterLie::kDutyStuck:
      v[kUtilPct] = 100;
      break;
    case CounterLie::kSmBelowTensor:
      v[kSmPpm] = 0;
      break;
    case CounterLie::kTensorAgainstCycles:
      v[kTensorPpm] /= 2;
      v[kHmmaPpm] /= 2;
      break;
    case CounterLie::kEnergyFrozen:
      v[kEnergyMj] = 1'000'000'000 + static_cast<int64_t>(h >> 32);
      break;
    default:
      break;
  }
}

std::string_view NameUnder(CounterLie lie, const FieldDef& f) {
  const bool renamed = lie == CounterLie::kTensorRenamed && f.value == kTensorPpm &&
                       f.name != "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE";
  return renamed ? std::string_view("site_gpu_tensor_active_ratio") : f.name;
}

bool HasUnder(CounterLie lie, const FieldDef& f) {
  switch (lie) {
    case CounterLie::kTensorUnlisted:
      return f.value != kTensorPpm && f.value != kHmmaPpm && f.value != kMmaCycles;
    case CounterLie::kTensorRenamed:
      return f.value != kHmmaPpm && f.value != kMmaCycles;
    case CounterLie::kPowerMissing:
    case CounterLie::kPowerGone:
      return f.value != kPowerMw;
    case CounterLie::kClockMissing:
    case CounterLie::kClockGone:
      return f.value != kSmClock;
    case CounterLie::kDutyMissing:
    case CounterLie::kDutyGone:
      return f.value != kUtilPct;
    case CounterLie::kTensorGone:
      return !f.name.starts_with("DCGM_FI_PROF_") && !f.name.starts_with("gpu_prof_");
    default:
      return true;
  }
}

int64_t ScaleUnder(CounterLie lie, const FieldDef& f, int32_t host) {
  if (lie == CounterLie::kTensorPercent && f.value == kTensorPpm) return 100;
  if (lie == CounterLie::kPowerScaled && f.value == kPowerMw) return host % 2 == 0 ? 1000 : -1000;
  if (lie == CounterLie::kClockScaled && f.value == kSmClock) return 1'000'000;
  if (lie == CounterLie::kDutyScaled && f.value == kUtilPct) return -100;
  if (lie == CounterLie::kEnergyScaled && f.value == kEnergyMj) return -1000;
  return 1;
}

}  // namespace flopwatch::simulate
