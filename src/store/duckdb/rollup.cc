#include "store/duckdb/rollup.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/lookup.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/segment.h"

namespace flopwatch::store::duck {

using efficiency::SumUnit;

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

std::string SumColumn(UsageSum sum, bool fine) {
  const efficiency::UsageSumSpec& spec = efficiency::SpecOf(sum);
  using Suffixes = std::pair<std::string_view, std::string_view>;  // coarse, fine
  static constexpr std::pair<SumUnit, Suffixes> kSuffixes[] = {
      {SumUnit::kSeconds, {"_ms", "_us"}},
      {SumUnit::kMhzSeconds, {"_mhz_s", "_khz_s"}},
      {SumUnit::kJoules, {"_j", "_mj"}}};
  const Suffixes suffixes = ValueOf(kSuffixes, spec.unit, Suffixes());
  return Cat(spec.stem, fine ? suffixes.second : suffixes.first);
}

std::string RollupColumns(const RollupSpec& spec) {
  std::string sql = "ts TIMESTAMP";
  for (std::string_view key : spec.keys) CatTo(&sql, ", ", key, " INTEGER");
  for (const UsageSum s : kStoredSums) CatTo(&sql, ", ", SumColumn(s, spec.fine), " BIGINT");
  return sql + ", first_ts TIMESTAMP, last_ts TIMESTAMP";
}

namespace {

// What a sum of stored integers x ms is divided by to be in coarse units.
double RawPerCoarse(UsageSum sum, const InputScales& k) {
  const std::pair<UsageSum, double> per_coarse[] = {
      {UsageSum::kWork, k.tensor_active * k.sm_clock_mhz * 1e3},
      {UsageSum::kTensor, k.tensor_active},
      {UsageSum::kClock, k.sm_clock_mhz * 1e3},
      {UsageSum::kSmActive, k.sm_active},
      {UsageSum::kSmOccupancy, k.sm_occupancy},
      {UsageSum::kGpuUtil, k.gpu_util},
      {UsageSum::kEnergy, k.power_w * 1e3}};
  return ValueOf(per_coarse, sum, 1.0);
}
constexpr double kCycleWorkPerCoarse = kTensorMhzScale * 1e3;

}  // namespace

std::string HotSums(std::string_view segment, telemetry::EntityKind kind,
                    efficiency::CountedFor whom, const InputScales& k, Micros step,
                    std::string_view keys, const std::string& where) {
  const std::string table = Cat(segment, ".", HotTable(kind));
  const std::string key_list = keys.empty() ? "" : Cat(keys, ", ");
  std::string source = Cat(table, " WHERE ", where), fraction = "1::DOUBLE";
  const bool of_gpu = whom == efficiency::CountedFor::kItself;
  if (!of_gpu && kind == telemetry::EntityKind::kGpuInstance) {
    // An instance that is not described (yet) counts as the smallest there is.
    source = fmt::format("(FROM {} WHERE {}) s LEFT JOIN dim.weights w ON w.id = s.entity", table,
                         where);
    fraction = "coalesce(w.weight, 1.0 / 7)::DOUBLE";
  }
  const std::string bucket = step == 0 ? "" : fmt::format("epoch_us(ts) // {} AS bucket, ", step);
  std::string sums;
  const auto term = [&](std::string_view field, double divisor) {
    return divisor == 1 ? Cat("u.", field) : fmt::format("u.{} / {:.17g}", field, divisor);
  };
  for (const UsageSum s : kStoredSums) {
    sums += term(RawFieldName(s), RawPerCoarse(s, k));
    if (s == UsageSum::kWork) CatTo(&sums, " + ", term(kCycleWorkField, kCycleWorkPerCoarse));
    if (s == UsageSum::kGpuUtil) CatTo(&sums, " + ", term(kGrActiveField, k.gr_active));
    CatTo(&sums, " AS ", SumColumn(s, /*fine=*/false), ", ");
  }
  return fmt::format(
      "SELECT {} AS bucket, {}{}u.first_ts AS first_ts, u.last_ts AS last_ts FROM (SELECT "
      "{}{}fw_sums({}, {}, {}) AS u FROM {} GROUP BY ALL)",
      step == 0 ? "0" : fmt::format("bucket * {}", step), key_list, sums, bucket, key_list, of_gpu,
      fraction, kRawArguments, source);
}

namespace {

// Whether a column is NULL where it equals the observed time, as it does in nearly every row: it
// then takes next to no space. The seconds behind a mean are such.
bool IsUsuallyObserved(UsageSum sum) {
  return std::any_of(efficiency::kUsageSums.begin(), efficiency::kUsageSums.end(),
                     [&](const auto& spec) { return spec.weight == sum; });
}

// Whether there are rows older than the column, which are NULL there: frozen time came with schema
// version 8, occupancy with 11.
bool IsYounger(UsageSum sum) { return sum == UsageSum::kFrozen || sum == UsageSum::kSmOccupancy; }

// The stored column as a number.
std::string Stored(const RollupSpec& spec, UsageSum sum) {
  const std::string column = SumColumn(sum, spec.fine);
  if (!IsUsuallyObserved(sum)) return IsYounger(sum) ? Cat("coalesce(", column, ", 0)") : column;
  const std::string seconds =
      Cat("coalesce(", column, ", ", SumColumn(UsageSum::kObserved, spec.fine), ")");
  // A row that is older than the value was not measured, whatever it observed.
  for (const auto& value : efficiency::kUsageSums) {
    if (value.weight == sum && IsYounger(value.sum))
      return Cat("CASE WHEN ", SumColumn(value.sum, spec.fine), " IS NULL THEN 0 ELSE ", seconds,
                 " END");
  }
  return seconds;
}

// A number as the column stores it, with the same expression of the observed time.
std::string ToStore(UsageSum sum, const std::string& value, const std::string& observed) {
  return IsUsuallyObserved(sum) ? Cat("nullif(", value, ", ", observed, ")") : value;
}

}  // namespace

std::string StoredSums(const RollupSpec& spec) {
  const auto rounded = [&](UsageSum sum) {
    return Cat("round(coalesce(", SumColumn(sum, /*fine=*/false), ", 0)",
               spec.fine && sum != UsageSum::kSamples ? " * 1e3" : "", ")::BIGINT");
  };
  std::string sql;
  for (const UsageSum s : kStoredSums) {
    CatTo(&sql, ToStore(s, rounded(s), rounded(UsageSum::kObserved)), " AS ",
          SumColumn(s, spec.fine), ", ");
  }
  return sql + "first_ts, last_ts";
}

std::string RollupSums(const RollupSpec& spec) {
  std::string sql;
  for (const UsageSum s : kStoredSums) {
    const std::string_view divisor = spec.fine && s != UsageSum::kSamples ? " / 1e3" : "";
    CatTo(&sql, "sum(", Stored(spec, s), ")", divisor, " AS ", SumColumn(s, /*fine=*/false), ", ");
  }
  return sql + "min(first_ts) AS first_ts, max(last_ts) AS last_ts";
}

std::string MergeSums(const RollupSpec& spec) {
  const auto total = [&](UsageSum sum) { return Cat("sum(", Stored(spec, sum), ")::BIGINT"); };
  std::string sql;
  for (const UsageSum s : kStoredSums) {
    CatTo(&sql, ToStore(s, total(s), total(UsageSum::kObserved)), " AS ", SumColumn(s, spec.fine),
          ", ");
  }
  if (spec.counts_gpus) sql += "max(gpus) AS gpus, ";
  return sql + "min(first_ts) AS first_ts, max(last_ts) AS last_ts";
}

std::vector<std::string> SealedRollup(const RollupSpec& spec, const std::string& directory,
                                      const SealedFiles& files) {
  std::map<std::string, SealedFiles> by_schema;
  for (const auto& f : files) by_schema[f->columns].push_back(f);
  std::vector<std::string> scans;
  for (const auto& [columns, of_schema] : by_schema) {
    std::string sql = "SELECT *";
    for (const UsageSum s : kStoredSums) {
      const std::string column = SumColumn(s, spec.fine);
      if (!Contains(Cat(",", columns, ","), Cat(",", column, ",")))
        CatTo(&sql, ", NULL::BIGINT AS ", column);
    }
    scans.push_back(
        Cat(sql, " FROM ", ScanFiles(directory, of_schema, ", hive_partitioning = false")));
  }
  return scans;
}

Sums SumsOf(const RawState& raw, const InputScales& scales) {
  Sums sums;
  for (const UsageSum s : kStoredSums) sums.v[s] = raw.sums[s] / RawPerCoarse(s, scales);
  sums.v[UsageSum::kWork] += raw.cycle_work / kCycleWorkPerCoarse;
  sums.v[UsageSum::kGpuUtil] += raw.gr_active / scales.gr_active;
  if (raw.first_ts <= raw.last_ts) {
    sums.first_ts = raw.first_ts;
    sums.last_ts = raw.last_ts;
  }
  return sums;
}

Sums ReadSums(const Row& row, size_t column) {
  Sums sums;
  for (const UsageSum s : kStoredSums) sums.v[s] = row.Double(column++);
  if (!row.IsNull(column)) {
    sums.first_ts = row.Int64(column);
    sums.last_ts = row.Int64(column + 1);
  }
  return sums;
}

void AddSums(const Sums& sums, const ModelRecord* model, double share, UsageSums* out) {
  PerSum<double> v;
  for (const efficiency::UsageSumSpec& spec : efficiency::kUsageSums)
    v[spec.sum] = spec.unit == SumUnit::kSeconds ? sums.v[spec.sum] / 1e3 : sums.v[spec.sum];
  efficiency::ApplyTensorClock(model == nullptr ? 0 : model->tensor_clock_max_mhz.value_or(0), &v);
  UsageSums add = efficiency::OfJob(efficiency::ToUsage(v), share);
  add.first_ts = sums.first_ts;
  add.last_ts = sums.last_ts;
  *out += add;
}

}  // namespace flopwatch::store::duck
