// gc-pause: at least two idle gaps of more than 5 ms under Python's garbage collection, or in which
// the launching threads have no event at all (collection, the global interpreter lock held by
// another thread, the process not scheduled).
#include <fmt/format.h>

#include <algorithm>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

constexpr Nanos kPause = 5'000'000;
constexpr size_t kRepeated = 2;
constexpr int kMaxParentsAtPause = 256;  // of the row at a gap that are looked at
constexpr double kSilent = 0.10;         // of the gap may lie under events
constexpr double kFrame =
    1.5;  // an event longer than this many gaps is a frame around everything and says nothing

}  // namespace

RankCheck GcPause(const RankMeasures& m) {
  const EventTable& e = m.events;
  if (m.gpu.empty()) return CannotCheck("no GPU work in the trace");
  if (std::none_of(m.launches.begin(), m.launches.end(), [](bool b) { return b; }))
    return CannotCheck(
        "no launch calls linked to GPU work in the trace: the thread that should be busy is not "
        "known");
  Intervals pauses;
  int64_t named = 0;
  for (const Interval& gap : m.idle) {
    const auto mostly = [&](const IntervalSet& set) {
      return 2 * LengthWithin(set, gap.begin, gap.end) > gap.end - gap.begin;
    };
    // Inside a call that synchronises the host waits; that is no pause of its own, and neither is
    // what the profiler does, or a block that says that it writes.
    if (gap.end - gap.begin <= kPause || mostly(m.loader) || mostly(m.blocking) ||
        mostly(m.profiler) || mostly(m.output))
      continue;
    if (mostly(m.collection)) {
      ++named;
      pauses.push_back(gap);
      continue;
    }
    const double length = static_cast<double>(gap.end - gap.begin);
    Intervals events;
    const auto look = [&](Row r) {
      const Category c = e.category[r];
      const bool block = IsHostBlock(c);
      if ((!block && !IsLaunchApi(c)) || !m.launches[e.thread[r]] || m.IsStepAnnotation(r)) return;
      const Interval inside{std::max(gap.begin, e.ts[r]), std::min(gap.end, e.end(r))};
      if (static_cast<double>(e.dur[r]) <= kFrame * length) events.push_back(inside);
    };
    Row around = m.HostRowAt(gap.begin);
    for (int i = 0; i < kMaxParentsAtPause && around != kNoRow; ++i, around = e.parent[around])
      look(around);
    for (Row r = m.FirstFrom(gap.begin); r < e.size() && e.ts[r] < gap.end; ++r) look(r);
    if (static_cast<double>(Length(Merge(std::move(events)))) < kSilent * length)
      pauses.push_back(gap);
  }
  if (pauses.size() < kRepeated) return Nothing();
  const Nanos time = Length(pauses);
  Finding f = FindingOf(
      m, fmt::format("{} pauses of more than 5 ms without a sign of the host", pauses.size()));
  if (named > 0)
    f.title = fmt::format("{} pauses of more than 5 ms, {} of them in garbage collection",
                          pauses.size(), named);
  AddCount(&f, "pauses", static_cast<double>(pauses.size()),
           fmt::format("{} idle gaps of more than 5 ms", pauses.size()));
  AddCount(&f, "pauses_in_garbage_collection", static_cast<double>(named),
           fmt::format("{} of them under garbage collection", named));
  AddTime(&f, "pause_time_us", time, fmt::format("{} together", DurationText(time)));
  SetGain(&f, m, time, "these gaps, if nothing else filled them");
  PointTo(&f, m, Longest(pauses));
  f.advice =
      named > 0
          ? "Freeze long-lived objects (gc.freeze()) and collect at chosen moments (gc.disable(), "
            "gc.collect() every N steps, on all ranks at once)."
          : "Record Python stacks (with_stack) to see what the host does in them; look for other "
            "threads that hold the interpreter lock and for an overcommitted CPU.";
  f.source = "Megatron-LM --manual-gc; docs/traces.md, How findings are judged";
  if (named < static_cast<int64_t>(pauses.size()))
    f.uncertain.push_back(
        "the trace does not say what the host did in these gaps; Python stacks (with_stack) or a "
        "CPU profile would");
  return Found(std::move(f), Merge(std::move(pauses)));
}

}  // namespace flopwatch::trace::rules
