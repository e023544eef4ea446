// What our breakdown of GPU time by kind of work and HTA's have in common: the sets of kinds that
// run at the same time. Internal to the two.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "trace/analysis/tables.h"

namespace flopwatch::trace {

inline constexpr size_t kAllNames = static_cast<size_t>(-1);
inline constexpr size_t kTopNames = 10;  // names a rank and type before "others"; HTA's num_kernels

// The kinds of work (HTA has the first three), in the order in which their names stand in "A
// overlapping B". A set of kinds is a bit mask.
inline constexpr size_t kKinds = 4;
inline constexpr KernelClass kClasses[kKinds] = {KernelClass::kCompute, KernelClass::kCommunication,
                                                 KernelClass::kMemory, KernelClass::kFused};
inline constexpr unsigned kSubsets = 1u << kKinds;

inline std::string SubsetName(unsigned subset) {
  std::string out;
  for (size_t i = 0; i < kKinds; ++i) {
    if ((subset >> i & 1u) == 0) continue;
    out += (out.empty() ? "" : " overlapping ");
    out += KernelClassName(kClasses[i]);
  }
  return out;
}

// Calls use(subset, time) for every stretch of time during which the same kinds of work run.
template <typename Use>
void Sweep(const std::array<const IntervalSet*, kKinds>& sets, const Use& use) {
  std::array<size_t, kKinds> at{};
  std::array<bool, kKinds> inside{};
  Nanos now = 0;
  while (true) {
    // The next edge of any set, and what runs until then.
    bool any = false;
    Nanos next = 0;
    unsigned running = 0;
    for (size_t i = 0; i < kKinds; ++i) {
      if (at[i] == sets[i]->size()) continue;
      const Interval& piece = (*sets[i])[at[i]];
      const Nanos edge = inside[i] ? piece.end : piece.begin;
      if (!any || edge < next) next = edge;
      any = true;
      if (inside[i]) running |= 1u << i;
    }
    if (!any) return;
    if (running != 0) use(running, next - now);
    now = next;
    for (size_t i = 0; i < kKinds; ++i) {
      if (at[i] == sets[i]->size()) continue;
      const Interval& piece = (*sets[i])[at[i]];
      if (inside[i] && piece.end == now) {
        inside[i] = false;
        ++at[i];
      } else if (!inside[i] && piece.begin == now) {
        inside[i] = true;
      }
    }
  }
}

inline void SortByTime(std::vector<std::vector<Cell>>* rows) {
  std::stable_sort(
      rows->begin(), rows->end(),
      [](const std::vector<Cell>& a, const std::vector<Cell>& b) { return a[1] > b[1]; });
}

}  // namespace flopwatch::trace
