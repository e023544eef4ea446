// What befalls a whole job, a host or the fleet: clocks that are held low, restarts, a file system
// that all wait for.
#include <algorithm>
#include <cmath>

#include "simulate/activity_builder.h"

namespace flopwatch::simulate {
namespace {

constexpr int32_t kShortestBrake = 1200, kLongestBrake = 3600;
constexpr int32_t kShortestDrop = 5400, kLongestDrop = 10800;
constexpr int32_t kMostLost = 1500;  // seconds of work since the last checkpoint
constexpr uint16_t kApplicationClocks = 0x2, kHardwareSlowdown = 0x8, kBrake = 0x80;

}  // namespace

bool ActivityBuilder::PlantClock(IncidentKind kind, const Candidate& c, Draws* draws) {
  const Job& job = plan_.jobs[c.job];
  const JobInfo& info = jobs_[c.job];
  const bool brake = kind == IncidentKind::kPowerBrake;
  PlantedIncident p{kind, c.job, job.workflow, info.from, info.to};
  p.size = brake ? .5 + .3 * draws->Unit() : .36 + .16 * draws->Unit();
  for (int i = 0; i < info.placements; ++i) p.lanes.push_back(LaneOf(info, i));
  std::ranges::sort(p.lanes);
  if (brake) {
    const auto elsewhere = [&](int32_t lane) {
      return a_.HostOf(lane) != a_.HostOf(p.lanes.front());
    };
    if (std::ranges::any_of(p.lanes, elsewhere)) return false;  // other hosts have other supplies
    const auto length =
        static_cast<int32_t>(kShortestBrake + (kLongestBrake - kShortestBrake) * draws->Unit());
    if (info.to - info.from < length + 2 * kShortestBrake) return false;
    p.from += static_cast<int32_t>((info.to - info.from - length) * draws->Unit());
    p.to = p.from + length;
    if (UsualOf(c.job, p.from, p.to).busy_s < .8 * length) return false;
  }
  Effect effect;
  effect.kind = kind;
  Lose(Family::kClock, c.job, p.from, p.to, p.size, draws->Next(), &effect);
  effect.limit_mw = 0;
  const bool half = draws->Unit() < .5;
  // NVML: the hardware's slowdown is for heat or for the brake; not all boards tell both bits.
  effect.reasons = brake  ? static_cast<uint16_t>(half ? kBrake | kHardwareSlowdown : kBrake)
                   : half ? kApplicationClocks
                          : 0;
  cuts_.emplace(c.job, Cut{p.from, p.to, -1, AddEffect(effect), {}});
  if (!brake) {  // whoever reports chose the batch for a board at its clock
    Reported& said = a_.reported_[c.job];
    if (said.usual_mfu <= 0) said.usual_mfu = said.mfu;
    said.mfu = static_cast<float>(said.mfu * p.size);
  }
  a_.planted_.push_back(std::move(p));
  return true;
}

bool ActivityBuilder::PlantRestart(const Candidate& c, Draws* draws) {
  const auto kind = IncidentKind::kRestart;
  int32_t from = 0, to = 0;
  bool fits = false;
  for (int tries = 0; tries < 6 && !fits; ++tries) fits = IdleTime(kind, c, draws, &from, &to);
  if (!fits) return false;
  HoldIdle(kind, c.job, from, to, draws->Next());
  a_.planted_.push_back(
      {kind, c.job, plan_.jobs[c.job].workflow, from, to, std::floor(kMostLost * draws->Unit())});
  return true;
}

// One after another, each in a part of the window of its own, late enough that it is known what is
// usual. Nothing else is planted in the jobs that it meets.
void ActivityBuilder::PlantFleetDrops() {
  const int32_t n = planting_->asked[IncidentKind::kFleetDrop];
  for (int32_t i = 0; i < n; ++i) {
    Draws draws(Key(seed_, Purpose::kIncident, i, 17ull << 40));
    const double part = static_cast<double>(plan_.horizon) / n;
    const auto length =
        static_cast<int32_t>(kShortestDrop + (kLongestDrop - kShortestDrop) * draws.Unit());
    const double size = .15 + .2 * draws.Unit();
    const auto from = static_cast<int32_t>(part * (i + .45 + .25 * draws.Unit()));
    const int32_t to = from + length;
    if (to + kShortestDrop > part * (i + 1)) continue;
    const auto index = static_cast<int32_t>(a_.planted_.size());
    for (size_t k = 0; k < jobs_.size(); ++k) {
      const auto j = static_cast<int32_t>(k);
      const Job& job = plan_.jobs[k];
      const JobInfo& info = jobs_[k];
      const int32_t begin = std::max(from, info.from), end = std::min(to, info.to);
      if (job.kind != JobKind::kSynchronous && job.kind != JobKind::kSingle) continue;
      if (info.program < 0 || begin >= end || a_.planted_in_[k] >= 0 || IsRecurring(job) ||
          changed_workflows_.contains(job.workflow))
        continue;
      Effect effect;
      effect.kind = IncidentKind::kFleetDrop;
      Lose(Family::kDuty, j, begin, end, size, draws.Next(), &effect);
      if (!throttles_.contains(j) && job.suspend_from == kNever)
        cuts_.emplace(j, Cut{begin, end, -1, AddEffect(effect), {}});
      Take(j, index);
    }
    a_.planted_.push_back({IncidentKind::kFleetDrop, -1, -1, from, to, size});
  }
}

}  // namespace flopwatch::simulate
