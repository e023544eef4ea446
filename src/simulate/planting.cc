#include "simulate/planting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "simulate/activity_builder.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr double kMostOfCapacity = .3;              // GPU time for planted workflows
constexpr int kFewestBefore = 6, kFewestAfter = 4;  // runs around a change
constexpr int32_t kShortestRun = 1200;
constexpr int kRunsOfHost = 8;     // of a workflow whose jobs something befalls: every second one
constexpr double kControls = .25;  // unchanged workflows beside those that may change

// How the runs of one workflow come.
struct Rhythm {
  int runs = 0;
  int32_t duration = 0;
  double spacing = 0;
};

class Planter {
 public:
  Planter(const IncidentCounts& asked, const PresetSpec& spec, uint64_t seed, int total_gpus,
          int32_t horizon, DemandModel* demand)
      : spec_(spec), seed_(seed), horizon_(horizon), demand_(*demand) {
    out_.asked = asked;
    out_.requests.resize(spec.clusters.size());
    for (const ClusterSpec& c : spec.clusters)
      capacity_.push_back(static_cast<int>(total_gpus * c.share * (1 - spec.serving_share)));
    double left = 0;
    for (int gpus : capacity_) left += gpus;
    budget_ = kMostOfCapacity * left * horizon;
  }

  Planting Make() {
    // By turns, so that what does not fit is missing of every kind alike.
    int32_t most = 0;
    for (int32_t n : out_.asked.n) most = std::max(most, n);
    for (int32_t i = 0; i < most; ++i) {
      for (size_t k = 0; k < kIncidentKinds; ++k) {
        if (i >= out_.asked.n[k]) continue;
        const auto kind = static_cast<IncidentKind>(k);
        const IncidentGroup group = GroupOf(kind);
        if (group == IncidentGroup::kRegression || group == IncidentGroup::kChange)
          AddRecurring(kind, i);
        else if (group == IncidentGroup::kBoard || group == IncidentGroup::kFleet)
          continue;                         // any job will do, or all of them
        else if (room_[kind] * 4 <= i * 5)  // some of them meet something else
          room_[kind] += AddHost(kind);
      }
      if (i % static_cast<int32_t>(1 / kControls) == 0 && wants_controls_)
        AddRecurring(std::nullopt, i);
    }
    for (auto& list : out_.requests) std::ranges::stable_sort(list, {}, &Request::submit);
    return std::move(out_);
  }

 private:
  bool reports() const {
    return std::ranges::any_of(spec_.sizes, [](const SizeClass& c) { return c.mfu_mean > 0; });
  }

  // A cluster with room for jobs of this size, by its share of the GPUs; -1: none.
  int PickCluster(int gpus, uint64_t h, bool fp8) const {
    const auto fits = [&](size_t c) {
      return gpus <= capacity_[c] / 4 && (!fp8 || spec_.clusters[c].model->fp8);
    };
    double sum = 0;
    for (size_t c = 0; c < capacity_.size(); ++c) sum += fits(c) ? capacity_[c] : 0;
    double x = Unit(h) * sum;
    for (size_t c = 0; c < capacity_.size(); ++c) {
      if (!fits(c)) continue;
      x -= capacity_[c];
      if (x < 0) return static_cast<int>(c);
    }
    return -1;
  }

  // Another cluster of another GPU model with room; -1: none.
  int OtherModel(int cluster, int gpus) const {
    for (size_t c = 0; c < capacity_.size(); ++c)
      if (spec_.clusters[c].model != spec_.clusters[cluster].model && gpus <= capacity_[c] / 4)
        return static_cast<int>(c);
    return -1;
  }

  int16_t ClassFor(int gpus) const {
    int best = 0;
    double nearest = 1e9;
    for (size_t i = 0; i < spec_.sizes.size(); ++i)
      for (int g : spec_.sizes[i].gpus) {
        const double far = std::abs(std::log(static_cast<double>(g) / gpus));
        if (far < nearest) nearest = far, best = static_cast<int>(i);
      }
    return static_cast<int16_t>(best);
  }

  // Takes GPU-seconds from what may be planted; false: there are not so many.
  bool Spend(double gpu_seconds) {
    if (gpu_seconds > budget_) return false;
    budget_ -= gpu_seconds;
    return true;
  }

  PlantedWorkflow NewWorkflow(int cluster, int gpus, Draws* draws) {
    const int index = static_cast<int>(out_.workflows.size());
    PlantedWorkflow p;
    p.workflow =
        demand_.AddWorkflow(fmt::format("planted-wf-{:03}", index + 1), (1ull << 41) + index,
                            cluster, demand_.PickUser(draws->Next()), gpus, gpus > 1);
    Workflow& w = demand_.workflows()[p.workflow];
    w.size_class = ClassFor(gpus);
    w.variant = static_cast<int16_t>(index % 1000);
    w.planted = index;
    p.level = .16 + .3 * draws->Unit();
    p.scatter = .01 + .03 * draws->Unit();
    return p;
  }

  void Submit(const PlantedWorkflow& p, const Rhythm& r, int cluster, int gpus, Draws* draws,
              int cluster_after, int gpus_after) {
    const double first = draws->Unit() * .5 * r.spacing;
    for (int i = 0; i < r.runs; ++i) {
      Request q;
      q.submit = static_cast<int32_t>(first + r.spacing * (i + .2 * (draws->Unit() - .5)));
      q.submit = std::max(0, q.submit);
      q.duration = static_cast<int32_t>(r.duration * (.95 + .1 * draws->Unit()));
      const bool after = q.submit >= p.change_at;
      q.gpus = after ? gpus_after : gpus;
      q.workflow = p.workflow;
      out_.requests[after ? cluster_after : cluster].push_back(q);
    }
  }

  // A workflow with runs before and after a change; without a kind it never changes.
  void AddRecurring(std::optional<IncidentKind> kind, int32_t i) {
    Draws draws(Key(seed_, Purpose::kIncident, 1 + out_.workflows.size(), tries_++));
    wants_controls_ = true;
    Rhythm r;
    r.runs = 12 + static_cast<int>(draws.Below(7));
    r.runs = std::min(r.runs, static_cast<int>(horizon_ / (1.3 * kShortestRun)));
    if (r.runs < kFewestBefore + kFewestAfter) return;
    r.duration = std::clamp(static_cast<int32_t>(.3 * horizon_ / r.runs), kShortestRun, 4500);
    r.spacing = (horizon_ - 1.2 * r.duration - 600) / (r.runs - .3);
    const bool claims = reports(), change = kind && GroupOf(*kind) == IncidentGroup::kChange;
    const bool network = kind == IncidentKind::kRegressionNetwork;
    constexpr int kSizes[] = {2, 4, 4, 8};
    int gpus = kSizes[draws.Below(4)];
    if (network) gpus = std::max(4, gpus);
    if (change && claims) gpus = 8;
    const bool fp8 = kind == IncidentKind::kChangePrecision && claims;
    const int cluster = PickCluster(gpus, draws.Next(), fp8);
    if (cluster < 0) return;
    int cluster_after = cluster, gpus_after = gpus;
    if (kind == IncidentKind::kChangeGpus) {
      gpus_after = gpus <= 2 || draws.Unit() < .6 ? gpus * 2 : gpus / 2;
      if (gpus_after > capacity_[cluster] / 4) gpus_after = gpus / 2;
    }
    if (kind == IncidentKind::kChangeModel && !claims) {
      cluster_after = OtherModel(cluster, gpus);
      if (cluster_after < 0) return;
    }
    if (!Spend(static_cast<double>(r.runs) * r.duration * std::max(gpus, gpus_after))) return;
    PlantedWorkflow p = NewWorkflow(cluster, gpus, &draws);
    p.kind = kind;
    const int before =
        kFewestBefore + static_cast<int>(draws.Below(r.runs - kFewestBefore - kFewestAfter + 1));
    p.change_at = kind ? static_cast<int32_t>(r.spacing * (before + .25)) : kNever;
    if (change) SetChange(&p, i, claims, gpus_after > gpus, &draws);
    Submit(p, r, cluster, gpus, &draws, cluster_after, gpus_after);
    out_.workflows.push_back(p);
  }

  void SetChange(PlantedWorkflow* p, int32_t i, bool claims, bool more, Draws* draws) {
    if (p->kind == IncidentKind::kChangeGpus) {
      // More GPUs, each a little less busy.
      p->size = more ? .78 + .22 * draws->Unit() : 1 + .2 * draws->Unit();
    } else if (p->kind == IncidentKind::kChangeModel) {
      p->size = .65 + .6 * draws->Unit();
      if (claims) p->model_after = Key(seed_, Purpose::kIncident, p->workflow, 1 << 20) | 1;
    } else {
      const bool to_mixed = claims && i % 2 == 0;
      p->size = to_mixed ? 1 / kPrecisionChange : kPrecisionChange;
      p->mixed_first = claims && !to_mixed;
      p->mixed_after = to_mixed;
    }
    p->level = std::min(p->level, .4 / std::max(1.0, p->size));
  }

  // A workflow of which something may befall every second job; returns how many that are.
  int AddHost(IncidentKind kind) {
    Draws draws(Key(seed_, Purpose::kIncident, 1 + out_.workflows.size(), tries_++));
    const bool idle = GroupOf(kind) == IncidentGroup::kIdle;
    const bool is_long = idle || GroupOf(kind) == IncidentGroup::kReported;
    Rhythm r;
    r.duration = is_long
                     ? std::min(9000 + static_cast<int32_t>(draws.Below(5400)), horizon_ * 2 / 5)
                     : std::clamp(horizon_ / 10, 3600, 6000);
    r.runs = std::min(kRunsOfHost, static_cast<int>(horizon_ / (1.25 * r.duration)));
    if (r.runs < 1 || r.duration < kShortestRun) return 0;
    r.spacing = (horizon_ - 1.2 * r.duration - 600) / std::max(1.0, r.runs - .3);
    constexpr int kSizes[] = {2, 4, 8, 8};
    int gpus = kSizes[draws.Below(4)];
    if (idle && kind != IncidentKind::kIdleBarrier && kind != IncidentKind::kHung &&
        kind != IncidentKind::kIdleUnusedGpu)
      gpus /= 2;
    int cluster = PickCluster(gpus, draws.Next(), false);
    if (cluster >= 0 && kind == IncidentKind::kStragglerHost) {
      gpus = spec_.clusters[cluster].gpus_per_host * (2 + static_cast<int>(draws.Below(2)));
      if (gpus > capacity_[cluster] / 4) cluster = PickCluster(gpus, draws.Next(), false);
    }
    if (cluster < 0 || !Spend(static_cast<double>(r.runs) * r.duration * gpus)) return 0;
    PlantedWorkflow p = NewWorkflow(cluster, gpus, &draws);
    p.hosts = kind;
    p.change_at = kNever;
    Submit(p, r, cluster, gpus, &draws, cluster, gpus);
    out_.workflows.push_back(p);
    return (r.runs + 1) / 2;
  }

  const PresetSpec& spec_;
  uint64_t seed_;
  int32_t horizon_;
  DemandModel& demand_;
  std::vector<int> capacity_;  // by cluster: GPUs for jobs
  double budget_ = 0;          // GPU-seconds
  IncidentCounts room_;        // that hosts have been made for
  uint64_t tries_ = 0;
  bool wants_controls_ = false;
  Planting out_;
};

}  // namespace

OddJob OddJobOf(uint64_t seed, uint64_t workflow_key) {
  const uint32_t x = Below(Key(seed, Purpose::kOddJob, workflow_key), 100);
  return x < 8    ? OddJob::kFp64
         : x < 16 ? OddJob::kFp32
         : x < 24 ? OddJob::kMemory
         : x < 28 ? OddJob::kInteger
                  : OddJob::kNone;
}

Planting MakePlanting(const IncidentCounts& asked, const PresetSpec& spec, uint64_t seed,
                      int total_gpus, int32_t horizon, DemandModel* demand) {
  if (!asked.any()) return {};
  return Planter(asked, spec, seed, total_gpus, horizon, demand).Make();
}

double LevelOfRun(const PlantedWorkflow& w, uint64_t seed, int32_t run, int32_t submit) {
  const double z =
      std::clamp(Normal(Key(seed, Purpose::kIncident, w.workflow, 1000 + run)), -2.5, 2.5);
  const bool changed = w.kind && GroupOf(*w.kind) == IncidentGroup::kChange && IsChanged(w, submit);
  return w.level * (1 + w.scatter * z) * (changed ? w.size : 1);
}

}  // namespace flopwatch::simulate
