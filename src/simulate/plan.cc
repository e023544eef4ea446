#include "simulate/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <queue>

#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr int kHostsPerRack = 16;
constexpr int kBackfillDepth = 64;            // waiting jobs looked at behind a blocked one
constexpr int32_t kHeadPatience = 4 * 3600;   // after which large jobs no longer overtake it
constexpr int32_t kLongestDrain = 24 * 3600;  // a draining host is taken down after that
constexpr int32_t kMonth = 30 * 86400;
constexpr int32_t kOutageAfter = 10 * 86400;  // not in the windows of a demonstration
constexpr int32_t kFirstJobNumber = 2'100'001;

enum class EventType : uint8_t {
  kJobEnd,
  kRepaired,
  kFailure,
  kMaintenance,
  kDrain,
  kDrainLimit,
  kDeployed
};

struct Event {
  int32_t time;
  EventType type;
  int32_t id;
  int32_t extra;
  bool operator>(const Event& o) const {
    return std::tie(time, type, id, extra) > std::tie(o.time, o.type, o.id, o.extra);
  }
};

// One cluster's queue and hosts.
class ClusterRun {
 public:
  ClusterRun(const PresetSpec& spec, DemandModel* demand, Plan* plan, uint64_t seed, int cluster,
             const FailureOptions& failures)
      : spec_(spec),
        demand_(demand),
        plan_(*plan),
        seed_(seed),
        cluster_(cluster),
        failures_(failures) {
    first_ = plan_.cluster_first_host[cluster];
    count_ = plan_.cluster_first_host[cluster + 1] - first_;
    hosts_.resize(count_);
    full_ = spec.clusters[cluster].gpus_per_host;
    for (int h = 0; h < count_; ++h) {
      const Host& host = plan_.hosts[first_ + h];
      uint8_t mask = static_cast<uint8_t>((1u << host.gpus) - 1);
      mask &= ~((1u << host.mig_gpus) - 1);
      if (host.shared) mask &= ~(1u << (host.gpus - 1));
      hosts_[h].pool = hosts_[h].free = mask;
      hosts_[h].job.fill(-1);
      capacity_ += std::popcount(mask);
      Enter(h);
    }
  }

  void Run(std::vector<Job>* jobs) {
    jobs_ = jobs;
    PlanFailures();
    PlaceServices();
    int batch_capacity = capacity_ - service_gpus_;
    for (const Request& r : demand_->Running(cluster_, batch_capacity)) {
      int32_t job = AddJob(r);
      if (!Start(job, r.submit)) (*jobs_)[job].submit = 0, queue_.push_back(job);
    }
    std::vector<Request> arrivals = demand_->Arrivals(cluster_, batch_capacity, plan_.horizon);
    size_t next = 0;
    while (true) {
      int32_t arrival = next < arrivals.size() ? arrivals[next].submit : kNever;
      int32_t resubmission = resubmit_.empty() ? kNever : resubmit_.front().submit;
      int32_t event = events_.empty() ? kNever : events_.top().time;
      int32_t now = std::min({arrival, resubmission, event});
      if (now >= plan_.horizon) break;
      // Ends and repairs first, then what arrives at that second, then the queue once.
      while (!events_.empty() && events_.top().time == now) Handle(Pop());
      for (; next < arrivals.size() && arrivals[next].submit == now; ++next)
        queue_.push_back(AddJob(arrivals[next]));
      while (!resubmit_.empty() && resubmit_.front().submit == now) {
        queue_.push_back(AddJob(resubmit_.front()));
        resubmit_.pop_front();
      }
      Dispatch(now);
    }
    for (int h = 0; h < count_; ++h)
      if (hosts_[h].since >= 0) ClosePeriod(h, plan_.horizon);
  }

 private:
  struct HostRun {
    uint8_t pool = 0, free = 0;
    bool usable = true;
    HostCondition condition = HostCondition::kDown;
    int32_t since = -1;     // start of the present period of not being usable; -1 = usable
    int32_t position = -1;  // in its bucket
    int32_t epoch = 0;      // invalidates drain limits
    std::array<int32_t, kMaxGpusPerHost> job;
  };
  struct Held {
    int32_t host;
    uint8_t mask;
  };

  Event Pop() {
    Event e = events_.top();
    events_.pop();
    return e;
  }
  void Push(int32_t time, EventType type, int32_t id, int32_t extra = 0) {
    if (time < plan_.horizon) events_.push({time, type, id, extra});
  }

  // --- hosts by number of free GPUs ---
  void Enter(int h) {
    HostRun& host = hosts_[h];
    if (!host.usable) return;
    auto& bucket = buckets_[std::popcount(host.free)];
    host.position = static_cast<int32_t>(bucket.size());
    bucket.push_back(h);
  }
  void Leave(int h) {
    HostRun& host = hosts_[h];
    if (!host.usable) return;
    auto& bucket = buckets_[std::popcount(host.free)];
    int32_t last = bucket.back();
    bucket[host.position] = last;
    hosts_[last].position = host.position;
    bucket.pop_back();
  }
  int PickFrom(int bucket) {
    return buckets_[bucket][Below(Key(seed_, Purpose::kPlacement, cluster_, ++picks_),
                                  buckets_[bucket].size())];
  }

  int32_t AddJob(const Request& r) {
    Workflow& w = demand_->workflows()[r.workflow];
    Job j;
    j.workflow = r.workflow;
    j.submit = r.submit;
    j.duration = r.duration;
    j.gpus = r.gpus;
    j.cluster = static_cast<int16_t>(cluster_);
    j.kind = w.size_class < 0 ? JobKind::kService
             : r.gpus == 1    ? JobKind::kSingle
             : w.synchronous  ? JobKind::kSynchronous
                              : JobKind::kIndependent;
    jobs_->push_back(j);
    held_.resize(jobs_->size());
    return static_cast<int32_t>(jobs_->size()) - 1;
  }

  // Whole hosts, then the rest on the fullest host it fits on. All or nothing.
  bool Start(int32_t job, int32_t started) {
    Job& j = (*jobs_)[job];
    int whole = j.gpus / full_, rest = j.gpus % full_;
    if (static_cast<int>(buckets_[full_].size()) < whole) return false;
    std::vector<Held> held;
    auto take = [&](int h, int n) {
      Leave(h);
      HostRun& host = hosts_[h];
      uint8_t mask = 0;
      for (int i = 0; i < n; ++i)
        mask |=
            static_cast<uint8_t>(1u << std::countr_zero(static_cast<uint8_t>(host.free & ~mask)));
      host.free &= ~mask;
      Enter(h);
      held.push_back({h, mask});
    };
    for (int i = 0; i < whole; ++i) take(PickFrom(full_), full_);
    if (rest > 0) {
      int b = rest;
      while (b <= full_ && buckets_[b].empty()) ++b;
      if (b > full_) {
        for (const Held& h : held) Release(h);
        return false;
      }
      take(PickFrom(b), rest);
    }
    std::ranges::sort(held, {}, &Held::host);
    int32_t rank = 0;
    for (const Held& h : held)
      for (int g = 0; g < kMaxGpusPerHost; ++g)
        if (h.mask >> g & 1) {
          hosts_[h.host].job[g] = job;
          plan_.placements.push_back({plan_.hosts[first_ + h.host].first_gpu + g, job, rank++});
        }
    held_[job] = std::move(held);
    j.start = started;
    j.end = j.duration == kNever ? kNever : started + j.duration;
    j.state = JobState::kRunning;
    Push(j.end, EventType::kJobEnd, job);
    return true;
  }

  void Release(const Held& held) {
    Leave(held.host);
    hosts_[held.host].free |= held.mask;
    for (int g = 0; g < kMaxGpusPerHost; ++g)
      if (held.mask >> g & 1) hosts_[held.host].job[g] = -1;
    Enter(held.host);
  }

  void Finish(int32_t job, int32_t now, JobState state) {
    Job& j = (*jobs_)[job];
    j.end = now;
    j.state = state;
    for (const Held& h : held_[job]) Release(h);
    for (const Held& h : held_[job]) {
      HostRun& host = hosts_[h.host];
      if (!host.usable && host.condition == HostCondition::kDraining && host.free == host.pool)
        TakeDown(h.host, now);
    }
    held_[job].clear();
  }

  void Dispatch(int32_t now) {
    bool blocked = false;
    int looked = 0;
    for (auto it = queue_.begin(); it != queue_.end() && looked < kBackfillDepth;) {
      const Job& j = (*jobs_)[*it];
      bool may =
          !blocked || j.gpus < full_ || now - (*jobs_)[queue_.front()].submit < kHeadPatience;
      if (may && Start(*it, now)) {
        it = queue_.erase(it);
        continue;
      }
      blocked = true;
      ++looked;
      ++it;
    }
  }

  // --- hosts that cannot be used ---
  void ClosePeriod(int h, int32_t now) {
    HostRun& host = hosts_[h];
    if (host.since >= 0 && now > host.since)
      plan_.periods.push_back({first_ + h, host.since, now, host.condition});
    host.since = -1;
  }
  void SetUnusable(int h, int32_t now, HostCondition condition) {
    HostRun& host = hosts_[h];
    if (host.usable) {
      Leave(h);
      host.usable = false;
    }
    ClosePeriod(h, now);
    host.condition = condition;
    host.since = now;
    ++host.epoch;
  }
  void TakeDown(int h, int32_t now, int32_t repair = 0) {
    SetUnusable(h, now, HostCondition::kDown);
    if (repair == 0) {
      Draws draws(Key(seed_, Purpose::kRepair, first_ + h, now));
      repair = static_cast<int32_t>(std::clamp(
          draws.LogNormal(failures_.repair_median_s, failures_.repair_sigma), 600.0, 30.0 * 86400));
    }
    Push(now + repair, EventType::kRepaired, h, hosts_[h].epoch);
  }
  // `repair` = seconds until the host is back; 0 = drawn.
  void Fail(int h, int32_t now, int32_t repair = 0) {
    if (!hosts_[h].usable && hosts_[h].condition != HostCondition::kDraining) return;
    std::vector<int32_t> victims;
    for (int32_t job : hosts_[h].job)
      if (job >= 0 && std::ranges::find(victims, job) == victims.end()) victims.push_back(job);
    SetUnusable(h, now, HostCondition::kDown);
    for (int32_t job : victims) {
      int32_t left = (*jobs_)[job].end == kNever ? kNever : (*jobs_)[job].end - now;
      Finish(job, now, JobState::kNodeFail);
      if (left > 60 && now + 600 < plan_.horizon) {  // run again from its checkpoint
        Request r;
        r.submit = now + 600;
        r.duration = left;
        r.gpus = (*jobs_)[job].gpus;
        r.workflow = (*jobs_)[job].workflow;
        resubmit_.push_back(r);
      }
    }
    TakeDown(h, now, repair);
  }

  void Handle(const Event& e) {
    switch (e.type) {
      case EventType::kJobEnd: {
        Job& j = (*jobs_)[e.id];
        if (j.state != JobState::kRunning || j.end != e.time) return;
        // Complete, cancel, fail by job: .50, .075, .43 (Seren).
        double u = Unit(Key(seed_, Purpose::kJob, e.id, 1 + cluster_));
        Finish(e.id, e.time,
               u < .5     ? JobState::kCompleted
               : u < .575 ? JobState::kCancelled
                          : JobState::kFailed);
        return;
      }
      case EventType::kRepaired: {
        HostRun& host = hosts_[e.id];
        if (host.usable || host.epoch != e.extra) return;
        ClosePeriod(e.id, e.time);
        host.usable = true;
        Enter(e.id);
        // A fifth of the repairs bring a new GPU (Titan: 30,207 GPUs passed through 18,688 slots).
        Draws draws(Key(seed_, Purpose::kRepair, first_ + e.id, e.time + (1ll << 40)));
        if (draws.Unit() < .2) {
          const Host& h = plan_.hosts[first_ + e.id];
          plan_.swaps.push_back({h.first_gpu + static_cast<int32_t>(draws.Below(h.gpus)), e.time});
        }
        return;
      }
      case EventType::kFailure:
        return Fail(e.id, e.time);
      case EventType::kMaintenance:
        return Fail(e.id, e.time, e.extra);
      case EventType::kDrain: {
        HostRun& host = hosts_[e.id];
        if (!host.usable) return;
        Draws draws(Key(seed_, Purpose::kXid, first_ + e.id, e.time));
        const Host& h = plan_.hosts[first_ + e.id];
        constexpr int kCodes[] = {31, 48, 63, 74, 79, 94, 95, 119};
        plan_.xids.push_back({h.first_gpu + static_cast<int32_t>(draws.Below(h.gpus)), e.time,
                              kCodes[draws.Below(8)]});
        SetUnusable(e.id, e.time, HostCondition::kDraining);
        if (host.free == host.pool) return TakeDown(e.id, e.time);
        Push(e.time + kLongestDrain, EventType::kDrainLimit, e.id, host.epoch);
        return;
      }
      case EventType::kDrainLimit:
        if (!hosts_[e.id].usable && hosts_[e.id].epoch == e.extra) Fail(e.id, e.time);
        return;
      case EventType::kDeployed: {
        HostRun& host = hosts_[e.id];
        ClosePeriod(e.id, e.time);
        host.usable = true;
        Enter(e.id);
        return;
      }
    }
  }

  void PlanFailures() {
    if (!failures_.enabled) return;
    double rate = failures_.node_failures_per_1000_days / 1000 / 86400;  // per host and second
    for (int h = 0; h < count_; ++h) {
      Draws draws(Key(seed_, Purpose::kFailure, first_ + h));
      double u = draws.Unit();
      if (u < failures_.out_at_start) {
        SetUnusable(h, 0, HostCondition::kDown);
        Push(static_cast<int32_t>(draws.Exponential(5 * 86400)) + 1, EventType::kRepaired, h,
             hosts_[h].epoch);
      } else if (u > 1 - failures_.late_hosts) {
        SetUnusable(h, 0, HostCondition::kNotDeployed);
        Push(static_cast<int32_t>(draws.Unit() * 36 * 3600), EventType::kDeployed, h);
      }
      for (double t = draws.Exponential(1 / rate); t < plan_.horizon;
           t += draws.Exponential(1 / rate)) {
        // Half of the failures announce themselves: an XID burst, then the host is drained.
        Push(static_cast<int32_t>(t), draws.Unit() < .5 ? EventType::kDrain : EventType::kFailure,
             h);
      }
    }
    // A whole cluster is out for a day once a month (Helios Earth, May 2020).
    for (int32_t month = 0; month * kMonth < plan_.horizon; ++month) {
      Draws draws(Key(seed_, Purpose::kRack, cluster_, (1 << 20) + month));
      int32_t at = month * kMonth + kOutageAfter +
                   static_cast<int32_t>(draws.Unit() * (kMonth - kOutageAfter));
      for (int h = 0; h < count_; ++h) Push(at, EventType::kMaintenance, h, 86400);
    }
    // A rack loses power or is serviced: about one rack in twenty a week.
    int racks = (count_ + kHostsPerRack - 1) / kHostsPerRack;
    if (racks < 2) return;
    for (int r = 0; r < racks; ++r) {
      Draws draws(Key(seed_, Purpose::kRack, cluster_, r));
      double mean_gap = 20.0 * 7 * 86400;
      for (double t = draws.Exponential(mean_gap); t < plan_.horizon;
           t += draws.Exponential(mean_gap))
        for (int h = r * kHostsPerRack; h < std::min(count_, (r + 1) * kHostsPerRack); ++h)
          Push(static_cast<int32_t>(t), EventType::kFailure, h);
    }
  }

  // Services hold their GPUs for the whole window; each replica is one pod and so one job.
  void PlaceServices() {
    int wanted = static_cast<int>(spec_.serving_share * capacity_);
    constexpr int kReplicaGpus[] = {1, 1, 2, 4, 8};
    constexpr std::string_view kNames[] = {"chat-api",   "code-assist", "embed-api", "rerank",
                                           "vision-api", "asr-api",     "translate", "image-gen",
                                           "search-llm", "moderation",  "tts-api",   "summarise"};
    for (int service = 0; wanted > 0 && service < 4096; ++service) {
      Draws draws(Key(seed_, Purpose::kService, cluster_, service));
      int gpus = std::min(kReplicaGpus[draws.Below(5)], full_);
      int replicas = 1 + static_cast<int>(draws.Exponential(8));
      std::string name =
          fmt::format("{}-{}{}", kNames[service % std::size(kNames)],
                      static_cast<char>('a' + cluster_), service / std::size(kNames) + 1);
      int32_t workflow = demand_->AddWorkflow(std::move(name), (1ull << 40) + service, cluster_,
                                              demand_->PickUser(draws.Next()), gpus, true);
      for (int r = 0; r < replicas && wanted >= gpus; ++r) {
        Request q;
        q.submit = -static_cast<int32_t>(draws.Unit() * 10 * 86400) - 1;
        q.duration = kNever;
        q.gpus = gpus;
        q.workflow = workflow;
        int32_t job = AddJob(q);
        if (!Start(job, q.submit)) {
          jobs_->pop_back();
          break;
        }
        wanted -= gpus;
        service_gpus_ += gpus;
      }
      if (gpus == 1 && wanted <= 0) break;
    }
  }

  const PresetSpec& spec_;
  DemandModel* demand_;
  Plan& plan_;
  uint64_t seed_;
  int cluster_;
  FailureOptions failures_;
  int first_ = 0, count_ = 0, full_ = 8, capacity_ = 0, service_gpus_ = 0;
  uint64_t picks_ = 0;
  std::vector<HostRun> hosts_;
  std::array<std::vector<int32_t>, kMaxGpusPerHost + 1> buckets_;
  std::vector<Job>* jobs_ = nullptr;
  std::vector<std::vector<Held>> held_;
  std::deque<int32_t> queue_;
  std::deque<Request> resubmit_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

// Sessions on a lane that the scheduler does not manage: people at a MIG instance or a shared GPU.
void AddSessions(Plan* plan, DemandModel* demand, uint64_t seed, int cluster, int32_t lane,
                 int chain, std::vector<Job>* jobs) {
  Draws draws(Key(seed, Purpose::kLane, lane, chain));
  double t = -draws.Exponential(3600);
  while (t < plan->horizon) {
    int32_t from = static_cast<int32_t>(t);
    int32_t length =
        std::max<int32_t>(60, static_cast<int32_t>(std::min(draws.LogNormal(5400, 1.0), 86400.0)));
    int user = demand->PickUser(draws.Next());
    if (from + length > 0) {
      Job j;
      j.workflow = demand->InteractiveWorkflow(cluster, user);
      j.submit = j.start = from;
      j.duration = length;
      j.end = from + length;
      j.gpus = 1;
      j.cluster = static_cast<int16_t>(cluster);
      j.kind = JobKind::kSession;
      j.state = j.end < plan->horizon ? JobState::kCompleted : JobState::kRunning;
      jobs->push_back(j);
      plan->placements.push_back({lane, static_cast<int32_t>(jobs->size()) - 1, 0});
    }
    t = from + length + 1 + draws.Exponential(2400);
  }
}

}  // namespace

std::string_view JobStateName(JobState s) {
  static constexpr std::string_view kNames[] = {"PENDING",   "RUNNING", "COMPLETED",
                                                "CANCELLED", "FAILED",  "NODE_FAIL"};
  static_assert(std::size(kNames) == static_cast<size_t>(JobState::kNodeFail) + 1);
  return kNames[static_cast<size_t>(s)];
}

const Plan::MigGpu& Plan::MigOfLane(int32_t lane) const {
  auto it = std::ranges::upper_bound(mig, lane, {}, &MigGpu::first_lane);
  return *(it - 1);
}

const Plan::MigGpu& Plan::MigOfGpu(int32_t gpu) const {
  return *std::ranges::lower_bound(mig, gpu, {}, &MigGpu::gpu);
}

Plan BuildPlan(const PresetSpec& spec, DemandModel* demand, uint64_t seed, int total_gpus,
               int32_t horizon, const FailureOptions& failures) {
  Plan plan;
  plan.horizon = horizon;
  plan.gpus = total_gpus;
  // GPUs of each cluster: whole hosts, except that the last cluster takes what is left (a host with
  // fewer GPUs).
  int left = total_gpus;
  plan.cluster_first_host.push_back(0);
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
      plan.hosts.push_back(h);
    }
    int first = plan.cluster_first_host.back(), hosts = static_cast<int>(plan.hosts.size()) - first;
    auto special = [&](double share, int offset, auto&& mark) {
      if (share <= 0 || hosts < 4) return;
      int n = std::max(1, static_cast<int>(hosts * share));
      for (int i = 0; i < n; ++i) mark(plan.hosts[first + (offset + i * (hosts / n)) % hosts], i);
    };
    // Mostly one GPU of a host is cut up, sometimes half of them, the rest stay whole.
    constexpr int kPartitioned[] = {1, 2, 1, 4};
    if (!cluster.model->mig.empty())
      special(spec.mig_host_share, hosts / 3, [&](Host& h, int i) {
        h.mig_gpus = static_cast<int16_t>(std::min<int>(h.gpus, kPartitioned[i % 4]));
      });
    if (cluster.scheduler == Scheduler::kSlurm)
      special(spec.shared_host_share, hosts / 2, [](Host& h, int) { h.shared = h.mig_gpus == 0; });
    plan.cluster_first_host.push_back(static_cast<int32_t>(plan.hosts.size()));
  }
  plan.lanes = total_gpus;
  for (const Host& h : plan.hosts) {
    const auto layouts = spec.clusters[h.cluster].model->mig;
    for (int g = 0; g < h.mig_gpus; ++g) {
      const int32_t gpu = h.first_gpu + g;
      plan.mig.push_back({gpu, plan.lanes, layouts[plan.mig.size() % layouts.size()]});
      plan.lanes += static_cast<int32_t>(plan.mig.back().layout.size());
    }
  }

  // Each cluster numbers its jobs from 0; then all are put in order of submission and renumbered.
  std::vector<Job> jobs;
  for (size_t c = 0; c < spec.clusters.size(); ++c) {
    std::vector<Job> own;
    size_t first_placement = plan.placements.size();
    ClusterRun(spec, demand, &plan, seed, static_cast<int>(c), failures).Run(&own);
    for (int32_t h = plan.cluster_first_host[c]; h < plan.cluster_first_host[c + 1]; ++h) {
      for (int g = 0; g < plan.hosts[h].mig_gpus; ++g) {
        const Plan::MigGpu& m = plan.MigOfGpu(plan.hosts[h].first_gpu + g);
        for (size_t i = 0; i < m.layout.size(); ++i)
          AddSessions(&plan, demand, seed, static_cast<int>(c),
                      m.first_lane + static_cast<int32_t>(i), 0, &own);
      }
      if (!plan.hosts[h].shared) continue;
      int32_t gpu = plan.hosts[h].first_gpu + plan.hosts[h].gpus - 1;
      AddSessions(&plan, demand, seed, static_cast<int>(c), gpu, 0, &own);
      AddSessions(&plan, demand, seed, static_cast<int>(c), gpu, 1, &own);
    }
    for (size_t i = first_placement; i < plan.placements.size(); ++i)
      plan.placements[i].job += static_cast<int32_t>(jobs.size());
    jobs.insert(jobs.end(), own.begin(), own.end());
  }
  std::vector<int32_t> order(jobs.size()), place(jobs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::ranges::stable_sort(order,
                           [&](int32_t a, int32_t b) { return jobs[a].submit < jobs[b].submit; });
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<int32_t>(i);
    Job j = jobs[order[i]];
    j.number = kFirstJobNumber + static_cast<int32_t>(i);
    j.run = ++demand->workflows()[j.workflow].runs;
    plan.jobs.push_back(j);
  }
  for (Placement& p : plan.placements) p.job = place[p.job];

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
