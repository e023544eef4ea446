#include "efficiency/ofu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace flopwatch::efficiency {
namespace {

bool Positive(double v) { return std::isfinite(v) && v > 0; }

// Cycles from one reading of a 64-bit total to the next, or nullopt where the total was reset in
// between. Unsigned subtraction follows a wrap; only the size of the result tells a wrap from a
// reset.
std::optional<double> CyclesBetween(uint64_t before, uint64_t after, double most_possible) {
  const auto cycles = static_cast<double>(after - before);
  if (after < before && cycles > most_possible) return std::nullopt;
  return cycles;
}

}  // namespace

StatusOr<double> OfuFromRatio(double tensor_active, double sm_clock_mhz,
                              double tensor_clock_max_mhz) {
  if (std::isnan(tensor_active)) return FailedPrecondition("tensor activity is missing");
  if (std::isnan(sm_clock_mhz)) return FailedPrecondition("SM clock is missing");
  if (std::isnan(tensor_clock_max_mhz))
    return FailedPrecondition("maximum tensor clock is not known");
  if (tensor_active < 0 || tensor_active > 1) {
    return OutOfRange("tensor activity {} is not a ratio 0..1", tensor_active);
  }
  if (!Positive(sm_clock_mhz)) return OutOfRange("SM clock {} MHz is not a clock", sm_clock_mhz);
  if (!Positive(tensor_clock_max_mhz)) {
    return OutOfRange("maximum tensor clock {} MHz is not a clock", tensor_clock_max_mhz);
  }
  const double ofu = tensor_active * sm_clock_mhz / tensor_clock_max_mhz;
  if (ofu > kOfuMaxCredible) {
    return OutOfRange(
        "OFU {:.3f} is above {}: SM clock {} MHz against a maximum tensor clock of {}", ofu,
        kOfuMaxCredible, sm_clock_mhz, tensor_clock_max_mhz);
  }
  return ofu;
}

CycleOfu OfuFromCycles(const CycleReading& before, const CycleReading& after, double scale) {
  const double seconds = after.seconds - before.seconds;
  if (!Positive(seconds)) return {CycleOutcome::kNoTime, 0};
  if (!Positive(scale)) return {CycleOutcome::kUncalibrated, 0};
  const double cycles_per_mhz = seconds * 1e6 * scale;
  const double most_possible = kPlausibleSmClockMhz * cycles_per_mhz;
  if (before.sm_cycles_elapsed && after.sm_cycles_elapsed &&
      !CyclesBetween(*before.sm_cycles_elapsed, *after.sm_cycles_elapsed, most_possible)) {
    return {CycleOutcome::kReset, 0};
  }
  const auto cycles =
      CyclesBetween(before.mma_cycles_active, after.mma_cycles_active, most_possible);
  if (!cycles) return {CycleOutcome::kReset, 0};
  if (*cycles > most_possible) return {CycleOutcome::kUncalibrated, 0};
  return {CycleOutcome::kOk, *cycles / cycles_per_mhz};
}

std::optional<double> CalibrateCycleScale(const CycleReading& before, const CycleReading& after,
                                          double sm_clock_mhz, int sm_count) {
  const double seconds = after.seconds - before.seconds;
  if (!before.sm_cycles_elapsed || !after.sm_cycles_elapsed || !Positive(seconds) ||
      !Positive(sm_clock_mhz)) {
    return std::nullopt;
  }
  const double cycles_of_one_sm = seconds * sm_clock_mhz * 1e6;
  const double measured =
      static_cast<double>(*after.sm_cycles_elapsed - *before.sm_cycles_elapsed) / cycles_of_one_sm;
  for (const double candidate : {1.0, static_cast<double>(sm_count)}) {
    if (candidate >= 1 && std::abs(measured / candidate - 1) <= kScaleTolerance) return candidate;
  }
  return std::nullopt;
}

void OfuSums::Add(double ofu, double seconds) {
  ofu_s += ofu * seconds;
  computable_s += seconds;
  observed_s += seconds;
  ++samples;
}

void OfuSums::AddNotComputable(double seconds) {
  observed_s += seconds;
  ++samples;
}

OfuSums& OfuSums::operator+=(const OfuSums& o) {
  ofu_s += o.ofu_s;
  computable_s += o.computable_s;
  observed_s += o.observed_s;
  samples += o.samples;
  return *this;
}

std::optional<double> OfuSums::Ofu() const {
  if (!(computable_s > 0)) return std::nullopt;
  return ofu_s / computable_s;
}

std::optional<double> Coverage(const OfuSums& sums, double expected_s) {
  if (!Positive(expected_s)) return std::nullopt;
  return std::min(1.0, sums.computable_s / expected_s);
}

StatusOr<MigOfu> OfuOfMig(std::span<const MigSlice> slices, int gpu_sm_count) {
  if (gpu_sm_count <= 0) return InvalidArgument("a GPU with {} SMs has no OFU", gpu_sm_count);
  MigOfu out;
  for (const MigSlice& slice : slices) {
    if (slice.sm_count <= 0 || slice.sm_count > gpu_sm_count - out.covered_sms) {
      return InvalidArgument("a MIG instance of {} SMs does not fit the {} of {} SMs that are free",
                             slice.sm_count, gpu_sm_count - out.covered_sms, gpu_sm_count);
    }
    if (!(slice.ofu >= 0 && slice.ofu <= kOfuMaxCredible)) {
      return InvalidArgument("OFU {} of a MIG instance is not a ratio 0..1", slice.ofu);
    }
    out.ofu += slice.ofu * slice.sm_count / gpu_sm_count;
    out.covered_sms += slice.sm_count;
  }
  out.uncovered_sms = gpu_sm_count - out.covered_sms;
  return out;
}

CounterState DeadCounterDetector::Update(const CounterReading& now) {
  if (now.tensor_active && *now.tensor_active != 0) {
    has_moved_ = true;
    suspect_ = false;
  } else if ((now.gpu_util && *now.gpu_util <= kDeadCounterUtil) ||
             (now.power_w && now.power_limit_w &&
              *now.power_w <= kDeadCounterPowerShare * *now.power_limit_w) ||
             (now.other_pipes && *now.other_pipes >= kOtherPipesBusy) ||
             (now.dram_active && *now.dram_active >= kMemoryBusy)) {
    // 0 is what a counter should say where the GPU does nothing, nothing heavy, other arithmetic or
    // moves memory.
    suspect_ = false;
  } else if (now.tensor_active && now.gpu_util && now.power_w && now.power_limit_w) {
    suspect_ = true;
    // Saturates, so that years of a dead counter keep their resolution.
    suspicious_s_ =
        static_cast<float>(std::min(suspicious_s_ + now.span_s, 2 * kDeadCounterSeconds));
  }
  if (!suspect_) {
    suspicious_s_ = 0;
    return CounterState::kAlive;
  }
  if (suspicious_s_ < kDeadCounterSeconds) return CounterState::kSuspect;
  has_moved_ = false;
  return CounterState::kDead;
}

}  // namespace flopwatch::efficiency
