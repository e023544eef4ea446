#include "fleet/regressions/regressions.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "fleet/regressions/measured.h"

namespace flopwatch::fleet {
namespace {

// The chance, for each workflow and metric, of a change where there is none. Two metrics, runs and
// what is set otherwise: below the one per cent that may be wrong.
constexpr double kOfuAlpha = .006, kDutyAlpha = .001;
double AlphaOf(ChangeMetric metric) {
  return metric == ChangeMetric::kOfu ? kOfuAlpha : kDutyAlpha;
}
// No scatter below this is believed: sampling alone moves a short run so much.
constexpr double kLeastScatter = .005;
// A change is one where it is so many times what a single run scatters.
constexpr double kLeastOverScatter = 2;
// One or two runs are believed where they lost as much as this.
constexpr double kLargeDrop = .4, kLargeOverScatter = 8, kLargeMostScatter = .1;
constexpr size_t kRunsAfter = 3;
// Whether most of what follows is below nearly all that was before, as no distribution with a long
// tail would have it by chance.
bool StandsApart(const std::vector<double>& values, const LevelChange& c) {
  std::vector<double> before(values.begin() + static_cast<std::ptrdiff_t>(c.at - c.before_n),
                             values.begin() + static_cast<std::ptrdiff_t>(c.at));
  std::vector<double> after(values.begin() + static_cast<std::ptrdiff_t>(c.at),
                            values.begin() + static_cast<std::ptrdiff_t>(c.at + c.after_n));
  // Nor are there more than a tenth before that look like those after: it began before them.
  const double like_after = c.after + (c.before - c.after) / 4;
  const auto low = std::ranges::count_if(before, [&](double v) { return v < like_after; });
  if (static_cast<size_t>(low) > before.size() / 10) return false;
  // And hardly any after that look like those before.
  const double like_before = c.before - (c.before - c.after) / 4;
  const auto high = std::ranges::count_if(after, [&](double v) { return v > like_before; });
  if (static_cast<size_t>(high) > after.size() / 10) return false;
  std::ranges::sort(before);
  return MedianValue(std::move(after)) < before[before.size() / 20];
}

// The scatter of restless workflows has tails: their changes must be clearer.
constexpr double kRestless = .05, kRestlessAlpha = .001;
// Of brief runs the start alone may lower the duty by some per cent.
constexpr double kLeastBriefDuty = .12;

// A drop within a run is so many times what the levels scatter that runs begin with: phases that
// are drawn from the same levels are not so far apart.
constexpr double kDropOverScatter = 4;
// Where hardly any other run is long, a drop is so many times what any of these shifts, and has so
// many steps on either side.
constexpr double kOverAnyShift = 1.5;
constexpr size_t kLeastSide = 5;
// On one GPU people try things, and its level changes with what they try; several that work
// together run one program. So a drop of a run on one GPU must be as large as this.
constexpr double kLeastDropAlone = .16;

// Settings with what a run does not say taken from the runs before it, else after it: a job that
// ended before its first report was no other program.
std::vector<RunSetting> SettingsOf(const WorkflowRuns& workflow) {
  std::vector<RunSetting> out;
  out.reserve(workflow.runs.size());
  for (const WorkflowRun& run : workflow.runs) out.push_back(run.setting);
  const auto fill = [&](RunSetting* to, const RunSetting& from) {
    if (to->gpus <= 0) to->gpus = from.gpus;
    for (std::string RunSetting::*const m :
         {&RunSetting::gpu_model, &RunSetting::model, &RunSetting::precision})
      if ((to->*m).empty()) to->*m = from.*m;
  };
  for (size_t k = 1; k < out.size(); ++k) fill(&out[k], out[k - 1]);
  for (size_t k = out.size(); k-- > 1;) fill(&out[k - 1], out[k]);
  return out;
}

std::string TextOf(const RunSetting& s, ChangeCause cause) {
  switch (cause) {
    case ChangeCause::kGpuCount:
      return std::to_string(s.gpus);
    case ChangeCause::kGpuModel:
      return s.gpu_model;
    case ChangeCause::kModel:
      return s.model;
    default:
      return s.precision;
  }
}

class WorkflowJudge {
 public:
  WorkflowJudge(const WorkflowRuns& workflow, size_t index, const RegressionOptions& options,
                std::vector<Regression>* out)
      : workflow_(workflow), index_(index), options_(options), out_(out) {
    settings_ = SettingsOf(workflow);
    const size_t first = workflow.runs.size() - std::min(workflow.runs.size(), kMostRuns);
    for (size_t k = first; k < workflow.runs.size(); ++k) {
      if (auto m = MeasureRun(workflow.runs[k], k)) {
        m->setting = &settings_[k];
        measured_.push_back(*std::move(m));
      }
    }
    for (size_t k = 0; k < measured_.size(); ++k) {
      const auto same = std::ranges::find_if(groups_, [&](const std::vector<size_t>& g) {
        return !SettingDifference(*measured_[g.front()].setting, *measured_[k].setting);
      });
      if (same != groups_.end()) {
        same->push_back(k);
      } else if (groups_.size() < kMostSettings) {
        groups_.push_back({k});
      }
    }
  }

  size_t measured() const { return measured_.size(); }
  // Whether any setting has so many runs that a change could be seen.
  bool can_judge() const {
    return std::ranges::any_of(groups_, [](const auto& g) { return g.size() > kLeastRunsBefore; });
  }

  std::vector<SeriesVariance> Variances(ChangeMetric metric) const {
    std::vector<SeriesVariance> out;
    for (const auto& all : groups_) {
      const std::vector<size_t> g = With(all, metric);
      if (g.size() > kLeastRunsBefore) out.push_back(VarianceOf(ValuesOf(g, metric)));
    }
    return out;
  }

  void Across(ChangeMetric metric, const ScatterPrior& prior) {
    ChangeOptions change{.min_before = kLeastRunsBefore,
                         .min_after = kRunsAfter,
                         .alpha = AlphaOf(metric),
                         .least_scatter = kLeastScatter,
                         .prior = prior};
    for (const auto& all : groups_) {
      const std::vector<size_t> g = With(all, metric);
      const std::vector<double> values = ValuesOf(g, metric);
      std::vector<LevelChange> changes = FindChanges(values, change);
      // Of duty one run says nothing: it may hold GPUs that it never uses.
      if (metric == ChangeMetric::kOfu) AddNewest(values, changes, change, &changes);
      for (const LevelChange& c : changes) {
        const double drop = c.before - c.after;
        if (drop < std::max(-std::log1p(-options_.min_change), kLeastOverScatter * c.scatter) ||
            !StandsApart(values, c) || (c.scatter > kRestless && c.p > kRestlessAlpha))
          continue;
        if (metric == ChangeMetric::kDuty && drop < kLeastBriefDuty && AnyBrief(g, c)) continue;
        Add(g, c, metric, std::nullopt);
      }
    }
    if (metric == ChangeMetric::kOfu) Otherwise(change);
  }

  // Drops within runs, held against how far the workflow's other runs shift by themselves.
  void Within(ChangeMetric metric) {
    const double alpha =
        AlphaOf(metric) / static_cast<double>(std::max<size_t>(1, measured_.size()));
    std::vector<StepSeries> series;
    std::vector<std::optional<double>> shifts;
    std::vector<double> begins;  // levels that runs begin with: what dropped later is not in them
    for (const MeasuredRun& m : measured_) {
      series.push_back(SeriesOf(workflow_.runs[m.run], metric));
      const std::vector<double>& values = series.back().values;
      shifts.push_back(ShiftOf(values));
      if (shifts.back()) {
        begins.push_back(MedianValue(
            {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4 + 1)}));
      }
    }
    const bool few = begins.size() <= kLeastRunsBefore;
    const double scatter = few ? 0 : std::sqrt(VarianceOf(begins).variance);
    for (size_t k = 0; k < measured_.size(); ++k) {
      if (!shifts[k]) continue;
      std::vector<double> others;
      for (size_t o = 0; o < measured_.size() && others.size() < kMostOthers; ++o)
        if (o != k && shifts[o]) others.push_back(*shifts[o]);
      if (few) {
        WithinOfFew(metric, k, series[k], others, alpha);
        continue;
      }
      std::optional<double> least = LeastDrop(std::move(others));
      // Phases that differ make runs differ: most runs may have one alone.
      if (least) least = std::max(*least, kDropOverScatter * scatter);
      if (least && measured_[k].setting->gpus == 1)
        least = std::max(*least, -std::log1p(-kLeastDropAlone));
      // A run that does not shift so far has no such drop.
      if (!least || *shifts[k] < *least / 2) continue;
      if (const auto c = DropWithin(series[k].values, *least, alpha, options_.min_change))
        AddWithin(measured_[k], metric, *c, series[k]);
    }
  }

 private:
  static constexpr size_t kMostSettings = 64;  // of a workflow that are told apart
  static constexpr size_t kMostOthers = 200;   // runs that say how far one usually shifts

  // A workflow whose runs are too short, all but a few, to say how far one shifts: the levels of
  // those before say what it reaches. The run must begin among them and end below all of them.
  void WithinOfFew(ChangeMetric metric, size_t k, const StepSeries& series,
                   const std::vector<double>& shifts, double alpha) {
    std::vector<double> levels;
    for (size_t o = 0; o < k; ++o) {
      if (SettingDifference(*measured_[o].setting, *measured_[k].setting)) continue;
      if (const auto v = ValueOf(measured_[o], metric)) levels.push_back(*v);
    }
    if (levels.size() < kLeastRunsBefore) return;
    const double scatter = std::max(kLeastScatter, std::sqrt(VarianceOf(levels).variance));
    double least = std::max(kDropOverScatter * scatter, -std::log1p(-kLeastDropAlone));
    for (const double shift : shifts) least = std::max(least, kOverAnyShift * shift);
    const auto c = DropWithin(series.values, least, alpha, options_.min_change);
    const size_t side = std::max(kLeastSide, series.values.size() / 6);
    if (!c || c->at < side || series.values.size() - c->at < side) return;  // a pause, to its end
    std::ranges::sort(levels);
    const double middle = levels[levels.size() / 2];
    if (std::abs(c->before - middle) > 2 * scatter || c->after > levels.front() - 3 * scatter)
      return;
    AddWithin(measured_[k], metric, *c, series);
  }

  std::vector<double> ValuesOf(const std::vector<size_t>& group, ChangeMetric metric) const {
    std::vector<double> values;
    values.reserve(group.size());
    for (const size_t k : group) values.push_back(ValueOf(measured_[k], metric).value_or(0));
    return values;
  }

  // Those that have it.
  std::vector<size_t> With(const std::vector<size_t>& group, ChangeMetric metric) const {
    std::vector<size_t> out;
    for (const size_t k : group)
      if (ValueOf(measured_[k], metric)) out.push_back(k);
    return out;
  }

  bool AnyBrief(const std::vector<size_t>& group, const LevelChange& c) const {
    for (size_t k = c.at - c.before_n; k < c.at + c.after_n; ++k)
      if (measured_[group[k]].brief) return true;
    return false;
  }

  // One or two newest runs that lost so much that no more of them are needed.
  void AddNewest(const std::vector<double>& values, const std::vector<LevelChange>& known,
                 ChangeOptions change, std::vector<LevelChange>* out) const {
    size_t begin = 0;
    for (const LevelChange& c : known) begin = std::max(begin, c.at);
    for (size_t after = 2; after >= 1; --after) {
      if (values.size() < begin + kLeastRunsBefore + after) continue;
      change.min_after = after;
      change.min_before = values.size() - begin - after;
      const auto found = FindChanges(absl::MakeConstSpan(values).subspan(begin), change);
      if (found.empty()) continue;
      LevelChange c = found.front();
      const double drop = c.before - c.after;
      if (drop < -std::log1p(-kLargeDrop) || drop < kLargeOverScatter * c.scatter ||
          c.scatter > kLargeMostScatter)
        continue;
      c.at += begin;
      out->push_back(c);  // whether it stands apart is asked of all
      return;
    }
  }

  // From one setting to the next: what changed with it is named after it.
  void Otherwise(const ChangeOptions& change) {
    for (size_t at = 1; at < measured_.size(); ++at) {
      const auto cause = SettingDifference(*measured_[at - 1].setting, *measured_[at].setting);
      if (!cause) continue;
      const auto alike = [&](size_t k, size_t as) {
        return !SettingDifference(*measured_[k].setting, *measured_[as].setting);
      };
      size_t first = at, end = at;
      while (first > 0 && at - first < kLongestSide && alike(first - 1, at - 1)) --first;
      while (end < measured_.size() && end - at < kLongestSide && alike(end, at)) ++end;
      if (at - first < kLeastRunsBefore || end - at < kRunsAfter) continue;
      std::vector<size_t> group;
      for (size_t k = first; k < end; ++k) group.push_back(k);
      ChangeOptions here = change;
      here.min_before = at - first;
      here.min_after = end - at;
      const auto found = FindChanges(ValuesOf(group, ChangeMetric::kOfu), here);
      if (found.empty()) continue;
      const LevelChange& c = found.front();
      const double step = std::abs(c.before - c.after);
      if (step < std::max(-std::log1p(-options_.min_change), kLeastOverScatter * c.scatter))
        continue;
      Add(group, c, ChangeMetric::kOfu, cause);
    }
  }

  void Add(const std::vector<size_t>& group, const LevelChange& c, ChangeMetric metric,
           std::optional<ChangeCause> otherwise) {
    Regression f;
    f.workflow = index_;
    f.metric = metric;
    WorkSums before, after;
    for (size_t k = c.at - c.before_n; k < c.at; ++k) before += measured_[group[k]].sums;
    for (size_t k = c.at; k < c.at + c.after_n; ++k) after += measured_[group[k]].sums;
    f.first = measured_[group[c.at - c.before_n]].run;
    f.at = measured_[group[c.at]].run;
    f.end = measured_[group[c.at + c.after_n - 1]].run + 1;
    f.runs_before = c.before_n;
    f.runs_after = c.after_n;
    f.from = workflow_.runs[f.at].from;
    Fill(before, after, c, &f);
    if (metric == ChangeMetric::kDuty) {
      f.before = MeanDuty(group, c.at - c.before_n, c.at);
      f.after = MeanDuty(group, c.at, c.at + c.after_n);
    }
    // What typical runs lost the GPU time must have lost too: short runs alone say little.
    if (!otherwise && f.after > f.before * (1 + f.change / 2)) return;
    if (otherwise) {
      f.cause = *otherwise;
      f.set_before = TextOf(settings_[measured_[group[c.at - 1]].run], *otherwise);
      f.set_after = TextOf(settings_[f.at], *otherwise);
      f.lost_gpu_seconds = 0;
    }
    out_->push_back(std::move(f));
  }

  double MeanDuty(const std::vector<size_t>& group, size_t from, size_t to) const {
    double sum = 0, weight = 0;
    for (size_t k = from; k < to; ++k) {
      const MeasuredRun& m = measured_[group[k]];
      sum += std::exp(m.duty.value_or(0)) * m.sums.busy_s;
      weight += m.sums.busy_s;
    }
    return weight > 0 ? sum / weight : 0;
  }

  void Fill(const WorkSums& before, const WorkSums& after, const LevelChange& c,
            Regression* f) const {
    f->before = MetricOf(before, f->metric).value_or(0);
    f->after = MetricOf(after, f->metric).value_or(0);
    f->change = std::expm1(c.after - c.before);
    f->scatter = std::expm1(c.scatter);
    f->confidence = std::clamp(1 - c.p, 0.0, .9999);
    f->gpu_seconds = after.busy_s;
    f->lost_gpu_seconds = std::max(0.0, -f->change) * after.busy_s;
    f->factors_before = FactorsOf(before);
    f->factors_after = FactorsOf(after);
    f->cause = FamilyOf(f->metric, f->factors_before, f->factors_after);
  }

  void AddWithin(const MeasuredRun& m, ChangeMetric metric, const LevelChange& c,
                 const StepSeries& series) {
    Regression f;
    f.workflow = index_;
    f.metric = metric;
    f.within_run = true;
    f.first = f.at = m.run;
    f.end = m.run + 1;
    f.from = series.steps[c.at]->at;
    WorkSums before, after;
    for (size_t k = 0; k < series.steps.size(); ++k)
      (k < c.at ? before : after) += series.steps[k]->sums;
    f.runs_before = c.at;
    f.runs_after = series.steps.size() - c.at;
    Fill(before, after, c, &f);
    out_->push_back(std::move(f));
  }

  const WorkflowRuns& workflow_;
  const size_t index_;
  const RegressionOptions& options_;
  std::vector<Regression>* out_;
  std::vector<RunSetting> settings_;
  std::vector<MeasuredRun> measured_;
  std::vector<std::vector<size_t>> groups_;  // of measured runs, by what was set
};

// Less duty lowers OFU too, but not OFU while a kernel runs; where both fell at one run, the one
// that lost more is the finding.
void DropDoubles(std::vector<Regression>* findings) {
  std::ranges::stable_sort(*findings, [](const Regression& a, const Regression& b) {
    return std::tuple(a.workflow, a.at, a.within_run, a.change) <
           std::tuple(b.workflow, b.at, b.within_run, b.change);
  });
  const auto doubles = std::ranges::unique(*findings, [](const Regression& a, const Regression& b) {
    return a.workflow == b.workflow && a.at == b.at && a.within_run == b.within_run;
  });
  findings->erase(doubles.begin(), doubles.end());
}

}  // namespace

std::optional<ChangeCause> SettingDifference(const RunSetting& a, const RunSetting& b) {
  // The most telling first. What one does not say is no difference.
  const auto differ = [](const std::string& x, const std::string& y) {
    return !x.empty() && !y.empty() && x != y;
  };
  if (differ(a.gpu_model, b.gpu_model)) return ChangeCause::kGpuModel;
  if (differ(a.model, b.model)) return ChangeCause::kModel;
  if (differ(a.precision, b.precision)) return ChangeCause::kPrecision;
  if (a.gpus > 0 && b.gpus > 0 && a.gpus != b.gpus) return ChangeCause::kGpuCount;
  return std::nullopt;
}

RegressionJudgement JudgeWorkflows(absl::Span<const WorkflowRuns> workflows,
                                   const RegressionOptions& options) {
  RegressionJudgement out;
  out.workflows = workflows.size();
  std::vector<WorkflowJudge> judges;
  judges.reserve(workflows.size());
  for (size_t k = 0; k < workflows.size(); ++k) {
    judges.emplace_back(workflows[k], k, options, &out.findings);
    out.runs += workflows[k].runs.size();
    out.runs_judged += judges.back().measured();
    if (judges.back().can_judge()) {
      ++out.judged;
    } else if (workflows[k].runs.size() > kLeastRunsBefore &&
               judges.back().measured() <= kLeastRunsBefore) {
      ++out.not_measured;
    } else {
      ++out.too_few_runs;
    }
  }
  for (const ChangeMetric metric : {ChangeMetric::kOfu, ChangeMetric::kDuty}) {
    std::vector<SeriesVariance> variances;
    for (const WorkflowJudge& j : judges)
      for (const SeriesVariance& v : j.Variances(metric)) {
        variances.push_back(v);
        variances.back().variance =
            std::max(variances.back().variance, kLeastScatter * kLeastScatter);
      }
    const ScatterPrior prior = PriorOf(variances);
    if (metric == ChangeMetric::kOfu) out.usual_scatter = std::sqrt(prior.variance);
    for (WorkflowJudge& j : judges) j.Across(metric, prior);
    if (!options.within_runs) continue;
    for (WorkflowJudge& j : judges) j.Within(metric);
  }
  DropDoubles(&out.findings);
  std::ranges::stable_sort(out.findings, [](const Regression& a, const Regression& b) {
    if (IsRegression(a.cause) != IsRegression(b.cause)) return IsRegression(a.cause);
    return a.lost_gpu_seconds > b.lost_gpu_seconds;
  });
  return out;
}

}  // namespace flopwatch::fleet
