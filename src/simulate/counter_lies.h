// What `--counters KIND=N` plants: counters that are not what they say, each kind on the GPUs of N
// hosts. docs/simulate.md (Counters that lie) says how each shows; the names are those of the rules
// that should find them (docs/counters.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::simulate {

enum class CounterLie : uint8_t {
  // Of a whole exporter, from its start; of the last two, from some time on.
  kTensorUnlisted,
  kTensorRenamed,
  kTensorPercent,
  kPowerScaled,
  kPowerMissing,
  kClockScaled,
  kClockMissing,
  kDutyScaled,
  kDutyMissing,
  kEnergyScaled,
  kExporterFrozen,
  kTensorGone,
  // Of one GPU of a host, from some time on.
  kProfilingDead,
  kTensorDead,
  kTensorFrozen,
  kTensorWithoutPower,
  kPowerDead,
  kPowerFrozen,
  kDutyDead,
  kDutyStuck,
  kSmBelowTensor,
  kTensorAgainstCycles,
  kEnergyFrozen,
  kPowerGone,
  kClockGone,
  kDutyGone,
  kCount,
  kNone = 0xff,
};
inline constexpr size_t kCounterLies = static_cast<size_t>(CounterLie::kCount);
inline bool IsOfExporter(CounterLie lie) { return lie <= CounterLie::kTensorGone; }
std::string_view CounterLieName(CounterLie lie);   // "profiling_dead"; static
std::string_view CounterLieAbout(CounterLie lie);  // one line; static

// On how many hosts each kind is wanted.
struct CounterLieCounts {
  std::array<int32_t, kCounterLies> n{};
  bool any() const;
};
// Adds "KIND=N,KIND=N" to *counts; "all=N" is N of each.
Status ParseCounterLies(std::string_view text, CounterLieCounts* counts);
std::string CounterLieList();

// One GPU whose counters lie.
struct PlantedLie {
  int32_t gpu = 0;
  CounterLie lie = CounterLie::kNone;
  int32_t from = 0;     // second of the window
  int32_t shows_s = 0;  // so long the GPU does what it takes for the lie to show
};

}  // namespace flopwatch::simulate
