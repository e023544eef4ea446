// step-variance: step times vary by more than 15 % (coefficient of variation), or one step takes
// more than 1.5 times the median. A slow first profiled step alone is a warm-up: it is not
// reported.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

constexpr size_t kLeastSteps = 3;
constexpr double kVariation = 0.15, kSlow = 1.5;

struct Parts {
  Nanos compute, exposed, memory, loading, other;
};

Parts PartsOf(const RankMeasures& m, const Step& s) {
  Parts p{};
  p.compute = LengthWithin(m.view.computing(), s.begin, s.end);
  p.exposed = LengthWithin(m.view.exposed_communication(), s.begin, s.end);
  const Nanos busy = LengthWithin(m.view.busy(), s.begin, s.end);
  p.memory = busy - p.compute - p.exposed;
  p.loading = LengthWithin(m.loader_idle, s.begin, s.end);
  p.other = s.end - s.begin - busy - p.loading;
  return p;
}

}  // namespace

RankCheck StepVariance(const RankMeasures& m) {
  if (m.steps.size() < kLeastSteps)
    return CannotCheck(
        fmt::format("{} complete steps in the trace; three are needed", m.steps.size()));
  std::vector<const Step*> by_time;
  for (const int32_t s : m.steps) by_time.push_back(&m.rank.steps[static_cast<size_t>(s)]);
  const auto length = [](const Step* s) { return s->end - s->begin; };
  const auto varies = [&](const std::vector<const Step*>& steps, double* variation,
                          double* slowest) {
    std::vector<double> t;
    double sum = 0, squares = 0;
    for (const Step* s : steps) t.push_back(static_cast<double>(length(s))), sum += t.back();
    const double mean = sum / static_cast<double>(t.size());
    for (const double x : t) squares += (x - mean) * (x - mean);
    std::ranges::sort(t);
    const double median =
        t.size() % 2 == 1 ? t[t.size() / 2] : (t[t.size() / 2 - 1] + t[t.size() / 2]) / 2;
    *variation = mean > 0 ? std::sqrt(squares / static_cast<double>(t.size() - 1)) / mean : 0;
    *slowest = median > 0 ? t.back() / median : 1;
    return *variation > kVariation || *slowest > kSlow;
  };
  double variation = 0, slowest = 0;
  if (!varies(by_time, &variation, &slowest)) return Nothing();
  std::vector<const Step*> later(by_time.begin() + 1, by_time.end());
  double later_variation = 0, later_slowest = 0;
  if (later.size() >= 2 && !varies(later, &later_variation, &later_slowest)) return Nothing();

  std::ranges::stable_sort(by_time,
                           [&](const Step* a, const Step* b) { return length(a) < length(b); });
  const Step* median = by_time[(by_time.size() - 1) / 2];
  const Step* worst = by_time.back();
  Nanos above = 0;
  std::vector<Claim> claims;
  for (const Step* s : by_time) {
    const Nanos more = length(s) - length(median);
    if (more <= 0) continue;
    above += more;
    claims.push_back({.time = {{s->begin, s->end}},
                      .share = static_cast<double>(more) / static_cast<double>(length(s))});
  }
  const Parts slow = PartsOf(m, *worst), usual = PartsOf(m, *median);
  std::vector<std::pair<Nanos, std::string_view>> grew = {
      {slow.compute - usual.compute, "computation"},
      {slow.exposed - usual.exposed, "exposed communication"},
      {slow.memory - usual.memory, "copies"},
      {slow.loading - usual.loading, "data loading"},
      {slow.other - usual.other, "other idle time"}};
  std::ranges::stable_sort(grew, [](const auto& a, const auto& b) { return a.first > b.first; });
  Finding f =
      FindingOf(m, fmt::format("Step times vary by {}; the slowest takes {:.2f} times the median",
                               PercentText(variation), slowest));
  AddShare(&f, "variation", variation,
           fmt::format("coefficient of variation {} over {} steps", PercentText(variation),
                       by_time.size()));
  AddTime(&f, "median_step_us", length(median),
          fmt::format("median step {}", DurationText(length(median))));
  AddTime(&f, "slowest_step_us", length(worst),
          fmt::format("slowest step, {}: {}", worst->number, DurationText(length(worst))));
  AddText(&f, "grew_most", std::string(grew[0].second),
          fmt::format("in it {} is longer by {} than in step {}", grew[0].second,
                      DurationText(grew[0].first), median->number));
  for (const auto& [time, what] : grew)
    if (time > 0 && f.top.size() < 3)
      f.top.push_back(fmt::format("{} (+{})", what, DurationText(time)));
  SetGain(&f, m, above, "time by which steps exceed the median step");
  PointTo(&f, m, {worst->begin, worst->end});
  f.step = worst->number;
  f.advice =
      "Look at the slow step for what the others do not have: evaluation, a checkpoint, garbage "
      "collection, a longer batch, a busy host.";
  f.source = "docs/traces.md, How findings are judged";
  RankCheck check = Found(std::move(f));
  check.claims = std::move(claims);
  return check;
}

}  // namespace flopwatch::trace::rules
