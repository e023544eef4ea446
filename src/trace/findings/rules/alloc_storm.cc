// alloc-storm: cudaMalloc, cudaFree, cudaHostAlloc and the like more than five times or for more
// than 1 % of the time in at least half of the steady steps. The first step is left out where there
// are others: it fills the caching allocator.
#include <fmt/format.h>

#include <algorithm>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr int64_t kCalls = 5;
constexpr double kAllocTimeShare = 0.01, kAllocStepsShare = 0.5, kLikeTheOthers = 1.5;

namespace {

struct PerStep {
  int64_t calls = 0;
  Nanos time = 0;
};

// The calls of the steady steps, and the time that they take of themselves.
struct Calls {
  std::vector<PerStep> per_step;  // by index of the trace's steps
  int64_t count = 0;
  Intervals time, time_of_first;  // cudaFree waits for the GPU first: not that
  Intervals whole;                // with that
  TopNames names;
  Row longest = kNoRow;
};

Calls CallsOf(const RankMeasures& m, size_t from) {
  const EventTable& e = m.events;
  Calls c;
  c.per_step.resize(m.rank.steps.size());
  std::vector<bool> steady(m.rank.steps.size(), false);
  for (size_t i = from; i < m.steps.size(); ++i) steady[static_cast<size_t>(m.steps[i])] = true;
  for (Row r = 0; r < e.size(); ++r) {
    if (e.step[r] == kNoStep || m.CallOf(r) != CallKind::kAllocate) continue;
    const Interval own = m.OwnPart(r);
    c.whole.push_back({e.ts[r], e.end(r)});
    if (from > 0 && e.step[r] == m.steps[0]) c.time_of_first.push_back(own);
    if (!steady[static_cast<size_t>(e.step[r])]) continue;
    PerStep& p = c.per_step[static_cast<size_t>(e.step[r])];
    ++p.calls;
    ++c.count;
    p.time += own.end - own.begin;
    c.names.Add(e.name[r], own.end - own.begin);
    c.time.push_back(own);
    if (c.longest == kNoRow || e.dur[r] > e.dur[c.longest]) c.longest = r;
  }
  return c;
}

}  // namespace

RankCheck AllocStorm(const RankMeasures& m) {
  const EventTable& e = m.events;
  if (!m.has_steps)
    return CannotCheck(
        "the trace has no steps: first iterations, which must allocate, cannot be told from steady "
        "ones");
  if (std::none_of(e.category.begin(), e.category.end(), IsLaunchApi))
    return CannotCheck("no runtime calls in the trace");
  const size_t from = m.steps.size() > 1 ? 1 : 0;
  Calls c = CallsOf(m, from);
  int64_t stormy = 0;
  Nanos steady_time = 0;
  for (size_t i = from; i < m.steps.size(); ++i) {
    const auto s = static_cast<size_t>(m.steps[i]);
    const Nanos length = m.rank.steps[s].end - m.rank.steps[s].begin;
    steady_time += length;
    stormy += c.per_step[s].calls > kCalls || c.per_step[s].time > kAllocTimeShare * length;
  }
  const auto counted = static_cast<double>(m.steps.size() - from);
  if (c.count == 0 || static_cast<double>(stormy) < kAllocStepsShare * counted) return Nothing();
  // Steps that all allocate alike have no special first one: what it lost counts too.
  if (static_cast<double>(c.time_of_first.size()) <=
      kLikeTheOthers * static_cast<double>(c.count) / counted)
    c.time.insert(c.time.end(), c.time_of_first.begin(), c.time_of_first.end());
  const Nanos time = Length(Merge(Intervals(c.time.begin(), c.time.begin() + c.count)));
  const IntervalSet calls_time = Merge(std::move(c.time));
  // The host has no lead when such a call returns: a gap that it ends in costs until the next work.
  IntervalSet open;
  for (const IdleGap& gap : m.gaps) {
    const IntervalSet under = Clip(calls_time, gap.at.begin, gap.at.end);
    if (!under.empty()) open.push_back({under.front().begin, gap.at.end});
  }
  if (m.HostCouldKeepAhead(Merge(std::move(c.whole)))) open = Union(open, m.UntilAhead(open));
  open = Subtract(open, m.loader);
  Finding f = FindingOf(m, fmt::format("{} allocations from the driver a steady step",
                                       NumberText(static_cast<double>(c.count) / counted)));
  AddCount(&f, "allocation_calls_per_step", static_cast<double>(c.count) / counted,
           fmt::format("{} calls in {} steady steps", c.count, NumberText(counted)));
  AddTime(&f, "allocation_time_us", time,
          fmt::format("{} in them, {} of these steps", DurationText(time),
                      PercentText(steady_time > 0 ? static_cast<double>(time) / steady_time : 0)));
  AddCount(&f, "steps", stormy,
           fmt::format("in {} of {} steady steps", stormy, NumberText(counted)));
  f.top = c.names.Texts(m.names);
  AddShare(&f, "idle_share", m.Share(Length(open)),
           fmt::format("the GPU is idle under and right after them for {} of step time",
                       PercentText(m.Share(Length(open)))));
  SetGain(
      &f, m, Length(open),
      "idle time from when what was launched before had ended, under these calls and to the next "
      "work, and until the host is ahead again where it could be");
  PointTo(&f, m, {e.ts[c.longest], e.end(c.longest)});
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
