#include "query/usage.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "efficiency/usage_sums.h"

namespace flopwatch::query {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// What equal spans may differ by once many have been added up.
constexpr double kRoundedSpan = 1e-9;

}  // namespace

std::optional<double> MeanOf(double sum, double seconds) {
  return seconds > 0 ? std::optional<double>(sum / seconds) : std::nullopt;
}

std::optional<double> OccupancyElapsed(const store::UsageSums& s) {
  return MeanOf(s.sm_occupancy_s, s.sm_occupancy_span_s);
}

std::optional<double> OccupancyActive(const store::UsageSums& s) {
  // A second has at most one of either sum.
  const double more = s.sm_active_span_s - s.sm_occupancy_span_s;
  const double of = more > 0 ? s.sm_active_s : s.sm_occupancy_s;
  if (std::abs(more) > kOccupancyError * of + kRoundedSpan * s.sm_active_span_s)
    return std::nullopt;
  return MeanOf(s.sm_occupancy_s, s.sm_active_s);
}

std::optional<double> Usage::CoverageRatio() const {
  return efficiency::Coverage(sums.ofu, expected_s);
}

std::string_view OfuReason(const store::UsageSums& s) {
  if (s.ofu.Ofu().has_value()) return "";
  if (s.ofu.samples == 0) return "no samples in the window";
  struct Cause {
    double seconds;
    std::string_view text;
  };
  const Cause causes[] = {
      {s.model_unknown_s, "the GPU model is not in the hardware table"},
      {s.tensor_missing_s,
       "tensor activity is missing: the exporter does not list DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"},
      {s.clock_missing_s,
       "the SM clock is missing: the exporter does not list DCGM_FI_DEV_SM_CLOCK"},
      {s.dead_counter_s, "the tensor counter is dead, or suspected to be: 0 on a busy GPU"},
      {s.out_of_range_s, "values are out of range: OFU above 1.02"},
  };
  const Cause* worst = &causes[0];
  for (const Cause& c : causes)
    if (c.seconds > worst->seconds) worst = &c;
  if (worst->seconds > 0) return worst->text;
  if (s.frozen_s > 0)
    return "the exporter is frozen: it answers, but its values have stopped changing";
  return "no sample here says how long it stands for: first samples, or a frozen exporter";
}

std::string_view OfuSource(const store::UsageSums& s) {
  if (!(s.ofu.computable_s > 0)) return "";
  if (s.cycle_path_s <= 0) return "ratio";
  return s.cycle_path_s >= s.ofu.computable_s * (1 - 1e-9) ? "cycles" : "mixed";
}

Series MakeSeries(store::Window window, Micros step, const std::vector<store::UsagePoint>& points,
                  std::vector<double> expected_s) {
  Series series;
  series.from = FloorTo(window.from, step);
  series.step = step;
  const auto n =
      static_cast<size_t>(std::max<Micros>(1, (window.to - series.from + step - 1) / step));
  series.points.resize(n);
  for (const store::UsagePoint& p : points) {
    const Micros at = (FloorTo(p.ts, step) - series.from) / step;
    if (p.ts >= series.from && at < static_cast<Micros>(n)) series.points[at] += p.sums;
  }
  series.expected_s = std::move(expected_s);
  series.expected_s.resize(n, 0);
  return series;
}

std::optional<double> HalfWidth95(const Series& series) {
  std::vector<double> values, weights;
  values.reserve(series.points.size());
  weights.reserve(series.points.size());
  for (const store::UsageSums& p : series.points) {
    values.push_back(p.ofu.Ofu().value_or(kNaN));
    weights.push_back(p.ofu.computable_s);
  }
  const auto interval = efficiency::MeanInterval95(values, weights);
  return interval.has_value() ? std::optional<double>(interval->half_width) : std::nullopt;
}

std::vector<NotComputable> Losses(const Usage& usage) {
  const store::UsageSums& s = usage.sums;
  std::vector<NotComputable> all;
  efficiency::ForEachUsageSum([&](auto sum) {
    constexpr const efficiency::UsageSumSpec& kSpec = efficiency::SpecOf(sum());
    if constexpr ((kSpec.flag & efficiency::kNotComputable) != 0)
      all.push_back({kSpec.stem, efficiency::Member<sum()>(s)});
  });
  all.push_back({"no_samples", usage.expected_s - s.ofu.observed_s - s.frozen_s});
  // Less than a second of a window is rounding of its edges.
  std::erase_if(all, [](const NotComputable& n) { return n.gpu_seconds < 1; });
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.gpu_seconds > b.gpu_seconds; });
  return all;
}

}  // namespace flopwatch::query
