// data-starvation (TensorBoard plugin's rule at 5 %): getting the next batch takes more than 5 % of
// step time, or the longest idle gap lies by more than half under it in at least half of the steps,
// and that is at least 2 % of step time (a job whose GPU is never idle has a longest gap too). What
// can be gained is only the loading during which the GPU was idle.
#include <fmt/format.h>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kLoadShare = 0.05, kStarvedGapShare = 0.5, kStarvedStepsShare = 0.5,
                 kLeastIdle = 0.02;

RankCheck DataStarvation(const RankMeasures& m) {
  if (m.loader.empty())
    return CannotCheck("no operator, annotation or Python frame of a data loader in the trace");
  const Nanos load = Length(m.loader), idle = Length(m.loader_idle);
  int64_t under = 0, steps = 0;
  for (const int32_t s : m.steps) {
    const Step& step = m.rank.steps[static_cast<size_t>(s)];
    ++steps;
    const Interval longest =
        Longest(Subtract({{step.begin, step.end}}, Clip(m.view.busy(), step.begin, step.end)));
    under += static_cast<double>(LengthWithin(m.loader, longest.begin, longest.end)) >
             kStarvedGapShare * static_cast<double>(longest.end - longest.begin);
  }
  const bool gaps_say =
      steps > 0 && under >= kStarvedStepsShare * steps && m.Share(idle) >= kLeastIdle;
  if (m.Share(load) <= kLoadShare && !gaps_say) return Nothing();

  const Interval worst = Longest(m.loader_idle.empty() ? m.loader : m.loader_idle);
  TopNames names;
  const EventTable& e = m.events;
  NameKinds<bool> loading(m.names);
  RankMeasures::Cursor in(m.loader);
  for (Row r = 0; r < e.size(); ++r) {
    const Category c = e.category[r];
    if (!IsHostBlock(c) || !in.Contains(e.ts[r])) continue;
    if (loading.Of(e.name[r], [c](std::string_view name) { return IsDataLoading(name, c); }))
      names.Add(e.name[r], e.dur[r]);
  }
  Finding f = FindingOf(m, fmt::format("Data loading takes {} of step time; the GPU is idle in {}",
                                       PercentText(m.Share(load)), PercentText(m.Share(idle))));
  AddShare(&f, "data_loading_share", m.Share(load),
           fmt::format("the data loader's next batch takes {} of step time",
                       PercentText(m.Share(load))));
  AddTime(&f, "data_loading_per_step_us", static_cast<Nanos>(m.PerStep(load)),
          fmt::format("{} a step", DurationText(static_cast<Nanos>(m.PerStep(load)))));
  AddShare(&f, "idle_under_loading_share", m.Share(idle),
           fmt::format("the GPU is idle under it for {} of step time", PercentText(m.Share(idle))));
  if (steps > 0)
    AddCount(&f, "steps_with_longest_gap_under_loading", under,
             fmt::format("in {} of {} steps the longest idle gap lies under data loading", under,
                         steps));
  f.top = names.Texts(m.names);
  SetGain(&f, m, idle,
          "time in which the data loader ran and the GPU was idle: prefetching hides it at best");
  PointTo(&f, m, worst);
  f.advice =
      "Raise the data loader's num_workers and prefetch_factor, keep workers alive "
      "(persistent_workers), pin memory, move decoding to the GPU or beforehand, and check the "
      "storage.";
  f.source =
      "PyTorch TensorBoard plugin, data loader rule; Facebook GPU fleet paper, bottlenecks at the "
      "CPU";
  return Found(std::move(f), m.loader_idle);
}

}  // namespace flopwatch::trace::rules
