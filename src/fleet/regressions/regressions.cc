#include "fleet/regressions/regressions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
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
constexpr double kChangeAlpha = .002;
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
struct MeasuredRun {
  size_t run = 0;  // in the workflow
  WorkSums sums;
  double ofu = 0;              // logarithm
  std::optional<double> duty;  // likewise; none of a run that is hardly more than its start
  const RunSetting* setting = nullptr;
};

std::optional<double> ValueOf(const MeasuredRun& m, ChangeMetric metric) {
  return metric == ChangeMetric::kOfu ? m.ofu : m.duty;
}

std::optional<double> MetricOf(const WorkSums& s, ChangeMetric metric) {
  return metric == ChangeMetric::kOfu ? s.BusyOfu() : s.Duty();
}

// The steps of a run in which it worked.
std::vector<const RunStep*> WorkOf(const WorkflowRun& run) {
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

std::optional<MeasuredRun> MeasureRun(const WorkflowRun& run, size_t index) {
  MeasuredRun m;
  m.run = index;
  const std::vector<const RunStep*> work = WorkOf(run);
  for (const RunStep* s : work) m.sums += s->sums;
  const auto ofu = m.sums.BusyOfu();
  // The first and the last step have the start and the end of the run in them.
  double duty = 0;
  if (work.size() >= kLeastInnerSteps + 2) duty = UsualDuty({work.begin() + 1, work.end() - 1});
  const double least =
      kLeastBusySeconds * static_cast<double>(std::max<int64_t>(1, run.setting.gpus));
  if (!ofu || *ofu < kLeastOfu || m.sums.busy_s < least) return std::nullopt;
  m.ofu = std::log(*ofu);
  if (duty > 0) m.duty = std::log(duty);
  return m;
}

// How power goes with work over the runs of one GPU model: a plane by least squares over OFU and SM
// activity.
class PowerPlane {
 public:
  void Add(const WorkSums& s) {
    const auto x = Point(s);
    if (!x) return;
    const std::array<double, 3> row = {1, (*x)[0], (*x)[1]};
    for (size_t i = 0; i < 3; ++i) {
      for (size_t k = 0; k < 3; ++k) left_[i][k] += row[i] * row[k];
      right_[i] += row[i] * *s.PowerW();
    }
    ++runs_;
  }

  // The power after, from that before; nothing from too few runs, or from runs that are all alike.
  std::optional<double> Expected(const WorkSums& before, const WorkSums& after) const {
    const auto a = Point(before), b = Point(after);
    if (runs_ < kLeastRunsForPower || !a || !b) return std::nullopt;
    const auto slopes = Solve();
    if (!slopes) return std::nullopt;
    return *before.PowerW() + (*slopes)[1] * ((*b)[0] - (*a)[0]) +
           (*slopes)[2] * ((*b)[1] - (*a)[1]);
  }

 private:
  static constexpr int kLeastRunsForPower = 30;

  static std::optional<std::array<double, 2>> Point(const WorkSums& s) {
    const auto ofu = s.Ofu(), sm = s.SmActive(), power = s.PowerW();
    if (!ofu || !sm || !power) return std::nullopt;
    return std::array<double, 2>{*ofu, *sm};
  }

  // Gauss, with pivots.
  std::optional<std::array<double, 3>> Solve() const {
    auto a = left_;
    auto x = right_;
    for (size_t i = 0; i < 3; ++i) {
      size_t pivot = i;
      for (size_t k = i + 1; k < 3; ++k)
        if (std::abs(a[k][i]) > std::abs(a[pivot][i])) pivot = k;
      if (std::abs(a[pivot][i]) < 1e-9 * left_[0][0]) return std::nullopt;
      std::swap(a[i], a[pivot]);
      std::swap(x[i], x[pivot]);
      for (size_t k = 0; k < 3; ++k) {
        if (k == i) continue;
        const double times = a[k][i] / a[i][i];
        for (size_t c = i; c < 3; ++c) a[k][c] -= times * a[i][c];
        x[k] -= times * x[i];
      }
    }
    for (size_t i = 0; i < 3; ++i) x[i] /= a[i][i];
    return x;
  }

  std::array<std::array<double, 3>, 3> left_{};
  std::array<double, 3> right_{};
  int runs_ = 0;
};
using PowerPlanes = std::map<std::string, PowerPlane>;  // by GPU model

// An hour of a run's work.
struct BlockOfRun {
  std::vector<const RunStep*> steps;
  WorkSums sums;
  double value = 0;  // logarithm
};

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
  std::ranges::sort(before);
  return MedianValue(std::move(after)) < before[before.size() / 20];
}

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
                std::vector<Regression>* out, PowerPlanes* powers)
      : workflow_(workflow), index_(index), options_(options), out_(out), powers_(powers) {
    settings_ = SettingsOf(workflow);
    const size_t first = workflow.runs.size() - std::min(workflow.runs.size(), kMostRuns);
    for (size_t k = first; k < workflow.runs.size(); ++k) {
      if (auto m = MeasureRun(workflow.runs[k], k)) {
        m->setting = &settings_[k];
        (*powers)[workflow.runs[k].setting.gpu_model].Add(m->sums);
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
                         .alpha = kChangeAlpha,
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
            !StandsApart(values, c))
          continue;
        Add(g, c, metric, std::nullopt);
      }
    }
    if (metric == ChangeMetric::kOfu) Otherwise(change);
  }

  // Within each run; `usual_scatter` is that of blocks where the workflow itself cannot say.
  void Within(ChangeMetric metric, double usual_scatter) {
    for (size_t k = 0; k < measured_.size(); ++k) {
      const std::vector<double> others = DifferencesBut(k, metric);
      double scatter = usual_scatter;
      if (others.size() >= kLeastDifferences) scatter = ScatterOf(others);
      WithinRun(k, metric, std::max(scatter, kLeastBlockScatter));
    }
  }

  // How blocks of the workflow's runs differ; none where there are too few.
  std::optional<double> BlockScatter(ChangeMetric metric) {
    Block(metric);
    const std::vector<double> all = DifferencesBut(measured_.size(), metric);
    return all.size() >= kLeastDifferences ? std::optional<double>(ScatterOf(all)) : std::nullopt;
  }

 private:
  static constexpr size_t kMostSettings = 64;  // of a workflow that are told apart

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
    const auto model = powers_->find(workflow_.runs[f->at].setting.gpu_model);
    if (model != powers_->end()) f->expected_power_w = model->second.Expected(before, after);
    f->cause = FamilyOf(f->metric, f->factors_before, f->factors_after, f->expected_power_w);
  }

  // Blocks of work of each run.
  void Block(ChangeMetric metric) {
    blocks_.assign(measured_.size(), {});
    for (size_t k = 0; k < measured_.size(); ++k) {
      const WorkflowRun& run = workflow_.runs[measured_[k].run];
      if (run.steps.size() < 2) continue;
      Micros length = run.steps[1].at - run.steps[0].at;
      for (size_t s = 1; s < run.steps.size(); ++s)
        length = std::min(length, run.steps[s].at - run.steps[s - 1].at);
      const auto steps =
          static_cast<size_t>(std::max<Micros>(1, kBlock / std::max<Micros>(1, length)));
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
            metric == ChangeMetric::kOfu ? b.sums.BusyOfu().value_or(0) : UsualDuty(b.steps);
        if (!(v > 0)) {
          blocks_[k].pop_back();
          continue;
        }
        b.value = std::log(v);
      }
    }
  }

  // Between blocks that are two apart, in runs other than `but`.
  std::vector<double> DifferencesBut(size_t but, ChangeMetric) const {
    std::vector<double> out;
    for (size_t k = 0; k < blocks_.size(); ++k) {
      if (k == but) continue;
      for (size_t b = 2; b < blocks_[k].size(); ++b)
        out.push_back(std::abs(blocks_[k][b].value - blocks_[k][b - 2].value));
    }
    return out;
  }

  static double ScatterOf(std::vector<double> differences) {
    const auto at = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() * 9 / 10);
    std::nth_element(differences.begin(), at, differences.end());
    return *at / (kNineTenths * std::sqrt(2.0));
  }

  void WithinRun(size_t k, ChangeMetric metric, double least_scatter) {
    const std::vector<BlockOfRun>& blocks = blocks_[k];
    if (blocks.size() < 2 * kBlocksOnASide) return;
    std::vector<double> values;
    for (const BlockOfRun& b : blocks) values.push_back(b.value);
    const ChangeOptions options{
        .min_before = kBlocksOnASide,
        .min_after = kBlocksOnASide,
        .alpha = kChangeAlpha / static_cast<double>(std::max<size_t>(1, measured_.size())),
        .least_scatter = least_scatter,
        .alike = kBlocksAlike,
        .prior = {}};
    for (const LevelChange& c : FindChanges(values, options)) {
      // It lasts: what comes after it is below what was before to the end of the run.
      std::vector<double> rest(values.begin() + static_cast<std::ptrdiff_t>(c.at), values.end());
      std::vector<double> past(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(c.at));
      std::ranges::sort(rest);
      std::ranges::sort(past);
      const double drop = c.before - std::max(c.after, MedianValue(rest));
      const double at_best = rest[rest.size() - 1 - rest.size() / 10];
      const double at_worst = past[past.size() / 10];
      if (drop < std::max(-std::log1p(-options_.min_change), kBlockOverScatter * c.scatter) ||
          at_best > c.before - drop / 2 || at_worst < c.before - drop / 2)
        continue;
      AddWithin(measured_[k], metric, c, blocks);
      return;
    }
  }

  void AddWithin(const MeasuredRun& m, ChangeMetric metric, const LevelChange& c,
                 const std::vector<BlockOfRun>& blocks) {
    Regression f;
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

  const WorkflowRuns& workflow_;
  const size_t index_;
  const RegressionOptions& options_;
  std::vector<Regression>* out_;
  const PowerPlanes* powers_;
  std::vector<RunSetting> settings_;
  std::vector<MeasuredRun> measured_;
  std::vector<std::vector<size_t>> groups_;      // of measured runs, by what was set
  std::vector<std::vector<BlockOfRun>> blocks_;  // of measured runs
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
  PowerPlanes powers;
  for (size_t k = 0; k < workflows.size(); ++k) {
    judges.emplace_back(workflows[k], k, options, &out.findings, &powers);
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
    std::vector<double> scatters;
    for (WorkflowJudge& j : judges)
      if (const auto s = j.BlockScatter(metric)) scatters.push_back(*s);
    // Where the workflow itself cannot say: more than nine of ten workflows show.
    std::ranges::sort(scatters);
    const double usual =
        scatters.size() < kLeastScatters ? kUnknownScatter : scatters[scatters.size() * 9 / 10];
    for (WorkflowJudge& j : judges) j.Within(metric, usual);
  }
  DropDoubles(&out.findings);
  std::ranges::stable_sort(out.findings, [](const Regression& a, const Regression& b) {
    if (IsRegression(a.cause) != IsRegression(b.cause)) return IsRegression(a.cause);
    return a.lost_gpu_seconds > b.lost_gpu_seconds;
  });
  return out;
}

}  // namespace flopwatch::fleet
