#include "server/usage_json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "efficiency/ofu.h"

namespace flopwatch::server {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void TimeOrNull(JsonWriter& json, std::string_view name, Micros t) {
  json.Key(name);
  if (t > 0) {
    json.Value(FormatTime(t));
  } else {
    json.Null();
  }
}

template <typename F>
void Column(JsonWriter& json, std::string_view name, size_t n, F&& value) {
  json.Key(name).BeginArray();
  for (size_t k = 0; k < n; ++k) json.Value(value(k));
  json.EndArray();
}

}  // namespace

std::optional<double> MeanOf(double sum, double seconds) {
  return seconds > 0 ? std::optional<double>(sum / seconds) : std::nullopt;
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
  for (const Cause& c : causes) {
    if (c.seconds > worst->seconds) worst = &c;
  }
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

void WriteUsage(JsonWriter& json, const Usage& usage) {
  const store::UsageSums& s = usage.sums;
  json.BeginObject();
  json.Field("ofu", usage.Ofu());
  json.TextField("ofu_reason", OfuReason(s));
  json.Field("ofu_ci95", usage.ci95);
  json.Field("gpu_seconds", usage.expected_s);
  json.Field("observed_gpu_seconds", s.ofu.observed_s);
  json.Field("computable_gpu_seconds", s.ofu.computable_s);
  json.Field("lost_gpu_seconds", usage.LostGpuSeconds());
  json.Field("coverage", usage.CoverageRatio());
  json.TextField("source", OfuSource(s));
  json.Field("weight", "gpu_seconds");
  json.Field("tensor_active", MeanOf(s.tensor_s, s.tensor_span_s));
  json.Field("sm_clock_mhz", MeanOf(s.clock_mhz_s, s.clock_span_s));
  json.Field("sm_active", MeanOf(s.sm_active_s, s.sm_active_span_s));
  json.Field("gpu_util", MeanOf(s.gpu_util_s, s.gpu_util_span_s));
  json.Field("power_w", MeanOf(s.power_j, s.power_span_s));
  json.Field("energy_j", s.power_span_s > 0 ? std::optional<double>(s.power_j) : std::nullopt);
  json.Field("gpus", s.gpus);
  json.Field("samples", s.ofu.samples);
  TimeOrNull(json, "first", s.first_ts);
  TimeOrNull(json, "last", s.last_ts);
  json.Key("lost_s").BeginObject();
  json.Field("tensor_missing", s.tensor_missing_s);
  json.Field("clock_missing", s.clock_missing_s);
  json.Field("model_unknown", s.model_unknown_s);
  json.Field("dead_counter", s.dead_counter_s);
  json.Field("out_of_range", s.out_of_range_s);
  json.EndObject();
  json.Field("stale_s", s.stale_s).Field("frozen_s", s.frozen_s);
  json.EndObject();
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

void WriteSeries(JsonWriter& json, const Series& series) {
  const size_t n = series.points.size();
  const auto& p = series.points;
  json.BeginObject();
  json.Field("step_s", series.step / kMicrosPerSecond);
  Column(json, "ts", n, [&](size_t k) {
    return (series.from + static_cast<Micros>(k) * series.step) / kMicrosPerSecond;
  });
  Column(json, "ofu", n, [&](size_t k) { return p[k].ofu.Ofu(); });
  Column(json, "coverage", n,
         [&](size_t k) { return efficiency::Coverage(p[k].ofu, series.expected_s[k]); });
  Column(json, "gpu_seconds", n, [&](size_t k) { return series.expected_s[k]; });
  Column(json, "tensor_active", n,
         [&](size_t k) { return MeanOf(p[k].tensor_s, p[k].tensor_span_s); });
  Column(json, "sm_clock_mhz", n,
         [&](size_t k) { return MeanOf(p[k].clock_mhz_s, p[k].clock_span_s); });
  Column(json, "gpu_util", n,
         [&](size_t k) { return MeanOf(p[k].gpu_util_s, p[k].gpu_util_span_s); });
  Column(json, "power_w", n, [&](size_t k) { return MeanOf(p[k].power_j, p[k].power_span_s); });
  json.EndObject();
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
  std::vector<NotComputable> all = {
      {"model_unknown", s.model_unknown_s},
      {"tensor_missing", s.tensor_missing_s},
      {"clock_missing", s.clock_missing_s},
      {"dead_counter", s.dead_counter_s},
      {"out_of_range", s.out_of_range_s},
      {"frozen", s.frozen_s},
      {"no_samples", usage.expected_s - s.ofu.observed_s - s.frozen_s}};
  // Less than a second of a window is rounding of its edges.
  std::erase_if(all, [](const NotComputable& n) { return n.gpu_seconds < 1; });
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.gpu_seconds > b.gpu_seconds; });
  return all;
}

}  // namespace flopwatch::server
