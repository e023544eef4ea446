// single-stream: all computing on one stream, copies of more than a tenth of the busy time on the
// same one, and less than half of the SMs in use by estimate: nothing overlaps although there is
// room.
#include <fmt/format.h>

#include <cmath>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kStreamCopyShare = 0.10, kSmEfficiency = 0.50;
constexpr double kStreamShare = 0.01;  // of computing time: less is not a compute stream

RankCheck SingleStream(const RankMeasures& m) {
  const EventTable& e = m.events;
  absl::flat_hash_map<int32_t, Nanos> compute;
  for (const Row r : m.gpu)
    if (m.ClassOf(r) == KernelClass::kCompute) compute[e.stream[r]] += e.dur[r];
  int streams = 0;
  int32_t stream = kNoStream;
  for (const auto& [s, time] : compute) {
    if (time < kStreamShare * m.compute_sum) continue;
    ++streams;
    stream = s;
  }
  if (streams == 0) return CannotCheck("no computing kernels in the trace");
  if (streams > 1) return Nothing();
  if (std::isnan(m.sm_efficiency))
    return CannotCheck(
        "no kernel of the trace has blocks per SM, or a grid and a device with a known number of "
        "SMs");
  Intervals copies;
  TopNames names;
  for (const Row r : m.gpu) {
    if (e.category[r] != Category::kGpuMemcpy || e.stream[r] != stream) continue;
    copies.push_back({e.ts[r], e.end(r)});
    names.Add(e.name[r], e.dur[r]);
  }
  const IntervalSet copy_time = Intersect(Merge(std::move(copies)), m.windows);
  const double share = m.busy_time > 0 ? static_cast<double>(Length(copy_time)) / m.busy_time : 0;
  if (share <= kStreamCopyShare || m.sm_efficiency >= kSmEfficiency) return Nothing();
  Finding f =
      FindingOf(m, fmt::format("Copies take {} of the GPU's busy time on the only compute stream",
                               PercentText(share)));
  AddCount(&f, "compute_streams", 1, fmt::format("all kernels run on stream {}", stream));
  AddShare(&f, "copy_share_of_busy", share,
           fmt::format("copies on it take {} of busy time", PercentText(share)));
  AddShare(&f, "sm_efficiency", m.sm_efficiency,
           fmt::format("estimated SM efficiency {}", PercentText(m.sm_efficiency)));
  f.top = names.Texts(m.names);
  const IntervalSet open =
      Subtract(copy_time, Union(m.view.computing(), m.view.busy(KernelClass::kCommunication)));
  SetGain(&f, m, Length(open), "copy time that no kernel hides");
  PointTo(&f, m, Longest(copy_time));
  f.advice =
      "Prefetch on a stream of its own (non_blocking copies from pinned memory, DataLoader "
      "prefetch to the device) and wait with events.";
  f.source = "Facebook GPU fleet paper, case studies: insufficient concurrency";
  return Found(std::move(f), open);
}

}  // namespace flopwatch::trace::rules
