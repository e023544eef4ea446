// sync-storm: more than ten blocking calls a step after which the GPU is idle, or three and more a
// step that take more than 10 % of step time, with idle time of at least 5 % right after them. A
// wait that ends with work still running on the GPU costs nothing and does not count, however long:
// the Qwen trace spends a third of its step in one and is 92 % busy.
#include <fmt/format.h>

#include <algorithm>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kSyncsPerStep = 10, kSyncTimeShare = 0.10, kSyncIdleShare = 0.05;
// What a single wait a step is followed by (a checkpoint, the next batch) is not its doing.
constexpr double kLeastPerStep = 3;

RankCheck SyncStorm(const RankMeasures& m) {
  const EventTable& e = m.events;
  const bool any_call = std::any_of(e.category.begin(), e.category.end(), IsLaunchApi);
  if (!any_call) return CannotCheck("no runtime calls in the trace");
  int64_t drained = 0;
  Intervals waits, idle;
  TopNames callers;
  size_t gap = 0;
  TableVector<Row> syncs = m.syncs;
  std::sort(syncs.begin(), syncs.end(), [&](Row a, Row b) { return e.end(a) < e.end(b); });
  for (const Row r : syncs) {
    const Nanos end = e.end(r);
    while (gap < m.idle.size() && m.idle[gap].end <= end) ++gap;
    if (gap == m.idle.size() || m.idle[gap].begin > end)
      continue;  // the GPU is still busy when the call returns
    ++drained;
    waits.push_back({e.ts[r], end});
    // The GPU is idle from when it ran dry under the call to its next work.
    idle.push_back({std::max(m.idle[gap].begin, e.ts[r]), m.idle[gap].end});
    Row caller = e.op[r] != kNoRow ? e.op[r] : e.parent[r];
    if (caller != kNoRow && m.IsStepAnnotation(caller)) caller = kNoRow;
    callers.Add(e.name[caller == kNoRow ? r : caller], e.dur[r]);
  }
  const Nanos wait = Length(Intersect(Merge(std::move(waits)), m.windows));
  const IntervalSet right_after = Merge(std::move(idle));
  IntervalSet after = Subtract(right_after, m.loader);
  const double idle_share = m.Share(Length(after));
  const bool many = m.PerStep(static_cast<double>(drained)) > kSyncsPerStep;
  const bool few = m.PerStep(static_cast<double>(drained)) < kLeastPerStep;
  if (!many && (few || m.Share(wait) <= kSyncTimeShare || idle_share < kSyncIdleShare))
    return Nothing();
  if (m.HostCouldKeepAhead())
    after = Subtract(Union(right_after, m.UntilAhead(right_after)), m.loader);
  Finding f = FindingOf(m, fmt::format("{} blocking calls a step leave the GPU without work",
                                       NumberText(m.PerStep(static_cast<double>(drained)))));
  AddCount(&f, "draining_syncs_per_step", m.PerStep(static_cast<double>(drained)),
           fmt::format("{} of {} blocking calls return to an idle GPU", drained, m.syncs.size()));
  AddShare(&f, "sync_share", m.Share(wait),
           fmt::format("the host waits in them for {} of step time", PercentText(m.Share(wait))));
  AddShare(&f, "idle_after_share", idle_share,
           fmt::format("the GPU is idle after them for {} of step time", PercentText(idle_share)));
  f.top = callers.Texts(m.names);
  SetGain(&f, m, Length(after),
          "idle time from the moment the GPU ran dry under such a call to its next work, and until "
          "the host is ahead again where it could be");
  SayProfilerCost(&f, m);
  PointTo(&f, m, Longest(after));
  f.advice =
      "Avoid .item(), .cpu(), nonzero, masks as indices and prints of tensors in the step; keep "
      "values on the GPU and fetch them in batches; use non_blocking copies and events instead of "
      "synchronize.";
  f.source = "PyTorch performance tuning guide, avoid unnecessary CPU-GPU synchronization";
  return Found(std::move(f), after);
}

}  // namespace flopwatch::trace::rules
