#include "store/duckdb/roller.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/duckdb/cat.h"

namespace flopwatch::store::duck {
namespace {

using telemetry::EntityKind;

std::string ProgressKey(Level level, EntityKind kind) {
  static constexpr std::string_view kTables[kLevels] = {"job_minute", "present"};
  return fmt::format("{}:{}", kTables[static_cast<size_t>(level)], HotTable(kind));
}

std::string KeyList(const RollupSpec& spec) {
  std::string keys;
  for (std::string_view key : spec.keys) CatTo(&keys, keys.empty() ? "" : ", ", key);
  return keys;
}

}  // namespace

StatusOr<Watermarks> ReadWatermarks(Connection* c, const Segment& segment) {
  FW_ASSIGN_OR_RETURN(Result result, c->Query(fmt::format(
                                         "SELECT tbl, max(watermark) FROM {}.progress GROUP BY tbl",
                                         segment.alias())));
  Watermarks marks;
  result.ForEach([&](const Row& row) {
    for (Level level : {Level::kJob, Level::kPresent}) {
      for (EntityKind kind : kRolledKinds) {
        if (row.Text(0) == ProgressKey(level, kind)) {
          marks.rows[static_cast<int>(level)][static_cast<int>(kind)] =
              static_cast<uint64_t>(row.Int64(1));
        }
      }
    }
  });
  return marks;
}

InputScales ScalesOf(const DimensionTables& dimensions) {
  const auto fields = dimensions.fields();
  const auto scale = [&](const std::string& column) {
    const auto it = fields->find(column);
    return it == fields->end() ? 1.0 : it->second.stored_per_unit;
  };
  return {.tensor_active = scale("tensor_active"),
          .sm_clock_mhz = scale("sm_clock_mhz"),
          .sm_active = scale("sm_active"),
          .sm_occupancy = scale("sm_occupancy"),
          .gpu_util = scale("gpu_util"),
          .gr_active = scale("gr_active"),
          .power_w = scale("power_w")};
}

std::string PresentRows(std::string_view segment, EntityKind kind, const std::string& where) {
  return fmt::format(
      "SELECT make_timestamp(h * {0}) AS hour, job_set, model, entity FROM (SELECT DISTINCT "
      "epoch_us(ts) // {0} AS h, job_set, model, entity FROM {1}.{2} WHERE {3})",
      kMicrosPerHour, segment, HotTable(kind), where);
}

std::string GpuRollup(const Segment& segment, Rollup rollup, const InputScales& scales) {
  const RollupSpec& spec = SpecOf(rollup);
  const std::string keys = KeyList(spec);
  const SegmentState state = segment.Describe();
  std::vector<std::string> kinds;
  for (EntityKind kind : kRolledKinds) {
    if (!state.samples[static_cast<int>(kind)].exists)
      continue;  // not "has rows": views outlive the answer to that
    kinds.push_back(fmt::format("SELECT make_timestamp(bucket) AS ts, {}, {} FROM ({})", keys,
                                StoredSums(spec),
                                HotSums(segment.alias(), kind, efficiency::CountedFor::kItself,
                                        scales, spec.step, keys, "true")));
  }
  return kinds.empty() ? std::string() : UnionAll(kinds);
}

namespace {

// Adds what rows of a segment say to the table of a level.
std::string InsertSql(const Segment& segment, Level level, EntityKind kind,
                      const InputScales& scales, const std::string& where) {
  const std::string& alias = segment.alias();
  if (level == Level::kPresent) {
    return fmt::format(
        "INSERT INTO {0}.present SELECT hour, job_set, model, entity FROM ({1}) ANTI JOIN "
        "{0}.present USING (hour, job_set, model, entity) ORDER BY hour, job_set, entity",
        alias, PresentRows(alias, kind, where));
  }
  const RollupSpec& spec = SpecOf(Rollup::kJobMinute);
  const std::string keys = KeyList(spec);
  // Rows are in order of time and job: it costs little, and they compress and prune far better.
  return fmt::format(
      "INSERT INTO {0}.{1} BY NAME SELECT make_timestamp(bucket) AS ts, {2}, {3} FROM ({4}) ORDER "
      "BY bucket, {2}",
      alias, spec.table, keys, StoredSums(spec),
      HotSums(alias, kind, efficiency::CountedFor::kFleet, scales, spec.step, keys, where));
}

}  // namespace

Status RollUp(Connection* c, const Segment& segment, Level level, const InputScales& scales,
              Watermarks* done) {
  const SegmentState state = segment.Describe();
  for (EntityKind kind : kRolledKinds) {
    const uint64_t rows = state.samples[static_cast<int>(kind)].extent.rows;
    uint64_t& mark = done->rows[static_cast<int>(level)][static_cast<int>(kind)];
    while (mark < rows) {
      const uint64_t next = std::min(rows, mark + kRollUpRows);
      const std::string where = fmt::format("rowid >= {} AND rowid < {}", mark, next);
      FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
      FW_RETURN_IF_ERROR(c->Execute(InsertSql(segment, level, kind, scales, where)));
      FW_RETURN_IF_ERROR(c->FaultPoint("rollup:inserted"));
      FW_RETURN_IF_ERROR(
          c->Execute(fmt::format("INSERT INTO {}.progress VALUES ({}, {})", segment.alias(),
                                 QuoteText(ProgressKey(level, kind)), next)));
      FW_RETURN_IF_ERROR(transaction.Commit());
      mark = next;
      FW_RETURN_IF_ERROR(c->FaultPoint("rollup:committed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::store::duck
