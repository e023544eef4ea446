#include "store/duckdb/roller.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/duckdb/cat.h"
#include "store/duckdb/fault_point.h"

namespace flopwatch::store::duck {
namespace {

using telemetry::EntityKind;

std::string ProgressKey(Level level, EntityKind kind) {
  return fmt::format("{}:{}", level == Level::kJob ? "job_minute" : "gpu_minute", HotTable(kind));
}

}  // namespace

StatusOr<Watermarks> ReadWatermarks(Connection* c, const Segment& segment) {
  FW_ASSIGN_OR_RETURN(Result result, c->Query(fmt::format("SELECT tbl, max(watermark) FROM {}.progress GROUP BY tbl",
                                                          segment.alias())));
  Watermarks marks;
  result.ForEach([&](const Row& row) {
    for (Level level : {Level::kJob, Level::kGpu}) {
      for (EntityKind kind : kRolledKinds) {
        if (row.Text(0) == ProgressKey(level, kind)) {
          marks.rows[static_cast<int>(level)][static_cast<int>(kind)] = static_cast<uint64_t>(row.Int64(1));
        }
      }
    }
  });
  return marks;
}

Status RollUp(Connection* c, const Segment& segment, Level level, const InputScales& scales, Watermarks* done) {
  const RollupSpec& spec = SpecOf(level == Level::kJob ? Rollup::kJobMinute : Rollup::kGpuMinute);
  std::string keys;
  for (std::string_view key : spec.keys) CatTo(&keys, keys.empty() ? "" : ", ", key);
  const SegmentState state = segment.Describe();
  for (EntityKind kind : kRolledKinds) {
    const uint64_t rows = state.samples[static_cast<int>(kind)].extent.rows;
    uint64_t& mark = done->rows[static_cast<int>(level)][static_cast<int>(kind)];
    while (mark < rows) {
      const uint64_t next = std::min(rows, mark + kRollUpRows);
      const std::string where = fmt::format("rowid >= {} AND rowid < {}", mark, next);
      FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
      // In order of time and GPU: it costs little and the rows compress and prune far better.
      FW_RETURN_IF_ERROR(c->Execute(fmt::format(
          "INSERT INTO {0}.{1} SELECT minute, {2}, {3} FROM (SELECT time_bucket(INTERVAL 1 MINUTE, ts) AS minute, {2}, "
          "{4} FROM {5} GROUP BY ALL) ORDER BY minute, {2}",
          segment.alias(), spec.table, keys, StoredSums(spec), RawSums(),
          HotRows(segment.alias(), kind, level == Level::kJob, scales, keys, where))));
      FW_RETURN_IF_ERROR(FaultPoint("rollup:inserted"));
      FW_RETURN_IF_ERROR(c->Execute(fmt::format("INSERT INTO {}.progress VALUES ({}, {})", segment.alias(),
                                                QuoteText(ProgressKey(level, kind)), next)));
      FW_RETURN_IF_ERROR(transaction.Commit());
      mark = next;
      FW_RETURN_IF_ERROR(FaultPoint("rollup:committed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::store::duck
