// The sums of raw rows (rollup.h says what they mean), made in one pass by a function of our own
// inside the engine.
//
// Why not SQL: twenty sum(CASE ...) a row cost 80 ns of CPU a row; here a row whose values are all
// there and unflagged costs two, because rows of one job lie together and their sums stay in
// registers. What a row counts for is written once, in AddRow(), and AddRegular() is the same for
// the rows nearly all are.
//
//   fw_sums(of_gpu, weight, ts, span_ms, flags, tensor_mhz, tensor_active, sm_clock_mhz, sm_active,
//   gpu_util, gr_active,
//           power_w)                  aggregate; a STRUCT of kRawNames (DOUBLE) and first_ts,
//           last_ts, in stored integers
//                                     times milliseconds
//   fw_rows(sink, entity, model, ts, span_ms, ...)   aggregate that hands its rows to a RowSink;
//   the result says nothing
//
// Both are harmless in the SQL of a user: they only compute.
#ifndef FLOPWATCH_STORE_DUCKDB_RAW_SUMS_H_
#define FLOPWATCH_STORE_DUCKDB_RAW_SUMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/time.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/handle.h"

namespace flopwatch::store::duck {

enum Raw : int {
  kRawSamples,
  kRawObserved,
  kRawComputable,
  kRawCycleProduct,  // tensor_mhz of the cycle path
  kRawProduct,       // tensor activity x clock
  kRawTensor,
  kRawTensorSpan,
  kRawClock,
  kRawClockSpan,
  kRawSmActive,
  kRawSmActiveSpan,
  kRawGpuUtil,
  kRawGrActive,  // where GPU_UTIL is absent
  kRawUtilSpan,
  kRawPower,
  kRawPowerSpan,
  kRawTensorMissing,
  kRawClockMissing,
  kRawDeadCounter,
  kRawOutOfRange,
  kRawStale,
  kRawCycles,
  kRawCount,
};
inline constexpr std::array<std::string_view, kRawCount> kRawNames = {
    "samples",        "observed",       "computable",    "cycle_product", "product",
    "tensor",         "tensor_span",    "clock",         "clock_span",    "sm_active",
    "sm_active_span", "gpu_util",       "gr_active",     "util_span",     "power",
    "power_span",     "tensor_missing", "clock_missing", "dead_counter",  "out_of_range",
    "stale",          "cycles"};

// Sums over rows: stored integers x ms. DOUBLE, because tensor x clock x ms of a large job passes
// 2^63 within hours.
struct RawState {
  std::array<double, kRawCount> sums{};
  Micros first_ts = std::numeric_limits<Micros>::max();
  Micros last_ts = std::numeric_limits<Micros>::min();
  void Add(const RawState& o);
};

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
  Column tensor_mhz, tensor, clock, sm_active, gpu_util, gr_active, power;
  size_t rows = 0;
};

// Bit i: row first + i (first a multiple of 64) has every value, no flag that matters to a sum, and
// no cycle totals.
uint64_t RegularRows(const RawColumns& in, size_t first);
// Rows [begin, end), all regular; each counts for its span times `weight`.
void AddRegular(const RawColumns& in, size_t begin, size_t end, double weight, RawState* out);
// Any row. It counts for `span` milliseconds; with `power_only` (a GPU whose instances count
// instead) for power alone.
void AddRow(const RawColumns& in, size_t row, double span, bool power_only, RawState* out);

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
    "ts, span_ms, flags, tensor_mhz, tensor_active, sm_clock_mhz, sm_active, gpu_util, gr_active, "
    "power_w";

// Once for each instance of the engine.
Status RegisterRawSums(Connection* c);

}  // namespace flopwatch::store::duck

#endif  // FLOPWATCH_STORE_DUCKDB_RAW_SUMS_H_
