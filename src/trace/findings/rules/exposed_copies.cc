// exposed-copies: copies between host and device or within the device that neither computation nor
// communication hides take more than a tenth of step time. Copies from GPU to GPU are
// communication.
#include <fmt/format.h>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

constexpr double kExposedCopyShare = 0.10;

}  // namespace

RankCheck ExposedCopies(const RankMeasures& m) {
  const EventTable& e = m.events;
  Intervals copies;
  for (const Row r : m.gpu)
    if (e.category[r] == Category::kGpuMemcpy && m.ClassOf(r) == KernelClass::kMemory)
      copies.push_back({e.ts[r], e.end(r)});
  if (copies.empty()) return CannotCheck("no copies in the trace");
  const IntervalSet kernels = Union(m.view.computing(), m.view.busy(KernelClass::kCommunication));
  const IntervalSet open = Intersect(Subtract(Merge(std::move(copies)), kernels), m.windows);
  const double share = m.Share(Length(open));
  if (share <= kExposedCopyShare) return Nothing();
  int64_t count = 0, bytes = 0, sized = 0;
  Nanos sized_time = 0;
  TopNames names;
  for (const Row r : m.gpu) {
    if (e.category[r] != Category::kGpuMemcpy || m.ClassOf(r) != KernelClass::kMemory) continue;
    ++count;
    names.Add(e.name[r], LengthWithin(open, e.ts[r], e.end(r)));
    const CopyDetail* copy = m.rank.CopyOf(r);
    if (copy == nullptr || copy->bytes == kUnknown) continue;
    ++sized;
    bytes += copy->bytes;
    sized_time += e.dur[r];
  }
  Finding f = FindingOf(
      m, fmt::format("{} of step time is copies that no kernel hides", PercentText(share)));
  AddShare(&f, "exposed_copy_share", share,
           fmt::format("exposed copies {} of step time", PercentText(share)));
  AddCount(&f, "copies_per_step", m.PerStep(static_cast<double>(count)),
           fmt::format("{} copies a step", NumberText(m.PerStep(static_cast<double>(count)))));
  if (sized > 0)
    AddBytes(&f, "bytes_per_step", m.PerStep(static_cast<double>(bytes)),
             fmt::format("{} a step", BytesText(m.PerStep(static_cast<double>(bytes)))));
  if (sized_time > 0) {
    const double rate = static_cast<double>(bytes) / static_cast<double>(sized_time);
    AddCount(&f, "gb_per_s", rate, fmt::format("at {:.3g} GB/s", rate));
  }
  f.top = names.Texts(m.names);
  SetGain(&f, m, Length(open),
          "copy time that no kernel hides: prefetching hides all of it at best");
  PointTo(&f, m, Longest(open));
  f.advice =
      "Copy ahead of the need, on a stream of its own, from pinned memory (non_blocking=True), and "
      "keep on the GPU what comes back in the next step.";
  f.source = "CUDA best practices guide, asynchronous and overlapping transfers with computation";
  return Found(std::move(f), open);
}

}  // namespace flopwatch::trace::rules
