#include "jobs/slurm/tell.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/hostlist.h"
#include "jobs/slurm/assignments.h"

namespace flopwatch::slurm {
namespace {

// Clusters as the sources name them; "" becomes the one that the caller names.
std::string ClusterOf(const std::string& said, const TellOptions& options) {
  return said.empty() ? options.cluster : said;
}

jobs::AttemptRecord RecordOf(const JobRecord& job, const TellOptions& options) {
  jobs::AttemptRecord r;
  r.cluster = ClusterOf(job.cluster, options);
  r.job = KeyOf(job);
  r.name = job.name;
  r.user = job.user;
  r.account = job.account;
  r.partition = job.partition;
  r.qos = job.qos;
  r.workflow = WorkflowOf(job);
  r.state = job.state == JobState::kUnknown ? job.state_text : JobStateName(job.state);
  r.reservation = job.reservation;
  r.nodes = jobs::CompressHostlist(job.nodes);
  r.submit = job.submit.value_or(0);
  r.eligible = job.eligible.value_or(0);
  r.suspended_s = job.suspended_s.value_or(0);
  r.seen = job.as_of.value_or(options.as_of.value_or(0));
  // Slurm allows any text; what a table or a terminal cannot show is shown as what it is.
  for (std::string* text :
       {&r.name, &r.user, &r.account, &r.partition, &r.qos, &r.workflow, &r.state, &r.reservation})
    *text = Printable(*text, 500);
  return r;
}

// What it held, nobody tells any more; it ended all the same.
jobs::StaticAssignment EndOf(const jobs::AttemptRecord& attempt) {
  jobs::StaticAssignment a;
  a.job = attempt.job;
  a.name = attempt.name;
  a.user = attempt.user;
  a.workflow = attempt.workflow;
  a.cluster = attempt.cluster;
  a.from = attempt.start;
  a.to = attempt.end;
  return a;
}

struct Records {
  std::vector<jobs::AttemptRecord> open, ended;
};

void AddAttempts(const AttemptList& list, const AssignmentList& assignments,
                 const TellOptions& options, Records* records, Told* told) {
  for (size_t k = 0; k < list.attempts.size(); ++k) {
    const Attempt& attempt = list.attempts[k];
    if (!attempt.job.start.has_value() || !attempt.until.has_value()) continue;
    jobs::AttemptRecord r = RecordOf(attempt.job, options);
    r.start = *attempt.job.start;
    r.end = attempt.running ? jobs::kOpenEnd : *attempt.until;
    // An instance is a part of a GPU, and Slurm counts it as one; a shard is a part that a prolog
    // shows as a whole one.
    const Tres& held = attempt.job.allocated;
    const bool parts =
        held.mig_instances.value_or(0) > 0 ||
        (!held.gpus.has_value() && (held.shards.has_value() || held.mps.has_value()));
    if (attempt.gpus.has_value() && !parts) r.gpus = *attempt.gpus;
    r.placed = assignments.placed[k];
    r.gpu_list = assignments.gpu_lists[k];
    ++told->attempts;
    ++(r.placed ? told->placed : told->not_placed);
    (attempt.running ? records->open : records->ended).push_back(std::move(r));
  }
}

// Jobs in the queue, and those that left it without ever starting.
void AddWaiting(absl::Span<const Books> books, const TellOptions& options, Records* records,
                Told* told) {
  for (const Books& b : books) {
    for (const JobRecord& job : b.jobs) {
      const JobPhase phase = PhaseOf(job.state);
      const bool never_started = phase == JobPhase::kEnded && !job.start.has_value();
      if (phase != JobPhase::kWaiting && !never_started) continue;
      if (job.requested.gpus.value_or(0) <= 0) continue;
      jobs::AttemptRecord r = RecordOf(job, options);
      r.gpus = *job.requested.gpus;
      if (never_started && !job.end.has_value()) continue;
      if (never_started) r.end = *job.end;
      ++told->waiting;
      (never_started ? records->ended : records->open).push_back(std::move(r));
    }
  }
}

// When the files were written, as far as anything in them says.
std::optional<Micros> LookedAt(const AttemptList& list, const TellOptions& options) {
  std::optional<Micros> at = options.as_of;
  if (at.has_value()) return at;
  for (const Attempt& a : list.attempts)
    if (a.until.has_value()) at = std::max(at.value_or(*a.until), *a.until);
  return at;
}

std::optional<Micros> NodesSince(const AttemptList& list, absl::Span<const Books> books,
                                 const TellOptions& options) {
  std::optional<Micros> since = options.nodes_since;
  if (since.has_value()) return since;
  const auto earlier = [&](const std::optional<Micros>& t) {
    if (t.has_value()) since = std::min(since.value_or(*t), *t);
  };
  for (const Attempt& a : list.attempts) earlier(a.job.start);
  for (const Books& b : books)
    for (const NodeEvent& e : b.events) earlier(e.start);
  return since;
}

void TellNodes(absl::Span<const Books> books, const AttemptList& list, const TellOptions& options,
               jobs::Books* to, jobs::JobIndex* index, Told* told) {
  const std::optional<Micros> at = LookedAt(list, options);
  std::map<std::string, std::vector<jobs::NodeRecord>> looked, out;  // by cluster
  for (const Books& b : books) {
    for (const NodeRecord& node : b.nodes) {
      jobs::NodeRecord r;
      r.node = node.name;
      // Of partitioned boards Slurm counts the instances: how many boards there are is seen.
      const bool instances =
          std::ranges::any_of(node.gres, [](const Gres& gres) { return IsMigType(gres.type); });
      r.gpus = instances ? -1 : node.gpus.value_or(0);
      r.service = ServiceOf(node.state);
      r.state = Printable(node.state.why.empty() ? node.state_text : node.state.why, 200);
      r.reason = Printable(node.reason, 300);
      for (const std::string& partition : node.partitions)
        r.partitions += (r.partitions.empty() ? "" : ",") + partition;
      looked[ClusterOf(node.cluster, options)].push_back(std::move(r));
      ++told->nodes;
    }
    for (const NodeEvent& event : b.events) {
      if (event.node.empty() || !event.start.has_value()) continue;
      jobs::NodeRecord r;
      r.node = event.node;
      r.from = *event.start;
      r.to = event.end.value_or(jobs::kOpenEnd);
      r.service = ServiceOf(event.state);
      if (r.service == jobs::Service::kInService) continue;
      r.state = Printable(event.state.why.empty() ? event.state_text : event.state.why, 200);
      r.reason = Printable(event.reason, 300);
      out[ClusterOf(event.cluster, options)].push_back(std::move(r));
      ++told->events;
    }
  }
  if (index != nullptr) {
    for (const auto& [cluster, nodes] : looked) {
      std::vector<std::string> names;
      for (const jobs::NodeRecord& node : nodes) names.push_back(node.node);
      index->NameNodes(cluster, names);
    }
  }
  if (!at.has_value()) return;  // nobody says when these nodes were there
  for (const auto& [cluster, nodes] : looked)
    to->TellNodes(cluster, *at, nodes, !options.nodes_missing);
  const std::optional<Micros> since = NodesSince(list, books, options);
  if (!since.has_value()) return;
  for (const auto& [cluster, nodes] : looked) out.try_emplace(cluster);
  for (const auto& [cluster, nodes] : out) to->TellNodesBefore(cluster, *since, nodes);
}

}  // namespace

jobs::Service ServiceOf(const NodeState& state) {
  const auto any = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(
        words, [&](std::string_view word) { return state.base == word || state.Has(word); });
  };
  if (state.schedulable == Schedulable::kYes) return jobs::Service::kInService;
  if (any({"MAINT", "MAINTENANCE"})) return jobs::Service::kMaintenance;
  if (any({"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"})) return jobs::Service::kPoweredDown;
  if (any({"DOWN", "NOT_RESPONDING", "ERROR", "FAIL", "FAILING", "INVALID", "FUTURE"}))
    return jobs::Service::kDown;
  if (any({"DRAIN", "DRAINED", "DRAINING"})) return jobs::Service::kDrain;
  return state.schedulable == Schedulable::kNo ? jobs::Service::kDown : jobs::Service::kUnknown;
}

Told Tell(absl::Span<const Books> books, const TellOptions& options, jobs::Books* to,
          jobs::JobIndex* index) {
  Told told;
  const AttemptList list = MergeAttempts(books, options.as_of);
  AssignmentList assignments = AssignmentsOf(list, books);
  for (auto* of : {&assignments.assignments, &assignments.times_only})
    for (jobs::StaticAssignment& a : *of) a.cluster = ClusterOf(a.cluster, options);
  Records records;
  AddAttempts(list, assignments, options, &records, &told);
  AddWaiting(books, options, &records, &told);
  // Ends first: a job that ended and waits again is two attempts.
  to->Tell(records.ended);
  std::vector<jobs::StaticAssignment> vanished;
  if (options.whole_look && options.as_of.has_value()) {
    for (jobs::AttemptRecord& gone :
         to->TellAllOpen(options.cluster, *options.as_of, records.open, options.unread)) {
      ++told.vanished;
      if (gone.start > 0) vanished.push_back(EndOf(gone));
    }
  } else {
    to->Tell(records.open);
  }
  TellNodes(books, list, options, to, index, &told);
  if (index != nullptr) {
    index->Schedule(assignments.assignments);
    index->Schedule(assignments.times_only);
    index->Schedule(vanished);
  }
  return told;
}

}  // namespace flopwatch::slurm
