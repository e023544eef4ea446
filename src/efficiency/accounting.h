// What a stamped row adds to which sum: the one rule, for the live state and for rows that are
// stored. Rollups are sums of it, and the store's fast path for rows without gaps and flags is held
// against it by a property test (tests/store/raw_sums_test.cc).
//
//   the row                                    adds
//   -----------------------------------------  ---------------------------------------------------
//   kFrozen                                    1 to samples, its time to frozen; nothing else
//   has power                                  power x span to energy, span to power_span; a board
//                                              value, not divided by MIG
//   kMigParent, as a part of the fleet         nothing else: its instances count
//   every other one                            1 to samples, its time to observed
//   has sm_clock_mhz / sm_active /             value x time to the sum, time to the sum's weight
//     sm_occupancy / gpu_util
//   has tensor_active, no kNoTensor flag       likewise; a dead counter's zero is no activity
//   ---- then the first of these that holds has its time ----
//   kTensorMissing                             tensor_missing
//   kClockMissing                              clock_missing
//   kDeadCounter                               dead_counter
//   kOutOfRange                                out_of_range
//   kModelUnknown, Work::kOfu                  model_unknown; of stored rows it is asked when read
//   has work                                   computable, work x time to work; with kCyclePath
//                                              the time to cycles as well
//   no work, though tensor_active is there     clock_missing
//   no work                                    tensor_missing
//   ---- and ----
//   kStaleRepeat                               its time to stale as well
//
// "Its time" is span x fraction. A frozen kMigParent row, as a part of the fleet, adds nothing.
// Other flags do not matter here: a row with kSpanUnknown has a span of 0. So computable and the
// reasons add up to observed.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "efficiency/sample_flags.h"
#include "efficiency/usage_sums.h"

namespace flopwatch::efficiency {

// A row as plain numbers, in whatever units the caller adds up in; the sums are in these. Account()
// takes any type with its first three members, Has() and Value(): one whose values lie in columns
// reads them when they are asked for.
struct StampedRow {
  static constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
  uint32_t flags = 0;     // SampleFlag
  double span = 0;        // the time it stands for; with kFrozen, the time it said nothing new in
  double fraction = 1;    // of its GPU: below 1 for a MIG instance
  double work = kAbsent;  // OFU, or what becomes OFU when divided by the maximum tensor clock
  double tensor_active = kAbsent, sm_clock_mhz = kAbsent, sm_active = kAbsent,
         sm_occupancy = kAbsent, gpu_util = kAbsent, power_w = kAbsent;

  // The value whose products with time make up a sum.
  double Value(UsageSum sum) const {
    return sum == UsageSum::kWork          ? work
           : sum == UsageSum::kTensor      ? tensor_active
           : sum == UsageSum::kClock       ? sm_clock_mhz
           : sum == UsageSum::kSmActive    ? sm_active
           : sum == UsageSum::kSmOccupancy ? sm_occupancy
           : sum == UsageSum::kGpuUtil     ? gpu_util
           : sum == UsageSum::kEnergy      ? power_w
                                           : kAbsent;
  }
  bool Has(UsageSum sum) const { return !std::isnan(Value(sum)); }
};

// What a row's work is.
enum class Work : uint8_t {
  kOfu,  // the tensor clock is applied: a model without one has no work
  kMhz,  // activity x clock: the tensor clock is applied to the sums (ApplyTensorClock)
};

// Whom the row is counted for.
enum class CountedFor : uint8_t {
  kFleet,   // jobs, models, the fleet: instances count instead of their GPU
  kItself,  // the entity's own history: a GPU has its time whether or not it has instances
};

// Calls add(UsageSum, double) for each sum the row adds to.
template <typename Row, typename Add>
inline void Account(const Row& row, Work work, CountedFor whom, Add&& add) {
  const uint32_t flags = row.flags;
  const auto mean = [&](UsageSum sum, double time) {
    if (!row.Has(sum)) return false;
    add(sum, row.Value(sum) * time);
    add(SpecOf(sum).weight, time);
    return true;
  };
  const bool frozen = (flags & kFrozen) != 0;
  if (!frozen) mean(UsageSum::kEnergy, row.span);
  if ((flags & kMigParent) != 0 && whom == CountedFor::kFleet) return;
  const double time = row.span * row.fraction;
  add(UsageSum::kSamples, 1.0);
  if (frozen) return add(UsageSum::kFrozen, time);
  add(UsageSum::kObserved, time);
  if ((flags & kNoTensor) == 0) mean(UsageSum::kTensor, time);
  mean(UsageSum::kClock, time);
  mean(UsageSum::kSmActive, time);
  mean(UsageSum::kSmOccupancy, time);
  mean(UsageSum::kGpuUtil, time);
  if ((flags & kStaleRepeat) != 0) add(UsageSum::kStale, time);
  if ((flags & (work == Work::kOfu ? kNoWork | kModelUnknown : kNoWork)) != 0) {
    add((flags & kTensorMissing) != 0  ? UsageSum::kTensorMissing
        : (flags & kClockMissing) != 0 ? UsageSum::kClockMissing
        : (flags & kDeadCounter) != 0  ? UsageSum::kDeadCounter
        : (flags & kOutOfRange) != 0   ? UsageSum::kOutOfRange
                                       : UsageSum::kModelUnknown,
        time);
  } else if (mean(UsageSum::kWork, time)) {
    if ((flags & kCyclePath) != 0) add(UsageSum::kCycles, time);
  } else {
    add(row.Has(UsageSum::kTensor) ? UsageSum::kClockMissing : UsageSum::kTensorMissing, time);
  }
}

}  // namespace flopwatch::efficiency
