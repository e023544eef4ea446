// What a rollup row holds, and how it is made from raw rows (raw_sums.h adds them up): the stored
// sums of efficiency::kUsageSums. One definition for gpu_minute, gpu_hour, job_minute, job_hour and
// fleet_minute, for the raw rows not yet rolled up, and for exact queries by interval.
//
// A rollup row is a partial sum: late rows add another row with the same key, and readers add up.
// OFU itself is not stored but the product of tensor activity and clock, so that the model's tensor
// clock is applied when reading and a corrected peak corrects history.
//
// The seconds behind each sum (computable, *_span) are NULL where they equal the observed time.
//
// Units: GPU tables are coarse (ms, MHz s, J: 1/60000 of a minute at full scale) because they have
// most rows; job and fleet tables are a thousand times finer, because their sums are the product's
// main figures.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "store/duckdb/connection.h"
#include "store/duckdb/raw_sums.h"
#include "store/duckdb/sealed_files.h"
#include "store/store.h"

namespace flopwatch::store::duck {

enum class Rollup : uint8_t { kGpuMinute, kGpuHour, kJobMinute, kJobHour, kFleetMinute };
inline constexpr int kRollupCount = 5;

struct RollupSpec {
  std::string_view table;              // also the folder under sealed/
  Micros step;                         // of its time column
  bool fine;                           // unit of its sums
  std::vector<std::string_view> keys;  // beside the time column `ts`
  std::string_view order;              // how sealed files are sorted
  // Whether it has `gpus`, distinct GPUs and instances of the hour: merged by max, not by sum.
  bool counts_gpus;
};
const RollupSpec& SpecOf(Rollup rollup);
// The stem of a sum and the unit it is stored in: "observed_ms", or "observed_us" where it is fine.
std::string SumColumn(UsageSum sum, bool fine);

// How the fields a rollup reads are stored: stored integer / scale = canonical unit.
struct InputScales {
  double tensor_active = 1, sm_clock_mhz = 1, sm_active = 1, sm_occupancy = 1, gpu_util = 1,
         gr_active = 1, power_w = 1;
};
inline constexpr std::string_view kInputColumns[] = {"tensor_active", "sm_clock_mhz", "sm_active",
                                                     "sm_occupancy",  "gpu_util",     "gr_active",
                                                     "power_w"};
// Stored integer of RowHeader::tensor_mhz per MHz.
inline constexpr double kTensorMhzScale = 1000;

// Columns of a CREATE TABLE for a rollup.
std::string RollupColumns(const RollupSpec& spec);

// SELECT over raw rows of a hot segment's table of one kind: bucket (microseconds; 0 where step is
// 0), `keys`, kStoredSums in coarse units as DOUBLE, first_ts, last_ts; one row for each bucket and
// key. Rows count for their entity, as in GPU tables, or for the fleet, as in job and fleet tables.
// `where` may use the columns and rowid.
std::string HotSums(std::string_view segment, telemetry::EntityKind kind,
                    efficiency::CountedFor whom, const InputScales& scales, Micros step,
                    std::string_view keys, const std::string& where);

// The sums of HotSums() as a row of `spec` stores them: rounded integers in its unit.
std::string StoredSums(const RollupSpec& spec);
// The sums of rollup rows of `spec`, each in coarse units:  "sum(observed_us) / 1e3 AS observed_ms,
// ...".
std::string RollupSums(const RollupSpec& spec);
// SELECTs over sealed files of `spec`, one for each set of columns among them: a scan reads files
// of one schema. A sum that is younger than a file is NULL in its rows, and counts as 0.
std::vector<std::string> SealedRollup(const RollupSpec& spec, const std::string& directory,
                                      const SealedFiles& files);
// "sum(observed_us)::BIGINT AS observed_us, ...": merges rollup rows of the same unit (and gpus by
// max).
std::string MergeSums(const RollupSpec& spec);

// The sums of one rollup row or of many, in coarse units; kModelUnknown is not among them.
struct Sums {
  PerSum<double> v{};
  Micros first_ts = 0, last_ts = 0;  // 0 = no sample
};
Sums SumsOf(const RawState& raw, const InputScales& scales);
// Reads the columns of kStoredSums and first_ts, last_ts, beginning at `column`.
Sums ReadSums(const Row& row, size_t column);
// Adds them to `out` times `share`, applying the model's tensor clock.
void AddSums(const Sums& sums, const ModelRecord* model, double share, UsageSums* out);

}  // namespace flopwatch::store::duck
