// What a scheduler and its administrators do of their own accord: requeue, preempt, suspend,
// reserve, drain, maintain. How often is an assumption; no public data set says.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "simulate/plan_cluster.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr int32_t kBlock = 48 * 3600;  // with one maintenance and one reservation
constexpr double kAdministratorDrainsPer1000Days = 20;
constexpr double kSuspendedShare = .04;       // of jobs that run for an hour and more
constexpr int32_t kPreemptionPatience = 300;  // a job of high quality of service waits that long
constexpr int32_t kPreemptionGap = 600;       // between two
constexpr int32_t kPreemptExempt = 600;       // what runs for less time is left alone

// The draws of a cluster are kept apart from those of its jobs.
constexpr uint64_t kOfDrains = 1ull << 40, kOfMaintenance = 2ull << 40,
                   kOfReservations = 3ull << 40, kOfSuspensions = 4ull << 40;

}  // namespace

void ClusterRun::PlanScheduler() {
  const double rate = kAdministratorDrainsPer1000Days / 1000 / 86400;  // per host and second
  for (int h = 0; h < count_; ++h) {
    Draws draws(Key(seed_, Purpose::kScheduler, first_ + h, kOfDrains));
    for (double t = draws.Exponential(1 / rate); t < plan_.horizon;
         t += draws.Exponential(1 / rate))
      Push(static_cast<int32_t>(t), EventType::kAdministrator, h);
  }
  if (count_ < 2) return;
  // Maintenance takes a rack at a time, of a small cluster an eighth.
  const int hosts = std::clamp(count_ / 8, 1, kHostsPerRack), slices = count_ / hosts;
  for (int32_t block = 0; block * kBlock < plan_.horizon; ++block) {
    const auto begin = [&](uint64_t what, EventType type) {
      Draws draws(Key(seed_, Purpose::kScheduler, cluster_, what + block));
      const int32_t at = block * kBlock + 4 * 3600 + static_cast<int32_t>(draws.Unit() * 36 * 3600);
      Push(at, type, static_cast<int32_t>(draws.Below(slices)) * hosts, hosts);
    };
    begin(kOfMaintenance, EventType::kMaintenanceBegin);
    begin(kOfReservations, EventType::kReserve);
  }
}

void ClusterRun::HandleScheduler(const Event& e) {
  switch (e.type) {
    case EventType::kEligible:
      queue_.push_back(e.id);
      return;
    case EventType::kWithdrawn: {
      const auto waits = std::ranges::find(queue_, e.id);
      if (waits == queue_.end()) return;
      queue_.erase(waits);
      (*jobs_)[e.id].end = e.time;
      (*jobs_)[e.id].state = JobState::kCancelled;
      return;
    }
    case EventType::kAdministrator: {
      constexpr std::string_view kWhy[] = {"replace power supply", "firmware update", "check cable",
                                           "slow in acceptance test: see ticket"};
      if (!hosts_[e.id].usable) return;
      const uint64_t h = Key(seed_, Purpose::kScheduler, first_ + e.id, kOfDrains + e.time);
      SetUnusable(e.id, e.time, HostCondition::kDraining,
                  {kWhy[Below(h, std::size(kWhy))], kAdministratorName, true});
      if (hosts_[e.id].free == hosts_[e.id].pool) return TakeDown(e.id, e.time);
      Push(e.time + kLongestDrain, EventType::kDrainLimit, e.id, hosts_[e.id].epoch);
      return;
    }
    case EventType::kReserve:
      return Reserve(e.id, e.extra, e.time);
    case EventType::kReservationEnd:
      return EndReservation(e.id);
    case EventType::kMaintenanceBegin:
      return Maintain(e.id, e.extra, e.time);
    default:
      return;
  }
}

int32_t ClusterRun::Left(int32_t job, int32_t now) const {
  const Job& j = (*jobs_)[job];
  if (j.duration == kNever) return kNever;
  return j.duration - (now - j.start - j.Suspended(j.start, now));
}

void ClusterRun::Requeue(int32_t job, int32_t now, JobState state) {
  const int32_t left = std::max(1, Left(job, now));
  Finish(job, now, state);
  Job next = (*jobs_)[job];
  next.submit = now;
  next.start = next.end = kNever;
  next.duration = left;
  next.suspend_from = next.suspend_to = kNever;
  next.reservation = -1;
  next.state = JobState::kPending;
  next.previous = job;
  ++next.attempt;
  jobs_->push_back(next);
  held_.resize(jobs_->size());
  Push(next.eligible(), EventType::kEligible, static_cast<int32_t>(jobs_->size()) - 1);
}

void ClusterRun::DrawSuspension(int32_t job) {
  Job& j = (*jobs_)[job];
  if (j.start < 0 || j.duration < 3600 || j.duration == kNever) return;
  Draws draws(Key(seed_, Purpose::kScheduler, job, kOfSuspensions + cluster_));
  if (draws.Unit() >= kSuspendedShare) return;
  j.suspend_from = j.start + static_cast<int32_t>(j.duration * (.1 + .5 * draws.Unit()));
  j.suspend_to =
      j.suspend_from + std::min(300 + static_cast<int32_t>(draws.Exponential(2400)), 6 * 3600);
  j.end += j.suspend_to - j.suspend_from;
}

bool ClusterRun::GivesWay(int32_t job, int32_t now) const {
  const Job& j = (*jobs_)[job];
  const Qos qos = demand_->workflows()[j.workflow].qos;
  return (qos == Qos::kLow || qos == Qos::kScavenge) && now - j.start >= kPreemptExempt &&
         j.Suspended(now, now + 1) == 0;
}

// The jobs whose end makes room for `waiting`, from the hosts with the least to end; none where
// even all of them would not.
std::vector<int32_t> ClusterRun::VictimsFor(const Job& waiting, int32_t now) const {
  const bool one_host = waiting.gpus < full_;
  int missing = one_host ? 1 : (waiting.gpus + full_ - 1) / full_;
  missing -= one_host ? 0 : static_cast<int>(buckets_[full_].size());
  std::vector<std::pair<int, int32_t>> hosts;  // GPUs to free, host
  for (int h = 0; h < count_; ++h) {
    const HostRun& host = hosts_[h];
    if (!host.open() || host.free == host.pool) continue;
    int freed = 0;
    for (int32_t job : host.job) freed += job >= 0 && GivesWay(job, now) ? 1 : 0;
    const int then = std::popcount(host.free) + freed;
    if (then >= std::min(waiting.gpus, full_)) hosts.emplace_back(freed, h);
  }
  if (missing <= 0 || static_cast<int>(hosts.size()) < missing) return {};
  std::ranges::sort(hosts);
  std::vector<int32_t> victims;
  for (int i = 0; i < missing; ++i)
    for (int32_t job : JobsOn(hosts[i].second))
      if (GivesWay(job, now) && std::ranges::find(victims, job) == victims.end())
        victims.push_back(job);
  return victims;
}

void ClusterRun::Preempt(int32_t now) {
  if (now < next_preemption_) return;
  const auto waits = std::ranges::find_if(queue_, [&](int32_t job) {
    const Job& j = (*jobs_)[job];
    return demand_->workflows()[j.workflow].qos == Qos::kHigh &&
           now - j.submit >= kPreemptionPatience;
  });
  if (waits == queue_.end()) return;
  next_preemption_ = now + kPreemptionGap;
  const int32_t waiting = *waits;
  for (int32_t victim : VictimsFor((*jobs_)[waiting], now)) {
    if (demand_->workflows()[(*jobs_)[victim].workflow].qos == Qos::kLow)
      Requeue(victim, now, JobState::kPreempted);
    else
      Finish(victim, now, JobState::kPreempted);
  }
  if (Start(waiting, now)) queue_.erase(std::ranges::find(queue_, waiting));
}

void ClusterRun::Reserve(int first, int hosts, int32_t now) {
  Draws draws(Key(seed_, Purpose::kScheduler, cluster_, kOfReservations + now));
  Reservation r;
  r.cluster = static_cast<int16_t>(cluster_);
  r.from = now;
  r.to = now + 6 * 3600 + static_cast<int32_t>(draws.Below(18 * 3600));
  r.account = demand_->users()[demand_->PickUser(draws.Next())].team;
  r.name = fmt::format("{}-{}", r.account, plan_.reservations.size() + 1);
  for (int h = first; h < first + hosts; ++h) {
    HostRun& host = hosts_[h];
    if (!host.open()) continue;
    Leave(h);
    host.reserved = true;
    r.hosts.push_back(first_ + h);
  }
  if (r.hosts.empty()) return;
  const int32_t index = static_cast<int32_t>(plan_.reservations.size());
  reservations_.push_back(index);
  Push(r.to, EventType::kReservationEnd, index);
  plan_.reservations.push_back(std::move(r));
}

void ClusterRun::EndReservation(int32_t reservation) {
  std::erase(reservations_, reservation);
  for (int32_t host : plan_.reservations[reservation].hosts) {
    hosts_[host - first_].reserved = false;
    Enter(host - first_);
  }
}

bool ClusterRun::StartReserved(int32_t job, int32_t now) {
  if (reservations_.empty()) return false;
  Job& j = (*jobs_)[job];
  const std::string account = demand_->AccountOf(demand_->workflows()[j.workflow]);
  for (int32_t index : reservations_) {
    const Reservation& r = plan_.reservations[index];
    if (r.account != account) continue;
    std::vector<Held> held;
    for (int left = j.gpus; left > 0;) {
      const int n = std::min(left, full_);
      const auto fits = std::ranges::find_if(r.hosts, [&](int32_t host) {
        const HostRun& run = hosts_[host - first_];
        return run.usable && std::popcount(run.free) >= n;
      });
      if (fits == r.hosts.end()) break;
      Take(*fits - first_, n, &held);
      left -= n;
      if (left > 0) continue;
      j.reservation = index;
      Place(job, now, std::move(held));
      return true;
    }
    for (const Held& h : held) Release(h);
  }
  return false;
}

void ClusterRun::Maintain(int first, int hosts, int32_t now) {
  Draws draws(Key(seed_, Purpose::kScheduler, cluster_, kOfMaintenance + now));
  Reservation r;
  r.name = fmt::format("maint-{}", plan_.reservations.size() + 1);
  r.cluster = static_cast<int16_t>(cluster_);
  r.from = now;
  r.to = now + 7200 + static_cast<int32_t>(draws.Below(2 * 3600));
  r.maintenance = true;
  for (int h = first; h < first + hosts; ++h) {
    HostRun& host = hosts_[h];
    if (!host.usable && host.condition == HostCondition::kNotDeployed) continue;
    r.hosts.push_back(first_ + h);
    // A host that is down or drained stays so.
    if (!host.usable && host.condition != HostCondition::kDraining) continue;
    // An administrator sends away what still runs there.
    const std::vector<int32_t> jobs = JobsOn(h);
    SetUnusable(h, now, HostCondition::kMaintenance, {"maintenance", kAdministratorName});
    for (int32_t job : jobs) Requeue(job, now, JobState::kRequeued);
    Push(r.to, EventType::kRepaired, h, host.epoch);
  }
  if (!r.hosts.empty()) plan_.reservations.push_back(std::move(r));
}

}  // namespace flopwatch::simulate
