// The sums of raw rows, made in one pass by functions of our own inside the engine. What a row
// counts for is efficiency/accounting.h; here is how its columns become one, and a fast path.
//
// Why not SQL: twenty sum(CASE ...) a row cost 80 ns of CPU a row; here a row whose values are all
// there and unflagged costs two, because rows of one job lie together and their sums stay in
// registers.
//
//   fw_sums(of_gpu, fraction, kRawArguments)        aggregate; a STRUCT of RawFieldName() (DOUBLE)
//                                                   and first_ts, last_ts
//   fw_rows(sink, entity, model, kRawArguments)     aggregate that hands its rows to a RowSink; the
//                                                   result says nothing
//
// Both are harmless in the SQL of a user: they only compute.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/time.h"
#include "efficiency/accounting.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/handle.h"

namespace flopwatch::store::duck {

using efficiency::PerSum;
using efficiency::UsageSum;

// The sums that rollups have a column for, in the order of their columns.
inline constexpr auto kStoredSums = [] {
  constexpr size_t kStored = static_cast<size_t>(
      std::count_if(efficiency::kUsageSums.begin(), efficiency::kUsageSums.end(),
                    [](const efficiency::UsageSumSpec& spec) { return spec.stored; }));
  std::array<UsageSum, kStored> sums{};
  size_t at = 0;
  for (const efficiency::UsageSumSpec& spec : efficiency::kUsageSums)
    if (spec.stored) sums[at++] = spec.sum;
  return sums;
}();

// Sums over rows: stored integers x ms. DOUBLE, because tensor x clock x ms of a large job passes
// 2^63 within hours.
struct RawState {
  PerSum<double> sums{};
  // Work of the cycle path and duty cycles from GR_ACTIVE: stored at other scales than the columns
  // whose sums they join once these are known.
  double cycle_work = 0, gr_active = 0;
  Micros first_ts = std::numeric_limits<Micros>::max();
  Micros last_ts = std::numeric_limits<Micros>::min();
  void Add(const RawState& o);
};

// Names in the result of fw_sums(): each of kStoredSums, and the two sums beside them.
std::string RawFieldName(UsageSum sum);
inline constexpr std::string_view kCycleWorkField = "cycle_work", kGrActiveField = "gr_active";

// Up to 2048 rows of a sample table, as the engine lays them out.
struct RawColumns {
  struct Column {
    const int32_t* data = nullptr;
    const uint64_t* validity = nullptr;  // null = every row has a value
    bool has(size_t row) const {
      return validity == nullptr || ((validity[row >> 6] >> (row & 63)) & 1) != 0;
    }
  };
  const int64_t* ts = nullptr;
  Column span_ms, flags;  // never NULL in a sample table
  Column tensor_mhz, tensor, clock, sm_active, sm_occupancy, gpu_util, gr_active, power;
  size_t rows = 0;
};

// Bit i: row first + i (first a multiple of 64) has every value, no flag that matters to a sum, and
// no cycle totals. Occupancy, which many exporters do not list, may be absent from all of the 64.
uint64_t RegularRows(const RawColumns& in, size_t first);
// Rows [begin, end), all regular and of the same 64: what AddRow() would add for each with its own
// span.
void AddRegular(const RawColumns& in, size_t begin, size_t end, double fraction, RawState* out);
// Any row, by efficiency::Account(). It counts for `span` milliseconds.
void AddRow(const RawColumns& in, size_t row, double span, double fraction,
            efficiency::CountedFor whom, RawState* out);

// Receives the rows of one query from several threads at once, each a chunk at a time.
class RowSink {
 public:
  virtual ~RowSink() = default;
  virtual void Rows(const RawColumns& in, const int32_t* entity, const int32_t* model) = 0;
};
// What fw_rows() knows a sink by.
using SinkHandle = Handle<RowSink>;

// Columns both functions read, in their order, after their own arguments.
inline constexpr std::string_view kRawArguments =
    "ts, span_ms, flags, tensor_mhz, tensor_active, sm_clock_mhz, sm_active, sm_occupancy, "
    "gpu_util, gr_active, power_w";
inline constexpr int kRawNumbers = 10;  // of them: all but the time

// Called once for each instance of the engine.
Status RegisterRawSums(Connection* c);

}  // namespace flopwatch::store::duck
