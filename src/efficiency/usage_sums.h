// The sums that everything said about GPU time is made of, declared once: kUsageSums. From it come
// the running totals in memory, what the raw rows' aggregate gives, the columns of rollups, the SQL
// views, and how a sum is scaled and added; tests hold the JSON, the page's type and docs/store.md
// against it. What a row adds to which sum is accounting.h.
//
// A new sum: a row of kUsageSums, its member, what adds to it in accounting.h, and a migration that
// adds its column to hot segments (docs/store.md).
#ifndef FLOPWATCH_EFFICIENCY_USAGE_SUMS_H_
#define FLOPWATCH_EFFICIENCY_USAGE_SUMS_H_

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
  double gpu_util_s = 0, gpu_util_span_s = 0;  // the duty cycle (GPU_UTIL, else GR_ACTIVE)
  double power_j = 0, power_span_s = 0;        // integral of power
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
  SumUnit unit = SumUnit::kSeconds;
  ShareRule share = ShareRule::kOfGpu;
  UsageSum weight = UsageSum::kCount;  // of a value: the seconds its mean is over; kCount = none
  std::string_view view = {}, mean = {},
                   json = {};  // SQL column; SQL column and JSON key of the mean; JSON key
  // Where UsageSums has it (both null: the count of samples).
  double UsageSums::*own = nullptr;
  double OfuSums::*of_ofu = nullptr;
  uint32_t flag = 0;   // of the rows whose seconds it has
  bool stored = true;  // false: not a column but found out when sums are read
};

// In the order of UsageSum.
inline constexpr std::array<UsageSumSpec, kUsageSumCount> kUsageSums = {{
    {.sum = UsageSum::kSamples,
     .stem = "samples",
     .unit = SumUnit::kCount,
     .share = ShareRule::kWhole,
     .view = "samples",
     .json = "samples"},
    {.sum = UsageSum::kObserved,
     .stem = "observed",
     .view = "gpu_seconds",
     .json = "observed_gpu_seconds",
     .of_ofu = &OfuSums::observed_s},
    {.sum = UsageSum::kComputable,
     .stem = "computable",
     .view = "computable_s",
     .json = "computable_gpu_seconds",
     .of_ofu = &OfuSums::computable_s},
    {.sum = UsageSum::kWork,
     .stem = "tensor",
     .unit = SumUnit::kMhzSeconds,
     .weight = UsageSum::kComputable,
     .view = "ofu_s",
     .mean = "ofu",
     .of_ofu = &OfuSums::ofu_s},
    {.sum = UsageSum::kTensor,
     .stem = "tensor",
     .weight = UsageSum::kTensorSpan,
     .mean = "tensor_active",
     .own = &UsageSums::tensor_s},
    {.sum = UsageSum::kTensorSpan, .stem = "tensor_span", .own = &UsageSums::tensor_span_s},
    {.sum = UsageSum::kClock,
     .stem = "clock",
     .unit = SumUnit::kMhzSeconds,
     .weight = UsageSum::kClockSpan,
     .mean = "sm_clock_mhz",
     .own = &UsageSums::clock_mhz_s},
    {.sum = UsageSum::kClockSpan, .stem = "clock_span", .own = &UsageSums::clock_span_s},
    {.sum = UsageSum::kSmActive,
     .stem = "sm_active",
     .weight = UsageSum::kSmActiveSpan,
     .mean = "sm_active",
     .own = &UsageSums::sm_active_s},
    {.sum = UsageSum::kSmActiveSpan, .stem = "sm_active_span", .own = &UsageSums::sm_active_span_s},
    {.sum = UsageSum::kGpuUtil,
     .stem = "gpu_util",
     .weight = UsageSum::kGpuUtilSpan,
     .mean = "gpu_util",
     .own = &UsageSums::gpu_util_s},
    {.sum = UsageSum::kGpuUtilSpan, .stem = "gpu_util_span", .own = &UsageSums::gpu_util_span_s},
    {.sum = UsageSum::kEnergy,
     .stem = "energy",
     .unit = SumUnit::kJoules,
     .share = ShareRule::kOfBoard,
     .weight = UsageSum::kPowerSpan,
     .view = "energy_j",
     .mean = "power_w",
     .json = "energy_j",
     .own = &UsageSums::power_j},
    {.sum = UsageSum::kPowerSpan,
     .stem = "power_span",
     .share = ShareRule::kOfBoard,
     .own = &UsageSums::power_span_s},
    {.sum = UsageSum::kTensorMissing,
     .stem = "tensor_missing",
     .view = "tensor_missing_s",
     .json = "lost_s.tensor_missing",
     .own = &UsageSums::tensor_missing_s,
     .flag = kTensorMissing},
    {.sum = UsageSum::kClockMissing,
     .stem = "clock_missing",
     .view = "clock_missing_s",
     .json = "lost_s.clock_missing",
     .own = &UsageSums::clock_missing_s,
     .flag = kClockMissing},
    {.sum = UsageSum::kModelUnknown,
     .stem = "model_unknown",
     .view = "model_unknown_s",
     .json = "lost_s.model_unknown",
     .own = &UsageSums::model_unknown_s,
     .flag = kModelUnknown,
     .stored = false},
    {.sum = UsageSum::kDeadCounter,
     .stem = "dead_counter",
     .view = "dead_counter_s",
     .json = "lost_s.dead_counter",
     .own = &UsageSums::dead_counter_s,
     .flag = kDeadCounter},
    {.sum = UsageSum::kOutOfRange,
     .stem = "out_of_range",
     .view = "out_of_range_s",
     .json = "lost_s.out_of_range",
     .own = &UsageSums::out_of_range_s,
     .flag = kOutOfRange},
    {.sum = UsageSum::kStale,
     .stem = "stale",
     .view = "stale_s",
     .json = "stale_s",
     .own = &UsageSums::stale_s,
     .flag = kStaleRepeat},
    {.sum = UsageSum::kCycles,
     .stem = "cycles",
     .view = "cycles_s",
     .own = &UsageSums::cycle_path_s,
     .flag = kCyclePath},
    {.sum = UsageSum::kFrozen,
     .stem = "frozen",
     .view = "frozen_s",
     .json = "frozen_s",
     .own = &UsageSums::frozen_s,
     .flag = kFrozen},
}};

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

#endif  // FLOPWATCH_EFFICIENCY_USAGE_SUMS_H_
