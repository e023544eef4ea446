#include "fleet/regressions/regressions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>


namespace flopwatch::fleet {
namespace {

// A step in which kernels run and tensor work is below this part of the run's usual one is no work
// of the run: it hangs, or waits at a barrier. Far below the largest regression that was seen (2.5
// times), and such time is the idle ledger's.
constexpr double kStalledBelow = .1;
// The chance, for each workflow and metric, of a change where there is none. Two metrics, runs and
// what is set otherwise: below the one per cent that may be wrong.
constexpr double kAlpha = .002;
// No scatter below this is believed: sampling alone moves a short run so much.
constexpr double kLeastScatter = .005;
// A change is one where it is so many times what a single run scatters.
constexpr double kLeastOverScatter = 2;
// One or two runs are believed where they lost as much as this.
constexpr double kLargeDrop = .4, kLargeOverScatter = 8, kLargeMostScatter = .1;
constexpr size_t kRunsAfter = 3;
// Steps of a run between its first and its last one, of which duty is measured.
constexpr size_t kLeastInnerSteps = 4;
// Runs that do nearly no tensor work are not measured by it.
constexpr double kLeastOfu = .01;
// Within one run: blocks of work are compared, and not steps, because a healthy run goes through
// phases; neighbouring blocks are often of one phase.
constexpr Micros kBlock = kMicrosPerHour;
constexpr size_t kBlocksOnASide = 2, kLeastDifferences = 8;
constexpr double kBlocksAlike = 2, kBlockOverScatter = 3, kLeastBlockScatter = .02;
// What blocks scatter where neither the workflow nor enough others say.
constexpr double kUnknownScatter = .2;
constexpr size_t kLeastScatters = 10;
// Of normal values so many standard deviations hold nine tenths.
constexpr double kNineTenths = 1.645;

// A run that can be measured.
struct Measured {
  size_t run;  // in the workflow
  WorkSums sums;
  double ofu = 0;              // logarithm
  std::optional<double> duty;  // likewise; none of a run that is hardly more than its start
  const RunSetting* setting = nullptr;
};

std::optional<double> ValueOf(const Measured& m, Metric metric) {
  return metric == Metric::kOfu ? m.ofu : m.duty;
}

std::optional<double> MetricOf(const WorkSums& s, Metric metric) {
  return metric == Metric::kOfu ? s.BusyOfu() : s.Duty();
}

// The steps of a run in which it worked.
std::vector<const RunStep*> WorkOf(const Run& run) {
  std::vector<double> values;
  for (const RunStep& s : run.steps)
    if (const auto ofu = s.sums.BusyOfu()) values.push_back(*ofu);
  std::ranges::sort(values);
  // The upper quartile: a run may hang for most of its time.
  const double usual = values.empty() ? 0 : values[values.size() * 3 / 4];
  std::vector<const RunStep*> work;
  for (const RunStep& s : run.steps) {
    const auto ofu = s.sums.BusyOfu();
    if (ofu && *ofu >= kStalledBelow * usual) work.push_back(&s);
  }
  return work;
}

// The duty that a quarter of the run's work is above. Where some of a job's GPUs pause while others
// work, the mean is lower in those steps; data that comes too late lowers all of them.
double UsualDuty(const std::vector<const RunStep*>& work) {
  std::vector<std::pair<double, double>> steps;  // duty, weight
  double all = 0;
  for (const RunStep* s : work) {
    if (const auto duty = s->sums.Duty()) steps.emplace_back(*duty, s->sums.busy_s);
    all += s->sums.busy_s;
  }
  std::ranges::sort(steps, std::greater());
  double above = 0;
  for (const auto& [duty, weight] : steps) {
    above += weight;
    if (above >= all / 4) return duty;
  }
  return 0;
}

std::optional<Measured> Measure(const Run& run, size_t index) {
  Measured m{.run = index, .sums = {}, .setting = nullptr};
  const std::vector<const RunStep*> work = WorkOf(run);
  for (const RunStep* s : work) m.sums += s->sums;
  const auto ofu = m.sums.BusyOfu();
  // The first and the last step have the start and the end of the run in them.
  double duty = 0;
  if (work.size() >= kLeastInnerSteps + 2)
    duty = UsualDuty({work.begin() + 1, work.end() - 1});
  const double least =
      kLeastBusySeconds * static_cast<double>(std::max<int64_t>(1, run.setting.gpus));
  if (!ofu || *ofu < kLeastOfu || m.sums.busy_s < least) return std::nullopt;
  m.ofu = std::log(*ofu);
  if (duty > 0) m.duty = std::log(duty);
  return m;
}

// An hour of a run's work.
struct BlockOfRun {
  std::vector<const RunStep*> steps;
  WorkSums sums;
  double value = 0;  // logarithm
};

// Whether most of what follows is below nearly all that was before, as no distribution with a long
// tail would have it by chance.
bool StandsApart(const std::vector<double>& values, const Change& c) {
  std::vector<double> before(values.begin() + static_cast<std::ptrdiff_t>(c.at - c.before_n),
                             values.begin() + static_cast<std::ptrdiff_t>(c.at));
  std::vector<double> after(values.begin() + static_cast<std::ptrdiff_t>(c.at),
                            values.begin() + static_cast<std::ptrdiff_t>(c.at + c.after_n));
  std::ranges::sort(before);
  return MedianOf(std::move(after)) < before[before.size() / 20];
}

// Settings with what a run does not say taken from the runs before it, else after it: a job that
// ended before its first report was no other program.
std::vector<RunSetting> SettingsOf(const Workflow& workflow) {
  std::vector<RunSetting> out;
  out.reserve(workflow.runs.size());
  for (const Run& run : workflow.runs) out.push_back(run.setting);
  const auto fill = [&](RunSetting* to, const RunSetting& from) {
    if (to->gpus <= 0) to->gpus = from.gpus;
    for (std::string RunSetting::*const m : {&RunSetting::gpu_model, &RunSetting::model,
                                             &RunSetting::precision})
      if ((to->*m).empty()) to->*m = from.*m;
  };
  for (size_t k = 1; k < out.size(); ++k) fill(&out[k], out[k - 1]);
  for (size_t k = out.size(); k-- > 1;) fill(&out[k - 1], out[k]);
  return out;
}

std::optional<Cause> DifferenceOf(const RunSetting& a, const RunSetting& b) {
  // The most telling first.
  if (a.gpu_model != b.gpu_model) return Cause::kGpuModel;
  if (a.model != b.model) return Cause::kModel;
  if (a.precision != b.precision) return Cause::kPrecision;
  if (a.gpus != b.gpus) return Cause::kGpuCount;
  return std::nullopt;
}

std::string TextOf(const RunSetting& s, Cause cause) {
  switch (cause) {
    case Cause::kGpuCount:
      return std::to_string(s.gpus);
    case Cause::kGpuModel:
      return s.gpu_model;
    case Cause::kModel:
      return s.model;
    default:
      return s.precision;
  }
}

class WorkflowJudge {
 public:
  WorkflowJudge(const Workflow& workflow, size_t index, const JudgeOptions& options,
                std::vector<Finding>* out)
      : workflow_(workflow), index_(index), options_(options), out_(out) {
    settings_ = SettingsOf(workflow);
    const size_t first =
        workflow.runs.size() - std::min(workflow.runs.size(), kMostRuns);
    for (size_t k = first; k < workflow.runs.size(); ++k) {
      if (auto m = Measure(workflow.runs[k], k)) {
        m->setting = &settings_[k];
        measured_.push_back(*std::move(m));
      }
    }
    for (size_t k = 0; k < measured_.size(); ++k) {
      const auto same = std::ranges::find_if(groups_, [&](const std::vector<size_t>& g) {
        return !DifferenceOf(*measured_[g.front()].setting, *measured_[k].setting);
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

  std::vector<SeriesVariance> Variances(Metric metric) const {
    std::vector<SeriesVariance> out;
    for (const auto& all : groups_) {
      const std::vector<size_t> g = With(all, metric);
      if (g.size() > kLeastRunsBefore) out.push_back(VarianceOf(ValuesOf(g, metric)));
    }
    return out;
  }

  void Across(Metric metric, const ScatterPrior& prior) {
    ChangeOptions change{.min_before = kLeastRunsBefore,
                         .min_after = kRunsAfter,
                         .alpha = kAlpha,
                         .least_scatter = kLeastScatter,
                         .prior = prior};
    for (const auto& all : groups_) {
      const std::vector<size_t> g = With(all, metric);
      const std::vector<double> values = ValuesOf(g, metric);
      std::vector<Change> changes = FindChanges(values, change);
      // Of duty one run says nothing: it may hold GPUs that it never uses.
      if (metric == Metric::kOfu) AddNewest(values, changes, change, &changes);
      for (const Change& c : changes) {
        const double drop = c.before - c.after;
        if (drop < std::max(-std::log1p(-options_.min_change), kLeastOverScatter * c.scatter) ||
            !StandsApart(values, c))
          continue;
        Add(g, c, metric, std::nullopt);
      }
    }
    if (metric == Metric::kOfu) Otherwise(change);
  }

  // Within each run; `usual_scatter` is that of blocks where the workflow itself cannot say.
  void Within(Metric metric, double usual_scatter) {
    for (size_t k = 0; k < measured_.size(); ++k) {
      const std::vector<double> others = DifferencesBut(k, metric);
      double scatter = usual_scatter;
      if (others.size() >= kLeastDifferences) scatter = ScatterOf(others);
      WithinRun(k, metric, std::max(scatter, kLeastBlockScatter));
    }
  }

  // How blocks of the workflow's runs differ; none where there are too few.
  std::optional<double> BlockScatter(Metric metric) {
    Block(metric);
    const std::vector<double> all = DifferencesBut(measured_.size(), metric);
    return all.size() >= kLeastDifferences ? std::optional<double>(ScatterOf(all)) : std::nullopt;
  }

 private:
  static constexpr size_t kMostSettings = 64;  // of a workflow that are told apart

  std::vector<double> ValuesOf(const std::vector<size_t>& group, Metric metric) const {
    std::vector<double> values;
    values.reserve(group.size());
    for (const size_t k : group) values.push_back(ValueOf(measured_[k], metric).value_or(0));
    return values;
  }

  // Those that have it.
  std::vector<size_t> With(const std::vector<size_t>& group, Metric metric) const {
    std::vector<size_t> out;
    for (const size_t k : group)
      if (ValueOf(measured_[k], metric)) out.push_back(k);
    return out;
  }

  // One or two newest runs that lost so much that no more of them are needed.
  void AddNewest(const std::vector<double>& values, const std::vector<Change>& known,
                 ChangeOptions change, std::vector<Change>* out) const {
    size_t begin = 0;
    for (const Change& c : known) begin = std::max(begin, c.at);
    for (size_t after = 2; after >= 1; --after) {
      if (values.size() < begin + kLeastRunsBefore + after) continue;
      change.min_after = after;
      change.min_before = values.size() - begin - after;
      const auto found = FindChanges(absl::MakeConstSpan(values).subspan(begin), change);
      if (found.empty()) continue;
      Change c = found.front();
      const double drop = c.before - c.after;
      if (drop < -std::log1p(-kLargeDrop) || drop < kLargeOverScatter * c.scatter ||
          c.scatter > kLargeMostScatter)
        continue;
      c.at += begin;
      out->push_back(c);
      return;
    }
  }

  // From one setting to the next: what changed with it is named after it.
  void Otherwise(const ChangeOptions& change) {
    for (size_t at = 1; at < measured_.size(); ++at) {
      const auto cause = DifferenceOf(*measured_[at - 1].setting, *measured_[at].setting);
      if (!cause) continue;
      const auto alike = [&](size_t k, size_t as) {
        return !DifferenceOf(*measured_[k].setting, *measured_[as].setting);
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
      const auto found = FindChanges(ValuesOf(group, Metric::kOfu), here);
      if (found.empty()) continue;
      const Change& c = found.front();
      const double step = std::abs(c.before - c.after);
      if (step < std::max(-std::log1p(-options_.min_change), kLeastOverScatter * c.scatter))
        continue;
      Add(group, c, Metric::kOfu, cause);
    }
  }

  void Add(const std::vector<size_t>& group, const Change& c, Metric metric,
           std::optional<Cause> otherwise) {
    Finding f;
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
    if (metric == Metric::kDuty) {
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
      const Measured& m = measured_[group[k]];
      sum += std::exp(m.duty.value_or(0)) * m.sums.busy_s;
      weight += m.sums.busy_s;
    }
    return weight > 0 ? sum / weight : 0;
  }

  void Fill(const WorkSums& before, const WorkSums& after, const Change& c, Finding* f) const {
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

  // Blocks of work of each run.
  void Block(Metric metric) {
    blocks_.assign(measured_.size(), {});
    for (size_t k = 0; k < measured_.size(); ++k) {
      const Run& run = workflow_.runs[measured_[k].run];
      if (run.steps.size() < 2) continue;
      Micros length = run.steps[1].at - run.steps[0].at;
      for (size_t s = 1; s < run.steps.size(); ++s)
        length = std::min(length, run.steps[s].at - run.steps[s - 1].at);
      const auto steps = static_cast<size_t>(std::max<Micros>(1, kBlock / std::max<Micros>(1, length)));
      std::vector<const RunStep*> work = WorkOf(run);
      double longest = 0;
      for (const RunStep* s : work) longest = std::max(longest, s->sums.busy_s);
      // A step that is half a pause has edges in it.
      std::erase_if(work, [&](const RunStep* s) { return s->sums.busy_s < longest / 2; });
      for (size_t at = 0; at + steps <= work.size(); at += steps) {
        BlockOfRun& b = blocks_[k].emplace_back();
        b.steps.assign(work.begin() + static_cast<std::ptrdiff_t>(at),
                       work.begin() + static_cast<std::ptrdiff_t>(at + steps));
        for (const RunStep* s : b.steps) b.sums += s->sums;
        const double v =
            metric == Metric::kOfu ? b.sums.BusyOfu().value_or(0) : UsualDuty(b.steps);
        if (!(v > 0)) {
          blocks_[k].pop_back();
          continue;
        }
        b.value = std::log(v);
      }
    }
  }

  // Between blocks that are two apart, in runs other than `but`.
  std::vector<double> DifferencesBut(size_t but, Metric) const {
    std::vector<double> out;
    for (size_t k = 0; k < blocks_.size(); ++k) {
      if (k == but) continue;
      for (size_t b = 2; b < blocks_[k].size(); ++b)
        out.push_back(std::abs(blocks_[k][b].value - blocks_[k][b - 2].value));
    }
    return out;
  }

  static double ScatterOf(std::vector<double> differences) {
    const auto at = differences.begin() +
                    static_cast<std::ptrdiff_t>(differences.size() * 9 / 10);
    std::nth_element(differences.begin(), at, differences.end());
    return *at / (kNineTenths * std::sqrt(2.0));
  }

  void WithinRun(size_t k, Metric metric, double least_scatter) {
    const std::vector<BlockOfRun>& blocks = blocks_[k];
    if (blocks.size() < 2 * kBlocksOnASide) return;
    std::vector<double> values;
    for (const BlockOfRun& b : blocks) values.push_back(b.value);
    const ChangeOptions options{
        .min_before = kBlocksOnASide,
        .min_after = kBlocksOnASide,
        .alpha = kAlpha / static_cast<double>(std::max<size_t>(1, measured_.size())),
        .least_scatter = least_scatter,
        .alike = kBlocksAlike,
        .prior = {}};
    for (const Change& c : FindChanges(values, options)) {
      // It lasts: what comes after it is below what was before to the end of the run.
      std::vector<double> rest(values.begin() + static_cast<std::ptrdiff_t>(c.at), values.end());
      std::vector<double> past(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(c.at));
      std::ranges::sort(rest);
      std::ranges::sort(past);
      const double drop = c.before - std::max(c.after, MedianOf(rest));
      const double at_best = rest[rest.size() - 1 - rest.size() / 10];
      const double at_worst = past[past.size() / 10];
      if (drop < std::max(-std::log1p(-options_.min_change), kBlockOverScatter * c.scatter) ||
          at_best > c.before - drop / 2 || at_worst < c.before - drop / 2)
        continue;
      AddWithin(measured_[k], metric, c, blocks);
      return;
    }
  }

  void AddWithin(const Measured& m, Metric metric, const Change& c,
                 const std::vector<BlockOfRun>& blocks) {
    Finding f;
    f.workflow = index_;
    f.metric = metric;
    f.within_run = true;
    f.first = f.at = m.run;
    f.end = m.run + 1;
    // The moment: the step of the two blocks about the change that divides them best.
    std::vector<const RunStep*> near = blocks[c.at - 1].steps;
    near.insert(near.end(), blocks[c.at].steps.begin(), blocks[c.at].steps.end());
    f.from = blocks[c.at].steps.front()->at;
    double sum = 0, least = 0;
    for (const RunStep* s : near) {
      // Before this step is what was summed: so much better with it before than after.
      if (sum < least || s == near.front()) {
        least = sum;
        f.from = s->at;
      }
      const auto v = MetricOf(s->sums, metric);
      if (!v || !(*v > 0)) continue;
      const double y = std::log(*v);
      sum += (y - c.before) * (y - c.before) - (y - c.after) * (y - c.after);
    }
    WorkSums before, after;
    for (size_t b = 0; b < blocks.size(); ++b) (b < c.at ? before : after) += blocks[b].sums;
    f.runs_before = c.at;
    f.runs_after = blocks.size() - c.at;
    Fill(before, after, c, &f);
    out_->push_back(std::move(f));
  }

  const Workflow& workflow_;
  const size_t index_;
  const JudgeOptions& options_;
  std::vector<Finding>* out_;
  std::vector<RunSetting> settings_;
  std::vector<Measured> measured_;
  std::vector<std::vector<size_t>> groups_;  // of measured runs, by what was set
  std::vector<std::vector<BlockOfRun>> blocks_;  // of measured runs
};

// Less duty lowers OFU too, but not OFU while a kernel runs; where both fell at one run, the one
// that lost more is the finding.
void DropDoubles(std::vector<Finding>* findings) {
  std::ranges::stable_sort(*findings, [](const Finding& a, const Finding& b) {
    return std::tuple(a.workflow, a.at, a.within_run, a.change) <
           std::tuple(b.workflow, b.at, b.within_run, b.change);
  });
  const auto doubles = std::ranges::unique(*findings, [](const Finding& a, const Finding& b) {
    return a.workflow == b.workflow && a.at == b.at && a.within_run == b.within_run;
  });
  findings->erase(doubles.begin(), doubles.end());
}

}  // namespace

Judgement Judge(absl::Span<const Workflow> workflows, const JudgeOptions& options) {
  Judgement out;
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
  for (const Metric metric : {Metric::kOfu, Metric::kDuty}) {
    std::vector<SeriesVariance> variances;
    for (const WorkflowJudge& j : judges)
      for (const SeriesVariance& v : j.Variances(metric)) {
        variances.push_back(v);
        variances.back().variance =
            std::max(variances.back().variance, kLeastScatter * kLeastScatter);
      }
    const ScatterPrior prior = PriorOf(variances);
    if (metric == Metric::kOfu) out.usual_scatter = std::sqrt(prior.variance);
    for (WorkflowJudge& j : judges) j.Across(metric, prior);
    if (!options.within_runs) continue;
    std::vector<double> scatters;
    for (WorkflowJudge& j : judges)
      if (const auto s = j.BlockScatter(metric)) scatters.push_back(*s);
    // Where the workflow itself cannot say: more than nine of ten workflows show.
    std::ranges::sort(scatters);
    const double usual = scatters.size() < kLeastScatters ? kUnknownScatter
                                                          : scatters[scatters.size() * 9 / 10];
    for (WorkflowJudge& j : judges) j.Within(metric, usual);
  }
  DropDoubles(&out.findings);
  std::ranges::stable_sort(out.findings, [](const Finding& a, const Finding& b) {
    if (IsRegression(a.cause) != IsRegression(b.cause)) return IsRegression(a.cause);
    return a.lost_gpu_seconds > b.lost_gpu_seconds;
  });
  return out;
}

}  // namespace flopwatch::fleet
