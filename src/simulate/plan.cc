#include "simulate/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "simulate/plan_cluster.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr int32_t kFirstJobNumber = 2'100'001;

// Sessions on a lane that the scheduler does not manage: people at a MIG instance or a shared GPU.
// `closed`: when its host takes no session, and what is there ends unless it only drains; empty
// where the scheduler has no say.
void AddSessions(Plan* plan, DemandModel* demand, uint64_t seed, int cluster, int32_t lane,
                 int chain, std::span<const HostPeriod> closed, std::vector<Job>* jobs) {
  Draws draws(Key(seed, Purpose::kLane, lane, chain));
  double t = -draws.Exponential(3600);
  while (t < plan->horizon) {
    int32_t from = static_cast<int32_t>(t);
    int32_t length =
        std::max<int32_t>(60, static_cast<int32_t>(std::min(draws.LogNormal(5400, 1.0), 86400.0)));
    int user = demand->PickUser(draws.Next());
    const bool possible = std::ranges::none_of(
        closed, [&](const HostPeriod& p) { return p.from <= std::max(from, 0) && from < p.to; });
    if (from + length > 0 && possible) {
      Job j;
      j.workflow = demand->InteractiveWorkflow(cluster, user);
      j.submit = j.start = from;
      j.duration = length;
      j.end = from + length;
      j.gpus = 1;
      j.cluster = static_cast<int16_t>(cluster);
      j.kind = JobKind::kSession;
      j.state = j.end < plan->horizon ? JobState::kCompleted : JobState::kRunning;
      for (const HostPeriod& p : closed) {
        if (p.condition == HostCondition::kDraining || p.from <= from || p.from >= j.end) continue;
        j.end = p.from;
        j.state = JobState::kNodeFail;
      }
      jobs->push_back(j);
      plan->placements.push_back({lane, static_cast<int32_t>(jobs->size()) - 1, 0});
    }
    t = from + length + 1 + draws.Exponential(2400);
  }
}

}  // namespace

std::string_view JobStateName(JobState s) {
  static constexpr std::string_view kNames[] = {
      "PENDING",   "RUNNING", "COMPLETED",     "CANCELLED", "FAILED",
      "NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED", "REQUEUED"};
  static_assert(std::size(kNames) == static_cast<size_t>(JobState::kRequeued) + 1);
  return kNames[static_cast<size_t>(s)];
}

const Plan::MigGpu& Plan::MigOfLane(int32_t lane) const {
  auto it = std::ranges::upper_bound(mig, lane, {}, &MigGpu::first_lane);
  return *(it - 1);
}

const Plan::MigGpu& Plan::MigOfGpu(int32_t gpu) const {
  return *std::ranges::lower_bound(mig, gpu, {}, &MigGpu::gpu);
}

namespace {

// The hosts of each cluster, some of them with partitioned or shared GPUs.
void PlaceHosts(const PresetSpec& spec, int total_gpus, Plan* plan) {
  // Whole hosts, except that the last cluster takes what is left (a host with fewer GPUs).
  int left = total_gpus;
  plan->cluster_first_host.push_back(0);
  for (size_t c = 0; c < spec.clusters.size(); ++c) {
    const ClusterSpec& cluster = spec.clusters[c];
    int per = cluster.gpus_per_host;
    int gpus = c + 1 == spec.clusters.size()
                   ? left
                   : std::min(left, std::max(1, static_cast<int>(std::lround(
                                                    total_gpus * cluster.share / per))) *
                                        per);
    int number = 0;
    for (int g = 0; g < gpus; g += per, ++number) {
      Host h;
      h.first_gpu = total_gpus - left;
      h.gpus = static_cast<int16_t>(std::min(per, gpus - g));
      h.cluster = static_cast<int16_t>(c);
      h.number = number;
      h.rack = number / kHostsPerRack;
      left -= h.gpus;
      plan->hosts.push_back(h);
    }
    int first = plan->cluster_first_host.back(),
        hosts = static_cast<int>(plan->hosts.size()) - first;
    auto special = [&](double share, int offset, auto&& mark) {
      if (share <= 0 || hosts < 4) return;
      int n = std::max(1, static_cast<int>(hosts * share));
      for (int i = 0; i < n; ++i) mark(plan->hosts[first + (offset + i * (hosts / n)) % hosts], i);
    };
    // Mostly one GPU of a host is cut up, sometimes half of them, the rest stay whole.
    constexpr int kPartitioned[] = {1, 2, 1, 4};
    if (!cluster.model->mig.empty())
      special(spec.mig_host_share, hosts / 3, [&](Host& h, int i) {
        h.mig_gpus = static_cast<int16_t>(std::min<int>(h.gpus, kPartitioned[i % 4]));
      });
    if (cluster.scheduler == Scheduler::kSlurm)
      special(spec.shared_host_share, hosts / 2, [](Host& h, int) { h.shared = h.mig_gpus == 0; });
    plan->cluster_first_host.push_back(static_cast<int32_t>(plan->hosts.size()));
  }
  plan->lanes = total_gpus;
  for (const Host& h : plan->hosts) {
    const auto layouts = spec.clusters[h.cluster].model->mig;
    for (int g = 0; g < h.mig_gpus; ++g) {
      const int32_t gpu = h.first_gpu + g;
      plan->mig.push_back({gpu, plan->lanes, layouts[plan->mig.size() % layouts.size()]});
      plan->lanes += static_cast<int32_t>(plan->mig.back().layout.size());
    }
  }
}

// Puts the jobs of all clusters in order of submission and numbers them.
void NumberJobs(const std::vector<Job>& jobs, DemandModel* demand, Plan* plan) {
  std::vector<int32_t> order(jobs.size()), place(jobs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::ranges::stable_sort(order,
                           [&](int32_t a, int32_t b) { return jobs[a].submit < jobs[b].submit; });
  int32_t number = kFirstJobNumber;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<int32_t>(i);
    Job j = jobs[order[i]];
    if (j.previous >= 0) {  // another attempt of the same job and run
      j.previous = place[j.previous];
      j.number = plan->jobs[j.previous].number;
      j.run = plan->jobs[j.previous].run;
    } else {
      j.number = number++;
      j.run = ++demand->workflows()[j.workflow].runs;
    }
    plan->jobs.push_back(j);
  }
  for (Placement& p : plan->placements) p.job = place[p.job];
}

}  // namespace

Plan BuildPlan(const PresetSpec& spec, DemandModel* demand, uint64_t seed, int total_gpus,
               int32_t horizon, const FailureOptions& failures,
               std::span<const std::vector<Request>> planted) {
  Plan plan;
  plan.horizon = horizon;
  plan.gpus = total_gpus;
  PlaceHosts(spec, total_gpus, &plan);
  // Each cluster numbers its jobs from 0.
  std::vector<Job> jobs;
  for (size_t c = 0; c < spec.clusters.size(); ++c) {
    std::vector<Job> own;
    size_t first_placement = plan.placements.size();
    ClusterRun(spec, demand, &plan, seed, static_cast<int>(c), failures)
        .Run(&own, c < planted.size() ? std::span<const Request>(planted[c])
                                      : std::span<const Request>());
    for (int32_t h = plan.cluster_first_host[c]; h < plan.cluster_first_host[c + 1]; ++h) {
      if (plan.hosts[h].mig_gpus == 0 && !plan.hosts[h].shared) continue;
      std::vector<HostPeriod> closed;
      if (failures.scheduler && spec.clusters[c].scheduler == Scheduler::kSlurm)
        std::ranges::copy_if(plan.periods, std::back_inserter(closed),
                             [&](const HostPeriod& p) { return p.host == h; });
      for (int g = 0; g < plan.hosts[h].mig_gpus; ++g) {
        const Plan::MigGpu& m = plan.MigOfGpu(plan.hosts[h].first_gpu + g);
        for (size_t i = 0; i < m.layout.size(); ++i)
          AddSessions(&plan, demand, seed, static_cast<int>(c),
                      m.first_lane + static_cast<int32_t>(i), 0, closed, &own);
      }
      if (!plan.hosts[h].shared) continue;
      int32_t gpu = plan.hosts[h].first_gpu + plan.hosts[h].gpus - 1;
      AddSessions(&plan, demand, seed, static_cast<int>(c), gpu, 0, closed, &own);
      AddSessions(&plan, demand, seed, static_cast<int>(c), gpu, 1, closed, &own);
    }
    for (size_t i = first_placement; i < plan.placements.size(); ++i)
      plan.placements[i].job += static_cast<int32_t>(jobs.size());
    for (Job& j : own)
      if (j.previous >= 0) j.previous += static_cast<int32_t>(jobs.size());
    jobs.insert(jobs.end(), own.begin(), own.end());
  }
  NumberJobs(jobs, demand, &plan);
  std::ranges::stable_sort(plan.periods, [](const HostPeriod& a, const HostPeriod& b) {
    return std::tie(a.host, a.from) < std::tie(b.host, b.from);
  });
  const auto by_gpu = [](const auto& a, const auto& b) {
    return std::tie(a.gpu, a.at) < std::tie(b.gpu, b.at);
  };
  std::ranges::stable_sort(plan.swaps, by_gpu);
  std::ranges::stable_sort(plan.xids, by_gpu);
  return plan;
}

}  // namespace flopwatch::simulate
