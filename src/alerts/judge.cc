#include "alerts/judge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "query/divergence.h"
#include "query/regressions.h"

namespace flopwatch::alerts {
Judge::Judge(const query::Query* query, absl::Span<const Rule> rules,
             std::optional<store::Window> all)
    : query_(*query), all_(all) {
  constexpr Quantity kDivergence[] = {Quantity::kJobDivergence, Quantity::kJobDivergenceFlagged,
                                      Quantity::kJobDivergenceExcess,
                                      Quantity::kJobDivergenceCaused};
  constexpr Quantity kHistory[] = {Quantity::kJobHistoryOfu, Quantity::kJobHistoryScatter,
                                   Quantity::kJobHistoryRuns, Quantity::kJobHistoryLow};
  const QuantitySet named = QuantitiesOf(rules);
  const auto any = [&](absl::Span<const Quantity> of) {
    return std::ranges::any_of(of, [&](Quantity q) { return named[static_cast<size_t>(q)]; });
  };
  if (all_) ahead_.emplace(query, all_->to);
  divergence_ = any(kDivergence);
  history_ = any(kHistory);
}

Status Judge::At(Micros at, Verdicts* out) {
  out->clear();
  Status status;
  if (divergence_) status.Update(Diverge(at, out));
  if (!history_) return status;
  // The same hours live and in a replay, whenever a server was started.
  const Micros hour = FloorTo(at, kHistoryEvery);
  const Micros to = all_ ? all_->to : hour;
  if (to != read_to_) {
    const Status read = ReadHistory(to);
    if (!read.ok()) {
      status.Update(read);
      return status;
    }
    read_to_ = to;
  }
  Compare(hour, out);
  return status;
}

Status Judge::Diverge(Micros at, Verdicts* out) {
  query::DivergenceQuestion question;
  question.window = {at - kJudgedLag - kJudgedOver, at - kJudgedLag};
  question.minutes_only = true;  // a scan of raw rows every ten minutes would cost most of all
  question.thresholds.min_window_s = ToSeconds(kLeastJudged);
  FW_ASSIGN_OR_RETURN(const std::vector<query::JobDivergence> jobs,
                      query::GatherDivergence(query_, question, ahead_ ? &*ahead_ : nullptr));
  for (const query::JobDivergence& job : jobs) {
    const fleet::Diagnosis& d = job.diagnosis;
    if (d.verdict == fleet::Verdict::kNotComputable) continue;
    Verdict& v = (*out)[job.evidence.job];
    v.divergence_flagged = d.flagged() ? 1 : 0;
    if (!d.difference_expected || !d.difference) continue;
    v.divergence = *d.difference_expected;
    v.divergence_excess =
        std::min(std::abs(*d.difference), std::abs(*d.difference_expected)) - d.scatter_points;
    v.divergence_caused = !d.explanations.empty() && d.explanations.front().supported() ? 1 : 0;
  }
  return absl::OkStatus();
}

Status Judge::ReadHistory(Micros to) {
  const Micros from = (all_ ? all_->from : to) - kHistoryReach;
  FW_ASSIGN_OR_RETURN(
      const query::WorkflowSet set,
      query::GatherWorkflows(query_, {from, to}, query::WorkflowFilter(), query::kWorkDuty));
  workflows_.clear();
  for (const fleet::WorkflowRuns& workflow : set.workflows) {
    if (workflow.runs.size() <= fleet::kLeastRunsBefore) continue;
    Workflow& runs = workflows_.emplace_back();
    for (const fleet::WorkflowRun& run : workflow.runs) {
      const auto gpus = static_cast<double>(std::max<int64_t>(run.setting.gpus, 1));
      runs.push_back({run.job, run.from, run.to, run.setting,
                      fleet::LevelOf(run, fleet::kLeastBusySeconds * gpus)});
    }
  }
  return absl::OkStatus();
}

void Judge::Compare(Micros hour, Verdicts* out) const {
  // Of those that run at the hour a live server sees the last minutes only later.
  const Micros known = hour - kSettled;
  std::vector<double> levels;
  for (const Workflow& runs : workflows_) {
    for (size_t k = 0; k < runs.size(); ++k) {
      const Run& run = runs[k];
      if (run.from > known || run.to < known) continue;  // it does not run now
      levels.clear();
      for (size_t i = k; i-- > 0 && levels.size() < kMostHistoryRuns;) {
        const Run& before = runs[i];
        if (before.to < known && before.job != run.job && before.level &&
            !fleet::SettingDifference(before.setting, run.setting))
          levels.push_back(*before.level);
      }
      Verdict& v = (*out)[run.job];
      v.history_runs = static_cast<double>(levels.size());
      if (levels.size() < fleet::kLeastRunsBefore) continue;
      std::ranges::sort(levels);
      const auto quantile = [&](double q) {
        const double place = q * static_cast<double>(levels.size() - 1);
        const auto below = static_cast<size_t>(place);
        const size_t above = std::min(below + 1, levels.size() - 1);
        const double part = place - static_cast<double>(below);
        return levels[below] + part * (levels[above] - levels[below]);
      };
      v.history_low = std::exp(quantile(.1));
      v.history_ofu = std::exp(quantile(.5));
      v.history_scatter = (quantile(.75) - quantile(.25)) / 1.349;  // of a normal distribution
    }
  }
}

}  // namespace flopwatch::alerts
