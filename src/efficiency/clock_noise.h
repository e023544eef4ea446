// What sampling the SM clock costs: the study of the OFU paper, IV-C (Table I), on any series.
//
// Tensor activity is an average the hardware takes over the collection window; the SM clock is an
// instant reading. An exporter that collects every T seconds therefore reports, for each window,
// mean(tensor activity) x last clock, where the truth is mean(tensor activity x clock). The study
// makes that loss visible from a series with a short step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hardware/accelerator.h"

namespace flopwatch::efficiency {

// Evenly spaced readings of one GPU; NaN = gap. tensor_active 0..1, clock in MHz.
struct ClockSeries {
  int step_s = 1;
  std::vector<double> tensor_active, sm_clock_mhz;
};

// Readings as they were stored, in any order, put on an even grid: the step is the median distance
// rounded to whole seconds, each reading goes to the nearest grid point (of two the later one
// stays). OutOfRange for a span of more than kMaxGridPoints steps.
struct TimedClock {
  double seconds = 0;  // any origin
  double tensor_active = 0, sm_clock_mhz = 0;
};
inline constexpr size_t kMaxGridPoints = 1'000'000;
StatusOr<ClockSeries> GridSeries(std::vector<TimedClock> readings);

// All in percentage points of OFU. For interval T there are T / step subsamplings ("phases"), one
// for each second the collection can start at; within one, window k has the error
//     d_k = (mean tensor activity x last clock - mean(tensor activity x clock)) / maximum tensor
//     clock.
struct NoiseRow {
  int interval_s = 0;
  int phases = 0;      // with at least one complete window
  size_t windows = 0;  // complete windows of the phase that has fewest
  // Mean over phases of |mean d|: how far the OFU of the whole series is off. And the largest.
  double mean_abs_deviation_pp = 0;
  double worst_deviation_pp = 0;
  // 95 % half-width of mean d by MeanInterval95, mean over phases; absent with fewer than 8
  // windows.
  std::optional<double> half_width_95_pp;
};

struct ClockNoise {
  // Mean of tensor activity x clock / maximum tensor clock over all complete readings.
  double baseline_ofu = 0;
  size_t samples = 0;  // readings with both values
  double clock_mean_mhz = 0, clock_sd_mhz = 0;
  std::vector<NoiseRow> rows;
};

// Intervals must be multiples of the step and larger than it. A window with a gap is left out.
StatusOr<ClockNoise> StudyClockNoise(const ClockSeries& series, double tensor_clock_max_mhz,
                                     std::span<const int> intervals_s);

// Table I of the paper: GB200, FP16 GEMM, 3000 s at 1 s; the largest figure of its four workloads
// for each interval.
struct PaperBound {
  int interval_s;
  double deviation_pp, half_width_95_pp;
};
inline constexpr PaperBound kPaperTable1[] = {
    {5, 0.03, 0.07}, {10, 0.09, 0.18}, {20, 0.08, 0.15}, {30, 0.11, 0.22}};

// SM clock under sustained GEMM load: a GPU's own level (persistent) plus a short-lived AR(1)
// swing, in steps of the clock generator, never above the tensor clock.
struct ClockModel {
  double mean_mhz = 0, between_gpus_sd_mhz = 0, within_gpu_sd_mhz = 0;
  double correlation_s = 0.3;  // under 1 s: readings seconds apart are independent
  double quantum_mhz = 15;
  double max_mhz = 0;
  std::string_view basis;  // where the figures come from
};
// Measured for H100, A100 and V100; other devices are scaled from H100 by their tensor clock, and
// say so. NotFound where the table has no tensor clock.
StatusOr<ClockModel> ClockModelFor(const hardware::Accelerator& a);

// Tensor activity alternates between two levels every switch_s seconds (0 = steady at `high`).
struct GemmLoad {
  double high = 0.75, low = 0.75;
  int switch_s = 0;
};
ClockSeries SimulateClock(const ClockModel& model, const GemmLoad& load, int seconds,
                          uint64_t seed);

}  // namespace flopwatch::efficiency
