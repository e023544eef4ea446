#include "efficiency/clock_noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "efficiency/ofu.h"

namespace flopwatch::efficiency {
namespace {

// Adds one subsampling to the row: windows of `length` readings, the first starting at `phase`.
struct Phase {
  double deviation = 0;  // mean of d over windows
  std::optional<double> half_width;
  size_t windows = 0;
};
Phase Subsample(std::span<const double> tensor, std::span<const double> clock, size_t phase,
                size_t length) {
  std::vector<double> errors;  // NaN where a window has a gap: keeps the spacing even
  Phase out;
  double sum = 0;
  for (size_t begin = phase; begin + length <= tensor.size(); begin += length) {
    double activity = 0, product = 0;
    for (size_t i = begin; i < begin + length; ++i) {
      activity += tensor[i];
      product += tensor[i] * clock[i];
    }
    const double n = static_cast<double>(length);
    const double d = activity / n * clock[begin + length - 1] - product / n;
    errors.push_back(d);
    if (std::isfinite(d)) {
      sum += d;
      ++out.windows;
    }
  }
  if (out.windows > 0) out.deviation = sum / static_cast<double>(out.windows);
  if (const auto interval = MeanInterval95(errors, {})) out.half_width = interval->half_width;
  return out;
}

// Uniform and normal numbers that are the same with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  double Uniform() { return static_cast<double>((bits_() >> 11) + 1) * 0x1p-53; }  // (0, 1]
  double Normal() {                                                                // Box and Muller
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace

StatusOr<ClockSeries> GridSeries(std::vector<TimedClock> readings) {
  std::erase_if(readings, [](const TimedClock& r) { return !std::isfinite(r.seconds); });
  std::stable_sort(readings.begin(), readings.end(),
                   [](const TimedClock& a, const TimedClock& b) { return a.seconds < b.seconds; });
  std::vector<double> distances;
  for (size_t i = 1; i < readings.size(); ++i) {
    const double d = readings[i].seconds - readings[i - 1].seconds;
    if (d > 0) distances.push_back(d);
  }
  if (distances.empty()) {
    return FailedPrecondition("clock noise: fewer than two readings at different times");
  }
  const auto middle = distances.begin() + static_cast<ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  const double step = std::max(1.0, std::round(*middle));
  const double span = (readings.back().seconds - readings.front().seconds) / step;
  if (!(span < static_cast<double>(kMaxGridPoints))) {
    return OutOfRange(
        "clock noise: the readings span {:.0f} steps of {:.0f} s, at most {} are studied", span,
        step, kMaxGridPoints);
  }
  const auto slots = static_cast<size_t>(std::round(span)) + 1;
  ClockSeries out;
  out.step_s = static_cast<int>(std::min(step, 1e9));
  out.tensor_active.assign(slots, NAN);
  out.sm_clock_mhz.assign(slots, NAN);
  for (const TimedClock& r : readings) {
    const auto slot =
        static_cast<size_t>(std::round((r.seconds - readings.front().seconds) / step));
    out.tensor_active[slot] = r.tensor_active;
    out.sm_clock_mhz[slot] = r.sm_clock_mhz;
  }
  return out;
}

StatusOr<ClockNoise> StudyClockNoise(const ClockSeries& series, double tensor_clock_max_mhz,
                                     std::span<const int> intervals_s) {
  if (series.step_s <= 0 || series.tensor_active.size() != series.sm_clock_mhz.size()) {
    return InvalidArgument(
        "clock noise: the series needs a positive step and columns of equal length");
  }
  if (!(tensor_clock_max_mhz > 0))
    return InvalidArgument("clock noise: the maximum tensor clock must be positive");
  const std::span<const double> tensor = series.tensor_active, clock = series.sm_clock_mhz;

  ClockNoise out;
  double product = 0, clock_sum = 0, clock_squares = 0;
  for (size_t i = 0; i < tensor.size(); ++i) {
    if (!std::isfinite(tensor[i] * clock[i])) continue;
    ++out.samples;
    product += tensor[i] * clock[i];
    // Second moment around a fixed origin near the values: no cancellation, and merging needs no
    // second pass.
    const double c = clock[i] - tensor_clock_max_mhz;
    clock_sum += c;
    clock_squares += c * c;
  }
  if (out.samples < 2) {
    return FailedPrecondition(
        "clock noise: fewer than two readings with both tensor activity and SM clock");
  }
  const double n = static_cast<double>(out.samples);
  out.baseline_ofu = product / n / tensor_clock_max_mhz;
  out.clock_mean_mhz = tensor_clock_max_mhz + clock_sum / n;
  out.clock_sd_mhz =
      std::sqrt(std::max(0.0, (clock_squares - clock_sum * clock_sum / n) / (n - 1)));

  const double to_pp = 100 / tensor_clock_max_mhz;
  for (const int interval_s : intervals_s) {
    if (interval_s <= series.step_s || interval_s % series.step_s != 0) {
      return InvalidArgument(
          "clock noise: an interval of {} s cannot be subsampled from readings {} s "
          "apart: it must be a larger multiple",
          interval_s, series.step_s);
    }
    const auto length = static_cast<size_t>(interval_s / series.step_s);
    NoiseRow row{.interval_s = interval_s,
                 .phases = 0,
                 .windows = tensor.size(),
                 .half_width_95_pp = std::nullopt};
    double deviations = 0, half_widths = 0;
    size_t with_half_width = 0;
    for (size_t phase = 0; phase < length; ++phase) {
      const Phase p = Subsample(tensor, clock, phase, length);
      if (p.windows == 0) continue;
      row.windows = std::min(row.windows, p.windows);
      ++row.phases;
      deviations += std::abs(p.deviation);
      row.worst_deviation_pp = std::max(row.worst_deviation_pp, std::abs(p.deviation) * to_pp);
      if (p.half_width) {
        half_widths += *p.half_width;
        ++with_half_width;
      }
    }
    if (row.phases == 0) {
      return FailedPrecondition("clock noise: no complete window of {} s in {} readings",
                                interval_s, out.samples);
    }
    row.mean_abs_deviation_pp = deviations / row.phases * to_pp;
    if (with_half_width > 0)
      row.half_width_95_pp = half_widths / static_cast<double>(with_half_width) * to_pp;
    out.rows.push_back(row);
  }
  return out;
}

StatusOr<ClockModel> ClockModelFor(const hardware::Accelerator& a) {
  if (!a.tensor_clock_max_mhz) return NotFound("no tensor clock is known for {}", a.model);
  const double max_mhz = *a.tensor_clock_max_mhz;
  if (a.model == "H100 SXM") {
    return ClockModel{
        .mean_mhz = 1352,
        .between_gpus_sd_mhz = 18,
        .within_gpu_sd_mhz = 32,
        .max_mhz = max_mhz,
        .basis =
            "H100 under sustained GEMM at 1 kHz: mean 1352, sd 32 MHz (OFU paper, section IV-C)"};
  }
  if (a.model.starts_with("A100")) {
    return ClockModel{
        .mean_mhz = 1364,
        .between_gpus_sd_mhz = 12,
        .within_gpu_sd_mhz = 30,
        .max_mhz = max_mhz,
        .basis =
            "A100 in a 256-GPU training job: means of the GPUs 1364, sd 12 MHz; swing as on H100"};
  }
  if (a.model.starts_with("V100")) {
    return ClockModel{
        .mean_mhz = 1363,
        .between_gpus_sd_mhz = 23.4,
        .within_gpu_sd_mhz = 30,
        .max_mhz = max_mhz,
        .basis =
            "392 V100 under one load: medians of the GPUs 1363, sd 23.4 MHz; swing as on H100"};
  }
  const double per_h100 = max_mhz / 1830;
  return ClockModel{
      .mean_mhz = 1352 * per_h100,
      .between_gpus_sd_mhz = 18 * per_h100,
      .within_gpu_sd_mhz = 32 * per_h100,
      .max_mhz = max_mhz,
      .basis = "no measurement of this device: H100 figures scaled by the tensor clock"};
}

ClockSeries SimulateClock(const ClockModel& model, const GemmLoad& load, int seconds,
                          uint64_t seed) {
  Random random(seed);
  ClockSeries out;
  out.tensor_active.reserve(static_cast<size_t>(std::max(0, seconds)));
  out.sm_clock_mhz.reserve(out.tensor_active.capacity());
  const double level = model.mean_mhz + model.between_gpus_sd_mhz * random.Normal();
  const double memory = std::exp(-out.step_s / model.correlation_s);
  const double kick = model.within_gpu_sd_mhz * std::sqrt(1 - memory * memory);
  double swing = model.within_gpu_sd_mhz * random.Normal();
  for (int t = 0; t < seconds; ++t) {
    const double mhz = std::round((level + swing) / model.quantum_mhz) * model.quantum_mhz;
    out.sm_clock_mhz.push_back(std::clamp(mhz, model.quantum_mhz, model.max_mhz));
    out.tensor_active.push_back(load.switch_s > 0 && t / load.switch_s % 2 == 1 ? load.low
                                                                                : load.high);
    swing = memory * swing + kick * random.Normal();
  }
  return out;
}

}  // namespace flopwatch::efficiency
