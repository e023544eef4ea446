#include "simulate/scheduler_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "simulate/hostlist.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr int32_t kFirstUid = 10'001;
constexpr int32_t kInstanceCpus = 4;
constexpr int64_t kInstanceMemMib = 16 * 1024;

// The partition goes by the size of the job; interactive sessions have their own.
std::string_view PartitionOf(const Job& job) {
  if (job.kind == JobKind::kSession) return "interactive";
  return job.gpus >= kLargeJobGpus ? "large" : "batch";
}

// Users ask for the least of the usual limits that leaves a fifth of room.
int32_t LimitMinutes(int32_t duration) {
  constexpr int32_t kLimits[] = {30, 60, 120, 240, 480, 720, 1440, 2880, 4320, 7200, 10080, 20160};
  for (const int32_t limit : kLimits)
    if (duration < int64_t{limit} * 50) return limit;
  return duration / 50 + 1;
}

}  // namespace

std::string_view NodeStateName(const HostPeriod& period) {
  switch (period.condition) {
    case HostCondition::kNotDeployed:
      return "ABSENT";
    case HostCondition::kDraining:
      return "DRAINING";
    case HostCondition::kDrained:
      return "DRAIN";
    case HostCondition::kMaintenance:
      return "MAINT";
    case HostCondition::kDown:
      break;
  }
  if (period.reason.drained) return "DRAIN";
  return period.reason.text == HostReason{}.text ? "DOWN*" : "DOWN";
}

SchedulerView::SchedulerView(const Fleet& fleet, int32_t now)
    : fleet_(fleet), now_(now), origin_(fleet.options().start / kMicrosPerSecond) {
  const Fleet::Model& m = model();
  const auto slurm = [&](int16_t cluster) {
    return m.spec.clusters[cluster].scheduler == Scheduler::kSlurm;
  };
  for (size_t h = 0; h < m.plan.hosts.size(); ++h)
    if (slurm(m.plan.hosts[h].cluster)) hosts_.push_back(static_cast<int32_t>(h));
  for (size_t j = 0; j < m.plan.jobs.size(); ++j)
    if (slurm(m.plan.jobs[j].cluster) && m.plan.jobs[j].submit <= now)
      order_.push_back(static_cast<int32_t>(j));
  std::ranges::sort(order_, [&](int32_t a, int32_t b) {
    const Job &x = m.plan.jobs[a], &y = m.plan.jobs[b];
    return std::tie(x.cluster, x.number, x.attempt) < std::tie(y.cluster, y.number, y.attempt);
  });
  placement_begin_.assign(m.plan.jobs.size() + 1, 0);
  for (const Placement& p : m.plan.placements) ++placement_begin_[p.job + 1];
  for (size_t j = 0; j < m.plan.jobs.size(); ++j) placement_begin_[j + 1] += placement_begin_[j];
  placements_.resize(m.plan.placements.size());
  std::vector<int32_t> next(placement_begin_.begin(), placement_begin_.end() - 1);
  for (size_t i = 0; i < placements_.size(); ++i)
    placements_[next[m.plan.placements[i].job]++] = static_cast<int32_t>(i);
}

std::string SchedulerView::GpuType(int32_t host) const {
  std::string type(model().Cluster(model().plan.hosts[host]).model->short_name);
  std::ranges::transform(type, type.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return type;
}

std::string SchedulerView::NodeList(const Attempt& attempt) const {
  std::vector<std::string> names;
  for (const HeldNode& node : attempt.nodes) names.push_back(fleet_.HostName(node.host));
  return CompressHostlist(names);
}

std::vector<NodePeriod> SchedulerView::PeriodsOf(int32_t host) const {
  std::vector<NodePeriod> out;
  for (const HostPeriod& p :
       std::ranges::equal_range(model().plan.periods, host, {}, &HostPeriod::host)) {
    if (p.from >= now_) break;
    out.push_back(Clipped(p));
  }
  return out;
}

NodePeriod SchedulerView::Clipped(const HostPeriod& p) const {
  return {p.from,        std::min(p.to, now_), NodeStateName(p),
          p.reason.text, p.reason.user,        p.condition};
}

std::optional<NodePeriod> SchedulerView::NodeNow(int32_t host) const {
  const Plan& plan = model().plan;
  for (const HostPeriod& p : std::ranges::equal_range(plan.periods, host, {}, &HostPeriod::host))
    // A period that lasts to the end of the simulation goes on after it.
    if (p.from <= now_ && (now_ < p.to || p.to == plan.horizon)) return Clipped(p);
  return std::nullopt;
}

bool SchedulerView::ReservedNow(int32_t host) const {
  return std::ranges::any_of(model().plan.reservations, [&](const Reservation& r) {
    return !r.maintenance && r.from <= now_ && now_ < r.to &&
           std::ranges::binary_search(r.hosts, host);
  });
}

void SchedulerView::FillNodes(Attempt* a) const {
  const Fleet::Model& m = model();
  for (int32_t i = placement_begin_[a->job]; i < placement_begin_[a->job + 1]; ++i) {
    const int32_t lane = m.plan.placements[placements_[i]].lane, gpu = m.activity->GpuOf(lane),
                  index = m.activity->HostOf(lane);
    const Host& host = m.plan.hosts[index];
    const bool session = m.plan.jobs[a->job].kind == JobKind::kSession;
    HeldNode node{index, 1u << (gpu - host.first_gpu), -1};
    if (lane >= m.plan.gpus) {
      a->hold = GpuHold::kInstance;
      node.instance = lane - m.plan.MigOfGpu(host.first_gpu).first_lane;
    } else if (session && host.shared && gpu == host.first_gpu + host.gpus - 1) {
      a->hold = GpuHold::kShard;
    }
    if (!a->nodes.empty() && a->nodes.back().host == index)
      a->nodes.back().gpus |= node.gpus;
    else
      a->nodes.push_back(node);
  }
  std::ranges::sort(a->nodes, {}, &HeldNode::host);
}

void SchedulerView::FillTres(Attempt* a) const {
  const Fleet::Model& m = model();
  const Job& job = m.plan.jobs[a->job];
  const int32_t per_host = m.spec.clusters[job.cluster].gpus_per_host;
  Tres t;
  t.nodes = (job.gpus + per_host - 1) / per_host;
  t.gpus = job.gpus;
  t.cpus = job.gpus * kCpusPerGpu;
  t.mem_mib = job.gpus * kMemMibPerGpu;
  if (a->hold != GpuHold::kWhole) {
    t.cpus = kInstanceCpus;
    t.mem_mib = kInstanceMemMib;
  }
  if (a->hold == GpuHold::kShard) t.gpus = 0, t.shards = 1;
  a->requested = t;
  const int32_t any = m.plan.cluster_first_host[job.cluster];
  std::string type = t.gpus > 0 ? GpuType(any) : "";
  if (a->hold == GpuHold::kInstance) {
    const int32_t lane = m.plan.placements[placements_[placement_begin_[a->job]]].lane;
    type += fmt::format("_{}", m.activity->MigOf(lane)->name);
  }
  // A third of the workflows name the type of GPU; an instance cannot be asked for without.
  const uint64_t h =
      Key(m.options.seed, Purpose::kBooks, m.demand->workflows()[job.workflow].key, 3);
  if (h % 3 == 0 || a->hold == GpuHold::kInstance) a->requested.gpu_type = type;
  if (!a->started()) return;
  a->allocated = t;
  a->allocated.gpu_type = type;
}

// Fills in how the attempt ended, and by whom.
void SchedulerView::FillEnd(const Job& job, Attempt* a) const {
  Draws draws(Key(model().options.seed, Purpose::kBooks, job.number, 4));
  const double u = draws.Unit();
  switch (job.state) {
    case JobState::kCancelled:
      a->cancelled_by = u < .1 ? 0 : a->uid;
      return;
    case JobState::kFailed:
      if (u < .75)
        a->exit_code = 1;
      else if (u < .83)
        a->exit_code = 2;
      else if (u < .88)
        a->exit_code = 127;
      else if (u < .94)
        a->exit_signal = 9;
      else
        a->exit_signal = 11;
      return;
    case JobState::kOutOfMemory:
      a->exit_signal = 125;
      return;
    case JobState::kTimeout:
      a->limit_min = std::max(1, a->elapsed / 60);
      return;
    default:
      return;
  }
}

Attempt SchedulerView::Of(int32_t index) const {
  const Fleet::Model& m = model();
  const Job& job = m.plan.jobs[index];
  const Workflow& workflow = m.demand->workflows()[job.workflow];
  const User& user = m.demand->users()[workflow.user];
  Attempt a;
  a.job = index;
  a.number = job.number;
  a.attempt = job.attempt;
  a.cluster = m.spec.clusters[job.cluster].name;
  a.account = m.demand->AccountOf(workflow);
  a.user = user.name;
  a.uid = kFirstUid + workflow.user;
  a.name = m.JobName(index);
  if (user.comments) a.comment = fmt::format("workflow={};run={}", workflow.name, job.run);
  a.partition = PartitionOf(job);
  a.qos = QosName(workflow.qos);
  a.requeue = workflow.requeue;
  if (job.reservation >= 0 && job.start <= now_)
    a.reservation = m.plan.reservations[job.reservation].name;
  a.submit = job.submit;
  a.eligible = job.eligible();
  int32_t first = index;
  while (m.plan.jobs[first].previous >= 0) first = m.plan.jobs[first].previous;
  a.limit_min = LimitMinutes(m.plan.jobs[first].duration);
  if (job.start <= now_) a.start = job.start;
  a.over = job.state > JobState::kRunning && job.end <= now_;
  if (a.over) a.end = job.end;
  if (a.started()) {
    const int32_t until = a.over ? a.end : now_;
    a.suspended = job.Suspended(a.start, until);
    a.elapsed = until - a.start - a.suspended;
    FillNodes(&a);
  }
  a.state = a.over                                              ? JobStateName(job.state)
            : !a.started()                                      ? JobStateName(JobState::kPending)
            : now_ >= job.suspend_from && now_ < job.suspend_to ? std::string_view("SUSPENDED")
                                                                : JobStateName(JobState::kRunning);
  if (a.over) FillEnd(job, &a);
  FillTres(&a);
  return a;
}

namespace {

// Slurm writes memory in a larger unit where the number is a multiple of half of that.
std::string MemText(int64_t mib) {
  constexpr std::array<char, 4> kUnits = {'M', 'G', 'T', 'P'};
  size_t unit = 0;
  double v = static_cast<double>(mib);
  while (unit + 1 < kUnits.size() && v >= 1024 && static_cast<int64_t>(v) % 512 == 0)
    v /= 1024, ++unit;
  if (v == static_cast<double>(static_cast<int64_t>(v)))
    return fmt::format("{}{}", static_cast<int64_t>(v), kUnits[unit]);
  return fmt::format("{:.2f}{}", v, kUnits[unit]);
}

}  // namespace

std::string ClockText(int32_t seconds) {
  std::string days = seconds >= 86400 ? fmt::format("{}-", seconds / 86400) : "";
  return fmt::format("{}{:02}:{:02}:{:02}", days, seconds / 3600 % 24, seconds / 60 % 60,
                     seconds % 60);
}

std::vector<std::pair<std::string, int32_t>> GresOf(const Tres& tres) {
  std::vector<std::pair<std::string, int32_t>> out;
  if (tres.gpus > 0) out.emplace_back("gpu", tres.gpus);
  if (tres.gpus > 0 && !tres.gpu_type.empty()) out.emplace_back("gpu:" + tres.gpu_type, tres.gpus);
  if (tres.shards > 0) out.emplace_back("shard", tres.shards);
  return out;
}

std::string TresText(const Tres& tres, bool by_name) {
  if (tres.cpus == 0) return "";
  std::string gres;
  const auto list = GresOf(tres);
  // sacct has gres/gpu:h100 before gres/gpu, because ':' sorts before '='.
  const auto add = [&](const auto& g) { gres += fmt::format(",gres/{}={}", g.first, g.second); };
  if (by_name)
    std::ranges::for_each(list.rbegin(), list.rend(), add);
  else
    std::ranges::for_each(list, add);
  const std::string mem = MemText(tres.mem_mib);
  if (by_name)
    return fmt::format("billing={0},cpu={0}{1},mem={2},node={3}", tres.cpus, gres, mem, tres.nodes);
  return fmt::format("cpu={0},mem={1},node={2},billing={0}{3}", tres.cpus, mem, tres.nodes, gres);
}

}  // namespace flopwatch::simulate
