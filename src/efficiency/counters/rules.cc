// The rules, one registration each: how it is called, what it asks, what it says and the remedy.
// Limits and their sources: docs/counters.md.
#include "efficiency/counters/rules.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "efficiency/ofu.h"

namespace flopwatch::efficiency {
namespace {

using enum CounterRuleId;
using enum CounterFault;

// No data-centre board idles at this share of its limit (idle: L4 22 %, most 8 to 15 %).
constexpr double kSurelyLoaded = 0.40;
constexpr double kSurelyLight = 0.25;
constexpr double kDutyOfSomething = 0.20, kDutyFull = 0.95, kHalf = 0.50;
constexpr double kActive = 0.30;  // SMs that are busy beyond doubt
constexpr double kTensorAtWork = 0.25, kClockUp = 0.60;
constexpr double kIntegerBusy = 0.50;
constexpr double kOnePercent = 0.0101;  // the largest a ratio can be that is read as per cent
constexpr double kLeastClockMhz = 10, kMostClockMhz = kPlausibleSmClockMhz;
constexpr double kMostWatts = 20'000, kMostOfTdp = 3, kLeastOfTdp = 0.01;
constexpr double kExcess = 0.10, kRatioOff = 0.25, kEnergyOff = 20, kStep = 0.05;

bool Absent(double v) { return std::isnan(v); }
Says FaultIf(bool wrong) { return wrong ? Says::kFault : Says::kFine; }

Says ExporterFrozen(const CounterLook& l) {
  if (l.fresh) return Says::kFine;
  return l.row.frozen ? Says::kFault : Says::kNothing;
}

// --- tensor activity that is not there ---

bool NoTensor(const CounterLook& l) {
  return l.row.counts && l.row.has_profiling && Absent(l.row.tensor) && Absent(l.row.cycles_mhz) &&
         (l.row.beyond & CountersRow::kTensor) == 0;
}
Says TensorPercent(const CounterLook& l) {
  if ((l.row.beyond & CountersRow::kTensor) != 0) return Says::kFault;
  // As per cent this were a twentieth of one per cent; as a ratio it fits what the SMs do.
  return l.row.tensor > kStep && !(l.activity < l.row.tensor - kStep) ? Says::kFine
                                                                      : Says::kNothing;
}
Says TensorRenamed(const CounterLook& l) { return FaultIf(NoTensor(l) && l.row.like_tensor); }
Says TensorGone(const CounterLook& l) {
  return FaultIf(NoTensor(l) && !l.row.like_tensor && (l.had_tensor || l.row.others_have_tensor));
}
Says TensorUnlisted(const CounterLook& l) {
  return FaultIf(NoTensor(l) && !l.row.like_tensor && !l.had_tensor && !l.row.others_have_tensor);
}

// --- profiling counters beside duty cycle and power ---

Says ProfilingDead(const CounterLook& l) {
  if (!l.row.whole || Absent(l.activity)) return Says::kNothing;
  if (!l.profiling_zero) return Says::kFine;
  return l.row.duty >= kDutyOfSomething && l.above_idle_power ? Says::kFault : Says::kNothing;
}

Says DutyStuck(const CounterLook& l) {
  if (!l.row.whole || Absent(l.row.duty)) return Says::kNothing;
  if (l.row.duty < kDutyFull) return Says::kFine;
  if (!Absent(l.activity) && !l.profiling_zero) return Says::kFine;
  // Without profiling counters a kernel that spins could draw next to nothing.
  return l.at_idle_power && !Absent(l.activity) ? Says::kFault : Says::kNothing;
}

Says TensorDead(const CounterLook& l) {
  const CountersRow& r = l.row;
  if (!r.counts || Absent(r.tensor)) return Says::kNothing;
  if (r.tensor > 0) return Says::kFine;
  if (r.tensor_parts > 0.01 || r.cycles_mhz > 0.01 * kMostClockMhz / 2) return Says::kFault;
  if (!l.busy_and_hot || l.profiling_zero) return Says::kNothing;
  if (r.job_uses_tensor) return Says::kFault;
  if (r.other_pipes >= kOtherPipesBusy || r.integer_pipe >= kIntegerBusy || r.dram >= kMemoryBusy)
    return Says::kFine;
  return !Absent(r.other_pipes) && l.activity >= kActive ? Says::kFault : Says::kNothing;
}

Says TensorUndecided(const CounterLook& l) {
  if (!l.row.counts || Absent(l.row.tensor)) return Says::kNothing;
  if (l.row.tensor > 0 || !Absent(l.row.other_pipes)) return Says::kFine;
  return l.busy_and_hot && !l.profiling_zero ? Says::kFault : Says::kNothing;
}

Says TensorFrozen(const CounterLook& l) {
  if (!l.row.counts || !(l.row.tensor > 0.001 && l.row.tensor < 0.999)) return Says::kNothing;
  return FaultIf(l.tensor_same);
}

Says TensorWithoutPower(const CounterLook& l) {
  const CountersRow& r = l.row;
  if (!r.whole || l.tdp_w <= 0 || r.tensor_clock_max_mhz <= 0) return Says::kNothing;
  if (!(r.tensor >= kTensorAtWork) || !(r.clock_mhz >= kClockUp * r.tensor_clock_max_mhz) ||
      !(r.power_w > kLeastOfTdp * l.tdp_w))
    return Says::kNothing;
  return FaultIf(r.power_w < kSurelyLight * l.tdp_w);
}

Says SmBelowTensor(const CounterLook& l) {
  // AMD's counters are of two units that run side by side, each with its own share of cycles.
  if (l.row.vendor == CounterVendor::kAmd || Absent(l.row.tensor) || Absent(l.row.sm_active))
    return Says::kNothing;
  return FaultIf(l.mean_excess > kExcess);
}

Says TensorAgainstCycles(const CounterLook& l) {
  const CountersRow& r = l.row;
  if (!(r.tensor >= kStep) || !(r.cycles_mhz > 0) || !(r.clock_mhz > 0)) return Says::kNothing;
  return FaultIf(std::abs(l.mean_ratio - 1) > kRatioOff);
}

// --- power, energy, clock, duty cycle ---

Says PowerScaled(const CounterLook& l) {
  if (!l.row.board) return Says::kNothing;
  const double w = l.row.power_w, tdp = l.row.tdp_w;
  if ((l.row.beyond & CountersRow::kPower) != 0 || w > kMostWatts) return Says::kFault;
  if (Absent(w) || w == 0 || tdp <= 0) return Says::kNothing;
  return FaultIf(w > kMostOfTdp * tdp || w < kLeastOfTdp * tdp);
}
Says PowerDead(const CounterLook& l) {
  return l.row.board && !Absent(l.row.power_w) ? FaultIf(l.row.power_w == 0) : Says::kNothing;
}
Says PowerFrozen(const CounterLook& l) {
  if (!l.row.board || !(l.row.power_w > 0)) return Says::kNothing;
  if (!l.power_same) return Says::kFine;
  // Where whole watts are printed the same one may come again; not while the load changes.
  const bool fine = l.row.power_w != std::floor(l.row.power_w);
  return l.activity_step > (fine ? 0.002 : kStep) ? Says::kFault : Says::kNothing;
}
// A value that a board has none of, refused ones aside: its own fault where most GPUs of the same
// exporter have it, for then it is on the exporter's list; else the list's.
Says Missing(const CounterLook& l, double value, uint8_t bit, bool gone) {
  const bool missing = Absent(value) && (l.row.beyond & bit) == 0;
  return FaultIf(missing && ((l.row.most_have & bit) != 0) == gone);
}
Says PowerGone(const CounterLook& l) {
  return l.row.board ? Missing(l, l.row.power_w, CountersRow::kPower, true) : Says::kNothing;
}
Says PowerMissing(const CounterLook& l) {
  return l.row.board ? Missing(l, l.row.power_w, CountersRow::kPower, false) : Says::kNothing;
}
Says EnergyFrozen(const CounterLook& l) {
  if (!l.row.board || !(l.row.energy_j > 0)) return Says::kNothing;
  if (!l.energy_same) return Says::kFine;
  return l.row.power_w > 0 && (!l.power_same || l.activity_step > 0) ? Says::kFault
                                                                     : Says::kNothing;
}
Says EnergyScaled(const CounterLook& l) {
  if (!l.row.board || !(l.row.energy_j > 0) || !(l.row.power_w > 0)) return Says::kNothing;
  return FaultIf(l.mean_energy_ratio > kEnergyOff || l.mean_energy_ratio < 1 / kEnergyOff);
}
Says ClockScaled(const CounterLook& l) {
  if (!l.row.board) return Says::kNothing;
  const double mhz = l.row.clock_mhz;
  if ((l.row.beyond & CountersRow::kClock) != 0 || mhz > kMostClockMhz) return Says::kFault;
  return Absent(mhz) || mhz == 0 ? Says::kNothing : FaultIf(mhz < kLeastClockMhz);
}
Says ClockGone(const CounterLook& l) {
  return l.row.board ? Missing(l, l.row.clock_mhz, CountersRow::kClock, true) : Says::kNothing;
}
Says ClockMissing(const CounterLook& l) {
  return l.row.board ? Missing(l, l.row.clock_mhz, CountersRow::kClock, false) : Says::kNothing;
}
Says DutyScaled(const CounterLook& l) {
  if (!l.row.whole) return Says::kNothing;
  if ((l.row.beyond & CountersRow::kDuty) != 0) return Says::kFault;
  if (l.row.duty > kOnePercent) return Says::kFine;
  return l.row.duty > 0 && l.activity >= kHalf ? Says::kFault : Says::kNothing;
}
Says DutyDead(const CounterLook& l) {
  if (!l.row.whole || Absent(l.row.duty)) return Says::kNothing;
  if (l.row.duty > 0) return Says::kFine;
  const bool loaded = l.tdp_w <= 0 || !(l.row.power_w < kSurelyLoaded * l.tdp_w);
  return l.activity >= kActive && loaded ? Says::kFault : Says::kNothing;
}
Says DutyGone(const CounterLook& l) {
  return l.row.whole ? Missing(l, l.row.duty, CountersRow::kDuty, true) : Says::kNothing;
}
Says DutyMissing(const CounterLook& l) {
  return l.row.whole ? Missing(l, l.row.duty, CountersRow::kDuty, false) : Says::kNothing;
}

// --- remedies ---

constexpr std::string_view kResume = "dcgmi profile --resume";
constexpr std::string_view kStartProfiling = "dcgmi dmon -e 1001 -c 1";
constexpr std::string_view kRestartProfiling = "dcgmi profile --pause && dcgmi profile --resume";
constexpr std::string_view kRestartExporter = "systemctl restart nvidia-dcgm dcgm-exporter";
constexpr std::string_view kRestartAmd = "systemctl restart amd-metrics-exporter";
constexpr std::string_view kAmdProfiler = R"({"GPUConfig": {"ProfilerMetrics": {"all": true}}})";

struct Registration {
  CounterRule rule;
  CounterRuleTest test;
};

// In the order of CounterRuleId.
constexpr Registration kRules[] = {
    {{kExporterFrozen, "exporter_frozen", kFrozen, "", 0, 1,
      "the exporter answers, but no reading has changed for longer than ninety seconds",
      kRestartExporter, kRestartAmd, "dcgm-exporter defaults (30 s); DCGM #313"},
     {ExporterFrozen, true}},
    {{kTensorPercent, "tensor_percent", kScaled, "tensor_active", 0, 2,
      "tensor activity is above 1: per cent under the name of a ratio",
      "metric_relabel_configs and recording rules off: scrape dcgm-exporter itself, which writes "
      "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE as 0..1",
      "scrape device-metrics-exporter itself, which writes gpu_prof_tensor_active_percent",
      "NVML GPM gives 0..100, DCGM 0..1; slurm-job-exporter #30"},
     {TensorPercent, true}},
    {{kTensorRenamed, "tensor_renamed", kRenamed, "tensor_active", 60, 3,
      "tensor activity is exported under a name that is not dcgm-exporter's",
      "metric_relabel_configs: [{source_labels: [__name__], regex: NAME, target_label: __name__, "
      "replacement: DCGM_FI_PROF_PIPE_TENSOR_ACTIVE}]",
      "metric_relabel_configs: [{source_labels: [__name__], regex: NAME, target_label: __name__, "
      "replacement: gpu_prof_tensor_active_percent}]",
      "dcgm-exporter #577 (relabelled names), DCGM 4.6 (renamed fields)"},
     {TensorRenamed, true}},
    {{kTensorGone, "tensor_gone", kMissing, "tensor_active", 60, 3,
      "the exporter has the tensor counter, but no value of it for this GPU: profiling is paused "
      "or not running",
      kResume, kAmdProfiler, "DCGM profiling API (a pause blanks the fields); dcgm-exporter #550"},
     {TensorGone, true}},
    {{kTensorUnlisted, "tensor_unlisted", kMissing, "tensor_active", 60, 3,
      "the exporter gives tensor activity for none of its GPUs",
      "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Ratio of cycles the tensor (HMMA) pipe is active.",
      kAmdProfiler, "dcgm-exporter #289, #139; device-metrics-exporter #203 (off since 1.3.1)"},
     {TensorUnlisted, true}},
    {{kProfilingDead, "profiling_dead", kDead, "tensor_active", 180, 5,
      "every profiling counter is 0 while duty cycle and power show work", kStartProfiling,
      kRestartAmd, "dcgm-exporter #662; DCGM #303; gpu-monitoring-tools #189"},
     {ProfilingDead, false}},
    {{kPowerScaled, "power_scaled", kScaled, "power_w", 30, 3,
      "power is not in watts: no board of this model draws that",
      "DCGM_FI_DEV_POWER_USAGE, gauge, Power draw (in W).",
      "scrape device-metrics-exporter itself, which writes gpu_package_power in W",
      "hardware table (TDP)"},
     {PowerScaled, true}},
    {{kPowerDead, "power_dead", kDead, "power_w", 60, 5, "power is exactly 0", kRestartExporter,
      kRestartAmd, "no board draws nothing"},
     {PowerDead, true}},
    {{kPowerFrozen, "power_frozen", kFrozen, "power_w", 180, 8,
      "power has stopped changing while the load changes", kRestartExporter, kRestartAmd,
      "power is printed to the milliwatt; two readings of a load are never alike"},
     {PowerFrozen, false}},
    {{kPowerGone, "power_gone", kMissing, "power_w", 60, 3,
      "most GPUs of this exporter have power, and this one has none: it does not answer for it",
      kRestartExporter, kRestartAmd, "NVML: a field that one GPU cannot read is left out for it"},
     {PowerGone, true}},
    {{kPowerMissing, "power_missing", kMissing, "power_w", 60, 3, "the exporter gives no power",
      "DCGM_FI_DEV_POWER_USAGE, gauge, Power draw (in W).",
      R"({"GPUConfig": {"Fields": ["GPU_PACKAGE_POWER"]}})", "dcgm-exporter's default set"},
     {PowerMissing, true}},
    {{kClockScaled, "clock_scaled", kScaled, "sm_clock_mhz", 0, 3,
      "the SM clock is not in MHz: no SM runs at that",
      "DCGM_FI_DEV_SM_CLOCK, gauge, SM clock frequency (in MHz).",
      "scrape device-metrics-exporter itself, which writes gpu_clock in MHz",
      "docs/ofu.md: 5 GHz is above any part"},
     {ClockScaled, true}},
    {{kClockGone, "clock_gone", kMissing, "sm_clock_mhz", 60, 3,
      "most GPUs of this exporter have the SM clock, and this one has none: it does not answer for "
      "it",
      kRestartExporter, kRestartAmd, "NVML: a field that one GPU cannot read is left out for it"},
     {ClockGone, true}},
    {{kClockMissing, "clock_missing", kMissing, "sm_clock_mhz", 60, 3,
      "the exporter gives no SM clock, without which there is no OFU",
      "DCGM_FI_DEV_SM_CLOCK, gauge, SM clock frequency (in MHz).",
      R"({"GPUConfig": {"Fields": ["GPU_CLOCK"]}})", "dcgm-exporter's default set"},
     {ClockMissing, true}},
    {{kDutyScaled, "duty_scaled", kScaled, "gpu_util", 120, 5,
      "the duty cycle is not in per cent: it fits neither 0..100 nor the SMs' activity",
      "DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).",
      "scrape device-metrics-exporter itself, which writes gpu_gfx_activity in %",
      "DCGM #199, dcgm-exporter #418; DCGM 4.6 (field 203 under a ratio's name)"},
     {DutyScaled, false}},
    {{kDutyDead, "duty_dead", kDead, "gpu_util", 180, 5,
      "the duty cycle is 0 while SM activity and power show work", kRestartExporter, kRestartAmd,
      "SM activity is a part of the duty cycle"},
     {DutyDead, false}},
    {{kDutyStuck, "duty_stuck", kContradicts, "gpu_util", 300, 8,
      "the duty cycle is full while the GPU is at idle power and no SM works", "nvidia-smi -pm 1",
      kRestartAmd, "dcgm-exporter #598; a kernel that runs draws power"},
     {DutyStuck, false}},
    {{kDutyGone, "duty_gone", kMissing, "gpu_util", 60, 3,
      "most GPUs of this exporter have the duty cycle, and this one has none: it does not answer "
      "for it",
      kRestartExporter, kRestartAmd, "NVML: a field that one GPU cannot read is left out for it"},
     {DutyGone, true}},
    {{kDutyMissing, "duty_missing", kMissing, "gpu_util", 60, 3,
      "the exporter gives no duty cycle, beside which a dead counter would show",
      "DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).",
      R"({"GPUConfig": {"Fields": ["GPU_GFX_ACTIVITY"]}})", "dcgm-exporter's default set"},
     {DutyMissing, true}},
    {{kTensorDead, "tensor_dead", kDead, "tensor_active", 300, 8,
      "tensor activity is 0 on a busy, hot GPU, and nothing else explains the load",
      kRestartProfiling, kRestartAmd, "DCGM #3 (the maintainers' line), #303; docs/ofu.md"},
     {TensorDead, false}},
    {{kTensorFrozen, "tensor_frozen", kFrozen, "tensor_active", 180, 8,
      "tensor activity has stopped changing, to the sixth decimal, while others move",
      kRestartProfiling, kRestartAmd, "dcgm-exporter #68; six decimals never repeat under load"},
     {TensorFrozen, false}},
    {{kTensorWithoutPower, "tensor_without_power", kContradicts, "tensor_active", 300, 8,
      "tensor activity at full clock without the power that it takes", kRestartProfiling,
      kRestartAmd, "slurm-job-exporter #30: 0.28 of the cycles is 572 W of 700"},
     {TensorWithoutPower, false}},
    {{kSmBelowTensor, "sm_below_tensor", kContradicts, "sm_active", 180, 8,
      "the SMs are less active than their tensor pipes", kRestartProfiling, kRestartAmd,
      "DCGM: SM activity counts cycles with at least one warp"},
     {SmBelowTensor, false}},
    {{kTensorAgainstCycles, "tensor_against_cycles", kContradicts, "tensor_active", 180, 8,
      "tensor activity does not fit the total of tensor cycles", kRestartProfiling, kRestartAmd,
      "DCGM 4.6: 1086 and 1004 count the same cycles"},
     {TensorAgainstCycles, false}},
    {{kEnergyFrozen, "energy_frozen", kFrozen, "energy_j", 180, 8,
      "the energy total has stopped while power is drawn", kRestartExporter, kRestartAmd,
      "energy is the integral of power"},
     {EnergyFrozen, false}},
    {{kEnergyScaled, "energy_scaled", kScaled, "energy_j", 180, 8,
      "the energy total does not fit power by a factor of twenty and more",
      "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter, Total energy consumption since boot (in "
      "mJ).",
      "scrape device-metrics-exporter itself, which writes gpu_energy_consumed in microjoules",
      "energy is the integral of power"},
     {EnergyScaled, false}},
    {{kTensorUndecided, "tensor_undecided", kUndecided, "tensor_active", 180, 5,
      "tensor activity is 0 on a busy, hot GPU: work without tensor cores, or a dead counter; the "
      "pipes that would tell are not exported",
      "DCGM_FI_PROF_PIPE_FP64_ACTIVE, gauge, Ratio of cycles the fp64 pipes are active.",
      kAmdProfiler, "docs/ofu.md, A zero that may be wrong"},
     {TensorUndecided, false}},
};
static_assert(std::size(kRules) == kCounterRules && kCounterRules <= 32);  // a bit each

constexpr auto kPlainRules = [] {
  std::array<CounterRule, kCounterRules> rules{};
  for (size_t k = 0; k < kCounterRules; ++k) rules[k] = kRules[k].rule;
  return rules;
}();
static_assert([] {
  for (size_t k = 0; k < kCounterRules; ++k)
    if (static_cast<size_t>(kRules[k].rule.id) != k) return false;
  return true;
}());

}  // namespace

const CounterRule& RuleOf(CounterRuleId id) { return kPlainRules[static_cast<size_t>(id)]; }
std::span<const CounterRule> CounterRules() { return kPlainRules; }

// Every row of every GPU comes here: the tests are compiled into one function, not called.
AllSay AskAll(const CounterLook& look) {
  AllSay all;
  const auto ask = [&]<size_t kRule>(std::integral_constant<size_t, kRule>) {
    constexpr CounterRuleTest kTest = kRules[kRule].test;
    if (!kTest.any && !look.fresh) return;
    const Says says = kTest.test(look);
    constexpr uint32_t kBit = 1U << kRule;
    all.fault |= says == Says::kFault ? kBit : 0;
    all.fine |= says == Says::kFine ? kBit : 0;
    if constexpr (kTest.any) all.any |= kBit;
  };
  [&]<size_t... kRule>(std::index_sequence<kRule...>) {
    (ask(std::integral_constant<size_t, kRule>()), ...);
  }(std::make_index_sequence<kCounterRules>());
  return all;
}

std::string_view RemedyOf(CounterRuleId id, CounterVendor vendor) {
  return vendor == CounterVendor::kAmd ? RuleOf(id).amd_remedy : RuleOf(id).remedy;
}

}  // namespace flopwatch::efficiency
