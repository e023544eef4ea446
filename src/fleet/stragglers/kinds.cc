#include "fleet/stragglers/kinds.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "fleet/stragglers/robust.h"

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

// Beside its peers: those of its NVLink domain where there are enough of them, else of the job.
constexpr size_t kFewPeers = 3;

class Beside {
 public:
  Beside(const StragglerJob& job, const JobEstimate& estimate, size_t rank)
      : own_(*job.ranks[estimate.ranks[rank].rank].work) {
    const int32_t domain = job.ranks[estimate.ranks[rank].rank].domain;
    std::vector<const GpuWork*> all;
    for (size_t i = 0; i < estimate.ranks.size(); ++i) {
      if (i == rank) continue;
      const StragglerRank& r = job.ranks[estimate.ranks[i].rank];
      all.push_back(r.work);
      if (r.domain == domain) peers_.push_back(r.work);
    }
    if (peers_.size() < kFewPeers) peers_ = std::move(all);
  }

  const GpuWork& own() const { return own_; }
  std::optional<double> Peers(const std::function<std::optional<double>(const GpuWork&)>& of) const {
    std::vector<double> values;
    for (const GpuWork* w : peers_)
      if (const auto v = of(*w)) values.push_back(*v);
    return values.empty() ? std::nullopt : std::optional(MedianOf(std::move(values)));
  }
  // Adds what is known of a measure.
  void Tell(std::string_view measure, const std::function<std::optional<double>(const GpuWork&)>& of,
            Straggler* s) const {
    if (const auto v = of(own_)) s->evidence.push_back({measure, *v, Peers(of)});
  }

 private:
  const GpuWork& own_;
  std::vector<const GpuWork*> peers_;
};

auto MeanOfField(WorkField f) {
  return [f](const GpuWork& w) { return w.Mean(f); };
}
auto ShareOf(HeldDown why) {
  return [why](const GpuWork& w) { return w.HeldDownShare(why); };
}
auto GrowthOf(WorkField f) {
  return [f](const GpuWork& w) { return w.Growth(f); };
}
// The share of its time of work that a total of nanoseconds grew by.
auto ViolationShare(WorkField f) {
  return [f](const GpuWork& w) -> std::optional<double> {
    const auto ns = w.Growth(f);
    if (!ns || !(w.work_s() > 0)) return std::nullopt;
    return std::min(1.0, *ns / 1e9 / w.work_s());
  };
}

// By how much more of the time than its peers.
double More(const Beside& b, const std::function<std::optional<double>(const GpuWork&)>& of) {
  const auto own = of(b.own());
  return own ? *own - b.Peers(of).value_or(0) : 0;
}

}  // namespace

Straggler StragglerByClock(const StragglerJob& job, const JobEstimate& estimate, size_t rank) {
  const Beside b(job, estimate, rank);
  Straggler s;
  s.kind = StragglerKind::kClock;
  b.Tell("sm_clock_mhz", MeanOfField(kWorkClock), &s);
  b.Tell("tensor_active", [](const GpuWork& w) { return w.Tensor(); }, &s);
  b.Tell("power_w", MeanOfField(kWorkPower), &s);
  b.Tell("power_limit_w", MeanOfField(kWorkPowerLimit), &s);
  b.Tell("gpu_temp_c", MeanOfField(kWorkTemp), &s);
  const double thermal = std::max(More(b, ShareOf(HeldDown::kThermal)),
                                  More(b, ViolationShare(kWorkThermalViolation)));
  const double power = std::max({More(b, ShareOf(HeldDown::kPowerCap)),
                                 More(b, ShareOf(HeldDown::kPowerBrake)),
                                 More(b, ViolationShare(kWorkPowerViolation))});
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

std::vector<OtherSuspect> SuspectsAtFullClock(const StragglerJob& job,
                                              const JobEstimate& estimate) {
  // Power of the ranks beside the middle; where peers wait in a collective the one they wait for
  // draws more than they do.
  constexpr size_t kFewRanks = 4;
  constexpr double kPowerSpread = 0.015, kLeastExcess = 0.03, kMostExcess = 0.3;
  constexpr double kStallShare = 0.0025;
  std::vector<OtherSuspect> out;
  std::vector<double> power, slower;
  for (const RankEstimate& e : estimate.ranks) {
    slower.push_back(e.slower);
    if (!std::isnan(e.power)) power.push_back(e.power);
  }
  if (power.size() < kFewRanks) return out;
  const double middle = MedianOf(power), middle_slower = MedianOf(slower);
  const double spread = std::max(kPowerSpread, RobustSd(power));
  for (size_t i = 0; i < estimate.ranks.size(); ++i) {
    const RankEstimate& e = estimate.ranks[i];
    const double excess = e.power - middle;
    if (!(excess > kLeastExcess) || e.slower - middle_slower > std::log1p(kInnocent)) continue;
    const Beside b(job, estimate, i);
    const auto replays = b.own().Growth(kWorkReplays);
    double odds = kStallShare / (kMostExcess - kLeastExcess) / NormalDensity(excess, spread);
    if (replays) odds *= *replays > 10 * (1 + b.Peers(GrowthOf(kWorkReplays)).value_or(0)) ? 20 : .3;
    OtherSuspect s;
    s.rank = i;
    s.innocent = 1 / (1 + odds);
    s.straggler.kind = StragglerKind::kStall;
    s.straggler.deficit_reason =
        "at a normal clock counters do not say for how long its peers wait";
    b.Tell("power_w", MeanOfField(kWorkPower), &s.straggler);
    b.Tell("sm_clock_mhz", MeanOfField(kWorkClock), &s.straggler);
    b.Tell("pcie_replays", GrowthOf(kWorkReplays), &s.straggler);
    b.Tell("ecc_sbe", GrowthOf(kWorkEccSbe), &s.straggler);
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace flopwatch::fleet
