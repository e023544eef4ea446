#include "jobs/table/summary.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace flopwatch::table {
namespace {

constexpr std::string_view kAttemptWays[] = {"user",     "account", "partition", "qos",
                                             "workflow", "state",   "size",      "hour"};
constexpr std::string_view kPoolWays[] = {"pool", "part", "hour", "day"};

}  // namespace

void Weighted::Add(double value, double weight) {
  if (!(weight > 0)) return;
  values_.emplace_back(value, weight);
  weight_ += weight;
  sum_ += value * weight;
}

void Weighted::Sort() {
  std::ranges::sort(values_);
  const double mean = Mean().value_or(0);
  double until = 0;
  squares_ = 0;
  for (auto& [value, weight] : values_) {
    squares_ += (value - mean) * (value - mean) * weight;
    until += weight;
    weight = until;
  }
}

std::optional<double> Weighted::Mean() const {
  if (values_.empty()) return std::nullopt;
  return sum_ / weight_;
}

std::optional<double> Weighted::Deviation() const {
  if (values_.empty()) return std::nullopt;
  return std::sqrt(squares_ / weight_);
}

// The value of the unit of weight at `position`, counted from 0.
double Weighted::At(double position) const {
  const auto it = std::upper_bound(values_.begin(), values_.end(), position,
                                   [](double at, const auto& v) { return at < v.second; });
  return it == values_.end() ? values_.back().first : it->first;
}

std::optional<double> Weighted::Quantile(double q) const {
  if (values_.empty()) return std::nullopt;
  const double position = std::max(0.0, (weight_ - 1) * q), below = std::floor(position);
  const double low = At(below), high = At(below + 1);
  return low + (high - low) * (position - below);
}

std::optional<double> Weighted::Min() const {
  if (values_.empty()) return std::nullopt;
  return values_.front().first;
}

std::optional<double> Weighted::Max() const {
  if (values_.empty()) return std::nullopt;
  return values_.back().first;
}

absl::CivilSecond LocalTime(Micros t, const SummaryOptions& options) {
  if (options.zone != nullptr) return options.zone->Local(t);
  return absl::ToCivilSecond(absl::FromUnixMicros(t), absl::UTCTimeZone());
}

StatusOr<std::vector<Statistic>> Summarise(absl::Span<const jobs::AttemptRecord> attempts,
                                           absl::Span<const jobs::NodeRecord> pools,
                                           const SummaryOptions& options) {
  const bool jobs = options.rows == RowKind::kAttempts;
  const absl::Span<const std::string_view> ways =
      jobs ? absl::Span<const std::string_view>(kAttemptWays) : kPoolWays;
  for (const std::string& way : options.by) {
    if (std::ranges::find(ways, way) != ways.end()) continue;
    std::string known;
    for (const std::string_view w : ways) known += (known.empty() ? "" : ", ") + std::string(w);
    return InvalidArgument("cannot divide {} by '{}'; by {}", jobs ? "jobs" : "a series",
                           Printable(way, 40), known);
  }
  return jobs ? SummariseAttempts(attempts, options) : SummarisePools(attempts, pools, options);
}

}  // namespace flopwatch::table
