#include "simulate/activity.h"

#include <algorithm>
#include <cmath>

#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

using Wide = __int128;

// Work done ahead of the straight line, in 1/65536 of a second: at most a quarter second, so that
// totals never fall.
constexpr uint32_t kAheadMask = 0x3fff;

ProgramTotals ProgramAt(std::span<const Phase> phases, int32_t tau, const Phase** at) {
  auto it = std::ranges::upper_bound(phases, tau, {}, &Phase::start);
  const Phase& p = *(it - 1);
  *at = &p;
  int64_t s = tau - p.start;
  ProgramTotals t = p.before;
  t.tensor_cycles += s * p.rates.tensor_hz;
  t.util_us += s * p.rates.util_ppm;
  t.sm_us += s * p.rates.sm_ppm;
  t.energy_mj += s * p.rates.power_mw;
  if (p.kind != PhaseKind::kGap) t.busy_s += s;
  return t;
}

int64_t Scale(int64_t v, uint32_t scale) {
  return static_cast<int64_t>((static_cast<Wide>(v) * scale) >> 16);
}

}  // namespace

Totals& Totals::operator+=(const Totals& o) {
  tensor_cycles += o.tensor_cycles;
  tensor_us += o.tensor_us;
  util_us += o.util_us;
  sm_us += o.sm_us;
  energy_mj += o.energy_mj;
  clock_cycles += o.clock_cycles;
  sm_cycles += o.sm_cycles;
  return *this;
}

Totals Totals::operator-(const Totals& o) const {
  return {tensor_cycles - o.tensor_cycles,
          tensor_us - o.tensor_us,
          util_us - o.util_us,
          sm_us - o.sm_us,
          energy_mj - o.energy_mj,
          clock_cycles - o.clock_cycles,
          sm_cycles - o.sm_cycles};
}

GpuTraits TraitsOf(uint64_t seed, int32_t gpu, const GpuModel& model) {
  GpuTraits t;
  Draws draws(Key(seed, Purpose::kGpu, gpu));
  // The clock explains most of the spread of speed (correlation -0.87 on 392 V100s): 1.7 % = 1.48 %
  // clock + 0.84 % rest.
  t.clock_factor = static_cast<float>(1 + .0148 * std::clamp(draws.Normal(), -2.5, 2.5));
  t.stall_factor = static_cast<float>(1 + .0084 * std::clamp(std::abs(draws.Normal()), 0.0, 2.5));
  t.idle_mw = model.idle_w * 1000 + static_cast<int32_t>((draws.Unit() - .5) * model.idle_w * 200);
  // Positions in a block of 400 by block, so that every block has its slow GPUs.
  uint64_t block = Key(seed, Purpose::kStraggler, gpu / 400);
  int place = gpu % 400;
  for (int i = 0; i < 4; ++i) {
    if (place !=
        static_cast<int>((Below(block, 100) + i * 100 + Below(Mix(block + i + 1), 60)) % 400))
      continue;
    double slow = i == 0 ? 1.17 + .07 * draws.Unit() : 1.055 + .055 * draws.Unit();
    if (Unit(Mix(block + 16 + i)) < .6) {
      t.clock_factor = static_cast<float>(slow);
      t.stall_factor = 1;
    } else {
      t.clock_factor = std::max(t.clock_factor, 1.f);
      t.stall_factor = static_cast<float>(slow / t.clock_factor);
    }
  }
  return t;
}

double JobClockMhz(const GpuModel& model, double tensor_active) {
  // Light work leaves every GPU room to the highest clock; power limits sustained tensor work.
  double light = model.boost_mhz + 60;
  return light - (light - model.loaded_mhz) * std::min(1.0, tensor_active / model.loaded_at);
}

int GpuClockMhz(const GpuModel& model, double job_clock_mhz, double clock_factor) {
  return static_cast<int>(
      std::lround(std::min<double>(model.boost_mhz, job_clock_mhz / clock_factor)));
}

std::string_view TruthKindName(TruthKind k) {
  static constexpr std::string_view kNames[] = {
      "regression",   "precision_change", "hang",      "idle_gpus",       "node_down",
      "throttle",     "gpu_swap",         "xid_drain", "straggler_clock", "straggler_stall",
      "inflated_mfu", "clock_change",     "requeue",   "preemption",      "suspension",
      "maintenance",  "reservation"};
  static_assert(std::size(kNames) == static_cast<size_t>(TruthKind::kReservation) + 1);
  return kNames[static_cast<size_t>(k)];
}

Totals Activity::AtStint(const Stint& s, int32_t t) const {
  Totals out;
  const GpuModel& model = ModelOf(s.lane);
  if (s.idle()) {
    out.clock_cycles = static_cast<int64_t>(t - s.from) * model.resting_mhz * 1'000'000;
    return out;
  }
  const Program& program = programs_[s.program];
  std::span<const Phase> phases(phases_.data() + program.first_phase, program.phases);
  // Programs are cyclic: ranks of an independent job start at different points of it.
  const Phase* phase = nullptr;
  ProgramTotals a = ProgramAt(phases, s.offset, &phase);
  int64_t tau = static_cast<int64_t>(s.offset) + (t - s.from);
  int64_t rounds = tau / program.length;
  ProgramTotals b = ProgramAt(phases, static_cast<int32_t>(tau % program.length), &phase);
  if (rounds > 0) {
    const Phase* last = nullptr;
    ProgramTotals whole = ProgramAt(phases, program.length, &last);
    b.tensor_cycles += rounds * whole.tensor_cycles;
    b.util_us += rounds * whole.util_us;
    b.sm_us += rounds * whole.sm_us;
    b.energy_mj += rounds * whole.energy_mj;
    b.busy_s += rounds * whole.busy_s;
  }
  const Effect* effect = EffectOf(s);
  const uint32_t sm_scale = effect == nullptr ? s.scale : s.scale * effect->sm / Effect::kOne;
  out.tensor_cycles = Scale(b.tensor_cycles - a.tensor_cycles, s.scale);
  out.sm_us = Scale(b.sm_us - a.sm_us, sm_scale);
  out.util_us = b.util_us - a.util_us;
  if (effect != nullptr) out.util_us = out.util_us * effect->util / Effect::kOne;
  out.energy_mj = (b.energy_mj - a.energy_mj) * s.power_scale >> 10;
  // None at the ends of a stint; the end of the simulation is not one.
  if (t != s.from && (t != s.to || t == plan_->horizon)) {
    uint64_t h = Key(seed_, Purpose::kNoise, s.lane, t);
    out.tensor_cycles += static_cast<int64_t>(
        Scale(phase->rates.tensor_hz, s.scale) * static_cast<Wide>(h & kAheadMask) >> 16);
    out.sm_us += Scale(phase->rates.sm_ppm, sm_scale) *
                     static_cast<int64_t>((h >> 16) & (kAheadMask >> 1)) >>
                 16;
  }
  out.tensor_us = out.tensor_cycles / s.clock_mhz;
  out.sm_cycles = out.sm_us * s.clock_mhz;
  int64_t busy = b.busy_s - a.busy_s;
  out.clock_cycles = (busy * s.clock_mhz + (t - s.from - busy) * model.resting_mhz) * 1'000'000;
  return out;
}

std::span<const Stint> Activity::Stints(int32_t lane) const {
  return {stints_.data() + lane_begin_[lane],
          static_cast<size_t>(lane_begin_[lane + 1] - lane_begin_[lane])};
}

const Stint* Activity::Holder(int32_t lane, int32_t t) const {
  auto all = Stints(lane);
  auto it = std::ranges::upper_bound(all, t, {}, &Stint::from);
  if (it == all.begin()) return nullptr;
  const Stint& s = *(it - 1);
  return t < s.to ? &s : nullptr;
}

Totals Activity::At(int32_t lane, int32_t t) const {
  auto all = Stints(lane);
  auto it = std::ranges::upper_bound(all, t, {}, &Stint::from);
  int64_t idle_hz = static_cast<int64_t>(ModelOf(lane).idle_mhz) * 1'000'000;
  if (it == all.begin()) {
    Totals idle;
    idle.clock_cycles = t * idle_hz;
    return idle;
  }
  const Stint& s = *(it - 1);
  Totals out = s.before;
  out += AtStint(s, std::min(t, s.to));
  if (t > s.to) out.clock_cycles += (t - s.to) * idle_hz;
  return out;
}

const Phase& Activity::PhaseAt(const Stint& s, int32_t t) const {
  const Program& program = programs_[s.program];
  std::span<const Phase> phases(phases_.data() + program.first_phase, program.phases);
  int32_t tau =
      static_cast<int32_t>((static_cast<int64_t>(s.offset) + (t - s.from)) % program.length);
  auto it = std::ranges::upper_bound(phases, tau, {}, &Phase::start);
  return *(it - 1);
}

std::span<const Phase> Activity::PhasesOf(const Stint& s) const {
  const Program& program = programs_[s.program];
  return {phases_.data() + program.first_phase, static_cast<size_t>(program.phases)};
}

int32_t Activity::GpuOf(int32_t lane) const {
  return lane < plan_->gpus ? lane : plan_->MigOfLane(lane).gpu;
}

int32_t Activity::HostOf(int32_t lane) const { return host_of_gpu_[GpuOf(lane)]; }

const GpuModel& Activity::ModelOf(int32_t lane) const {
  return *spec_->clusters[plan_->hosts[HostOf(lane)].cluster].model;
}

const MigProfile* Activity::MigOf(int32_t lane) const {
  if (lane < plan_->gpus) return nullptr;
  const Plan::MigGpu& mig = plan_->MigOfLane(lane);
  return &mig.layout[lane - mig.first_lane];
}

std::span<const BoardError> Activity::BoardErrors(int32_t gpu) const {
  const auto own = std::ranges::equal_range(board_errors_, gpu, {}, &BoardError::gpu);
  return {own.begin(), own.end()};
}

const PlantedIncident* Activity::ReportedWrong(int32_t job) const {
  const int32_t index = PlantedIn(job);
  if (index < 0 || GroupOf(planted_[index].kind) != IncidentGroup::kReported) return nullptr;
  return &planted_[index];
}

size_t Activity::memory_bytes() const {
  return phases_.capacity() * sizeof(Phase) + programs_.capacity() * sizeof(Program) +
         stints_.capacity() * sizeof(Stint) + lane_begin_.capacity() * 4 +
         host_of_gpu_.capacity() * 4 + traits_.capacity() * sizeof(GpuTraits) +
         fb_used_mib_.capacity() * 4 + reported_.capacity() * sizeof(Reported) +
         effects_.capacity() * sizeof(Effect) + planted_.capacity() * sizeof(PlantedIncident) +
         planted_in_.capacity() * 4;
}

}  // namespace flopwatch::simulate
