#include "fleet/stragglers/beside.h"

#include <algorithm>
#include <utility>

#include "fleet/stragglers/robust.h"

namespace flopwatch::fleet {
namespace {

constexpr size_t kFewPeers = 3;

}  // namespace

Beside::Beside(const StragglerJob& job, const JobEstimate& estimate, size_t rank, Peer peer)
    : own_(*job.ranks[estimate.ranks[rank].rank].work) {
  const StragglerRank& self = job.ranks[estimate.ranks[rank].rank];
  std::vector<const GpuWork*> all;
  for (size_t i = 0; i < estimate.ranks.size(); ++i) {
    if (i == rank) continue;
    const StragglerRank& r = job.ranks[estimate.ranks[i].rank];
    all.push_back(r.work);
    if (peer == Peer::kDomain ? r.domain == self.domain : r.host != self.host)
      peers_.push_back(r.work);
  }
  if (peers_.size() < kFewPeers) peers_ = std::move(all);
}

std::optional<double> Beside::Peers(const WorkMeasure& of) const {
  std::vector<double> values;
  for (const GpuWork* w : peers_)
    if (const auto v = of(*w)) values.push_back(*v);
  return values.empty() ? std::nullopt : std::optional(MedianOf(std::move(values)));
}

double Beside::More(const WorkMeasure& of) const {
  const auto own = of(own_);
  return own ? *own - Peers(of).value_or(0) : 0;
}

void Beside::Tell(std::string_view name, const WorkMeasure& of, Straggler* s) const {
  if (const auto v = of(own_)) s->evidence.push_back({name, *v, Peers(of)});
}

WorkMeasure MeanOfField(WorkField f) {
  return [f](const GpuWork& w) { return w.Mean(f); };
}
WorkMeasure ShareOf(HeldDown why) {
  return [why](const GpuWork& w) { return w.HeldDownShare(why); };
}
WorkMeasure GrowthOf(WorkField f) {
  return [f](const GpuWork& w) { return w.Growth(f); };
}
WorkMeasure ViolationShare(WorkField f) {
  return [f](const GpuWork& w) -> std::optional<double> {
    const auto ns = w.Growth(f);
    if (!ns || !(w.work_s() > 0)) return std::nullopt;
    return std::min(1.0, *ns / 1e9 / w.work_s());
  };
}

}  // namespace flopwatch::fleet
