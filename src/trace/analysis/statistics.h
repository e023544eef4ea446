// The statistics under the tables: summaries of samples, sums by name, and step functions of time
// weighted by how long each value lasted. Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/table.h"
#include "trace/event_table.h"

namespace flopwatch::trace {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline double MicrosOf(Nanos t) { return static_cast<double>(t) / 1000.0; }
// Absent where the value is not a number.
inline Cell NumberCell(double value) { return std::isnan(value) ? Cell{} : Cell{value}; }
inline Cell MicrosCell(Nanos t) { return MicrosOf(t); }
// Gives a / b, absent where b is zero.
inline Cell ShareCell(double a, double b) { return b > 0 ? Cell{a / b} : Cell{}; }

// Running count, sum, extremes, mean and sample deviation (Welford 1962).
class Accumulator {
 public:
  void Add(double value) {
    ++count_;
    sum_ += value;
    min_ = std::fmin(min_, value);
    max_ = std::fmax(max_, value);
    const double before = value - mean_;
    mean_ += before / static_cast<double>(count_);
    squares_ += before * (value - mean_);
  }
  int64_t count() const { return count_; }
  double sum() const { return sum_; }
  double mean() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : kNaN; }
  double min() const { return min_; }  // NaN without values
  double max() const { return max_; }
  // The sample deviation, with n - 1; NaN below two values.
  double std() const {
    return count_ > 1 ? std::sqrt(squares_ / static_cast<double>(count_ - 1)) : kNaN;
  }

 private:
  int64_t count_ = 0;
  double sum_ = 0, mean_ = 0, squares_ = 0, min_ = kNaN, max_ = kNaN;
};

// pandas' describe(): `percentiles` are those of the quantiles asked for, by linear interpolation
// between order statistics (Hyndman and Fan 1996, definition 7). Everything is NaN where it has no
// value.
struct Summary {
  int64_t count = 0;
  double sum = 0, mean = kNaN, std = kNaN, min = kNaN, max = kNaN;
  std::vector<double> percentiles;
};
// Linear in the number of values, which it reorders. `quantiles` rise.
Summary Describe(std::vector<double> values, std::span<const double> quantiles);
inline constexpr double kQuartiles[] = {0.25, 0.5, 0.75};

// Durations by name, in µs, without a hash: one slot a name of the pool.
class NameTotals {
 public:
  explicit NameTotals(size_t names) : slot_(names, 0) {}
  void Add(NameId name, double micros) {
    uint32_t& slot = slot_[name];
    if (slot == 0) {
      lines_.push_back({name, {}});
      slot = static_cast<uint32_t>(lines_.size());
    }
    lines_[slot - 1].total.Add(micros);
  }
  struct Line {
    NameId name = kNoName;
    Accumulator total;
  };
  const std::vector<Line>& lines() const { return lines_; }  // in the order of first use
  // Lines by falling sum, equal sums by name.
  std::vector<Line> BySum() const;

 private:
  std::vector<uint32_t> slot_;  // 1 + index into lines_
  std::vector<Line> lines_;
};

// A quantity that holds each value for some time.
struct Held {
  double value = 0;
  Nanos time = 0;
};
struct HeldSummary {
  Nanos time = 0;
  double mean = kNaN, std = kNaN, min = kNaN, p50 = kNaN, p90 = kNaN,
         max = kNaN;  // weighted by time
};
// Values held for no time count nothing.
HeldSummary DescribeHeld(std::vector<Held> values);

}  // namespace flopwatch::trace
