// Overall FLOP Utilisation: OFU = tensor-pipe activity x SM clock / maximum tensor clock
// (the OFU paper, arXiv 2605.20799, eq. 1).
//
// OFU of a set of samples is the mean of the products weighted by GPU-seconds, never the product of
// the means, and it always travels with its coverage (share of the GPU-seconds it was computable
// for) and the reasons for the rest. Pure functions: no I/O, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flopwatch::efficiency {

// An OFU above this is an error of the clock, the table or the counter, not a good kernel.
inline constexpr double kOfuMaxCredible = 1.02;

// OFU of one sample by the ratio path. tensor_active 0..1, clocks in MHz; NaN stands for missing.
// FailedPrecondition names what is missing, OutOfRange what cannot be (a ratio above 1, a clock of
// 0, an OFU above kOfuMaxCredible).
StatusOr<double> OfuFromRatio(double tensor_active, double sm_clock_mhz,
                              double tensor_clock_max_mhz);

// One reading of the monotonic cycle totals (DCGM 4.6+ 1084..1086, NVML GPM 248..250).
struct CycleReading {
  double seconds = 0;  // time of the reading, any origin
  uint64_t mma_cycles_active = 0;
  std::optional<uint64_t> sm_cycles_elapsed;
};

enum class CycleOutcome : uint8_t { kOk, kReset, kNoTime, kUncalibrated };

struct CycleOfu {
  CycleOutcome outcome = CycleOutcome::kOk;
  // MMA-active cycles per second and SM, in MHz: OFU = tensor_mhz / tensor_clock_max_mhz.
  double tensor_mhz = 0;
};

// Faster than any SM runs: a larger rate means a wrong scale or a total that did not wrap but was
// reset.
inline constexpr double kPlausibleSmClockMhz = 5000;

// OFU over the window between two readings, however many scrapes were missed in between. `scale` =
// counter cycles per SM cycle (1 where the total is averaged over SMs, the SM count where it is
// summed); undocumented by the vendor, so calibrate it. A total that went back is a 64-bit wrap
// where the wrapped difference is a possible rate, else a reset; elapsed cycles that went back are
// a reset as well. kNoTime: no time passed. kUncalibrated: the scale is not a positive number or
// the rate is impossible with it.
CycleOfu OfuFromCycles(const CycleReading& before, const CycleReading& after, double scale);

// The scale is elapsed cycles / (seconds x SM clock), snapped to 1 or sm_count when within 10 %;
// nullopt when neither fits. The clock is an instant reading: take it on a busy GPU and try again
// on the next window where it does not fit.
inline constexpr double kScaleTolerance = 0.10;
std::optional<double> CalibrateCycleScale(const CycleReading& before, const CycleReading& after,
                                          double sm_clock_mhz, int sm_count);

// Sums that merge exactly over tiers, shards and time ranges. Rollups store these, never averages.
struct OfuSums {
  double ofu_s = 0;         // sum of OFU x seconds x fraction over computable samples
  double computable_s = 0;  // GPU-seconds with a computable OFU (MIG: seconds x share of the GPU)
  double observed_s = 0;    // GPU-seconds any sample stands for
  uint64_t samples = 0;

  void Add(double ofu, double seconds);   // a computable sample
  void AddNotComputable(double seconds);  // a sample without OFU
  OfuSums& operator+=(const OfuSums& o);
  // There is no value when nothing was computable; the caller says why.
  std::optional<double> Ofu() const;
};

// Share of `expected_s` GPU-seconds (deployed or allocated) for which OFU was computable, at most
// 1: the last sample may reach past the end of a job by a scrape interval. nullopt when none
// expected.
std::optional<double> Coverage(const OfuSums& sums, double expected_s);

// Weighted mean and 95 % half-width of an evenly spaced series (NaN or weight <= 0 = gap; no
// weights = equal ones) that respects autocorrelation: the variance of the mean is the sum of the
// autocovariances of the weighted residuals, cut by Geyer's initial monotone positive sequence,
// never less than for independent points; Student's t with the effective number of points. nullopt
// with fewer than kMinIntervalPoints points. At most kMaxIntervalBlocks blocks of adjacent points
// enter the autocovariances, which bounds the work.
inline constexpr size_t kMinIntervalPoints = 8;
inline constexpr size_t kMaxIntervalBlocks = 4096;
struct Interval {
  double mean = 0;
  double half_width = 0;
  double effective_samples = 0;  // independent points that would give the same half-width
};
std::optional<Interval> MeanInterval95(std::span<const double> series,
                                       std::span<const double> weights);

// MIG: the GPU's OFU is the sum over instances of OFU x instance SMs / GPU SMs; SMs no instance
// covers are lost capacity and shown apart (docs/ofu.md, MIG).
struct MigSlice {
  double ofu = 0;
  int sm_count = 0;
};
struct MigOfu {
  double ofu = 0;
  int covered_sms = 0;
  int uncovered_sms = 0;
};
// InvalidArgument where the slices have more SMs than the GPU, or a slice has none or an impossible
// OFU.
StatusOr<MigOfu> OfuOfMig(std::span<const MigSlice> slices, int gpu_sm_count);

// Dead-counter rule (docs/ofu.md, A zero that may be wrong): tensor exactly 0 while GPU_UTIL > 90
// and power > 60 % of its limit is suspect at once, and dead after kDeadCounterSeconds of it. Where
// other arithmetic pipes (FP64, FP32, FP16) are reported busy for kOtherPipesBusy of the cycles,
// they explain the load and the zero is a true one: in the known faults every profiling counter of
// the GPU stands still. (Half of that is reached beside a busy tensor pipe: a transformer's vector
// work.) So does memory that is busy for kMemoryBusy of the cycles: copies of an H200 draw 635 of
// its 700 W at 89 % (tests/gpu), products of matrices keep the memory at 16 to 19 %.
inline constexpr double kDeadCounterSeconds = 180;
inline constexpr double kDeadCounterUtil = 0.90;
inline constexpr double kDeadCounterPowerShare = 0.60;
inline constexpr double kOtherPipesBusy = 0.30;
inline constexpr double kMemoryBusy = 0.50;

enum class CounterState : uint8_t { kAlive, kSuspect, kDead };

// One reading, absent values nullopt. gpu_util is a ratio 0..1. Where the exporter gives no power
// limit pass the TDP of the hardware table.
struct CounterReading {
  double span_s = 0;
  std::optional<double> tensor_active, gpu_util, power_w, power_limit_w;
  std::optional<double> other_pipes;  // FP64 + FP32 + FP16 pipe activity
  std::optional<double> dram_active;
};

// State of one GPU; feed it every sample. A sample that lacks a value neither confirms nor clears
// the suspicion.
class DeadCounterDetector {
 public:
  CounterState Update(const CounterReading& now);
  // Tells, after Update() led from kSuspect to kAlive, whether the zeros before it were true ones:
  // they were where the counter moved again, or had moved before the load ended; else nothing shows
  // that it works.
  bool zeros_were_true() const { return has_moved_; }

 private:
  float suspicious_s_ = 0;
  bool suspect_ = false, has_moved_ = false;
};

}  // namespace flopwatch::efficiency
