// The sums that everything said about GPU time is made of, declared once: kUsageSums. From it come
// the running totals in memory, what the raw rows' aggregate gives, the columns of rollups, the SQL
// views, and how a sum is scaled and added; tests hold the JSON, the page's type and docs/store.md
// against it. What a row adds to which sum is accounting.h.
//
// A new sum: a row of kUsageSums, its member, what adds to it in accounting.h, and a migration that
// adds its column to hot segments (docs/store.md).
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/time.h"
#include "efficiency/ofu.h"
#include "efficiency/sample_flags.h"

namespace flopwatch::efficiency {

// Everything a view says about a set of GPU-time. OFU already has each model's own tensor clock in
// it, applied when stored sums are read, so that a corrected peak corrects history. Absent inputs
// are not in the sums: each mean has its own seconds.
struct UsageSums {
  OfuSums ofu;
  double tensor_s = 0, tensor_span_s = 0;  // tensor activity x s
  double clock_mhz_s = 0, clock_span_s = 0;
  double sm_active_s = 0, sm_active_span_s = 0;
  double sm_occupancy_s = 0, sm_occupancy_span_s = 0;  // resident warps of all that fit x s
  double gpu_util_s = 0, gpu_util_span_s = 0;          // the duty cycle (GPU_UTIL, else GR_ACTIVE)
  double power_j = 0, power_span_s = 0;                // integral of power
  // Observed seconds without OFU, each charged to one reason.
  double tensor_missing_s = 0, clock_missing_s = 0, model_unknown_s = 0, dead_counter_s = 0,
         out_of_range_s = 0;
  double stale_s = 0, cycle_path_s = 0;  // parts of the observed and of the computable seconds
  // Seconds in which the exporter answered with readings that did not change (kFrozen): beside the
  // observed ones, not among them.
  double frozen_s = 0;
  int32_t gpus = 0;                  // of the part that had most
  Micros first_ts = 0, last_ts = 0;  // of the samples; 0 = none

  UsageSums& operator+=(const UsageSums& o);
};

enum class UsageSum : uint8_t {
  kSamples,
  kObserved,
  kComputable,
  kWork,  // OFU x s; where the model's tensor clock is applied when reading, MHz of work x s
  kTensor,
  kTensorSpan,
  kClock,
  kClockSpan,
  kSmActive,
  kSmActiveSpan,
  kSmOccupancy,
  kSmOccupancySpan,
  kGpuUtil,
  kGpuUtilSpan,
  kEnergy,
  kPowerSpan,
  kTensorMissing,
  kClockMissing,
  kModelUnknown,
  kDeadCounter,
  kOutOfRange,
  kStale,
  kCycles,
  kFrozen,
  kCount
};
inline constexpr size_t kUsageSumCount = static_cast<size_t>(UsageSum::kCount);

enum class SumUnit : uint8_t { kCount, kSeconds, kMhzSeconds, kJoules };

// What becomes of a sum where a GPU is divided.
enum class ShareRule : uint8_t {
  kWhole,    // never divided: a row is a row
  kOfBoard,  // among the jobs that share the GPU, not by MIG: the board's power is its own
  kOfGpu,    // among jobs; and a MIG instance counts by its share of the GPU
};

struct UsageSumSpec {
  UsageSum sum;
  std::string_view stem;  // of its rollup columns and its reason: "tensor_missing", a unit follows
  SumUnit unit;
  ShareRule share;
  UsageSum weight;  // of a value: the seconds its mean is over; kCount = it is no value
  std::string_view view, mean, json;  // SQL column; SQL column and JSON key of the mean; JSON key
  uint32_t flag;                      // of the rows whose seconds it has
  // Where UsageSums has it (both null: the count of samples).
  double UsageSums::*own;
  double OfuSums::*of_ofu = nullptr;
  bool stored = true;  // false: not a column but found out when sums are read
};

// `kUsageSums` is in the order of UsageSum.
inline constexpr auto kUsageSums = [] {
  using S = UsageSum;
  using U = UsageSums;
  using O = OfuSums;
  constexpr auto kS = SumUnit::kSeconds, kMhz = SumUnit::kMhzSeconds, kJ = SumUnit::kJoules;
  constexpr auto kGpu = ShareRule::kOfGpu, kBoard = ShareRule::kOfBoard;
  constexpr auto kRow = ShareRule::kWhole;
  constexpr auto kNone = S::kCount;
  return std::array<UsageSumSpec, kUsageSumCount>{{
      {S::kSamples, "samples", SumUnit::kCount, kRow, kNone, "samples", "", "samples", 0, nullptr},
      {S::kObserved, "observed", kS, kGpu, kNone, "gpu_seconds", "", "observed_gpu_seconds", 0,
       nullptr, &O::observed_s},
      {S::kComputable, "computable", kS, kGpu, kNone, "computable_s", "", "computable_gpu_seconds",
       0, nullptr, &O::computable_s},
      {S::kWork, "tensor", kMhz, kGpu, S::kComputable, "ofu_s", "ofu", "", 0, nullptr, &O::ofu_s},
      {S::kTensor, "tensor", kS, kGpu, S::kTensorSpan, "", "tensor_active", "", 0, &U::tensor_s},
      {S::kTensorSpan, "tensor_span", kS, kGpu, kNone, "", "", "", 0, &U::tensor_span_s},
      {S::kClock, "clock", kMhz, kGpu, S::kClockSpan, "", "sm_clock_mhz", "", 0, &U::clock_mhz_s},
      {S::kClockSpan, "clock_span", kS, kGpu, kNone, "", "", "", 0, &U::clock_span_s},
      {S::kSmActive, "sm_active", kS, kGpu, S::kSmActiveSpan, "", "sm_active", "", 0,
       &U::sm_active_s},
      {S::kSmActiveSpan, "sm_active_span", kS, kGpu, kNone, "", "", "", 0, &U::sm_active_span_s},
      {S::kSmOccupancy, "sm_occupancy", kS, kGpu, S::kSmOccupancySpan, "", "sm_occupancy", "", 0,
       &U::sm_occupancy_s},
      {S::kSmOccupancySpan, "sm_occupancy_span", kS, kGpu, kNone, "", "", "", 0,
       &U::sm_occupancy_span_s},
      {S::kGpuUtil, "gpu_util", kS, kGpu, S::kGpuUtilSpan, "", "gpu_util", "", 0, &U::gpu_util_s},
      {S::kGpuUtilSpan, "gpu_util_span", kS, kGpu, kNone, "", "", "", 0, &U::gpu_util_span_s},
      {S::kEnergy, "energy", kJ, kBoard, S::kPowerSpan, "energy_j", "power_w", "energy_j", 0,
       &U::power_j},
      {S::kPowerSpan, "power_span", kS, kBoard, kNone, "", "", "", 0, &U::power_span_s},
      {S::kTensorMissing, "tensor_missing", kS, kGpu, kNone, "tensor_missing_s", "",
       "lost_s.tensor_missing", kTensorMissing, &U::tensor_missing_s},
      {S::kClockMissing, "clock_missing", kS, kGpu, kNone, "clock_missing_s", "",
       "lost_s.clock_missing", kClockMissing, &U::clock_missing_s},
      {S::kModelUnknown, "model_unknown", kS, kGpu, kNone, "model_unknown_s", "",
       "lost_s.model_unknown", kModelUnknown, &U::model_unknown_s, nullptr, /*stored=*/false},
      {S::kDeadCounter, "dead_counter", kS, kGpu, kNone, "dead_counter_s", "",
       "lost_s.dead_counter", kDeadCounter, &U::dead_counter_s},
      {S::kOutOfRange, "out_of_range", kS, kGpu, kNone, "out_of_range_s", "", "lost_s.out_of_range",
       kOutOfRange, &U::out_of_range_s},
      {S::kStale, "stale", kS, kGpu, kNone, "stale_s", "", "stale_s", kStaleRepeat, &U::stale_s},
      {S::kCycles, "cycles", kS, kGpu, kNone, "cycles_s", "", "", kCyclePath, &U::cycle_path_s},
      {S::kFrozen, "frozen", kS, kGpu, kNone, "frozen_s", "", "frozen_s", kFrozen, &U::frozen_s},
  }};
}();

constexpr const UsageSumSpec& SpecOf(UsageSum sum) { return kUsageSums[static_cast<size_t>(sum)]; }

// A number for each sum.
template <typename T>
struct PerSum : std::array<T, kUsageSumCount> {
  using std::array<T, kUsageSumCount>::operator[];
  T& operator[](UsageSum sum) { return (*this)[static_cast<size_t>(sum)]; }
  const T& operator[](UsageSum sum) const { return (*this)[static_cast<size_t>(sum)]; }
};

// Calls f(std::integral_constant<UsageSum, sum>) for every sum: code that goes over the declaration
// and costs what it would with the members written out.
template <typename F>
constexpr void ForEachUsageSum(F&& f) {
  [&]<size_t... kSum>(std::index_sequence<kSum...>) {
    (f(std::integral_constant<UsageSum, static_cast<UsageSum>(kSum)>()), ...);
  }(std::make_index_sequence<kUsageSumCount>());
}

// The member of a UsageSums that has the sum.
template <UsageSum kSum, typename Usage>
constexpr auto& Member(Usage& usage) {
  constexpr const UsageSumSpec& kSpec = SpecOf(kSum);
  if constexpr (kSpec.own != nullptr) {
    return usage.*kSpec.own;
  } else if constexpr (kSpec.of_ofu != nullptr) {
    return usage.ofu.*kSpec.of_ofu;
  } else {
    return usage.ofu.samples;
  }
}

template <UsageSum kSum, typename T>
constexpr T& Member(PerSum<T>& sums) {
  return sums[kSum];
}

template <typename T>
UsageSums ToUsage(const PerSum<T>& sums) {
  UsageSums usage;
  ForEachUsageSum([&](auto sum) {
    auto& member = Member<sum()>(usage);
    if constexpr (std::is_integral_v<std::decay_t<decltype(member)>>) {
      member = static_cast<uint64_t>(std::llround(static_cast<double>(sums[sum()])));
    } else {
      member = sums[sum()];
    }
  });
  return usage;
}

// What one of the jobs that share these GPUs has of them: a `share` of everything but the rows.
UsageSums OfJob(UsageSums sums, double share);
PerSum<double> OfJob(PerSum<double> sums, double share);
// What a MIG instance is of its GPU, where `sums` is in seconds of its own: board values stay
// whole.
UsageSums OfGpu(UsageSums sums, double fraction);
PerSum<double> OfGpu(PerSum<double> sums, double fraction);
// The board's values alone: of a GPU whose instances are counted instead of it.
UsageSums OfBoard(const UsageSums& sums);

// The sums of stored rows as those of a GPU model: their work becomes OFU x s by its maximum tensor
// clock. Where that is not known (0) the seconds with work are lost to kModelUnknown.
void ApplyTensorClock(double tensor_clock_max_mhz, PerSum<double>* sums);

}  // namespace flopwatch::efficiency
