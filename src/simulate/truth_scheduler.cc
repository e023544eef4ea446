#include "simulate/truth_scheduler.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "simulate/plan_cluster.h"
#include "simulate/scheduler_view.h"
#include "simulate/truth_spans.h"

namespace flopwatch::simulate {
namespace {

constexpr std::string_view kHolds[] = {"gpu", "mig", "shard"};  // by GpuHold

// The part of an attempt that lies within the window, in seconds of the fleet.
struct Share {
  int32_t from = 0, to = 0;
  int64_t running = 0, suspended = 0;
};

void AddUsage(const Attempt& a, const Share& share, int32_t gpus, UsageTruth* usage) {
  ++usage->attempts;
  const int64_t held = share.running + share.suspended;
  if (a.hold == GpuHold::kInstance) usage->mig_s += held;
  if (a.hold == GpuHold::kShard) usage->shard_s += held;
  if (a.hold != GpuHold::kWhole) return;
  usage->running_gpu_s += share.running * gpus;
  usage->suspended_gpu_s += share.suspended * gpus;
}

// A node's sums: what its states come to, and what the jobs on it add.
struct NodeSums {
  NodeTruth truth;
  std::vector<Span> closed, draining, held;  // draining ones are closed too
};

// Adds up a window's attempts by node, partition, account and cluster.
class BookSums {
 public:
  BookSums(const SchedulerView& view, int32_t from, int32_t to)
      : view_(view), from_(from), to_(to) {
    for (int32_t host : view.hosts()) nodes_.emplace(host, NodeOf(host));
  }

  void Add(const Attempt& a, const Share& share) {
    Books& books = books_[view_.model().plan.jobs[a.job].cluster];
    AddUsage(a, share, a.allocated.gpus, &books.truth.usage);
    AddUsage(a, share, a.allocated.gpus, &books.partitions[std::string(a.partition)]);
    AddUsage(a, share, a.allocated.gpus, &books.accounts[a.account]);
    for (const HeldNode& held : a.nodes) {
      NodeSums& node = nodes_.at(held.host);
      const int32_t gpus = std::popcount(held.gpus);
      AddUsage(a, share, gpus, &node.truth.usage);
      node.held.push_back({share.from, share.to});
      if (a.hold != GpuHold::kWhole) continue;
      const int64_t all = share.to - share.from,
                    draining = LengthWithin(node.draining, share.from, share.to),
                    closed = LengthWithin(node.closed, share.from, share.to) - draining;
      node.truth.on_draining_gpu_s += draining * gpus;
      node.truth.on_closed_gpu_s += closed * gpus;
      node.truth.on_schedulable_gpu_s += (all - draining - closed) * gpus;
    }
  }

  // Finishes the sums and gives them away; to be called once, after all attempts.
  std::vector<BooksTruth> Close() {
    for (auto& [host, node] : nodes_) {
      BooksTruth& truth = books_[view_.model().plan.hosts[host].cluster].truth;
      NodeTruth& n = node.truth;
      n.node_s.busy = BusySeconds(std::move(node.held), node.closed, from_);
      truth.cluster = view_.fleet().ClusterName(host);
      truth.gpus += n.gpus;
      truth.gpu_s += n.node_s * n.gpus;
      truth.on_schedulable_gpu_s += n.on_schedulable_gpu_s;
      truth.on_draining_gpu_s += n.on_draining_gpu_s;
      truth.on_closed_gpu_s += n.on_closed_gpu_s;
      truth.nodes.push_back(std::move(n));
    }
    std::vector<BooksTruth> out;
    for (auto& [cluster, books] : books_) {
      for (auto& [name, usage] : books.partitions) {
        usage.name = name;
        books.truth.partitions.push_back(usage);
      }
      for (auto& [name, usage] : books.accounts) {
        usage.name = name;
        usage.parent = DemandModel::ParentAccountOf(name);
        books.truth.accounts.push_back(usage);
      }
      out.push_back(std::move(books.truth));
    }
    return out;
  }

 private:
  struct Books {
    BooksTruth truth;
    std::map<std::string, UsageTruth> partitions, accounts;
  };

  NodeSums NodeOf(int32_t index) const {
    const Plan& plan = view_.model().plan;
    const Host& host = plan.hosts[index];
    NodeSums node;
    node.truth.node = view_.fleet().HostName(index);
    node.truth.gpus = host.gpus - host.mig_gpus;
    StateSeconds& s = node.truth.node_s;
    const auto state = [&](std::string_view name, std::string_view reason, std::string_view user,
                           const Span& span) {
      node.truth.states.push_back({std::string(name), std::string(reason), std::string(user),
                                   view_.Epoch(span.from), view_.Epoch(span.to)});
    };
    for (const NodePeriod& p : view_.PeriodsOf(index)) {
      const Span span{std::max(from_, p.from), std::min(to_, p.to)};
      if (span.from >= span.to) continue;
      node.closed.push_back(span);
      if (p.condition == HostCondition::kDraining) node.draining.push_back(span);
      state(p.state, p.reason, p.user, span);
      int64_t& seconds = p.state == "ABSENT"     ? s.absent
                         : p.state == "DRAINING" ? s.draining
                         : p.state == "DRAIN"    ? s.drained
                         : p.state == "MAINT"    ? s.maintenance
                                                 : s.down;
      seconds += span.to - span.from;
    }
    s.deployed = to_ - from_ - s.absent;
    s.schedulable = s.deployed - s.draining - s.drained - s.down - s.maintenance;
    for (const Reservation& r : plan.reservations) {
      const Span span{std::max(from_, r.from), std::min(to_, r.to)};
      if (r.maintenance || span.from >= span.to || !std::ranges::binary_search(r.hosts, index))
        continue;
      state("RESERVED", r.name, kAdministratorName, span);
      s.reserved += span.to - span.from - LengthWithin(node.closed, span.from, span.to);
    }
    std::ranges::stable_sort(node.truth.states, {}, &NodeStateTruth::from);
    return node;
  }

  const SchedulerView& view_;
  const int32_t from_, to_;
  std::map<int32_t, NodeSums> nodes_;
  std::map<int16_t, Books> books_;
};

AttemptTruth TruthOfAttempt(const SchedulerView& view, const Attempt& a, const Share& share) {
  AttemptTruth t;
  const auto epoch = [&](int32_t at) { return at == kNever ? 0 : view.Epoch(at); };
  t.key = std::to_string(a.number);
  t.cluster = a.cluster;
  t.account = a.account;
  t.user = a.user;
  t.partition = a.partition;
  t.qos = a.qos;
  t.reservation = a.reservation;
  t.state = a.state;
  t.hold = kHolds[static_cast<size_t>(a.hold)];
  t.attempt = a.attempt;
  t.gpus = a.hold == GpuHold::kShard ? a.requested.shards : a.requested.gpus;
  t.submit = view.Epoch(a.submit);
  t.eligible = view.Epoch(a.eligible);
  t.start = epoch(a.start);
  t.end = epoch(a.end);
  t.elapsed_s = a.elapsed;
  t.total_suspended_s = a.suspended;
  t.running_s = share.running;
  t.suspended_s = share.suspended;
  return t;
}

}  // namespace

StateSeconds& StateSeconds::operator+=(const StateSeconds& o) {
  absent += o.absent;
  deployed += o.deployed;
  schedulable += o.schedulable;
  reserved += o.reserved;
  busy += o.busy;
  draining += o.draining;
  drained += o.drained;
  down += o.down;
  maintenance += o.maintenance;
  return *this;
}

StateSeconds StateSeconds::operator*(int64_t gpus) const {
  return {absent * gpus,   deployed * gpus, schedulable * gpus, reserved * gpus,   busy * gpus,
          draining * gpus, drained * gpus,  down * gpus,        maintenance * gpus};
}

SchedulerTruth SchedulerTruthOf(const Fleet& fleet, int32_t from, int32_t to) {
  const SchedulerView view(fleet, to);
  BookSums sums(view, from, to);
  SchedulerTruth out;
  for (int32_t job : view.attempts()) {
    const Job& planned = view.model().plan.jobs[job];
    if (planned.state > JobState::kRunning && planned.end <= from) continue;
    const Attempt a = view.Of(job);
    Share share{std::max(from, a.start), a.over ? std::min(to, a.end) : to};
    if (share.from < share.to) {
      share.suspended = planned.Suspended(share.from, share.to);
      share.running = share.to - share.from - share.suspended;
      sums.Add(a, share);
    }
    out.attempts.push_back(TruthOfAttempt(view, a, share));
  }
  out.clusters = sums.Close();
  return out;
}

namespace {

void Write(const UsageTruth& u, JsonWriter* json) {
  json->Field("attempts", u.attempts).Field("allocated_gpu_s", u.allocated_gpu_s());
  json->Field("running_gpu_s", u.running_gpu_s).Field("suspended_gpu_s", u.suspended_gpu_s);
  json->Field("mig_instance_s", u.mig_s).Field("shard_s", u.shard_s);
}

void Write(std::string_view name, const StateSeconds& s, JsonWriter* json) {
  json->Key(name).BeginObject().Field("absent", s.absent).Field("deployed", s.deployed);
  json->Field("schedulable", s.schedulable).Field("reserved", s.reserved).Field("busy", s.busy);
  json->Field("draining", s.draining).Field("drained", s.drained).Field("down", s.down);
  json->Field("maintenance", s.maintenance).EndObject();
}

template <typename Books>
void WriteAllocated(const Books& b, JsonWriter* json) {
  Write(b.usage, json);
  json->Field("on_schedulable_gpu_s", b.on_schedulable_gpu_s);
  json->Field("on_draining_gpu_s", b.on_draining_gpu_s);
  json->Field("on_closed_gpu_s", b.on_closed_gpu_s);
}

void Write(const NodeTruth& n, JsonWriter* json) {
  json->BeginObject().Field("node", n.node).Field("gpus", n.gpus);
  Write("node_s", n.node_s, json);
  WriteAllocated(n, json);
  json->Key("states").BeginArray();
  for (const NodeStateTruth& s : n.states) {
    json->BeginObject().Field("state", s.state).Field("reason", s.reason).Field("user", s.user);
    json->Field("from", s.from).Field("to", s.to).EndObject();
  }
  json->EndArray().EndObject();
}

void Write(const BooksTruth& b, JsonWriter* json) {
  json->BeginObject().Field("cluster", b.cluster).Field("gpus", b.gpus);
  Write("gpu_s", b.gpu_s, json);
  WriteAllocated(b, json);
  json->Key("partitions").BeginArray();
  for (const UsageTruth& u : b.partitions) {
    json->BeginObject().Field("partition", u.name);
    Write(u, json);
    json->EndObject();
  }
  json->EndArray().Key("accounts").BeginArray();
  for (const UsageTruth& u : b.accounts) {
    json->BeginObject().Field("account", u.name).Field("parent", u.parent);
    Write(u, json);
    json->EndObject();
  }
  json->EndArray().Key("nodes").BeginArray();
  for (const NodeTruth& n : b.nodes) Write(n, json);
  json->EndArray().EndObject();
}

void Write(const AttemptTruth& a, JsonWriter* json) {
  json->BeginObject().Field("key", a.key).Field("attempt", a.attempt).Field("cluster", a.cluster);
  json->Field("account", a.account).Field("user", a.user).Field("partition", a.partition);
  json->Field("qos", a.qos).TextField("reservation", a.reservation).Field("state", a.state);
  json->Field("holds", a.hold).Field("gpus", a.gpus).Field("submit", a.submit);
  json->Field("eligible", a.eligible).Field("start", a.start).Field("end", a.end);
  json->Field("elapsed_s", a.elapsed_s).Field("total_suspended_s", a.total_suspended_s);
  json->Field("running_s", a.running_s).Field("suspended_s", a.suspended_s).EndObject();
}

}  // namespace

void WriteSchedulerTruth(const SchedulerTruth& truth, JsonWriter* json) {
  json->Key("scheduler").BeginObject().Key("clusters").BeginArray();
  for (const BooksTruth& b : truth.clusters) Write(b, json);
  json->EndArray().Key("attempts").BeginArray();
  for (const AttemptTruth& a : truth.attempts) Write(a, json);
  json->EndArray().EndObject();
}

}  // namespace flopwatch::simulate
