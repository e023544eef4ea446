// small-collectives: messages below 1 MiB on average and more than 50 a step, or more than half of
// the time of more than ten collectives a step is the cost of starting them, taken as the median
// time of those below 64 KiB, which move hardly any data.
#include <fmt/format.h>

#include <algorithm>

#include "trace/analysis/collectives.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kMeanBytes = 1 << 20, kSmallPerStep = 50, kStartShare = 0.5, kStartPerStep = 10;
constexpr int64_t kTiny = 64 << 10;

RankCheck SmallCollectives(const RankMeasures& m) {
  const EventTable& e = m.events;
  int64_t count = 0;
  double bytes = 0;
  Nanos time = 0;
  std::vector<Nanos> tiny;
  Intervals touched;
  TopNames names;
  bool any = false;
  for (const Row r : m.gpu) {
    if (m.ClassOf(r) != KernelClass::kCommunication) continue;
    any = true;
    const CollectiveDetail* c = m.CollectiveOf(r);
    const int64_t size = c == nullptr ? kUnknown : MessageBytes(m.names, *c);
    if (size == kUnknown) continue;
    ++count;
    bytes += static_cast<double>(size);
    time += e.dur[r];
    if (size <= kTiny) tiny.push_back(e.dur[r]);
    if (static_cast<double>(size) < kMeanBytes) {
      touched.push_back({e.ts[r], e.end(r)});
      names.Add(c->collective != kNoName ? c->collective : e.name[r], e.dur[r]);
    }
  }
  if (!any) return CannotCheck("no communication kernels in the trace");
  if (count == 0)
    return CannotCheck("message sizes are not recorded in this trace (they are since PyTorch 2.4)");
  const double mean = bytes / static_cast<double>(count), per_step = m.PerStep(count);
  Nanos start = 0;
  if (!tiny.empty()) {
    const auto middle = tiny.begin() + static_cast<ptrdiff_t>(tiny.size() / 2);
    std::nth_element(tiny.begin(), middle, tiny.end());
    start = *middle;
  }
  const double start_share =
      time > 0 ? std::min(1.0, static_cast<double>(start) * static_cast<double>(count) /
                                   static_cast<double>(time))
               : 0;
  const bool many = mean < kMeanBytes && per_step > kSmallPerStep;
  if (!many && !(start_share > kStartShare && per_step > kStartPerStep && mean < kMeanBytes))
    return Nothing();
  const IntervalSet exposed =
      Intersect(Intersect(Merge(std::move(touched)), m.view.exposed_communication()), m.windows);
  Finding f = FindingOf(m, fmt::format("{} collectives a step with {} on average",
                                       NumberText(per_step), BytesText(mean)));
  AddCount(&f, "collectives_per_step", per_step,
           fmt::format("{} collectives a step", NumberText(per_step)));
  AddBytes(&f, "mean_message_bytes", mean, fmt::format("mean message {}", BytesText(mean)));
  if (start > 0) {
    AddTime(&f, "start_cost_us", start,
            fmt::format("starting one costs about {}", DurationText(start)));
    AddShare(&f, "start_share", start_share,
             fmt::format("which is {} of their time", PercentText(start_share)));
  }
  f.top = names.Texts(m.names);
  SetGain(&f, m, Length(exposed),
          "exposed time of the collectives under 1 MiB; fewer, larger ones need a part of it");
  PointTo(&f, m, Longest(exposed));
  f.advice =
      "Put small messages together: larger DDP buckets (bucket_cap_mb), coalesced collectives, "
      "flattened parameters.";
  f.source = "NCCL tuning: latency of a collective does not fall with its size";
  return Found(std::move(f), exposed);
}

}  // namespace flopwatch::trace::rules
