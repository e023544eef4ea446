// What slurmdbd says of a simulated fleet, in the formats of sacct and sacctmgr.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>

#include "simulate/hostlist.h"
#include "simulate/scheduler_files.h"

namespace flopwatch::simulate {
namespace {

constexpr std::string_view kUnknown = "Unknown";

std::string EpochOr(const SchedulerView& view, int32_t t, std::string_view missing) {
  return t == kNever ? std::string(missing) : fmt::format("{}", view.Epoch(t));
}

// The state as sacct shows it, with the user by whom a cancelled attempt was.
std::string StateText(const Attempt& a) {
  if (a.cancelled_by < 0) return std::string(a.state);
  return fmt::format("{} by {}", a.state, a.cancelled_by);
}

// The clusters under Slurm, with the times at which their number of nodes changed.
std::map<int16_t, std::set<int32_t>> ClusterChanges(const SchedulerView& view) {
  std::map<int16_t, std::set<int32_t>> changes;
  for (int32_t host : view.hosts()) {
    std::set<int32_t>& at = changes[view.model().plan.hosts[host].cluster];
    at.insert(0);
    for (const NodePeriod& p : view.PeriodsOf(host))
      if (p.condition == HostCondition::kNotDeployed && p.to < view.now()) at.insert(p.to);
  }
  return changes;
}

// The hierarchy of accounts of one cluster: root, divisions, teams, their large runs; then users.
class AssociationTree {
 public:
  explicit AssociationTree(const std::vector<User>& users) {
    Add("root", "", "");
    Add("root", "", "root");
    std::set<std::string> teams;
    for (const User& user : users) teams.insert(user.team);
    for (std::string_view division : {"product", "research"}) {
      Add(std::string(division), "root", "");
      for (const std::string& team : teams) {
        if (DivisionOf(team) != division) continue;
        Add(team, std::string(division), "");
        Add(DemandModel::LargeAccountOf(team), team, "");
      }
    }
    for (const User& user : users) {
      Add(user.team, "", user.name);
      Add(DemandModel::LargeAccountOf(user.team), "", user.name);
    }
  }
  struct Row {
    std::string account, parent, user;
  };
  const std::vector<Row>& rows() const { return rows_; }
  // The number of the row that is the account's own, from 1.
  size_t IdOf(std::string_view account) const {
    return static_cast<size_t>(
               std::ranges::find_if(
                   rows_, [&](const Row& r) { return r.account == account && r.user.empty(); }) -
               rows_.begin()) +
           1;
  }

 private:
  void Add(std::string account, std::string parent, std::string user) {
    rows_.push_back({std::move(account), std::move(parent), std::move(user)});
  }
  std::vector<Row> rows_;
};

AssociationTree AssociationsOf(const SchedulerView& view) {
  return AssociationTree(view.model().demand->users());
}

}  // namespace

Status WriteSacct(const SchedulerView& view, TextFile* file, SchedulerResult* result) {
  file->text() +=
      "JobIDRaw|JobID|Cluster|Account|User|Partition|QOS|State|ExitCode|Submit|Eligible|Start|End|"
      "ElapsedRaw|Suspended|AllocTRES|ReqTRES|NodeList|NNodes|Reservation|Comment|JobName\n";
  for (int32_t job : view.attempts()) {
    const Attempt a = view.Of(job);
    // A job that was cancelled before it started has no start; one that waits may yet.
    const std::string start = EpochOr(view, a.start, a.over ? "None" : kUnknown);
    fmt::format_to(
        std::back_inserter(file->text()),
        "{0}|{0}|{1}|{2}|{3}|{4}|{5}|{6}|{7}:{8}|{9}|{10}|{11}|{12}|{13}|{14}|{15}|{16}|{17}|{18}"
        "|{19}|{20}|{21}\n",
        a.number, a.cluster, a.account, a.user, a.partition, a.qos, StateText(a), a.exit_code,
        a.exit_signal, view.Epoch(a.submit), view.Epoch(a.eligible), start,
        EpochOr(view, a.end, kUnknown), a.elapsed, ClockText(a.suspended),
        TresText(a.allocated, true), TresText(a.requested, true),
        a.started() ? view.NodeList(a) : "None assigned", a.requested.nodes, a.reservation,
        // The database learns of a comment from the record of the end.
        a.over ? a.comment : "", a.name);
    ++result->attempts;
    FW_RETURN_IF_ERROR(file->Flush());
  }
  return absl::OkStatus();
}

Status WriteEvents(const SchedulerView& view, TextFile* file, SchedulerResult* result) {
  file->text() += "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n";
  const auto& clusters = view.model().spec.clusters;
  const auto end = [&](int32_t t) {
    return t < view.now() ? fmt::format("{}", view.Epoch(t)) : std::string(kUnknown);
  };
  for (const auto& [cluster, changes] : ClusterChanges(view)) {
    for (auto at = changes.begin(); at != changes.end(); ++at, ++result->events)
      file->text() += fmt::format(
          "{}||{}|{}||Cluster Registered TRES|\n", clusters[cluster].name, view.Epoch(*at),
          std::next(at) != changes.end() ? end(*std::next(at)) : std::string(kUnknown));
  }
  for (int32_t host : view.hosts()) {
    for (const NodePeriod& p : view.PeriodsOf(host)) {
      // The database hears of a drain when the last job has left, and of a node once it is there.
      if (p.condition == HostCondition::kNotDeployed || p.condition == HostCondition::kDraining)
        continue;
      file->text() += fmt::format("{}|{}|{}|{}|{}|{}|{}\n", view.fleet().ClusterName(host),
                                  view.fleet().HostName(host), view.Epoch(p.from), end(p.to),
                                  p.state, p.reason, p.user);
      ++result->events;
    }
    FW_RETURN_IF_ERROR(file->Flush());
  }
  return absl::OkStatus();
}

Status WriteReservations(const SchedulerView& view, TextFile* file, SchedulerResult*) {
  file->text() += "Cluster|Name|TRES|TimeStart|TimeEnd|Flags|NodeNames|Assocs\n";
  const AssociationTree tree = AssociationsOf(view);
  const Plan& plan = view.model().plan;
  for (const Reservation& r : plan.reservations) {
    if (r.from > view.now()) continue;
    std::vector<std::string> names;
    int cpus = 0;
    for (int32_t host : r.hosts) {
      names.push_back(view.fleet().HostName(host));
      cpus += plan.hosts[host].gpus * kCpusPerGpu;
    }
    // A reservation books processors alone.
    file->text() += fmt::format(
        "{}|{}|cpu={}|{}|{}|{}|{}|{}\n", view.model().spec.clusters[r.cluster].name, r.name, cpus,
        view.Epoch(r.from), view.Epoch(r.to),
        r.maintenance ? "MAINT,IGNORE_JOBS,SPEC_NODES" : "IGNORE_JOBS,SPEC_NODES",
        CompressHostlist(names), r.maintenance ? tree.IdOf("root") : tree.IdOf(r.account));
    FW_RETURN_IF_ERROR(file->Flush());
  }
  return absl::OkStatus();
}

Status WriteAssociations(const SchedulerView& view, TextFile* file, SchedulerResult*) {
  file->text() += "ID|Cluster|Account|Par Name|User\n";
  const AssociationTree tree = AssociationsOf(view);
  for (const ClusterSpec& cluster : view.model().spec.clusters) {
    if (cluster.scheduler != Scheduler::kSlurm) continue;
    size_t id = 0;
    for (const auto& row : tree.rows())
      file->text() +=
          fmt::format("{}|{}|{}|{}|{}\n", ++id, cluster.name, row.account, row.parent, row.user);
    FW_RETURN_IF_ERROR(file->Flush());
  }
  return absl::OkStatus();
}

Status WriteGpuMap(const SchedulerView& view, TextFile* file, SchedulerResult* result) {
  const Fleet::Model& m = view.model();
  constexpr std::string_view kShared[] = {"", "mig", "shard"};  // by GpuHold
  file->text() += "job_id_raw,start,node,gpu,uuid,shared\n";
  for (int32_t job : view.attempts()) {
    const Attempt a = view.Of(job);
    if (!a.started()) continue;
    for (const HeldNode& node : a.nodes) {
      const Host& host = m.plan.hosts[node.host];
      for (uint32_t left = node.gpus; left != 0; left &= left - 1) {
        const int minor = std::countr_zero(left);
        const int32_t gpu = host.first_gpu + minor;
        std::string uuid = m.Uuid(gpu, m.Generation(gpu, a.start));
        if (node.instance >= 0) {
          const Plan::MigGpu& mig = m.plan.MigOfGpu(gpu);
          const int32_t lane = m.plan.MigOfGpu(host.first_gpu).first_lane + node.instance;
          uuid += fmt::format("/{}", mig.layout[lane - mig.first_lane].instance);
        }
        file->text() += fmt::format("{},{},{},{},{},{}\n", a.number, view.Epoch(a.start),
                                    view.fleet().HostName(node.host), minor, uuid,
                                    kShared[static_cast<size_t>(a.hold)]);
        ++result->allocations;
      }
    }
    FW_RETURN_IF_ERROR(file->Flush());
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::simulate
