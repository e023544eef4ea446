#include "store/duckdb/rollup.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/duckdb/cat.h"
#include "store/duckdb/segment.h"

namespace flopwatch::store::duck {
namespace {

// RawRows() writes flags as numbers into SQL; these are the ones it relies on.
static_assert(telemetry::kTensorMissing == 1 && telemetry::kClockMissing == 2 && telemetry::kDeadCounter == 8 &&
              telemetry::kOutOfRange == 16 && telemetry::kStaleRepeat == 256 && telemetry::kCyclePath == 1024 &&
              telemetry::kMigParent == 8192);

}  // namespace

const RollupSpec& SpecOf(Rollup rollup) {
  static const std::array<RollupSpec, kRollupCount> kSpecs = {{
      {"gpu_minute", kMicrosPerMinute, false, {"entity", "job_set", "model"}, "entity, ts", false},
      {"gpu_hour", kMicrosPerHour, false, {"entity", "job_set", "model"}, "entity, ts", false},
      {"job_minute", kMicrosPerMinute, true, {"job_set", "model"}, "job_set, ts", false},
      {"job_hour", kMicrosPerHour, true, {"job_set", "model"}, "job_set, ts", true},
      {"fleet_minute", kMicrosPerMinute, true, {"model"}, "ts", false},
  }};
  return kSpecs[static_cast<size_t>(rollup)];
}

std::string RollupColumns(const RollupSpec& spec) {
  std::string sql = "ts TIMESTAMP";
  for (std::string_view key : spec.keys) CatTo(&sql, ", ", key, " INTEGER");
  for (int s = 0; s < kSumCount; ++s) CatTo(&sql, ", ", SumColumn(spec, s), " BIGINT");
  return sql + ", first_ts TIMESTAMP, last_ts TIMESTAMP";
}

std::string RawRows(std::string_view table, const InputScales& k, std::string_view span, std::string_view board_span,
                    std::string_view passed_on, std::string_view where) {
  // t tensor activity, c clock, a SM activity, u duty cycle, w power, p product. 27 = tensor missing, clock missing, dead
  // counter, out of range; 25 = those that say the tensor value is not one. kModelUnknown is not among them: the model is
  // looked up when reading. Time without a product is charged to the first reason that applies (r).
  return fmt::format(
      "(SELECT {0}, ts, flags, span, board_span, c, a, u, w, p, CASE WHEN flags & 25 = 0 THEN t END AS t,"
      " CASE WHEN p IS NOT NULL THEN 0 WHEN flags & 1 <> 0 THEN 1 WHEN flags & 2 <> 0 THEN 2 WHEN flags & 8 <> 0 THEN 3"
      " WHEN flags & 16 <> 0 THEN 4 WHEN t IS NULL THEN 1 ELSE 2 END AS r"
      " FROM (SELECT *, CASE WHEN flags & 27 = 0 THEN coalesce(mhz, t * c) END AS p"
      " FROM (SELECT {0}, ts, flags, ({1})::DOUBLE AS span, ({2})::DOUBLE AS board_span, tensor_mhz / {3:.17g} AS mhz,"
      " tensor_active / {4:.17g} AS t, sm_clock_mhz / {5:.17g} AS c, sm_active / {6:.17g} AS a,"
      " coalesce(gpu_util / {7:.17g}, gr_active / {8:.17g}) AS u, power_w / {9:.17g} AS w FROM {10} WHERE {11})))",
      passed_on, span, board_span, kTensorMhzScale, k.tensor_active, k.sm_clock_mhz, k.sm_active, k.gpu_util, k.gr_active,
      k.power_w, table, where);
}

std::string HotRows(std::string_view segment, telemetry::EntityKind kind, bool as_share_of_gpu,
                    const InputScales& scales, std::string_view passed_on, const std::string& where) {
  const std::string table = Cat(segment, ".", HotTable(kind));
  if (!as_share_of_gpu) return RawRows(table, scales, "span_ms", "span_ms", passed_on, where);
  if (kind != telemetry::EntityKind::kGpuInstance) {
    // NULL is in no sum and no count.
    return RawRows(table, scales, "CASE WHEN flags & 8192 = 0 THEN span_ms END", "span_ms", passed_on, where);
  }
  // An instance that is not described (yet) counts as the smallest there is.
  return RawRows(fmt::format("(SELECT s.*, coalesce(w.weight, 1.0 / 7) AS weight FROM (FROM {} WHERE {}) s "
                             "LEFT JOIN dim.weights w ON w.id = s.entity)",
                             table, where),
                 scales, "span_ms * weight", "span_ms * weight", passed_on, "true");
}

std::string RawSums() {
  static constexpr std::array<std::string_view, kSumCount> kExpressions = {
      "count(span)",
      "sum(span)",
      "sum(CASE WHEN p IS NOT NULL THEN span END)",
      "sum(p * span) / 1e3",
      "sum(t * span)",
      "sum(CASE WHEN t IS NOT NULL THEN span END)",
      "sum(c * span) / 1e3",
      "sum(CASE WHEN c IS NOT NULL THEN span END)",
      "sum(a * span)",
      "sum(CASE WHEN a IS NOT NULL THEN span END)",
      "sum(u * span)",
      "sum(CASE WHEN u IS NOT NULL THEN span END)",
      "sum(w * board_span) / 1e3",
      "sum(CASE WHEN w IS NOT NULL THEN board_span END)",
      "sum(CASE WHEN r = 1 THEN span END)",
      "sum(CASE WHEN r = 2 THEN span END)",
      "sum(CASE WHEN r = 3 THEN span END)",
      "sum(CASE WHEN r = 4 THEN span END)",
      "sum(CASE WHEN flags & 256 <> 0 THEN span END)",
      "sum(CASE WHEN flags & 1024 <> 0 AND p IS NOT NULL THEN span END)",
  };
  std::string sql;
  for (int s = 0; s < kSumCount; ++s) CatTo(&sql, kExpressions[s], " AS ", kSumNames[s].gpu, ", ");
  return sql + "min(ts) AS first_ts, max(ts) AS last_ts";
}

std::string StoredSums(const RollupSpec& spec) {
  std::string sql;
  for (int s = 0; s < kSumCount; ++s) {
    const std::string_view factor = spec.fine && s != kSamples ? " * 1e3" : "";
    CatTo(&sql, "round(coalesce(", kSumNames[s].gpu, ", 0)", factor, ")::BIGINT AS ", SumColumn(spec, s), ", ");
  }
  return sql + "first_ts, last_ts";
}

std::string RollupSums(const RollupSpec& spec) {
  std::string sql;
  for (int s = 0; s < kSumCount; ++s) {
    const std::string_view divisor = spec.fine && s != kSamples ? " / 1e3" : "";
    CatTo(&sql, "sum(", SumColumn(spec, s), ")", divisor, " AS ", kSumNames[s].gpu, ", ");
  }
  return sql + "min(first_ts) AS first_ts, max(last_ts) AS last_ts";
}

std::string MergeSums(const RollupSpec& spec) {
  std::string sql;
  for (int s = 0; s < kSumCount; ++s) {
    CatTo(&sql, "sum(", SumColumn(spec, s), ")::BIGINT AS ", SumColumn(spec, s), ", ");
  }
  if (spec.counts_gpus) sql += "max(gpus) AS gpus, ";
  return sql + "min(first_ts) AS first_ts, max(last_ts) AS last_ts";
}

void AddSums(const Row& row, size_t column, const ModelRecord* model, double share, UsageSums* out) {
  std::array<double, kSumCount> v;
  for (int s = 0; s < kSumCount; ++s) v[s] = row.Double(column + s) * (s == kSamples ? 1 : share);
  const auto seconds = [&](Sum s) { return v[s] / 1e3; };
  UsageSums add;
  add.ofu.samples = static_cast<uint64_t>(v[kSamples]);
  add.ofu.observed_s = seconds(kObserved);
  if (model != nullptr && model->tensor_clock_max_mhz.value_or(0) > 0) {
    add.ofu.ofu_s = v[kProduct] / *model->tensor_clock_max_mhz;
    add.ofu.computable_s = seconds(kComputable);
    add.cycle_path_s = seconds(kCycles);
  } else {
    add.model_unknown_s = seconds(kComputable);
  }
  add.tensor_s = seconds(kTensor);
  add.tensor_span_s = seconds(kTensorSpan);
  add.clock_mhz_s = v[kClock];
  add.clock_span_s = seconds(kClockSpan);
  add.sm_active_s = seconds(kSmActive);
  add.sm_active_span_s = seconds(kSmActiveSpan);
  add.gpu_util_s = seconds(kGpuUtil);
  add.gpu_util_span_s = seconds(kGpuUtilSpan);
  add.power_j = v[kEnergy];
  add.power_span_s = seconds(kPowerSpan);
  add.tensor_missing_s = seconds(kTensorMissing);
  add.clock_missing_s = seconds(kClockMissing);
  add.dead_counter_s = seconds(kDeadCounter);
  add.out_of_range_s = seconds(kOutOfRange);
  add.stale_s = seconds(kStale);
  if (!row.IsNull(column + kSumCount)) {
    add.first_ts = row.Int64(column + kSumCount);
    add.last_ts = row.Int64(column + kSumCount + 1);
  }
  *out += add;
}

}  // namespace flopwatch::store::duck
