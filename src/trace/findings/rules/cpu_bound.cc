// cpu-bound: the GPU is idle more than 30 % of the time (10 % where nothing that the trace shows
// could be the reason), more than half of the gaps on its streams
// end with work that was launched only after the stream had run dry (host wait), and the launching
// threads neither wait nor load data in more than 80 % of the idle time. What they do is shown by
// their operators and calls, or by nothing: Python between operators is not recorded without
// stacks. The profiler's own events are not the host being busy.
#include <fmt/format.h>

#include <algorithm>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kCpuBoundIdleShare = 0.30, kUnseenIdleShare = 0.10, kHostWaitShare = 0.50,
                 kBusyShare = 0.80;
constexpr size_t kLookedAt = 200;  // longest gaps whose covering operator is named

namespace {

// A pause of one step (the profiler's start among them) is no way of working.
bool InHalfOfTheSteps(const RankMeasures& m, const IntervalSet& unseen) {
  size_t with = 0;
  for (const int32_t s : m.steps) {
    const Step& step = m.rank.steps[static_cast<size_t>(s)];
    with += static_cast<double>(LengthWithin(unseen, step.begin, step.end)) >
            kUnseenIdleShare * static_cast<double>(step.end - step.begin);
  }
  return !m.has_steps || 2 * with >= m.steps.size();
}

}  // namespace

RankCheck CpuBound(const RankMeasures& m) {
  if (m.gpu.empty()) return CannotCheck("no GPU work in the trace");
  if (std::none_of(m.launches.begin(), m.launches.end(), [](bool b) { return b; }))
    return CannotCheck("no launch calls linked to GPU work in the trace");
  const double host_wait = m.stream_gaps > 0 ? static_cast<double>(m.host_wait) / m.stream_gaps : 0;
  const IntervalSet covered = Intersect(Subtract(m.idle_rest, m.profiler), m.host_busy);
  const Nanos rest = Length(Subtract(m.idle_rest, m.profiler));
  IntervalSet unseen = Subtract(Subtract(m.idle_rest, m.profiler), m.host_busy);
  unseen = Subtract(unseen, Union(m.waiting, Union(m.output, m.collection)));
  if (!InHalfOfTheSteps(m, unseen)) unseen.clear();
  const IntervalSet host = Union(covered, unseen);
  const double busy = rest > 0 ? static_cast<double>(Length(host)) / rest : 0;
  const bool shown = Length(covered) >= Length(unseen);
  if (m.idle_rest_share <= (shown ? kCpuBoundIdleShare : kUnseenIdleShare) ||
      host_wait <= kHostWaitShare || busy <= kBusyShare)
    return Nothing();

  Intervals gaps(m.idle_rest.begin(), m.idle_rest.end());
  const size_t keep = std::min(gaps.size(), kLookedAt);
  std::partial_sort(
      gaps.begin(), gaps.begin() + static_cast<ptrdiff_t>(keep), gaps.end(),
      [](const Interval& a, const Interval& b) { return a.end - a.begin > b.end - b.begin; });
  TopNames covering;
  for (size_t i = 0; i < keep; ++i) {
    const Row r = m.HostRowAt(gaps[i].begin + (gaps[i].end - gaps[i].begin) / 2);
    if (r != kNoRow) covering.Add(m.events.name[r], gaps[i].end - gaps[i].begin);
  }
  Finding f = FindingOf(
      m, shown
             ? fmt::format("The GPU is idle in {} of the step while the launching threads are busy",
                           PercentText(m.Share(Length(host))))
             : fmt::format("The GPU is idle in {} of the step, and launches come late; what the "
                           "host does before them is mostly not in the trace",
                           PercentText(m.Share(Length(host)))));
  AddShare(&f, "idle_share", m.idle_rest_share,
           fmt::format("GPU idle {} without data loading", PercentText(m.idle_rest_share)));
  AddShare(
      &f, "host_wait_share", host_wait,
      fmt::format("{} of the gaps on streams end with work launched after the stream had run dry",
                  PercentText(host_wait)));
  const double seen = rest > 0 ? static_cast<double>(Length(covered)) / rest : 0;
  AddShare(&f, "host_busy_share", seen,
           fmt::format("launching threads busy in {} of the idle time", PercentText(seen)));
  AddShare(&f, "host_unseen_share", busy - seen,
           fmt::format("without any event in {} of it", PercentText(busy - seen)));
  AddTime(
      &f, "longest_gap_us", gaps.empty() ? 0 : gaps[0].end - gaps[0].begin,
      fmt::format("longest gap {}", DurationText(gaps.empty() ? 0 : gaps[0].end - gaps[0].begin)));
  f.top = covering.Texts(m.names);
  SetGain(&f, m, Length(host),
          "idle time in which the launching threads neither waited nor loaded data, all of it "
          "hidden if the host were fast enough");
  PointTo(&f, m, gaps.empty() ? Interval{} : gaps[0]);
  f.advice =
      shown
          ? "Do less on the launching thread: move transforms to the GPU or to worker threads, "
            "compile (torch.compile, CUDA graphs), use fused optimizers, or give each launch more "
            "work with a larger batch."
          : "Record Python stacks (with_stack) or sample the process to see what runs between the "
            "launches: loops over elements, tokenisation, logging, a lock that another thread "
            "holds; move it off the launching thread.";
  f.source =
      "Facebook GPU fleet paper, case studies: bottlenecks at the CPU cause high GPU idle time";
  SayProfilerCost(&f, m);
  if (!m.rank.with_stack)
    f.uncertain.push_back(
        "Python stacks (with_stack) would name the code that keeps the host busy");
  return Found(std::move(f), host);
}

}  // namespace flopwatch::trace::rules
