#include "fleet/advice/advice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace flopwatch::fleet {
namespace {

double Sane(double v) { return std::isfinite(v) && v > 0 ? v : 0; }

// What a claim was given of its job's time, or of nobody's.
struct Granted {
  const LossClaim* claim = nullptr;
  double seconds = 0;
};

// Hands each job's time out once, in the order of ActionCause.
std::vector<Granted> Grant(absl::Span<const AdviceJob> jobs, absl::Span<const LossClaim> claims) {
  std::vector<Granted> granted;
  for (const LossClaim& claim : claims)
    if (!claim.job || *claim.job < jobs.size()) granted.push_back({&claim, 0});
  // Outright seconds before shares of a rest, larger claims first, so that the order in which
  // things were found changes nothing.
  std::stable_sort(granted.begin(), granted.end(), [](const Granted& a, const Granted& b) {
    if (a.claim->cause != b.claim->cause) return a.claim->cause < b.claim->cause;
    if (a.claim->of != b.claim->of) return a.claim->of < b.claim->of;
    return Sane(a.claim->amount) > Sane(b.claim->amount);
  });
  std::vector<double> left, explained(jobs.size(), 0);
  for (const AdviceJob& job : jobs) left.push_back(Sane(job.gpu_seconds));
  for (Granted& g : granted) {
    const double amount = Sane(g.claim->amount);
    if (!g.claim->job) {
      g.seconds = amount;
      continue;
    }
    double& rest = left[*g.claim->job];
    double& known = explained[*g.claim->job];
    switch (g.claim->of) {
      case LossClaim::Of::kSeconds:
        g.seconds = std::min(amount, rest);
        break;
      case LossClaim::Of::kShareOfRest:
        g.seconds = std::min(amount, 1.0) * rest;
        break;
      case LossClaim::Of::kShortfall:
        g.seconds = std::clamp(amount - known, 0.0, rest);
        break;
    }
    rest -= g.seconds;
    known += g.seconds;
  }
  return granted;
}

// Names by what was lost with them, most first; counts all, keeps kMostSubjects.
class Ranked {
 public:
  void Add(const std::string& name, double seconds) {
    if (!name.empty()) seconds_[name] += seconds;
  }
  int64_t Take(std::vector<std::string>* names) const {
    std::vector<std::pair<double, std::string>> sorted;
    for (const auto& [name, seconds] : seconds_) sorted.emplace_back(-seconds, name);
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < std::min(sorted.size(), kMostSubjects); ++i)
      names->push_back(std::move(sorted[i].second));
    return static_cast<int64_t>(seconds_.size());
  }

 private:
  std::map<std::string, double> seconds_;
};

Action ActionOf(absl::Span<const AdviceJob> jobs, std::vector<Granted> parts) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Granted& a, const Granted& b) { return a.seconds > b.seconds; });
  Action action;
  action.cause = parts.front().claim->cause;
  action.subject = parts.front().claim->subject;
  double seconds = 0;
  Ranked job_names, users, nodes, gpus;
  std::set<std::string_view> said;
  for (const Granted& g : parts) {
    seconds += g.seconds;
    nodes.Add(g.claim->node, g.seconds);
    gpus.Add(g.claim->gpu, g.seconds);
    if (g.claim->job) {
      const AdviceJob& job = jobs[*g.claim->job];
      job_names.Add(job.key, g.seconds);
      users.Add(job.user, g.seconds);
      if (job.per_second) {
        action.money = action.money.value_or(0) + *job.per_second * g.seconds;
        action.priced_s += g.seconds;
      }
    } else if (g.claim->money) {
      action.money = action.money.value_or(0) + *g.claim->money;
      action.priced_s += g.seconds;
    }
    if (!g.claim->evidence.empty() && said.insert(g.claim->evidence).second &&
        action.evidence.size() < kMostEvidence)
      action.evidence.push_back(g.claim->evidence);
  }
  if (action.cause == ActionCause::kNoMfu) {
    action.money.reset();  // of time that is not known to be lost
    action.priced_s = 0;
  } else {
    action.gpu_seconds = seconds;
  }
  action.jobs = job_names.Take(&action.job_keys);
  action.users = users.Take(&action.user_names);
  action.nodes = nodes.Take(&action.node_names);
  action.gpus = gpus.Take(&action.gpu_names);
  return action;
}

double Quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

std::vector<Action> Advise(absl::Span<const AdviceJob> jobs, absl::Span<const LossClaim> claims,
                           double least_seconds, size_t most) {
  std::map<std::pair<ActionCause, std::string_view>, std::vector<Granted>> by_subject;
  for (const Granted& g : Grant(jobs, claims)) {
    // What nothing was left for says nothing, but that no MFU is known costs nothing anyway.
    if (g.seconds > 0 || g.claim->cause == ActionCause::kNoMfu)
      by_subject[{g.claim->cause, g.claim->subject}].push_back(g);
  }
  std::vector<Action> actions;
  for (auto& [subject, parts] : by_subject) {
    Action action = ActionOf(jobs, std::move(parts));
    if (action.gpu_seconds && *action.gpu_seconds < least_seconds) continue;
    actions.push_back(std::move(action));
  }
  std::stable_sort(actions.begin(), actions.end(), [](const Action& a, const Action& b) {
    return a.gpu_seconds.value_or(-1) > b.gpu_seconds.value_or(-1);
  });
  if (actions.size() > most) actions.resize(most);
  return actions;
}

std::optional<PeerGoal> GoalOf(absl::Span<const PeerRun> runs) {
  std::vector<double> ofu;
  for (const PeerRun& run : runs)
    if (run.computable_s > 0 && std::isfinite(run.ofu)) ofu.push_back(run.ofu);
  if (ofu.size() < kFewestPeers) return std::nullopt;
  std::sort(ofu.begin(), ofu.end());
  PeerGoal goal{.ofu = Quantile(ofu, 0.75), .median = Quantile(ofu, 0.5), .runs = ofu.size()};
  std::vector<double> deviation;
  for (const double v : ofu) deviation.push_back(std::abs(v - goal.median));
  std::sort(deviation.begin(), deviation.end());
  goal.scatter = 1.4826 * Quantile(deviation, 0.5);
  return goal;
}

bool BelowPeers(const PeerRun& run, const PeerGoal& goal) {
  return run.ofu < 0.9 * goal.ofu && run.ofu < goal.median - 3 * goal.scatter;
}

double Shortfall(const PeerRun& run, const PeerGoal& goal) {
  if (goal.ofu <= 0 || run.ofu >= goal.ofu) return 0;
  // Time whose OFU is not known is not said to be short of anything.
  return std::min(run.computable_s, run.gpu_seconds) * (1 - run.ofu / goal.ofu);
}

}  // namespace flopwatch::fleet
