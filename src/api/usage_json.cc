#include "api/usage_json.h"

#include "efficiency/usage_sums.h"
#include "query/notes.h"

namespace flopwatch::api {
namespace {

void TimeOrNull(JsonWriter& json, std::string_view name, Micros t) {
  json.Key(name);
  t > 0 ? json.Value(FormatTime(t)) : json.Null();
}

template <typename F>
void Column(JsonWriter& json, std::string_view name, size_t n, F&& value) {
  json.Key(name).BeginArray();
  for (size_t k = 0; k < n; ++k) json.Value(value(k));
  json.EndArray();
}

}  // namespace

void WriteUsage(JsonWriter& json, const query::Usage& usage) {
  const store::UsageSums& s = usage.sums;
  json.BeginObject();
  json.Field("ofu", usage.Ofu());
  json.TextField("ofu_reason", query::OfuReason(s));
  json.Field("ofu_ci95", usage.ci95);
  json.Field("gpu_seconds", usage.expected_s);
  json.Field("observed_gpu_seconds", s.ofu.observed_s);
  json.Field("computable_gpu_seconds", s.ofu.computable_s);
  json.Field("lost_gpu_seconds", usage.LostGpuSeconds());
  json.Field("coverage", usage.CoverageRatio());
  json.TextField("source", query::OfuSource(s));
  json.Field("weight", "gpu_seconds");
  json.Field("tensor_active", query::MeanOf(s.tensor_s, s.tensor_span_s));
  json.Field("sm_clock_mhz", query::MeanOf(s.clock_mhz_s, s.clock_span_s));
  json.Field("sm_active", query::MeanOf(s.sm_active_s, s.sm_active_span_s));
  json.Field("sm_occupancy", query::MeanOf(s.sm_occupancy_s, s.sm_occupancy_span_s));
  json.Field("gpu_util", query::MeanOf(s.gpu_util_s, s.gpu_util_span_s));
  json.Field("power_w", query::MeanOf(s.power_j, s.power_span_s));
  json.Field("energy_j", s.power_span_s > 0 ? std::optional<double>(s.power_j) : std::nullopt);
  json.Field("gpus", s.gpus);
  json.Field("samples", s.ofu.samples);
  TimeOrNull(json, "first", s.first_ts);
  TimeOrNull(json, "last", s.last_ts);
  json.Key("lost_s").BeginObject();
  efficiency::ForEachUsageSum([&](auto sum) {
    constexpr const efficiency::UsageSumSpec& kSpec = efficiency::SpecOf(sum());
    if constexpr ((kSpec.flag & (efficiency::kNoWork | efficiency::kModelUnknown)) != 0)
      json.Field(kSpec.stem, efficiency::Member<sum()>(s));
  });
  json.EndObject();
  json.Field("stale_s", s.stale_s).Field("frozen_s", s.frozen_s);
  json.TextField("note", query::ShortNote(query::FiguresOf(usage)));
  json.EndObject();
}

void WriteSeries(JsonWriter& json, const query::Series& series) {
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
         [&](size_t k) { return query::MeanOf(p[k].tensor_s, p[k].tensor_span_s); });
  Column(json, "sm_clock_mhz", n,
         [&](size_t k) { return query::MeanOf(p[k].clock_mhz_s, p[k].clock_span_s); });
  Column(json, "gpu_util", n,
         [&](size_t k) { return query::MeanOf(p[k].gpu_util_s, p[k].gpu_util_span_s); });
  Column(json, "power_w", n,
         [&](size_t k) { return query::MeanOf(p[k].power_j, p[k].power_span_s); });
  json.EndObject();
}

}  // namespace flopwatch::api
