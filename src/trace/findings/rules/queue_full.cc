// queue-full: a stream's queue holds 1,000 launches and more for over 5 % of the span. The driver
// takes 1,024; then the launch call blocks. This is what a GPU-bound job looks like, so it is only
// said, not blamed.
#include <fmt/format.h>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr int64_t kFull = 1000;
constexpr double kQueueFullShare = 0.05;
// With more idle time than this the GPU is not what limits the job, whatever waited in its queue.
constexpr double kLimitIdle = 0.10;

RankCheck QueueFull(const RankMeasures& m) {
  const EventTable& e = m.events;
  const Interval span = m.view.gpu_span();
  struct Queue {
    int64_t length = 0, longest = 0;
    Nanos full_from = 0;
    Intervals full;
  };
  absl::flat_hash_map<int32_t, Queue> queues;
  bool any = false;
  for (Row r = 0; r < e.size(); ++r) {
    const bool call = IsLaunchApi(e.category[r]);
    if (!call && !IsGpuWork(e.category[r])) continue;
    const Row other = e.launch[r];
    if (other == kNoRow || !IsGpuWork(e.category[call ? other : r])) continue;
    // A call has one entry: of a graph's kernels the one that the call points to.
    if (!call && e.launch[other] != r) continue;
    any = true;
    Queue& q = queues[e.stream[call ? other : r]];
    if (call) {
      if (++q.length == kFull) q.full_from = e.ts[r];
      q.longest = std::max(q.longest, q.length);
    } else if (q.length > 0 && q.length-- == kFull) {
      q.full.push_back({q.full_from, e.ts[r]});
    }
  }
  if (!any) return CannotCheck("no launch calls linked to GPU work in the trace");
  const Queue* worst = nullptr;
  int32_t stream = kNoStream;
  Nanos most = 0;
  for (auto& [s, q] : queues) {
    const Nanos full = Length(q.full);
    if (full > most || (full == most && full > 0 && s < stream)) {
      most = full;
      worst = &q;
      stream = s;
    }
  }
  if (worst == nullptr ||
      static_cast<double>(most) <= kQueueFullShare * static_cast<double>(span.end - span.begin))
    return Nothing();
  if (m.idle_share >= kLimitIdle) return Nothing();
  const double share = static_cast<double>(most) / static_cast<double>(span.end - span.begin);
  Finding f =
      FindingOf(m, fmt::format("Stream {} has 1,000 launches and more queued for {} of the time",
                               stream, PercentText(share)));
  AddShare(&f, "full_share", share,
           fmt::format("queue full for {} of the GPU's span", PercentText(share)));
  AddCount(&f, "longest_queue", static_cast<double>(worst->longest),
           fmt::format("up to {} launches queued", worst->longest));
  f.gain = 0;
  f.gain_basis = "nothing to recover: the host is far ahead of the GPU, which is the limit";
  PointTo(&f, m, Longest(worst->full));
  f.advice =
      "None needed: launch calls that block here cost nothing. To go faster make the GPU's work "
      "smaller.";
  f.source = "Holistic trace analysis, queue length (blocked from 1,024 on)";
  return Found(std::move(f));
}

}  // namespace flopwatch::trace::rules
