#include "query/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fleet/advice/held_back.h"
#include "query/idle.h"
#include "query/regressions.h"
#include "query/sankey.h"
#include "query/stragglers.h"
#include "query/usage_by.h"

namespace flopwatch::query {
namespace {

using fleet::ActionCause;
using fleet::LossClaim;

// A change of less is within what a fleet's mix does by itself.
constexpr double kGrowth = 0.2, kFall = 0.1;
// Of a run that did less there is no OFU to compare.
constexpr double kLeastComputableSeconds = 600;

// The power of two at or above: sizes that are compared with one another.
int64_t SizeClass(int64_t gpus) {
  int64_t size = 1;
  while (size < gpus) size *= 2;
  return size;
}

class Adviser {
 public:
  Adviser(const Query& query, const fleet::Prices& prices, View view)
      : query_(query), memory_(query.memory()), prices_(prices), view_(view) {}

  StatusOr<AdviseAnswer> Advise(size_t most, const TracedJobs& traced) {
    FW_RETURN_IF_ERROR(CollectJobs());
    ClaimWithoutMfu();
    NoteIfNot("idle-held time", ClaimIdle());
    NoteIfNot("regressions", ClaimRegressions());
    NoteIfNot("stragglers", ClaimStragglers());
    if (traced) ClaimTraced(traced);
    ClaimPeers();
    NoteIfNot("workflows that grow", ClaimGrowing());
    NoteIfNot("hosts that are out", ClaimHosts());
    answer_.view = view_;
    answer_.actions = fleet::Advise(jobs_, claims_, kLeastAction * answer_.allocated_s, most);
    return std::move(answer_);
  }

 private:
  // One that fails takes nothing from the others.
  void NoteIfNot(std::string_view what, const Status& looked) {
    if (looked.ok()) return;
    answer_.notes.push_back(fmt::format("{}: not looked for: {}", what, MessageOf(looked)));
  }

  struct JobFacts {
    Usage usage;
    std::string models;  // of its GPUs
    int64_t gpus = 0;
    bool claimed = false;  // an application said an MFU of it
  };

  Status CollectJobs() {
    View view = view_;
    FW_ASSIGN_OR_RETURN(const UsageByAnswer usage,
                        UsageOf(query_, &view, JobJoin::kStamped, UsageBy::kJob, prices_));
    view_ = view;
    const AttemptsByJob attempts = AttemptsIn(memory_, view_.window);
    for (const UsageGroup& g : usage.groups) {
      fleet::AdviceJob job;
      job.key = g.name;
      job.gpu_seconds = g.usage.expected_s;
      if (g.cost.priced_s > 0) job.per_second = g.cost.amount / g.cost.priced_s;
      const auto record = memory_.jobs().FindJob(g.name);
      if (record) std::tie(job.user, job.workflow) = std::tie(record->user, record->workflow);
      if (const auto* of = attempts.Of(g.name); of != nullptr && !of->empty()) {
        if (job.user.empty()) job.user = of->back().user;
        if (job.workflow.empty()) job.workflow = of->back().workflow;
      }
      by_key_[g.name] = jobs_.size();
      if (record) by_id_[record->id] = jobs_.size();
      jobs_.push_back(std::move(job));
      facts_.push_back({g.usage, "", g.usage.sums.gpus, g.claimed_s > 0});
      answer_.allocated_s += g.usage.expected_s;
      answer_.observed_s += std::min(g.usage.expected_s, g.usage.sums.ofu.observed_s);
    }
    std::vector<store::JobWindow> windows;
    for (const auto& [id, at] : by_id_) windows.push_back({id, view_.window});
    for (const auto& [id, holding] : memory_.Holdings(windows)) {
      JobFacts& facts = facts_[by_id_.at(id)];
      facts.models = fmt::format("{}", fmt::join(holding.models, " + "));
      facts.gpus = std::max(facts.gpus, holding.gpus);
    }
    return absl::OkStatus();
  }

  std::optional<size_t> JobOf(const std::string& key) const {
    const auto it = by_key_.find(key);
    return it == by_key_.end() ? std::nullopt : std::optional(it->second);
  }

  LossClaim& Add(ActionCause cause, std::string subject, std::optional<size_t> job,
                 LossClaim::Of of, double amount) {
    LossClaim& claim = claims_.emplace_back();
    claim.cause = cause;
    claim.subject = std::move(subject);
    claim.job = job;
    claim.of = of;
    claim.amount = amount;
    return claim;
  }

  // The end of the window that raw rows are read of.
  store::Window RawWindow(Micros longest) {
    store::Window w = view_.window;
    const double hours = ToSeconds(w.to - w.from) / 3600;
    const double gpus = std::max(1.0, answer_.allocated_s / 3600 / hours);
    const auto allowed = static_cast<Micros>(std::max(1.0, kAdviseRawGpuHours / gpus) *
                                             static_cast<double>(kMicrosPerHour));
    w.from = std::max(w.from, w.to - std::min(longest, allowed));
    return w;
  }

  void ClaimWithoutMfu() {
    double seconds = 0;
    std::vector<size_t> without;
    bool any = false;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const store::UsageSums& sums = facts_[i].usage.sums;
      any |= facts_[i].claimed;
      if (facts_[i].claimed || sums.ofu.ofu_s <= 0) continue;
      seconds += jobs_[i].gpu_seconds;
      without.push_back(i);
    }
    if (seconds < kLeastShareWithoutMfu * answer_.allocated_s || without.empty()) return;
    const std::string evidence =
        fmt::format("{:.0f} GPU-hours of tensor work in {} jobs report no MFU{}", seconds / 3600,
                    without.size(), any ? "" : "; no job reports any");
    for (const size_t i : without) {
      Add(ActionCause::kNoMfu, "", i, LossClaim::Of::kSeconds, jobs_[i].gpu_seconds).evidence =
          evidence;
    }
  }

  Status ClaimIdle() {
    const store::Window window = RawWindow(view_.window.to - view_.window.from);
    FW_ASSIGN_OR_RETURN(const IdleAnswer idle, IdleOf(query_, window, prices_));
    if (window.from > view_.window.from) {
      answer_.notes.push_back(fmt::format(
          "idle-held time is that from {} on: raw rows of the whole window are too many",
          FormatTime(window.from)));
    }
    for (const IdleRow& row : idle.rows) {
      const auto job = JobOf(row.job);
      if (!job) continue;
      const std::string& user = row.user.empty() ? jobs_[*job].user : row.user;
      LossClaim& claim = Add(ActionCause::kIdleHeld, user.empty() ? "job " + row.job : user, job,
                             LossClaim::Of::kSeconds, row.held.gpu_s);
      claim.evidence = fmt::format("job {}: {}: {}", row.job, fleet::IdleStateName(row.held.state),
                                   fleet::IdleEvidence(row.held));
      if (!row.nodes.empty()) claim.node = row.nodes.front();
    }
    return absl::OkStatus();
  }

  Status ClaimRegressions() {
    RegressionQuestion question;
    // Runs from before the window say what was usual.
    question.window = {std::min(view_.window.from, view_.window.to - kRegressionWindow),
                       view_.window.to};
    FW_ASSIGN_OR_RETURN(RegressionAnswer found, FindRegressions(query_, question));
    for (size_t k = 0; k < found.judgement.findings.size(); ++k) {
      const fleet::Regression& f = found.judgement.findings[k];
      if (!fleet::IsRegression(f.cause) || f.change >= 0) continue;
      const fleet::WorkflowRuns& workflow = found.set.workflows[f.workflow];
      const size_t end = std::min(f.within_run ? f.at + 1 : f.end, workflow.runs.size());
      for (size_t r = f.at; r < end; ++r) {
        const auto job = JobOf(workflow.runs[r].job);
        if (!job) continue;
        const double part = f.within_run ? PartSince(workflow.runs[r], f.from) : 1;
        Add(ActionCause::kRegression, workflow.name, job, LossClaim::Of::kShareOfRest,
            -f.change * part)
            .evidence = found.evidence[k];
      }
    }
    runs_ = std::move(found.set);
    return absl::OkStatus();
  }

  // Of a run's time in the window the part after `since`.
  double PartSince(const fleet::WorkflowRun& run, Micros since) const {
    const Micros begin = std::max(view_.window.from, run.from);
    const Micros end = std::min(view_.window.to, run.to > 0 ? run.to : view_.window.to);
    if (end <= begin) return 0;
    return std::clamp(ToSeconds(end - since) / ToSeconds(end - begin), 0.0, 1.0);
  }

  Status ClaimStragglers() {
    const store::Window window =
        RawWindow(std::min(kMaxStragglerWindow, view_.window.to - view_.window.from));
    StragglerQuestion question;
    question.window = window;
    FW_ASSIGN_OR_RETURN(const StragglerAnswer found, StragglersIn(query_, question));
    if (window.from > view_.window.from) {
      answer_.notes.push_back(
          fmt::format("stragglers are those seen from {} on", FormatTime(window.from)));
    }
    const bool any = std::ranges::any_of(facts_, [](const JobFacts& f) { return f.gpus > 1; });
    if (found.jobs_judged == 0 && any) {
      answer_.notes.push_back(
          "no job could be judged for stragglers: \"flopwatch stragglers\" says why");
    }
    ClaimStragglerRows(found.rows);
    return absl::OkStatus();
  }

  // A straggler with what its job would save without it.
  struct HoldsBack {
    const StragglerRow* row = nullptr;
    double gain = 0;
    std::string how;  // it is known
  };

  void ClaimStragglerRows(const std::vector<StragglerRow>& rows) {
    // A job waits for its slowest GPU alone: mending another one brings nothing yet.
    std::map<size_t, HoldsBack> slowest;
    const auto offer = [&](const StragglerRow& row, double gain, std::string how) {
      const auto job = JobOf(row.job.key);
      if (!job || !(gain > slowest[*job].gain)) return;
      slowest[*job] = {&row, gain, std::move(how)};
    };
    std::map<std::string, std::vector<const StragglerRow*>> at_full_clock;  // by GPU
    for (const StragglerRow& row : rows) {
      if (row.found.deficit) {
        offer(row, row.found.gain.value_or(0),
              fmt::format("is {:.1f} % slower than its peers", 100 * *row.found.deficit));
      } else if (!row.found.whole_host) {
        at_full_clock[row.gpu.key.uuid].push_back(&row);
      }
    }
    for (const auto& [gpu, of] : at_full_clock) {
      const auto held = fleet::HeldBackBy(BesideRunsWithout(of));
      if (!held) continue;
      for (const StragglerRow* row : of) {
        offer(*row, held->share,
              fmt::format("makes its peers wait; {} runs with it reach {:.1f} % less than {} of "
                          "the same workflows without it",
                          held->with, 100 * held->share, held->without));
      }
    }
    for (const auto& [job, by] : slowest) {
      if (by.row == nullptr) continue;
      const StragglerRow& row = *by.row;
      const std::string& node = row.gpu.labels.node;
      const bool host = row.found.whole_host;
      LossClaim& claim = Add(ActionCause::kStraggler, host ? node : row.gpu.key.uuid, job,
                             LossClaim::Of::kShareOfRest, by.gain);
      claim.evidence = fmt::format("job {}: {} on {} {} ({})", row.job.key,
                                   host ? "every GPU" : row.gpu.key.uuid, node, by.how,
                                   fleet::StragglerKindName(row.found.kind));
      claim.node = node;
      if (!host) claim.gpu = row.gpu.key.uuid;
    }
  }

  // What runs reach by workflow and setting, with the GPU of these rows and without it.
  std::vector<fleet::HeldBackRuns> BesideRunsWithout(
      const std::vector<const StragglerRow*>& rows) const {
    std::vector<fleet::HeldBackRuns> out;
    for (const fleet::WorkflowRuns& workflow : runs_.workflows) {
      const auto named = [&](const fleet::WorkflowRun& run) {
        return std::ranges::any_of(
            rows, [&](const StragglerRow* row) { return row->job.key == run.job; });
      };
      for (const fleet::WorkflowRun& as : workflow.runs) {
        if (!named(as)) continue;
        // Its setting was looked at already with an earlier run.
        const auto alike = [&](const fleet::WorkflowRun& run) {
          return !fleet::SettingDifference(run.setting, as.setting);
        };
        const auto earlier = std::ranges::find_if(
            workflow.runs, [&](const auto& run) { return named(run) && alike(run); });
        if (&*earlier != &as) continue;
        fleet::HeldBackRuns& group = out.emplace_back();
        for (const fleet::WorkflowRun& run : workflow.runs) {
          if (!alike(run)) continue;
          if (const auto level = fleet::LevelOf(run, kLeastComputableSeconds))
            (named(run) ? group.with : group.without).push_back(*level);
        }
      }
    }
    return out;
  }

  void ClaimTraced(const TracedJobs& traced) {
    const auto is_ours = [&](const std::string& key) { return JobOf(key).has_value(); };
    for (const TracedJob& t : traced(is_ours)) {
      const auto job = JobOf(t.job);
      if (!job || !(t.share > 0)) continue;
      const std::string& workflow = jobs_[*job].workflow;
      LossClaim& claim = Add(ActionCause::kTrace, workflow.empty() ? "job " + t.job : workflow, job,
                             LossClaim::Of::kShareOfRest, t.share);
      claim.evidence = fmt::format(
          "job {}: its trace {} of {} ({}) shows up to {:.1f} % of its steps lost:", t.job, t.trace,
          FormatTime(FloorTo(t.taken, kMicrosPerMinute)),
          t.ranks == 1 ? "1 rank" : fmt::format("{} ranks", t.ranks), 100 * t.share);
      for (size_t k = 0; k < std::min(t.findings.size(), kFindingsSaid); ++k) {
        claim.evidence += fmt::format("{} {} ({:.1f} %)", k == 0 ? "" : ";", t.findings[k].first,
                                      100 * t.findings[k].second);
      }
    }
  }

  // Runs of one workflow on as many GPUs of one model.
  using PeerKey = std::tuple<std::string, std::string, int64_t>;
  std::map<PeerKey, std::vector<fleet::PeerRun>> PeerGroups() const {
    std::map<PeerKey, std::vector<fleet::PeerRun>> groups;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const Usage& usage = facts_[i].usage;
      if (jobs_[i].workflow.empty() || !usage.Ofu()) continue;
      if (usage.sums.ofu.computable_s < kLeastComputableSeconds) continue;
      groups[{jobs_[i].workflow, facts_[i].models, SizeClass(facts_[i].gpus)}].push_back(
          {i, *usage.Ofu(), usage.sums.ofu.computable_s, jobs_[i].gpu_seconds});
    }
    return groups;
  }

  void ClaimPeers() {
    for (const auto& [key, runs] : PeerGroups()) {
      const auto goal = fleet::GoalOf(runs);
      if (!goal) continue;
      const std::string& workflow = std::get<0>(key);
      for (const fleet::PeerRun& run : runs) {
        if (!fleet::BelowPeers(run, *goal)) continue;
        Add(ActionCause::kBelowPeers, workflow, run.job, LossClaim::Of::kShortfall,
            fleet::Shortfall(run, *goal))
            .evidence = fmt::format(
            "job {}: OFU {:.1f} %, where a quarter of {} runs of its workflow and size reach "
            "{:.1f} % and more",
            jobs_[run.job].key, 100 * run.ofu, goal->runs, 100 * goal->ofu);
      }
      ClaimUserGap(workflow, runs);
    }
  }

  // The widest gap between users of one workflow: the worst one's runs could be as the best one's.
  void ClaimUserGap(const std::string& workflow, const std::vector<fleet::PeerRun>& runs) {
    std::map<std::string, std::vector<fleet::PeerRun>> by_user;
    for (const fleet::PeerRun& run : runs)
      if (!jobs_[run.job].user.empty()) by_user[jobs_[run.job].user].push_back(run);
    const std::string *best = nullptr, *worst = nullptr;
    fleet::PeerGoal high, low;
    for (const auto& [user, of_user] : by_user) {
      const auto goal = fleet::GoalOf(of_user);
      if (!goal) continue;
      if (best == nullptr || goal->median > high.median)
        std::tie(best, high) = std::pair(&user, *goal);
      if (worst == nullptr || goal->median < low.median)
        std::tie(worst, low) = std::pair(&user, *goal);
    }
    if (best == nullptr || best == worst || low.median > (1 - kFall) * high.median ||
        high.median - low.median < 3 * std::max(high.scatter, low.scatter))
      return;
    for (const fleet::PeerRun& run : by_user[*worst]) {
      Add(ActionCause::kBelowPeers, workflow, run.job, LossClaim::Of::kShortfall,
          fleet::Shortfall(run, high))
          .evidence = fmt::format(
          "{}'s runs reach an OFU of {:.1f} %, those of {} {:.1f} % "
          "(medians of {} and {} runs of one size)",
          *worst, 100 * low.median, *best, 100 * high.median, low.runs, high.runs);
    }
  }

  // Workflows that take more GPU time than in a window as long just before, at a lower OFU.
  Status ClaimGrowing() {
    View before = memory_.StoredView(
        {view_.window.from - (view_.window.to - view_.window.from), view_.window.from});
    if (before.window.from >= before.window.to) return absl::OkStatus();
    const auto usage = UsageOf(query_, &before, JobJoin::kStamped, UsageBy::kWorkflow, prices_);
    FW_RETURN_IF_ERROR(usage.status());
    std::map<std::string, Usage> now;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      Usage& u = now[jobs_[i].workflow];
      u.sums += facts_[i].usage.sums;
      u.expected_s += jobs_[i].gpu_seconds;
    }
    for (const UsageGroup& g : usage->groups) {
      const auto it = now.find(g.name);
      if (g.name.empty() || it == now.end()) continue;
      const auto was = g.usage.Ofu(), is = it->second.Ofu();
      if (!was || !is || *is > (1 - kFall) * *was || g.jobs < kFewestRunsOfGrowth) continue;
      if (it->second.expected_s < (1 + kGrowth) * g.usage.expected_s) continue;
      const std::string evidence = fmt::format(
          "{} takes {:.0f} GPU-hours after {:.0f} in as much time before, and its OFU fell from "
          "{:.1f} to {:.1f} %",
          g.name, it->second.expected_s / 3600, g.usage.expected_s / 3600, 100 * *was, 100 * *is);
      for (size_t i = 0; i < jobs_.size(); ++i) {
        const auto ofu = facts_[i].usage.Ofu();
        if (jobs_[i].workflow != g.name || !ofu || *ofu >= *was) continue;
        const double computable = facts_[i].usage.sums.ofu.computable_s;
        Add(ActionCause::kBelowPeers, g.name, i, LossClaim::Of::kShortfall,
            fleet::Shortfall({i, *ofu, computable, jobs_[i].gpu_seconds}, {.ofu = *was}))
            .evidence = evidence;
      }
    }
    return absl::OkStatus();
  }

  Status ClaimHosts() {
    View view = view_;
    FW_ASSIGN_OR_RETURN(const fleet::Sankey sankey,
                        SankeyOver(query_, &view, JobJoin::kStamped, {}, prices_));
    for (const fleet::SankeyLoss& loss : sankey.losses) {
      if (loss.before == fleet::SankeyLevel::kSchedulable && loss.name != "maintenance") {
        Nobodys(ActionCause::kHostsOut, std::string(loss.name), loss, loss.gpu_seconds,
                fmt::format("{}: {:.0f} GPU-hours", loss.title, loss.gpu_seconds / 3600));
        for (const auto& [reason, seconds] : loss.reasons) {
          Nobodys(ActionCause::kHostsOut, std::string(loss.name), loss, 0,
                  fmt::format("\"{}\": {:.0f} GPU-hours", reason, seconds / 3600));
        }
      }
      if (loss.name == "idle_hosts_queued" || loss.name == "free_queued") {
        Nobodys(ActionCause::kStranded, "queue", loss, loss.gpu_seconds,
                fmt::format("{}: {:.0f} GPU-hours", loss.title, loss.gpu_seconds / 3600));
      }
    }
    return absl::OkStatus();
  }
  void Nobodys(ActionCause cause, std::string subject, const fleet::SankeyLoss& loss,
               double seconds, std::string evidence) {
    if (seconds <= 0) {  // more of what the one before says
      if (!claims_.empty() && claims_.back().cause == cause && claims_.back().subject == subject)
        claims_.back().evidence += "; " + evidence;
      return;
    }
    LossClaim& claim =
        Add(cause, std::move(subject), std::nullopt, LossClaim::Of::kSeconds, seconds);
    claim.money = loss.money;
    claim.evidence = std::move(evidence);
  }

  static constexpr size_t kFindingsSaid = 3;
  static constexpr double kLeastShareWithoutMfu = 0.05;
  static constexpr int64_t kFewestRunsOfGrowth = 3;

  const Query& query_;
  const Memory& memory_;
  const fleet::Prices& prices_;
  View view_;
  AdviseAnswer answer_;
  std::vector<fleet::AdviceJob> jobs_;
  std::vector<JobFacts> facts_;  // of the jobs, in their order
  absl::flat_hash_map<std::string, size_t> by_key_;
  absl::flat_hash_map<int32_t, size_t> by_id_;
  std::vector<LossClaim> claims_;
  WorkflowSet runs_;  // of two weeks, once regressions were looked for
};

}  // namespace

StatusOr<AdviseAnswer> AdviseOn(const Query& query, store::Window asked,
                                const fleet::Prices& prices, size_t most,
                                const TracedJobs& traced) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  return Adviser(query, prices, query.Resolve(asked)).Advise(most, traced);
}

}  // namespace flopwatch::query
