// memory-limit (TensorBoard plugin's rule): the framework has more than 90 % of a device's memory
// allocated at its peak. A risk, not a loss of time.
#include <fmt/format.h>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kMemoryLimitShare = 0.90;
constexpr int32_t kCuda = 1, kHip = 20;  // c10::DeviceType

RankCheck MemoryLimit(const RankMeasures& m) {
  absl::flat_hash_map<int32_t, const MemoryEvent*> peaks;
  for (const MemoryEvent& e : m.rank.memory) {
    if ((e.device_type != kCuda && e.device_type != kHip) || e.total_allocated == kUnknown)
      continue;
    const MemoryEvent*& peak = peaks[e.device];
    if (peak == nullptr || e.total_allocated > peak->total_allocated) peak = &e;
  }
  if (peaks.empty())
    return CannotCheck("no allocator events of a GPU in the trace (profile_memory)");
  const MemoryEvent* worst = nullptr;
  double share = 0;
  int64_t size = 0;
  for (const auto& [id, peak] : peaks) {
    const Device* d = m.rank.DeviceOf(id);
    if (d == nullptr || d->memory_bytes == kUnknown || d->memory_bytes <= 0) continue;
    const double s = static_cast<double>(peak->total_allocated) / d->memory_bytes;
    if (worst == nullptr || s > share) {
      worst = peak;
      share = s;
      size = d->memory_bytes;
    }
  }
  if (worst == nullptr) return CannotCheck("the trace does not say how much memory the device has");
  if (share <= kMemoryLimitShare) return Nothing();
  Finding f =
      FindingOf(m, fmt::format("The framework's peak is {} of device memory", PercentText(share)));
  AddShare(&f, "peak_share", share,
           fmt::format("peak {} of {}", BytesText(worst->total_allocated), BytesText(size)));
  AddBytes(&f, "peak_allocated_bytes", worst->total_allocated,
           fmt::format("on device {}", worst->device));
  if (worst->total_reserved != kUnknown)
    AddBytes(&f, "reserved_bytes", worst->total_reserved,
             fmt::format("reserved at that moment {}", BytesText(worst->total_reserved)));
  if (const Row r = m.HostRowAt(worst->ts); r != kNoRow) f.top.push_back(std::string(m.Name(r)));
  f.gain = 0;
  f.gain_basis = "a risk of running out of memory, not a loss of time";
  PointTo(&f, m, {worst->ts, worst->ts + 1});
  f.advice =
      "Leave room: activation checkpointing, a smaller micro-batch, sharded optimizer states, "
      "expandable segments against fragmentation.";
  f.source = "PyTorch TensorBoard plugin, memory rule";
  return Found(std::move(f));
}

}  // namespace flopwatch::trace::rules
