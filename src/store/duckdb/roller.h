// Rolls raw rows of a segment up into its own rollup tables: rows in order of arrival, each exactly
// once, the new partial sums and the new watermark in one transaction.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "store/duckdb/connection.h"
#include "store/duckdb/rollup.h"
#include "store/duckdb/segment.h"

namespace flopwatch::store::duck {

// Rows of one transaction: bounds memory to a few hundred MB however far the rollups are behind.
inline constexpr uint64_t kRollUpRows = 2'000'000;

// What is kept of the rows, each with its own watermark. There is no table a GPU and minute: with a
// sample every ten seconds it saves readers nothing (the raw rows are added up as fast), and would
// cost a fifth of the raw rows' space until the hour is sealed.
enum class Level : uint8_t {
  kJob,      // job_minute
  kPresent,  // present: which GPUs had rows for which job set in which hour, once each
};
inline constexpr int kLevels = 2;

// Rows of each kind that are in the rollups.
struct Watermarks {
  std::array<std::array<uint64_t, kEntityKinds>, kLevels> rows{};
  uint64_t of(Level level, telemetry::EntityKind kind) const {
    return rows[static_cast<int>(level)][static_cast<int>(kind)];
  }
};
StatusOr<Watermarks> ReadWatermarks(Connection* c, const Segment& segment);

// Kinds that have rollups.
inline constexpr telemetry::EntityKind kRolledKinds[] = {telemetry::EntityKind::kGpu,
                                                         telemetry::EntityKind::kGpuInstance};

// How this directory stores what rollups read.
InputScales ScalesOf(const DimensionTables& dimensions);

// SELECT of hour, job_set, model, entity: which there are among rows of a segment.
std::string PresentRows(std::string_view segment, telemetry::EntityKind kind,
                        const std::string& where);

// SELECT of the rows of gpu_minute or gpu_hour, as stored: made of the raw rows of a segment, one
// for each key. Empty if it has no table of GPUs.
std::string GpuRollup(const Segment& segment, Rollup rollup, const InputScales& scales);

Status RollUp(Connection* c, const Segment& segment, Level level, const InputScales& scales,
              Watermarks* done);

}  // namespace flopwatch::store::duck
