#include "store/duckdb/rollup.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/duckdb/cat.h"
#include "store/duckdb/segment.h"

namespace flopwatch::store::duck {
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

namespace {

// A sum of a rollup out of raw ones: raw sum / divisor, added up.
struct Term {
  Raw raw;
  double divisor;  // 0 = no term
};
std::array<Term, 2> TermsOf(int sum, const InputScales& k) {
  const auto one = [](Raw raw, double divisor = 1) {
    return std::array<Term, 2>{{{raw, divisor}, {raw, 0}}};
  };
  switch (static_cast<Sum>(sum)) {
    case kSamples:
      return one(kRawSamples);
    case kObserved:
      return one(kRawObserved);
    case kComputable:
      return one(kRawComputable);
    case kProduct:
      return {{{kRawCycleProduct, kTensorMhzScale * 1e3},
               {kRawProduct, k.tensor_active * k.sm_clock_mhz * 1e3}}};
    case kTensor:
      return one(kRawTensor, k.tensor_active);
    case kTensorSpan:
      return one(kRawTensorSpan);
    case kClock:
      return one(kRawClock, k.sm_clock_mhz * 1e3);
    case kClockSpan:
      return one(kRawClockSpan);
    case kSmActive:
      return one(kRawSmActive, k.sm_active);
    case kSmActiveSpan:
      return one(kRawSmActiveSpan);
    case kGpuUtil:
      return {{{kRawGpuUtil, k.gpu_util}, {kRawGrActive, k.gr_active}}};
    case kGpuUtilSpan:
      return one(kRawUtilSpan);
    case kEnergy:
      return one(kRawPower, k.power_w * 1e3);
    case kPowerSpan:
      return one(kRawPowerSpan);
    case kTensorMissing:
      return one(kRawTensorMissing);
    case kClockMissing:
      return one(kRawClockMissing);
    case kDeadCounter:
      return one(kRawDeadCounter);
    case kOutOfRange:
      return one(kRawOutOfRange);
    case kStale:
      return one(kRawStale);
    case kCycles:
      return one(kRawCycles);
    case kSumCount:
      break;
  }
  return one(kRawSamples, 0);
}

}  // namespace

std::string HotSums(std::string_view segment, telemetry::EntityKind kind, bool as_share_of_gpu,
                    const InputScales& k, Micros step, std::string_view keys,
                    const std::string& where) {
  const std::string table = Cat(segment, ".", HotTable(kind));
  const std::string key_list = keys.empty() ? "" : Cat(keys, ", ");
  std::string source = Cat(table, " WHERE ", where), weight = "1::DOUBLE";
  if (as_share_of_gpu && kind == telemetry::EntityKind::kGpuInstance) {
    // An instance that is not described (yet) counts as the smallest there is.
    source = fmt::format("(FROM {} WHERE {}) s LEFT JOIN dim.weights w ON w.id = s.entity", table,
                         where);
    weight = "coalesce(w.weight, 1.0 / 7)::DOUBLE";
  }
  const std::string bucket = step == 0 ? "" : fmt::format("epoch_us(ts) // {} AS bucket, ", step);
  std::string sums;
  for (int s = 0; s < kSumCount; ++s) {
    const char* plus = "";
    for (const Term& t : TermsOf(s, k)) {
      if (t.divisor == 0) continue;
      CatTo(&sums, std::exchange(plus, " + "), "u.", kRawNames[t.raw]);
      if (t.divisor != 1) sums += fmt::format(" / {:.17g}", t.divisor);
    }
    CatTo(&sums, " AS ", kSumNames[s].gpu, ", ");
  }
  return fmt::format(
      "SELECT {} AS bucket, {}{}u.first_ts AS first_ts, u.last_ts AS last_ts FROM (SELECT "
      "{}{}fw_sums({}, {}, {}) AS u FROM {} "
      "GROUP BY ALL)",
      step == 0 ? "0" : fmt::format("bucket * {}", step), key_list, sums, bucket, key_list,
      !as_share_of_gpu, weight, kRawArguments, source);
}

namespace {

// Whether a column is NULL where it equals the observed time, as it does in nearly every row: it
// then takes next to no space.
bool IsUsuallyObserved(int sum) {
  switch (static_cast<Sum>(sum)) {
    case kComputable:
    case kTensorSpan:
    case kClockSpan:
    case kSmActiveSpan:
    case kGpuUtilSpan:
    case kPowerSpan:
      return true;
    default:
      return false;
  }
}

// The stored column as a number.
std::string Stored(const RollupSpec& spec, int sum) {
  const std::string_view column = SumColumn(spec, sum);
  return IsUsuallyObserved(sum) ? Cat("coalesce(", column, ", ", SumColumn(spec, kObserved), ")")
                                : std::string(column);
}

// A number as the column stores it, with the same expression of the observed time.
std::string ToStore(int sum, const std::string& value, const std::string& observed) {
  return IsUsuallyObserved(sum) ? Cat("nullif(", value, ", ", observed, ")") : value;
}

}  // namespace

std::string StoredSums(const RollupSpec& spec) {
  const auto rounded = [&](int sum) {
    return Cat("round(coalesce(", kSumNames[sum].gpu, ", 0)",
               spec.fine && sum != kSamples ? " * 1e3" : "", ")::BIGINT");
  };
  std::string sql;
  for (int s = 0; s < kSumCount; ++s) {
    CatTo(&sql, ToStore(s, rounded(s), rounded(kObserved)), " AS ", SumColumn(spec, s), ", ");
  }
  return sql + "first_ts, last_ts";
}

std::string RollupSums(const RollupSpec& spec) {
  std::string sql;
  for (int s = 0; s < kSumCount; ++s) {
    const std::string_view divisor = spec.fine && s != kSamples ? " / 1e3" : "";
    CatTo(&sql, "sum(", Stored(spec, s), ")", divisor, " AS ", kSumNames[s].gpu, ", ");
  }
  return sql + "min(first_ts) AS first_ts, max(last_ts) AS last_ts";
}

std::string MergeSums(const RollupSpec& spec) {
  const auto total = [&](int sum) { return Cat("sum(", Stored(spec, sum), ")::BIGINT"); };
  std::string sql;
  for (int s = 0; s < kSumCount; ++s)
    CatTo(&sql, ToStore(s, total(s), total(kObserved)), " AS ", SumColumn(spec, s), ", ");
  if (spec.counts_gpus) sql += "max(gpus) AS gpus, ";
  return sql + "min(first_ts) AS first_ts, max(last_ts) AS last_ts";
}

Sums SumsOf(const RawState& raw, const InputScales& scales) {
  Sums sums;
  for (int s = 0; s < kSumCount; ++s) {
    for (const Term& t : TermsOf(s, scales)) {
      if (t.divisor != 0) sums.v[s] += raw.sums[t.raw] / t.divisor;
    }
  }
  if (raw.first_ts <= raw.last_ts) {
    sums.first_ts = raw.first_ts;
    sums.last_ts = raw.last_ts;
  }
  return sums;
}

Sums ReadSums(const Row& row, size_t column) {
  Sums sums;
  for (int s = 0; s < kSumCount; ++s) sums.v[s] = row.Double(column + s);
  if (!row.IsNull(column + kSumCount)) {
    sums.first_ts = row.Int64(column + kSumCount);
    sums.last_ts = row.Int64(column + kSumCount + 1);
  }
  return sums;
}

void AddSums(const Sums& sums, const ModelRecord* model, double share, UsageSums* out) {
  std::array<double, kSumCount> v;
  for (int s = 0; s < kSumCount; ++s) v[s] = sums.v[s] * (s == kSamples ? 1 : share);
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
  add.first_ts = sums.first_ts;
  add.last_ts = sums.last_ts;
  *out += add;
}

}  // namespace flopwatch::store::duck
