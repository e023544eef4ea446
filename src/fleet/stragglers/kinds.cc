#include "fleet/stragglers/kinds.h"

#include <algorithm>

#include "fleet/stragglers/beside.h"

namespace flopwatch::fleet {
namespace {

// The clock is held down for a reason where that is so for this much more of the time than on the
// other ranks, at the median.
constexpr double kHeldDown = 0.05, kPowerHeldDown = 0.2;
// A power limit this much below the others' is another one; at this much of its limit a board runs
// at it.
constexpr double kLowerLimit = 0.97, kAtLimit = 0.95;
// GPUs slow down for their temperature from somewhere above 80 C on; the others are this much
// cooler.
constexpr double kHotC = 82, kHotterC = 8;

double Thermal(const Beside& b) {
  return std::max(b.More(ShareOf(HeldDown::kThermal)),
                  b.More(ViolationShare(kWorkThermalViolation)));
}
double Power(const Beside& b) {
  return std::max({b.More(ShareOf(HeldDown::kPowerCap)), b.More(ShareOf(HeldDown::kPowerBrake)),
                   b.More(ViolationShare(kWorkPowerViolation))});
}

StragglerKind KindBeside(const Beside& b) {
  const double thermal = Thermal(b), power = Power(b);
  if (thermal > kHeldDown && thermal >= power) return StragglerKind::kThermal;
  const auto limit = b.own().Mean(kWorkPowerLimit), limits = b.Peers(MeanOfField(kWorkPowerLimit));
  const auto watts = b.own().Mean(kWorkPower);
  const bool lower_limit = limit && limits && *limit < kLowerLimit * *limits;
  const bool at_limit = lower_limit && watts && *watts > kAtLimit * *limit;
  if (at_limit || power > kPowerHeldDown) return StragglerKind::kPowerCap;
  const auto temp = b.own().Mean(kWorkTemp), temps = b.Peers(MeanOfField(kWorkTemp));
  const bool hot = temp && temps && *temp >= kHotC && *temp >= *temps + kHotterC;
  return thermal > kHeldDown || hot ? StragglerKind::kThermal : StragglerKind::kClock;
}

}  // namespace

std::vector<bool> HeldDownRanks(const StragglerJob& job, const JobEstimate& estimate) {
  const auto work = [&](size_t i) -> const GpuWork& {
    return *job.ranks[estimate.ranks[i].rank].work;
  };
  double highest_limit = 0;
  for (size_t i = 0; i < estimate.ranks.size(); ++i)
    highest_limit = std::max(highest_limit, work(i).Mean(kWorkPowerLimit).value_or(0));
  std::vector<bool> held(estimate.ranks.size());
  for (size_t i = 0; i < held.size(); ++i) {
    // Most show nothing at all, whatever their peers do.
    const GpuWork& w = work(i);
    const auto any = [&w](const WorkMeasure& of) { return of(w).value_or(0) > kHeldDown; };
    const bool may =
        w.Mean(kWorkPowerLimit).value_or(highest_limit) < kLowerLimit * highest_limit ||
        w.Mean(kWorkTemp).value_or(0) >= kHotC || any(ShareOf(HeldDown::kThermal)) ||
        any(ShareOf(HeldDown::kPowerCap)) || any(ShareOf(HeldDown::kPowerBrake)) ||
        any(ViolationShare(kWorkThermalViolation)) || any(ViolationShare(kWorkPowerViolation));
    held[i] = may && KindBeside(Beside(job, estimate, i)) != StragglerKind::kClock;
  }
  return held;
}

Straggler StragglerByClock(const StragglerJob& job, const JobEstimate& estimate, size_t rank) {
  const Beside b(job, estimate, rank);
  Straggler s;
  s.kind = KindBeside(b);
  b.Tell("sm_clock_mhz", MeanOfField(kWorkClock), &s);
  b.Tell(
      "tensor_active", [](const GpuWork& w) { return w.Tensor(); }, &s);
  b.Tell("power_w", MeanOfField(kWorkPower), &s);
  b.Tell("power_limit_w", MeanOfField(kWorkPowerLimit), &s);
  b.Tell("gpu_temp_c", MeanOfField(kWorkTemp), &s);
  if (s.kind == StragglerKind::kThermal) {
    b.Tell("thermal_share", ShareOf(HeldDown::kThermal), &s);
    b.Tell("thermal_violation_share", ViolationShare(kWorkThermalViolation), &s);
  } else if (s.kind == StragglerKind::kPowerCap) {
    b.Tell("power_cap_share", ShareOf(HeldDown::kPowerCap), &s);
    b.Tell("power_violation_share", ViolationShare(kWorkPowerViolation), &s);
  }
  return s;
}

}  // namespace flopwatch::fleet
