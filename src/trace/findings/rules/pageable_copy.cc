// pageable-copy: copies between host and device whose host side is pageable, more than 1 MiB or
// more than five of them a step. The driver stages them through a pinned buffer, which halves the
// rate and blocks the calling thread.
#include <fmt/format.h>

#include "trace/analysis/kernel_names.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

constexpr double kBytesPerStep = 1 << 20, kPageablePerStep = 5;

bool IsHostCopy(std::string_view name) {
  return HasAny(name, {"htod", "dtoh", "hosttodevice", "devicetohost"});
}

}  // namespace

RankCheck PageableCopy(const RankMeasures& m) {
  const EventTable& e = m.events;
  NamePredicate host(m.names, IsHostCopy), pageable(m.names, IsPageable);
  int64_t copies = 0, count = 0, bytes = 0, pinned_bytes = 0;
  Nanos time = 0, pinned_time = 0;
  Intervals touched;
  TopNames names, ops;
  Row longest = kNoRow;
  for (const Row r : m.gpu) {
    if (e.category[r] != Category::kGpuMemcpy || !host(e.name[r])) continue;
    ++copies;
    const CopyDetail* copy = m.rank.CopyOf(r);
    const int64_t size = copy == nullptr || copy->bytes == kUnknown ? 0 : copy->bytes;
    if (!pageable(e.name[r])) {
      pinned_bytes += size;
      pinned_time += size > 0 ? e.dur[r] : 0;
      continue;
    }
    ++count;
    bytes += size;
    time += e.dur[r];
    touched.push_back({e.ts[r], e.end(r)});
    names.Add(e.name[r], e.dur[r]);
    ops.Add(e.op[r] == kNoRow ? kNoName : e.name[e.op[r]], e.dur[r]);
    if (longest == kNoRow || e.dur[r] > e.dur[longest]) longest = r;
  }
  if (copies == 0) return CannotCheck("no copies between host and device in the trace");
  if (m.PerStep(bytes) <= kBytesPerStep && m.PerStep(count) <= kPageablePerStep) return Nothing();

  Finding f = FindingOf(m, fmt::format("{} pageable copies a step, {}",
                                       NumberText(m.PerStep(count)), BytesText(m.PerStep(bytes))));
  AddCount(&f, "pageable_copies_per_step", m.PerStep(count),
           fmt::format("{} of {} copies between host and device are pageable", count, copies));
  AddBytes(&f, "pageable_bytes_per_step", m.PerStep(bytes),
           fmt::format("{} a step", BytesText(m.PerStep(bytes))));
  if (time > 0) {
    const double rate = static_cast<double>(bytes) / time;
    AddCount(&f, "pageable_gb_per_s", rate, fmt::format("at {:.3g} GB/s", rate));
  }
  if (pinned_time > 0) {
    const double rate = static_cast<double>(pinned_bytes) / pinned_time;
    AddCount(&f, "pinned_gb_per_s", rate,
             fmt::format("pinned copies of the same trace reach {:.3g} GB/s", rate));
  }
  const IntervalSet kernels = Union(m.view.computing(), m.view.busy(KernelClass::kCommunication));
  f.top = ops.Texts(m.names);
  const IntervalSet open = Subtract(Intersect(Merge(std::move(touched)), m.windows), kernels);
  SetGain(&f, m, Length(open),
          "time of these copies in which no kernel runs: pinned, asynchronous copies could hide "
          "all of it");
  PointTo(&f, m, {e.ts[longest], e.end(longest)});
  f.advice =
      "Pin the host memory (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with "
      "non_blocking=True.";
  f.source = "CUDA programming guide on page-locked memory; TensorBoard plugin's recommendations";
  return Found(std::move(f), open);
}

}  // namespace flopwatch::trace::rules
