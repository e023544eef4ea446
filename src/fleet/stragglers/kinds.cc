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

}  // namespace

Straggler StragglerByClock(const StragglerJob& job, const JobEstimate& estimate, size_t rank) {
  const Beside b(job, estimate, rank);
  Straggler s;
  s.kind = StragglerKind::kClock;
  b.Tell("sm_clock_mhz", MeanOfField(kWorkClock), &s);
  b.Tell(
      "tensor_active", [](const GpuWork& w) { return w.Tensor(); }, &s);
  b.Tell("power_w", MeanOfField(kWorkPower), &s);
  b.Tell("power_limit_w", MeanOfField(kWorkPowerLimit), &s);
  b.Tell("gpu_temp_c", MeanOfField(kWorkTemp), &s);
  const double thermal =
      std::max(b.More(ShareOf(HeldDown::kThermal)), b.More(ViolationShare(kWorkThermalViolation)));
  const double power =
      std::max({b.More(ShareOf(HeldDown::kPowerCap)), b.More(ShareOf(HeldDown::kPowerBrake)),
                b.More(ViolationShare(kWorkPowerViolation))});
  const auto limit = b.own().Mean(kWorkPowerLimit), limits = b.Peers(MeanOfField(kWorkPowerLimit));
  const auto watts = b.own().Mean(kWorkPower);
  const bool lower_limit = limit && limits && *limit < kLowerLimit * *limits;
  const bool at_limit = lower_limit && watts && *watts > kAtLimit * *limit;
  const auto temp = b.own().Mean(kWorkTemp), temps = b.Peers(MeanOfField(kWorkTemp));
  const bool hot = temp && temps && *temp >= kHotC && *temp >= *temps + kHotterC;
  if (thermal > kHeldDown && thermal >= power) {
    s.kind = StragglerKind::kThermal;
  } else if (at_limit || power > kPowerHeldDown) {
    s.kind = StragglerKind::kPowerCap;
  } else if (thermal > kHeldDown || hot) {
    s.kind = StragglerKind::kThermal;
  }
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
