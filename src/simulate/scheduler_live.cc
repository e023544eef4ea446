// What slurmctld says of a simulated fleet at one moment, in the format of scontrol (22.05).
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "base/time.h"
#include "simulate/hostlist.h"
#include "simulate/scheduler_files.h"

namespace flopwatch::simulate {
namespace {

// Writes the cluster's own time without a zone, which is UTC here.
std::string WallClock(const SchedulerView& view, int64_t t) {
  return FormatTime((view.Epoch(0) + t) * kMicrosPerSecond).substr(0, 19);
}

// What a node's jobs hold at the moment.
struct NodeUse {
  uint32_t gpus = 0;
  uint64_t instances = 0;
  int shards = 0;
  int cpus = 0;  // a suspended job gives back its processors, not its GPUs
  int64_t mem_mib = 0;
};

int32_t GpuCount(const Attempt& a, const HeldNode& node) {
  return a.hold == GpuHold::kWhole ? std::popcount(node.gpus) : 1;
}

std::map<int32_t, NodeUse> UseByHost(const SchedulerView& view) {
  std::map<int32_t, NodeUse> out;
  for (int32_t job : view.attempts()) {
    const Job& planned = view.model().plan.jobs[job];
    if (planned.state > JobState::kRunning && planned.end <= view.now()) continue;
    const Attempt a = view.Of(job);
    if (!a.running()) continue;
    for (const HeldNode& node : a.nodes) {
      NodeUse& use = out[node.host];
      const int32_t share = GpuCount(a, node), all = std::max(1, a.allocated.gpus);
      if (a.hold == GpuHold::kWhole) use.gpus |= node.gpus;
      if (a.hold == GpuHold::kInstance) use.instances |= 1ull << node.instance;
      if (a.hold == GpuHold::kShard) ++use.shards;
      if (a.state != "SUSPENDED") use.cpus += a.allocated.cpus * share / all;
      use.mem_mib += a.allocated.mem_mib * share / all;
    }
  }
  return out;
}

void AppendNodes(const SchedulerView& view, const Attempt& a, std::string* out) {
  // Neighbouring nodes that give the same GPUs share a line.
  for (size_t i = 0; i < a.nodes.size();) {
    std::vector<std::string> names;
    const HeldNode& first = a.nodes[i];
    for (; i < a.nodes.size() && a.nodes[i].gpus == first.gpus; ++i)
      names.push_back(view.fleet().HostName(a.nodes[i].host));
    std::string ids;
    for (uint32_t left = first.gpus; left != 0;) {  // a run of GPUs at a time
      const int gpu = std::countr_zero(left), run = std::countr_one(left >> gpu);
      left &= ~(((1u << run) - 1) << gpu);
      const int cpus = a.hold == GpuHold::kWhole ? run * kCpusPerGpu : a.allocated.cpus;
      const int from = gpu * kCpusPerGpu + std::max(0, first.instance) * cpus % kCpusPerGpu;
      ids += fmt::format("{}{}-{}", ids.empty() ? "" : ",", from, from + cpus - 1);
    }
    *out += fmt::format("     Nodes={} CPU_IDs={} Mem={} GRES={}\n", CompressHostlist(names), ids,
                        a.allocated.mem_mib * GpuCount(a, first) / std::max(1, a.allocated.gpus),
                        GresDetail(view, a, first));
  }
}

void AppendJob(const SchedulerView& view, const Attempt& a, bool first_in_queue, std::string* out) {
  const bool pending = !a.started();
  const int32_t limit = a.limit_min * 60;
  const std::string_view reason = !pending                  ? "None"
                                  : a.eligible > view.now() ? "BeginTime"
                                  : first_in_queue          ? "Resources"
                                                            : "Priority";
  const Job& job = view.model().plan.jobs[a.job];
  const auto at = [&](int64_t t) { return WallClock(view, t); };
  *out += fmt::format(
      "JobId={0} JobName={1}\n   UserId={2}({3}) GroupId={2}({3}) MCS_label=N/A\n"
      "   Priority={4} Nice=0 Account={5} QOS={6}\n"
      "   JobState={7} Reason={8} Dependency=(null)\n"
      "   Requeue={9} Restarts={10} BatchFlag=1 Reboot=0 ExitCode=0:0\n   DerivedExitCode=0:0\n"
      "   RunTime={11} TimeLimit={12} TimeMin=N/A\n",
      a.number, a.name, a.user, a.uid, 4'294'901'760u - static_cast<uint32_t>(a.job), a.account,
      a.qos, a.state, reason, a.requeue ? 1 : 0, a.attempt, ClockText(a.elapsed), ClockText(limit));
  *out += fmt::format(
      "   SubmitTime={} EligibleTime={}\n   AccrueTime={}\n   StartTime={} EndTime={} "
      "Deadline=N/A\n",
      at(a.submit), at(a.eligible), at(a.eligible), pending ? "Unknown" : at(a.start),
      pending ? "Unknown" : at(int64_t{a.start} + a.suspended + limit));
  // SuspendTime is the last time at which the job was stopped or went on.
  const bool stopped = job.suspend_from <= view.now() && a.suspended > 0;
  *out += fmt::format(
      "   SuspendTime={} SecsPreSuspend={} LastSchedEval={} Scheduler=Main\n",
      stopped ? at(std::min(job.suspend_to, a.state == "SUSPENDED" ? job.suspend_from : kNever))
              : "None",
      stopped ? job.suspend_from - job.start : 0, at(pending ? view.now() : a.start));
  *out += fmt::format(
      "   Partition={} AllocNode:Sid=login1:{}\n   ReqNodeList=(null) ExcNodeList=(null)\n"
      "   NodeList={}\n",
      a.partition, 10'000 + a.number % 50'000, view.NodeList(a));
  if (!pending) *out += fmt::format("   BatchHost={}\n", view.fleet().HostName(a.nodes[0].host));
  const Tres& tres = pending ? a.requested : a.allocated;
  *out += fmt::format(
      "   NumNodes={0} NumCPUs={1} NumTasks={2} CPUs/Task={3} ReqB:S:C:T=0:0:*:*\n   TRES={4}\n"
      "   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*\n",
      pending ? fmt::format("{0}-{0}", tres.nodes) : fmt::format("{}", tres.nodes), tres.cpus,
      std::max(1, tres.gpus), tres.cpus / std::max(1, tres.gpus), TresText(tres, false));
  if (!pending) {
    const std::string gres = tres.gpus > 0 ? fmt::format("gpu:{}:{}", tres.gpu_type, tres.gpus)
                                           : fmt::format("shard:{}", tres.shards);
    *out += fmt::format("   JOB_GRES={}\n", gres);
    AppendNodes(view, a, out);
  }
  *out +=
      "   MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0\n   Features=(null) DelayBoot=00:00:00\n";
  if (!a.reservation.empty()) *out += fmt::format("   Reservation={}\n", a.reservation);
  *out += fmt::format(
      "   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)\n"
      "   Command=/home/{0}/run.sh\n   WorkDir=/home/{0}\n",
      a.user);
  if (!a.comment.empty()) *out += fmt::format("   Comment={} \n", a.comment);
  *out += fmt::format(
      "   StdErr=/home/{0}/slurm-{1}.out\n   StdIn=/dev/null\n   StdOut=/home/{0}/slurm-{1}.out\n"
      "   Power=\n",
      a.user, a.number);
  if (a.requested.nodes > 1)
    *out += fmt::format("   TresPerNode=gres:gpu:{}\n",
                        (a.requested.gpus + a.requested.nodes - 1) / a.requested.nodes);
  else if (a.requested.gpus > 0)
    *out += fmt::format("   TresPerJob=gres:gpu:{}\n", a.requested.gpus);
  else
    *out += "   TresPerNode=gres:shard:1\n";
  *out += "   \n\n";
}

// The MIG instances of a host by type, each as its place among all of the host's.
std::map<std::string, uint64_t> InstancesOf(const SchedulerView& view, int32_t index) {
  const Plan& plan = view.model().plan;
  std::map<std::string, uint64_t> out;
  int place = 0;
  for (int g = 0; g < plan.hosts[index].mig_gpus; ++g)
    for (const MigProfile& p : plan.MigOfGpu(plan.hosts[index].first_gpu + g).layout)
      out[fmt::format("{}_{}", view.GpuType(index), p.name)] |= 1ull << place++;
  return out;
}

std::string NodeState(const SchedulerView& view, int32_t host, int cpus, int cpu_total) {
  const auto period = view.NodeNow(host);
  const HostCondition condition = period ? period->condition : HostCondition::kDraining;
  const bool drain = period && (period->state == "DRAIN" || period->state == "DRAINING");
  std::string state = period && !drain && condition == HostCondition::kDown ? "DOWN"
                      : cpus == 0                                           ? "IDLE"
                      : cpus < cpu_total                                    ? "MIXED"
                                                                            : "ALLOCATED";
  if (drain) state += "+DRAIN";
  if (condition == HostCondition::kMaintenance) state += "+MAINTENANCE";
  if (view.ReservedNow(host)) state += "+RESERVED";
  if (period && !Answers(condition)) state += "+NOT_RESPONDING";
  return state;
}

void AppendNode(const SchedulerView& view, int32_t index, const NodeUse& use, std::string* out) {
  const Host& host = view.model().plan.hosts[index];
  const std::string name = view.fleet().HostName(index), type = view.GpuType(index);
  const int cpus = host.gpus * kCpusPerGpu;
  const int64_t mem = host.gpus * kMemMibPerGpu;
  const int whole = host.gpus - host.mig_gpus;
  std::string gres, used, configured, allocated;
  int all = 0, all_used = 0;
  const auto add = [&](const std::string& kind, int count, uint64_t bits) {
    if (count == 0) return;
    gres += fmt::format("{}gpu:{}:{}", gres.empty() ? "" : ",", kind, count);
    used += fmt::format("{}gpu:{}:{}(IDX:{})", used.empty() ? "" : ",", kind, std::popcount(bits),
                        bits == 0 ? "N/A" : IndexRanges(bits));
    configured += fmt::format(",gres/gpu:{}={}", kind, count);
    if (bits != 0) allocated += fmt::format(",gres/gpu:{}={}", kind, std::popcount(bits));
    all += count;
    all_used += std::popcount(bits);
  };
  add(type, whole, use.gpus);
  for (const auto& [kind, places] : InstancesOf(view, index))
    add(kind, std::popcount(places), (use.instances & places) << host.gpus);
  if (host.shared) {
    gres += ",shard:2";
    used += fmt::format(",shard:{}", use.shards);
    configured += ",gres/shard=2";
    if (use.shards > 0) allocated += fmt::format(",gres/shard={}", use.shards);
  }
  const auto period = view.NodeNow(index);
  *out += fmt::format(
      "NodeName={0} Arch=x86_64 CoresPerSocket={1} \n"
      "   CPUAlloc={2} CPUEfctv={3} CPUTot={3} CPULoad={4:.2f}\n   AvailableFeatures=(null)\n"
      "   ActiveFeatures=(null)\n   Gres={5}\n   GresDrain=N/A\n   GresUsed={6}\n"
      "   NodeAddr={0} NodeHostName={0} Version=22.05.8\n   OS=Linux 5.15.0 #1 SMP\n"
      "   RealMemory={7} AllocMem={8} FreeMem={9} Sockets=2 Boards=1\n",
      name, cpus / 2, use.cpus, cpus, static_cast<double>(use.cpus), gres, used, mem, use.mem_mib,
      mem - use.mem_mib);
  *out += fmt::format(
      "   State={} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n"
      "   Partitions=batch,interactive,large \n   BootTime={} SlurmdStartTime={}\n"
      "   LastBusyTime={}\n",
      NodeState(view, index, use.cpus, cpus), WallClock(view, -86400), WallClock(view, -86300),
      WallClock(view, view.now()));
  *out += fmt::format("   CfgTRES=cpu={0},mem={1}M,billing={0},gres/gpu={2}{3}\n", cpus, mem, all,
                      configured);
  *out += use.cpus == 0 && allocated.empty()
              ? "   AllocTRES=\n"
              : fmt::format("   AllocTRES=cpu={},mem={}M{}{}\n", use.cpus, use.mem_mib,
                            all_used > 0 ? fmt::format(",gres/gpu={}", all_used) : "", allocated);
  *out +=
      "   CapWatts=n/a\n   CurrentWatts=0 AveWatts=0\n"
      "   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s\n";
  if (period)
    *out +=
        fmt::format("   Reason={} [{}@{}]\n", period->reason,
                    period->user.substr(0, period->user.find('(')), WallClock(view, period->from));
  *out += "\n";
}

}  // namespace

std::string IndexRanges(uint64_t bits) {
  std::string out;
  for (int i = 0; i < 64; ++i) {
    if ((bits >> i & 1) == 0) continue;
    int last = i;
    while (last + 1 < 64 && (bits >> (last + 1) & 1) != 0) ++last;
    out += out.empty() ? "" : ",";
    out += last > i ? fmt::format("{}-{}", i, last) : fmt::format("{}", i);
    i = last;
  }
  return out;
}

std::string GresDetail(const SchedulerView& view, const Attempt& a, const HeldNode& node) {
  uint64_t bits = node.gpus;
  if (node.instance >= 0) bits = 1ull << (view.model().plan.hosts[node.host].gpus + node.instance);
  const std::string kind = a.hold == GpuHold::kShard ? "shard:" + view.GpuType(node.host)
                                                     : "gpu:" + a.allocated.gpu_type;
  return fmt::format("{}:{}(IDX:{})", kind, GpuCount(a, node), IndexRanges(bits));
}

Status WriteScontrolJobs(const SchedulerView& view, TextFile* file, SchedulerResult*) {
  const Plan& plan = view.model().plan;
  int16_t queue_of = -1;  // the cluster whose first waiting job was passed
  for (int32_t job : view.attempts()) {
    if (plan.jobs[job].state > JobState::kRunning && plan.jobs[job].end <= view.now()) continue;
    const Attempt a = view.Of(job);
    const bool first = !a.started() && queue_of != plan.jobs[job].cluster;
    if (first) queue_of = plan.jobs[job].cluster;
    AppendJob(view, a, first, &file->text());
    FW_RETURN_IF_ERROR(file->Flush());
  }
  return absl::OkStatus();
}

Status WriteScontrolNodes(const SchedulerView& view, TextFile* file, SchedulerResult*) {
  const std::map<int32_t, NodeUse> used = UseByHost(view);
  for (int32_t host : view.hosts()) {
    const auto period = view.NodeNow(host);
    if (period && period->condition == HostCondition::kNotDeployed) continue;
    const auto use = used.find(host);
    AppendNode(view, host, use != used.end() ? use->second : NodeUse{}, &file->text());
    FW_RETURN_IF_ERROR(file->Flush());
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::simulate
