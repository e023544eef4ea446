#include "simulate/plan_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr int kBackfillDepth = 64;           // waiting jobs looked at behind a blocked one
constexpr int32_t kHeadPatience = 4 * 3600;  // after which large jobs no longer overtake it
constexpr int32_t kMonth = 30 * 86400;
constexpr int32_t kOutageAfter = 10 * 86400;  // not in the windows of a demonstration

}  // namespace

ClusterRun::ClusterRun(const PresetSpec& spec, DemandModel* demand, Plan* plan, uint64_t seed,
                       int cluster, const FailureOptions& failures)
    : spec_(spec),
      demand_(demand),
      plan_(*plan),
      seed_(seed),
      cluster_(cluster),
      failures_(failures) {
  first_ = plan_.cluster_first_host[cluster];
  count_ = plan_.cluster_first_host[cluster + 1] - first_;
  scheduler_ = failures.scheduler && spec.clusters[cluster].scheduler == Scheduler::kSlurm;
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

void ClusterRun::Run(std::vector<Job>* jobs, std::span<const Request> planted) {
  jobs_ = jobs;
  PlanFailures();
  if (scheduler_) PlanScheduler();
  PlaceServices();
  int batch_capacity = capacity_ - service_gpus_;
  for (const Request& r : demand_->Running(cluster_, batch_capacity)) {
    int32_t job = AddJob(r);
    if (!Start(job, r.submit)) (*jobs_)[job].submit = 0, queue_.push_back(job);
  }
  std::vector<Request> arrivals = demand_->Arrivals(cluster_, batch_capacity, plan_.horizon);
  size_t next = 0, next_planted = 0;
  while (true) {
    int32_t arrival = next < arrivals.size() ? arrivals[next].submit : kNever;
    int32_t resubmission = resubmit_.empty() ? kNever : resubmit_.front().submit;
    int32_t event = events_.empty() ? kNever : events_.top().time;
    int32_t plant = next_planted < planted.size() ? planted[next_planted].submit : kNever;
    int32_t now = std::min({arrival, resubmission, event, plant});
    if (now >= plan_.horizon) break;
    // Ends and repairs first, then what arrives at that second, then the queue once.
    while (!events_.empty() && events_.top().time == now) Handle(Pop());
    for (; next < arrivals.size() && arrivals[next].submit == now; ++next)
      queue_.push_back(AddJob(arrivals[next]));
    while (!resubmit_.empty() && resubmit_.front().submit == now) {
      queue_.push_back(AddJob(resubmit_.front()));
      resubmit_.pop_front();
    }
    for (; next_planted < planted.size() && planted[next_planted].submit == now; ++next_planted)
      Prefer(AddJob(planted[next_planted]));
    Dispatch(now);
  }
  for (int h = 0; h < count_; ++h)
    if (hosts_[h].since >= 0) ClosePeriod(h, plan_.horizon);
}

Event ClusterRun::Pop() {
  Event e = events_.top();
  events_.pop();
  return e;
}

void ClusterRun::Push(int32_t time, EventType type, int32_t id, int32_t extra) {
  if (time < plan_.horizon) events_.push({time, type, id, extra});
}

void ClusterRun::Enter(int h) {
  HostRun& host = hosts_[h];
  if (!host.open()) return;
  auto& bucket = buckets_[std::popcount(host.free)];
  host.position = static_cast<int32_t>(bucket.size());
  bucket.push_back(h);
}

void ClusterRun::Leave(int h) {
  HostRun& host = hosts_[h];
  if (!host.open()) return;
  auto& bucket = buckets_[std::popcount(host.free)];
  int32_t last = bucket.back();
  bucket[host.position] = last;
  hosts_[last].position = host.position;
  bucket.pop_back();
}

int ClusterRun::PickFrom(int bucket) {
  return buckets_[bucket][Below(Key(seed_, Purpose::kPlacement, cluster_, ++picks_),
                                buckets_[bucket].size())];
}

int32_t ClusterRun::AddJob(const Request& r) {
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
  const int32_t job = static_cast<int32_t>(jobs_->size()) - 1;
  // Some give up waiting.
  if (scheduler_ && j.submit >= 0) {
    Draws draws(Key(seed_, Purpose::kScheduler, job, 1 + cluster_));
    if (draws.Unit() < .03)
      Push(j.submit + 60 + static_cast<int32_t>(draws.Exponential(1800)), EventType::kWithdrawn,
           job);
  }
  return job;
}

// Before what waits, behind others that were preferred.
void ClusterRun::Prefer(int32_t job) {
  const auto it = std::ranges::find_if(queue_, [&](int32_t waiting) {
    return demand_->workflows()[(*jobs_)[waiting].workflow].planted < 0;
  });
  queue_.insert(it, job);
}

// Takes n free GPUs of a host, the lowest first.
void ClusterRun::Take(int h, int n, std::vector<Held>* held) {
  Leave(h);
  HostRun& host = hosts_[h];
  uint8_t mask = 0;
  for (int i = 0; i < n; ++i)
    mask |= static_cast<uint8_t>(1u << std::countr_zero(static_cast<uint8_t>(host.free & ~mask)));
  host.free &= ~mask;
  Enter(h);
  held->push_back({h, mask});
}

bool ClusterRun::Start(int32_t job, int32_t started) {
  const Job& j = (*jobs_)[job];
  int whole = j.gpus / full_, rest = j.gpus % full_;
  if (static_cast<int>(buckets_[full_].size()) < whole) return false;
  std::vector<Held> held;
  for (int i = 0; i < whole; ++i) Take(PickFrom(full_), full_, &held);
  if (rest > 0) {
    int b = rest;
    while (b <= full_ && buckets_[b].empty()) ++b;
    if (b > full_) {
      for (const Held& h : held) Release(h);
      return false;
    }
    Take(PickFrom(b), rest, &held);
  }
  Place(job, started, std::move(held));
  return true;
}

void ClusterRun::Place(int32_t job, int32_t started, std::vector<Held> held) {
  Job& j = (*jobs_)[job];
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
  if (scheduler_) DrawSuspension(job);
  Push(j.end, EventType::kJobEnd, job);
}

void ClusterRun::Release(const Held& held) {
  Leave(held.host);
  hosts_[held.host].free |= held.mask;
  for (int g = 0; g < kMaxGpusPerHost; ++g)
    if (held.mask >> g & 1) hosts_[held.host].job[g] = -1;
  Enter(held.host);
}

void ClusterRun::Finish(int32_t job, int32_t now, JobState state) {
  Job& j = (*jobs_)[job];
  j.end = now;
  j.state = state;
  if (j.suspend_from >= now) j.suspend_from = j.suspend_to = kNever;
  if (j.suspend_from != kNever) j.suspend_to = std::min(j.suspend_to, now);
  for (const Held& h : held_[job]) Release(h);
  for (const Held& h : held_[job]) {
    HostRun& host = hosts_[h.host];
    if (!host.usable && host.condition == HostCondition::kDraining && host.free == host.pool)
      TakeDown(h.host, now);
  }
  held_[job].clear();
}

void ClusterRun::Dispatch(int32_t now) {
  bool blocked = false;
  int looked = 0;
  for (auto it = queue_.begin(); it != queue_.end() && looked < kBackfillDepth;) {
    const Job& j = (*jobs_)[*it];
    bool may = !blocked || j.gpus < full_ || now - (*jobs_)[queue_.front()].submit < kHeadPatience;
    if ((may && Start(*it, now)) || StartReserved(*it, now)) {
      it = queue_.erase(it);
      continue;
    }
    blocked = true;
    ++looked;
    ++it;
  }
  if (scheduler_ && !queue_.empty()) Preempt(now);
}

void ClusterRun::ClosePeriod(int h, int32_t now) {
  HostRun& host = hosts_[h];
  if (host.since >= 0 && now > host.since)
    plan_.periods.push_back({first_ + h, host.since, now, host.condition, host.reason});
  host.since = -1;
}

void ClusterRun::SetUnusable(int h, int32_t now, HostCondition condition,
                             const HostReason& reason) {
  HostRun& host = hosts_[h];
  if (host.usable) {
    Leave(h);
    host.usable = false;
  }
  ClosePeriod(h, now);
  host.condition = condition;
  host.reason = reason;
  host.since = now;
  ++host.epoch;
}

void ClusterRun::PutAway(int h, int32_t now, int32_t repair) {
  if (repair == 0) {
    Draws draws(Key(seed_, Purpose::kRepair, first_ + h, now));
    repair = static_cast<int32_t>(std::clamp(
        draws.LogNormal(failures_.repair_median_s, failures_.repair_sigma), 600.0, 30.0 * 86400));
  }
  Push(now + repair, EventType::kRepaired, h, hosts_[h].epoch);
}

void ClusterRun::TakeDown(int h, int32_t now) {
  HostReason reason = hosts_[h].reason;
  reason.drained = true;
  SetUnusable(h, now, reason.powered ? HostCondition::kDrained : HostCondition::kDown, reason);
  PutAway(h, now, 0);
}

std::vector<int32_t> ClusterRun::JobsOn(int h) const {
  std::vector<int32_t> jobs;
  for (int32_t job : hosts_[h].job)
    if (job >= 0 && std::ranges::find(jobs, job) == jobs.end()) jobs.push_back(job);
  return jobs;
}

// A new job with what is left to do.
void ClusterRun::Resubmit(int32_t job, int32_t now, int32_t left) {
  if (left <= 60 || now + 600 >= plan_.horizon) return;
  Request r;
  r.submit = now + 600;
  r.duration = left;
  r.gpus = (*jobs_)[job].gpus;
  r.workflow = (*jobs_)[job].workflow;
  resubmit_.push_back(r);
}

void ClusterRun::Fail(int h, int32_t now, const HostReason& reason, int32_t repair) {
  if (!hosts_[h].usable && hosts_[h].condition != HostCondition::kDraining) return;
  const std::vector<int32_t> victims = JobsOn(h);
  SetUnusable(h, now, HostCondition::kDown, reason);
  for (int32_t job : victims) {
    const Workflow& workflow = demand_->workflows()[(*jobs_)[job].workflow];
    if (scheduler_ && workflow.requeue) {
      Requeue(job, now, JobState::kNodeFail);
      continue;
    }
    const int32_t left = Left(job, now);
    Finish(job, now, JobState::kNodeFail);
    Resubmit(job, now, left);  // from its checkpoint
  }
  PutAway(h, now, repair);
}

JobState ClusterRun::EndState(int32_t job) const {
  // Of jobs .50 complete, .075 are cancelled and .43 fail (Seren).
  const double u = Unit(Key(seed_, Purpose::kJob, job, 1 + cluster_));
  if (u < .5) return JobState::kCompleted;
  if (u < .575) return JobState::kCancelled;
  // What fails by the scheduler's own hand is an assumption.
  if (scheduler_ && u > .95) return JobState::kTimeout;
  if (scheduler_ && u > .92) return JobState::kOutOfMemory;
  return JobState::kFailed;
}

void ClusterRun::Drain(int h, int32_t now) {
  HostRun& host = hosts_[h];
  if (!host.usable) return;
  Draws draws(Key(seed_, Purpose::kXid, first_ + h, now));
  const Host& placed = plan_.hosts[first_ + h];
  constexpr int kCodes[] = {31, 48, 63, 74, 79, 94, 95, 119};
  constexpr std::string_view kTexts[] = {
      "XID 31: GPU memory page fault",      "XID 48: double bit ECC error",
      "XID 63: row remapping recorded",     "XID 74: NVLink error",
      "XID 79: GPU has fallen off the bus", "XID 94: contained ECC error",
      "XID 95: uncontained ECC error",      "XID 119: GSP RPC timeout"};
  const int gpu = static_cast<int>(draws.Below(placed.gpus)), code = draws.Below(8);
  plan_.xids.push_back({placed.first_gpu + gpu, now, kCodes[code]});
  SetUnusable(h, now, HostCondition::kDraining, {kTexts[code], kAdministratorName});
  if (host.free == host.pool) return TakeDown(h, now);
  Push(now + kLongestDrain, EventType::kDrainLimit, h, host.epoch);
}

void ClusterRun::Repaired(int h, int32_t now, int32_t epoch) {
  HostRun& host = hosts_[h];
  if (host.usable || host.epoch != epoch) return;
  const bool opened = host.condition == HostCondition::kDown;
  ClosePeriod(h, now);
  host.usable = true;
  Enter(h);
  if (!opened) return;
  // A fifth of the repairs bring a new GPU (Titan: 30,207 GPUs passed through 18,688 slots).
  Draws draws(Key(seed_, Purpose::kRepair, first_ + h, now + (1ll << 40)));
  if (draws.Unit() < .2) {
    const Host& placed = plan_.hosts[first_ + h];
    plan_.swaps.push_back({placed.first_gpu + static_cast<int32_t>(draws.Below(placed.gpus)), now});
  }
}

void ClusterRun::Handle(const Event& e) {
  switch (e.type) {
    case EventType::kJobEnd: {
      const Job& j = (*jobs_)[e.id];
      if (j.state == JobState::kRunning && j.end == e.time) Finish(e.id, e.time, EndState(e.id));
      return;
    }
    case EventType::kRepaired:
      return Repaired(e.id, e.time, e.extra);
    case EventType::kFailure:
      return Fail(e.id, e.time, {});
    case EventType::kMaintenance:
      return Fail(e.id, e.time, {"power of the hall", kAdministratorName}, e.extra);
    case EventType::kDrain:
      return Drain(e.id, e.time);
    case EventType::kDrainLimit:
      if (!hosts_[e.id].usable && hosts_[e.id].epoch == e.extra)
        Fail(e.id, e.time, hosts_[e.id].reason);
      return;
    case EventType::kDeployed: {
      HostRun& host = hosts_[e.id];
      ClosePeriod(e.id, e.time);
      host.usable = true;
      Enter(e.id);
      return;
    }
    default:
      return HandleScheduler(e);
  }
}

void ClusterRun::PlanFailures() {
  if (!failures_.enabled) return;
  double rate = failures_.node_failures_per_1000_days / 1000 / 86400;  // per host and second
  for (int h = 0; h < count_; ++h) {
    Draws draws(Key(seed_, Purpose::kFailure, first_ + h));
    double u = draws.Unit();
    if (u < failures_.out_at_start) {
      SetUnusable(h, 0, HostCondition::kDown, {"waiting for parts", kAdministratorName});
      Push(static_cast<int32_t>(draws.Exponential(5 * 86400)) + 1, EventType::kRepaired, h,
           hosts_[h].epoch);
    } else if (u > 1 - failures_.late_hosts) {
      SetUnusable(h, 0, HostCondition::kNotDeployed, {"not installed yet", kAdministratorName});
      Push(static_cast<int32_t>(draws.Unit() * 36 * 3600), EventType::kDeployed, h);
    }
    for (double t = draws.Exponential(1 / rate); t < plan_.horizon;
         t += draws.Exponential(1 / rate)) {
      // Half of the failures announce themselves: an XID burst, then the host is drained.
      Push(static_cast<int32_t>(t), draws.Unit() < .5 ? EventType::kDrain : EventType::kFailure, h);
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

void ClusterRun::PlaceServices() {
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

}  // namespace flopwatch::simulate
