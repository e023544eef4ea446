#include "fleet/regressions/measured.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace flopwatch::fleet {
namespace {

// A step in which kernels run and tensor work is below this part of the run's usual one is no work
// of the run: it hangs, or waits at a barrier. Far below the largest regression that was seen (2.5
// times), and such time is the idle ledger's.
constexpr double kStalledBelow = .1;
// Steps of a run between its first and its last one, of which duty is measured where there are so
// many.
constexpr size_t kLeastInnerSteps = 4;
// The part of a step that a run worked in for its duty to count.
constexpr double kWholeStep = .75;
// Within one run: steps on either side of a place, and of the whole.
constexpr size_t kStepsOnASide = 3, kLeastSteps = 8;
// A healthy run goes through phases, and how far it shifts with them other runs show. A drop is so
// many times what half of them do, and more than nearly all of them do: all but two or a tenth,
// because others may have dropped too. It is several times the scatter of steps.
constexpr size_t kLeastShifts = 5, kMostDropped = 2;
constexpr double kOverUsualShift = 4, kOverLargestShift = 1.5, kOverStepScatter = 3;
// No scatter of steps below this is believed, and nothing smaller is a drop within a run: phases of
// a healthy one differ by several per cent.
constexpr double kLeastStepScatter = .005, kLeastDropWithin = .1;
// Nor is a drop from less than this: where tensor work is incidental it comes and goes.
constexpr double kLeastOfuBeforeDrop = .05;

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

}  // namespace

std::vector<const RunStep*> WorkSteps(const WorkflowRun& run) {
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

std::optional<MeasuredRun> MeasureRun(const WorkflowRun& run, size_t index) {
  MeasuredRun m;
  m.run = index;
  const std::vector<const RunStep*> work = WorkSteps(run);
  for (const RunStep* s : work) m.sums += s->sums;
  const auto ofu = m.sums.BusyOfu();
  // The first and the last step have the start and the end of the run in them; steps with pauses
  // have their edges.
  m.brief = work.size() < kLeastInnerSteps + 2;
  std::vector<const RunStep*> whole =
      m.brief ? work : std::vector<const RunStep*>(work.begin() + 1, work.end() - 1);
  const double full =
      ToSeconds(run.step) * static_cast<double>(std::max<int64_t>(1, run.setting.gpus));
  std::erase_if(whole, [&](const RunStep* s) { return s->sums.busy_s < kWholeStep * full; });
  const double duty = UsualDuty(whole);
  const double least =
      kLeastBusySeconds * static_cast<double>(std::max<int64_t>(1, run.setting.gpus));
  if (!ofu || *ofu < kLeastOfu || m.sums.busy_s < least) return std::nullopt;
  m.ofu = std::log(*ofu);
  if (duty > 0) m.duty = std::log(duty);
  return m;
}

StepSeries SeriesOf(const WorkflowRun& run, ChangeMetric metric) {
  StepSeries out;
  const std::vector<const RunStep*> work = WorkSteps(run);
  double longest = 0;
  for (const RunStep* s : work) longest = std::max(longest, s->sums.busy_s);
  for (const RunStep* s : work) {
    const auto v = MetricOf(s->sums, metric);
    // A step that is half a pause has edges in it.
    if (!v || !(*v > 0) || s->sums.busy_s < longest / 2) continue;
    out.steps.push_back(s);
    out.values.push_back(std::log(*v));
  }
  return out;
}

std::optional<double> ShiftOf(const std::vector<double>& values) {
  const size_t n = values.size();
  if (n < kLeastSteps) return std::nullopt;
  // A level of few steps is hardly one.
  const size_t side = std::max(kStepsOnASide, n / 6);
  double all = 0, before = 0, most = 0;
  for (const double v : values) all += v;
  for (size_t at = 1; at + side <= n; ++at) {
    before += values[at - 1];
    if (at < side) continue;
    const double shift =
        before / static_cast<double>(at) - (all - before) / static_cast<double>(n - at);
    most = std::max(most, std::abs(shift));
  }
  return most;
}

std::optional<double> LeastDrop(std::vector<double> shifts) {
  if (shifts.size() < kLeastShifts) return std::nullopt;
  std::ranges::sort(shifts);
  const size_t n = shifts.size();
  return std::max(kOverUsualShift * shifts[n / 2],
                  kOverLargestShift * shifts[n - 1 - std::max(kMostDropped, n / 10)]);
}

std::optional<LevelChange> DropWithin(const std::vector<double>& values, double least_drop,
                                      double alpha, double min_change) {
  if (values.size() < kLeastSteps) return std::nullopt;
  const ChangeOptions options{.min_before = kStepsOnASide,
                              .min_after = kStepsOnASide,
                              .alpha = alpha,
                              .least_scatter = kLeastStepScatter,
                              .prior = {}};
  std::optional<LevelChange> found;
  for (const LevelChange& c : FindChanges(values, options)) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(c.at);
    std::vector<double> past(values.begin(), middle), rest(middle, values.end());
    const double before = MedianValue(past), after = MedianValue(rest), drop = before - after;
    if (before < std::log(kLeastOfuBeforeDrop)) continue;
    if (drop < std::max({-std::log1p(-min_change), kLeastDropWithin, kOverStepScatter * c.scatter,
                         least_drop}))
      continue;
    // It lasts: nearly all after it is below the middle, and nearly all before it above.
    std::ranges::sort(past);
    std::ranges::sort(rest);
    if (rest[rest.size() - 1 - rest.size() / 10] > before - drop / 2 ||
        past[past.size() / 10] < before - drop / 2)
      continue;
    if (found && drop <= found->before - found->after) continue;
    found = c;
    found->before = before;
    found->after = after;
  }
  return found;
}

}  // namespace flopwatch::fleet
