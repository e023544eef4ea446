// alloc-storm: cudaMalloc, cudaFree, cudaHostAlloc and the like more than five times or for more
// than 1 % of the time in at least half of the steady steps. The first step is left out where there
// are others: it fills the caching allocator.
#include <fmt/format.h>

#include <algorithm>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr int64_t kCalls = 5;
constexpr double kAllocTimeShare = 0.01, kAllocStepsShare = 0.5;

RankCheck AllocStorm(const RankMeasures& m) {
  const EventTable& e = m.events;
  if (!m.has_steps)
    return CannotCheck(
        "the trace has no steps: first iterations, which must allocate, cannot be told from steady "
        "ones");
  if (std::none_of(e.category.begin(), e.category.end(), IsLaunchApi))
    return CannotCheck("no runtime calls in the trace");
  const size_t from = m.steps.size() > 1 ? 1 : 0;
  struct PerStep {
    int64_t calls = 0;
    Nanos time = 0;
  };
  std::vector<PerStep> per_step(m.rank.steps.size());
  std::vector<bool> steady(m.rank.steps.size(), false);
  for (size_t i = from; i < m.steps.size(); ++i) steady[static_cast<size_t>(m.steps[i])] = true;
  TopNames names;
  std::vector<Interval> touched;
  Row longest = kNoRow;
  int64_t calls = 0;
  for (Row r = 0; r < e.size(); ++r) {
    if (e.step[r] == kNoStep || !steady[static_cast<size_t>(e.step[r])] ||
        m.CallOf(r) != CallKind::kAllocate)
      continue;
    PerStep& p = per_step[static_cast<size_t>(e.step[r])];
    ++p.calls;
    ++calls;
    const Interval own = m.OwnPart(r);  // cudaFree waits for the GPU first
    p.time += own.end - own.begin;
    names.Add(e.name[r], own.end - own.begin);
    touched.push_back(own);
    if (longest == kNoRow || e.dur[r] > e.dur[longest]) longest = r;
  }
  int64_t stormy = 0;
  Nanos steady_time = 0;
  for (size_t i = from; i < m.steps.size(); ++i) {
    const auto s = static_cast<size_t>(m.steps[i]);
    const Nanos length = m.rank.steps[s].end - m.rank.steps[s].begin;
    steady_time += length;
    stormy += per_step[s].calls > kCalls || per_step[s].time > kAllocTimeShare * length;
  }
  const auto counted = static_cast<double>(m.steps.size() - from);
  if (calls == 0 || static_cast<double>(stormy) < kAllocStepsShare * counted) return Nothing();
  const IntervalSet calls_time = Merge(std::move(touched));
  const IntervalSet open = Intersect(calls_time, m.idle);
  const Nanos time = Length(calls_time);
  Finding f = FindingOf(m, fmt::format("{} allocations from the driver a steady step",
                                       NumberText(static_cast<double>(calls) / counted)));
  AddCount(&f, "allocation_calls_per_step", static_cast<double>(calls) / counted,
           fmt::format("{} calls in {} steady steps", calls, NumberText(counted)));
  AddTime(&f, "allocation_time_us", time,
          fmt::format("{} in them, {} of these steps", DurationText(time),
                      PercentText(steady_time > 0 ? static_cast<double>(time) / steady_time : 0)));
  AddCount(&f, "steps", stormy,
           fmt::format("in {} of {} steady steps", stormy, NumberText(counted)));
  f.top = names.Texts(m.names);
  AddShare(&f, "idle_share", m.Share(Length(open)),
           fmt::format("the GPU is idle under them for {} of step time",
                       PercentText(m.Share(Length(open)))));
  SetGain(
      &f, m, Length(open),
      "the time of these calls after what was launched before had ended, while the GPU was idle");
  PointTo(&f, m, {e.ts[longest], e.end(longest)});
  f.advice =
      "Let the caching allocator keep memory (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True), "
      "avoid empty_cache() in the loop, keep shapes constant or padded, allocate pinned buffers "
      "once.";
  f.source = "PyTorch notes on CUDA memory management";
  if (from == 0)
    f.uncertain.push_back("the trace has one complete step, which may be the job's first");
  return Found(std::move(f), open);
}

}  // namespace flopwatch::trace::rules
