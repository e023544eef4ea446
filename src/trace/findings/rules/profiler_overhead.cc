// profiler-overhead: the profiler's own events (CUPTI buffers, lazy loading of functions) fill more
// than 20 % of step time. Says how far to trust the trace; the job without the profiler does not
// have this cost. Python frames are the program's own time, and a slow first step may be a warm-up:
// neither is blamed on the profiler, though both stand beside it as evidence.
#include <fmt/format.h>

#include <algorithm>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kProfilerShare = 0.20;

RankCheck ProfilerOverhead(const RankMeasures& m) {
  const EventTable& e = m.events;
  Intervals overhead;
  IntervalSet python,
      work;  // of the launching threads; rows come by time, so both grow at their end
  int64_t frames = 0;
  const auto append = [](IntervalSet* set, Nanos begin, Nanos end) {
    if (!set->empty() && begin <= set->back().end) {
      set->back().end = std::max(set->back().end, end);
    } else if (end > begin) {
      set->push_back({begin, end});
    }
  };
  TopNames names;
  for (Row r = 0; r < e.size(); ++r) {
    const Category c = e.category[r];
    if (c == Category::kOverhead) {
      overhead.push_back({e.ts[r], e.end(r)});
      names.Add(e.name[r], e.dur[r]);
      continue;
    }
    if (!m.launches[e.thread[r]]) continue;
    if (c == Category::kPythonFunction) {
      ++frames;
      append(&python, e.ts[r], e.end(r));
    } else if (c == Category::kCpuOp || IsLaunchApi(c)) {
      append(&work, e.ts[r], e.end(r));
    }
  }
  const Nanos own = Length(Intersect(Merge(std::move(overhead)), m.windows));
  const Nanos python_only = Length(Intersect(Subtract(python, work), m.windows));
  double first = 0;
  if (m.steps.size() >= 3) {
    std::vector<Nanos> later;
    for (size_t i = 1; i < m.steps.size(); ++i) {
      const Step& s = m.rank.steps[static_cast<size_t>(m.steps[i])];
      later.push_back(s.end - s.begin);
    }
    std::sort(later.begin(), later.end());
    const Step& s = m.rank.steps[static_cast<size_t>(m.steps[0])];
    const Nanos median = later[later.size() / 2];
    if (median > 0) first = static_cast<double>(s.end - s.begin) / static_cast<double>(median);
  }
  if (m.Share(own) <= kProfilerShare) return Nothing();
  Finding f = FindingOf(
      m, fmt::format("The profiler's own events fill {} of step time", PercentText(m.Share(own))));
  AddShare(
      &f, "overhead_share", m.Share(own),
      fmt::format("the profiler's own events fill {} of step time", PercentText(m.Share(own))));
  AddShare(
      &f, "python_share", m.Share(python_only),
      fmt::format("Python frames outside operators fill {}", PercentText(m.Share(python_only))));
  AddCount(&f, "python_frames_per_step", m.PerStep(static_cast<double>(frames)),
           fmt::format("{} Python frames recorded", frames));
  if (first > 0)
    AddCount(&f, "first_step_ratio", first,
             fmt::format("the first profiled step takes {:.2f} times a later one", first));
  f.top = names.Texts(m.names);
  f.gain = 0;
  f.gain_basis =
      "the job without the profiler does not pay this; idle time in the trace may be partly its "
      "doing";
  const Step* s = m.steps.empty() ? nullptr : &m.rank.steps[static_cast<size_t>(m.steps[0])];
  PointTo(&f, m, s == nullptr ? m.view.gpu_span() : Interval{s->begin, s->end});
  f.advice =
      "Profile shorter windows with warm-up steps (schedule(wait, warmup, active)), without stacks "
      "and shapes unless they are needed.";
  f.source = "Facebook GPU fleet paper, on demand tracing: warm-up and overhead";
  return Found(std::move(f));
}

}  // namespace flopwatch::trace::rules
