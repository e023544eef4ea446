// What was measured of one GPU while one job did tensor work on it, as sums over its rows: what
// stragglers are found from (find.h). Rows come in any order and each is seen once.
//
// A mean is weighted by (tensor activity)^3 x time. A row whose window straddles the edge of a
// pause shows any share of the level, and its clock, an instant reading, may be that of the pause:
// with this weight such rows hardly count, whatever the level is, and no level has to be known.
// Where the tensor counter is not usable SM activity stands in for it, with so little weight that
// it counts only where there is nothing else.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "base/time.h"

namespace flopwatch::fleet {

// What of a row is looked at, in canonical units (docs/fields.md).
enum WorkField : uint8_t {
  kWorkTensor,
  kWorkSm,  // weight where there is no tensor activity
  // Means: the first is the SM clock.
  kWorkClock,
  kWorkPower,
  kWorkPowerLimit,
  kWorkTemp,
  kWorkSmActive,  // the same reading as kWorkSm
  kWorkDuty,
  kWorkDram,
  kWorkNvlinkTx,
  kWorkNvlinkRx,
  kWorkPcieTx,
  kWorkPcieRx,
  kWorkReasons,  // clock event reasons, bits
  // Totals that only grow: the first is PCIe replays.
  kWorkReplays,
  kWorkEccSbe,
  kWorkNvlinkErrors,
  kWorkNvlinkReplays,
  kWorkNvlinkRecoveries,
  kWorkPowerViolation,    // ns
  kWorkThermalViolation,  // ns
  kWorkFieldCount,
};
inline constexpr int kWorkMeans = kWorkReasons - kWorkClock;
inline constexpr int kWorkTotals = kWorkFieldCount - kWorkReplays;

// Why a clock is held down, as bits of the clock event reasons (docs/fields.md).
enum class HeldDown : uint8_t { kPowerCap, kHardwareSlowdown, kThermal, kPowerBrake, kCount };
inline constexpr std::array<uint32_t, static_cast<size_t>(HeldDown::kCount)> kHeldDownBits = {
    0x4, 0x8, 0x20 | 0x40, 0x80};

// From this activity on a row is tensor work; below it is a pause, or nothing a tensor pipe limits.
inline constexpr double kTensorWork = 0.005;

class GpuWork {
 public:
  // `v[f]` is field f, NaN where absent; `usable`: the tensor counter says what it measures. The
  // earliest row is left out of the means: part of its window may have been another job's.
  void Add(Micros ts, double span_s, bool usable, std::span<const double, kWorkFieldCount> v);
  // Adds the same GPU's work of the job at another time.
  GpuWork& operator+=(const GpuWork& o);

  double observed_s() const { return observed_s_; }  // with a sample that has a weight
  double work_s() const { return work_s_; }          // of it with tensor work
  // Whether the tensor counter is usable for most of the time.
  bool has_tensor() const { return tensor_.weight > 0 && no_tensor_s_ < observed_s_ / 2; }

  std::optional<double> Tensor() const {
    return has_tensor() ? std::optional(tensor_.value / tensor_.weight) : std::nullopt;
  }
  std::optional<double> Clock() const { return Mean(kWorkClock); }
  // Mean of a field from kWorkClock up to kWorkPcieRx; nullopt where it was never there.
  std::optional<double> Mean(WorkField f) const;
  // The number of equal readings of the clock that its mean is as good as (Kish).
  double Readings() const;
  // The variance of one reading of the clock, MHz squared; 0 where there is none.
  double ClockVariance() const;
  // The same of a row's duty, as a share of its mean squared: how unlike its rows are.
  double DutyVariance() const;
  // By how much a total from kWorkReplays on grew. A total that went back began anew: what it has
  // is what it grew by at least.
  std::optional<double> Growth(WorkField f) const;
  // The share of the time of work in which the clock was held down for this reason.
  std::optional<double> HeldDownShare(HeldDown why) const {
    return reasons_s_ > 0 ? std::optional(held_down_s_[static_cast<size_t>(why)] / reasons_s_)
                          : std::nullopt;
  }

 private:
  static constexpr double kWithoutTensor = 1e-9;
  static constexpr int kHeld = kWorkReasons + 1;  // fields of a row that is held back
  struct Row {
    float span_s = 0;
    bool usable = false;
    std::array<float, kHeld> v{};
  };
  struct Sum {
    double value = 0, weight = 0;
  };
  struct Ends {
    double first = std::numeric_limits<double>::quiet_NaN(),
           last = std::numeric_limits<double>::quiet_NaN();
  };
  void AddMeans(const Row& row);

  Micros first_ts_ = std::numeric_limits<Micros>::max(), last_ts_ = 0;
  Row first_;
  double observed_s_ = 0, work_s_ = 0, no_tensor_s_ = 0, reasons_s_ = 0;
  Sum tensor_;
  std::array<Sum, kWorkMeans> means_;
  double clock_squares_ = 0, clock_weight_squares_ = 0, duty_squares_ = 0;
  std::array<double, static_cast<size_t>(HeldDown::kCount)> held_down_s_{};
  std::array<Ends, kWorkTotals> totals_;
};

inline void GpuWork::Add(Micros ts, double span_s, bool usable,
                         std::span<const double, kWorkFieldCount> v) {
  const bool first = ts<first_ts_, last = ts> last_ts_;
  if (first || last) {
    for (int i = 0; i < kWorkTotals; ++i) {
      const double total = v[kWorkReplays + i];
      if (std::isnan(total)) continue;
      if (first || std::isnan(totals_[i].first)) totals_[i].first = total;
      if (last || std::isnan(totals_[i].last)) totals_[i].last = total;
    }
    last_ts_ = std::max(last_ts_, ts);
  }
  Row row;
  row.span_s = static_cast<float>(span_s);
  row.usable = usable;
  for (int f = 0; f < kHeld; ++f) row.v[f] = static_cast<float>(v[f]);
  if (first) {
    first_ts_ = ts;
    std::swap(row, first_);
  }
  AddMeans(row);
}

inline void GpuWork::AddMeans(const Row& row) {
  if (!(row.span_s > 0)) return;
  observed_s_ += row.span_s;
  if (!row.usable) no_tensor_s_ += row.span_s;
  const double activity = row.usable ? row.v[kWorkTensor] : row.v[kWorkSm];
  if (!(activity >= kTensorWork)) return;
  work_s_ += row.span_s;
  const double w = activity * activity * activity * row.span_s * (row.usable ? 1 : kWithoutTensor);
  if (row.usable) {
    tensor_.value += w * activity;
    tensor_.weight += w;
  }
  for (int i = 0; i < kWorkMeans; ++i) {
    const double value = row.v[kWorkClock + i];
    if (std::isnan(value)) continue;
    means_[i].value += w * value;
    means_[i].weight += w;
  }
  if (const double clock = row.v[kWorkClock]; !std::isnan(clock)) {
    clock_squares_ += w * clock * clock;
    clock_weight_squares_ += w * w;
  }
  if (const double duty = row.v[kWorkDuty]; !std::isnan(duty)) duty_squares_ += w * duty * duty;
  if (std::isnan(row.v[kWorkReasons])) return;
  const double bits = std::clamp<double>(row.v[kWorkReasons], 0, 1 << 20);
  const auto reasons = static_cast<uint32_t>(bits);
  reasons_s_ += row.span_s;
  for (size_t i = 0; i < kHeldDownBits.size(); ++i)
    if ((reasons & kHeldDownBits[i]) != 0) held_down_s_[i] += row.span_s;
}

inline GpuWork& GpuWork::operator+=(const GpuWork& o) {
  for (size_t i = 0; i < totals_.size(); ++i) {
    Ends& own = totals_[i];
    const Ends& other = o.totals_[i];
    if (std::isnan(own.first) || (!std::isnan(other.first) && o.first_ts_ < first_ts_))
      own.first = other.first;
    if (std::isnan(own.last) || (!std::isnan(other.last) && o.last_ts_ > last_ts_))
      own.last = other.last;
  }
  first_ts_ = std::min(first_ts_, o.first_ts_);
  last_ts_ = std::max(last_ts_, o.last_ts_);
  observed_s_ += o.observed_s_;
  work_s_ += o.work_s_;
  no_tensor_s_ += o.no_tensor_s_;
  reasons_s_ += o.reasons_s_;
  tensor_.value += o.tensor_.value;
  tensor_.weight += o.tensor_.weight;
  for (size_t i = 0; i < means_.size(); ++i) {
    means_[i].value += o.means_[i].value;
    means_[i].weight += o.means_[i].weight;
  }
  clock_squares_ += o.clock_squares_;
  clock_weight_squares_ += o.clock_weight_squares_;
  duty_squares_ += o.duty_squares_;
  for (size_t i = 0; i < held_down_s_.size(); ++i) held_down_s_[i] += o.held_down_s_[i];
  return *this;
}

inline std::optional<double> GpuWork::Mean(WorkField f) const {
  const Sum& s = means_[f - kWorkClock];
  return s.weight > 0 ? std::optional(s.value / s.weight) : std::nullopt;
}

inline double GpuWork::Readings() const {
  const double weight = means_[0].weight;
  return weight > 0 ? weight * weight / clock_weight_squares_ : 0;
}

inline double GpuWork::ClockVariance() const {
  const Sum& s = means_[0];
  if (!(s.weight > 0)) return 0;
  const double mean = s.value / s.weight;
  return std::max(0.0, clock_squares_ / s.weight - mean * mean);
}

inline double GpuWork::DutyVariance() const {
  const Sum& s = means_[kWorkDuty - kWorkClock];
  if (!(s.weight > 0) || !(s.value > 0)) return 0;
  const double mean = s.value / s.weight;
  return std::max(0.0, duty_squares_ / s.weight / (mean * mean) - 1);
}

inline std::optional<double> GpuWork::Growth(WorkField f) const {
  const Ends& e = totals_[f - kWorkReplays];
  if (std::isnan(e.first) || std::isnan(e.last)) return std::nullopt;
  return e.last >= e.first ? e.last - e.first : e.last;
}

}  // namespace flopwatch::fleet
