#include "store/duckdb/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "store/duckdb/application.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/hot_damage.h"
#include "store/duckdb/rollup.h"
#include "store/duckdb/schema.h"

namespace flopwatch::store::duck {
namespace {

using telemetry::EntityKind;
using telemetry::StorageType;

// Its row in `progress`, beside the watermarks of rollups, has the last generation of the journal
// whose rows are in the file.
constexpr std::string_view kJournalProgress = "journal";

// Names that fixed columns and columns of user-visible views have.
constexpr std::string_view kReserved[] = {
    "ts",           "entity", "job_set", "model",  "span_ms", "flags", "tensor_mhz", "gpu",
    "gpu_instance", "node",   "job",     "span_s", "ofu",     "day",   "hour",       "rowid"};

// Null where there is none.
template <typename Fields>
auto* FindField(Fields& fields, std::string_view column) {
  const auto it = std::find_if(fields.begin(), fields.end(),
                               [&](const StoredField& f) { return f.column == column; });
  return it == fields.end() ? nullptr : &*it;
}

std::string_view HotType(const StoredField& field) {
  return field.whole() ? kWholeTypes[static_cast<size_t>(field.held_as)].sql
                       : SqlType(field.storage);
}

// The inverse, for fields stored as doubles.
StorageType HeldAs(std::string_view type) {
  if (type == kWholeTypes[0].sql) return StorageType::kInt32;
  // Up to schema version 5 they were integers of 64 bits.
  if (type == kWholeTypes[1].sql || type == SqlType(StorageType::kInt64))
    return StorageType::kInt64;
  return StorageType::kDouble;
}

}  // namespace

std::string_view HotTable(EntityKind kind) {
  static constexpr std::string_view kNames[kEntityKinds] = {
      "gpu_samples", "gpu_instance_samples", "link_samples", "switch_samples", "cpu_samples"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view SealedTable(EntityKind kind) {
  return kind == EntityKind::kGpu || kind == EntityKind::kGpuInstance ? "samples" : HotTable(kind);
}

std::string StoredColumn(const std::string& field) {
  for (std::string_view name : kReserved)
    if (field == name) return "metric_" + field;
  return field;
}

std::string_view SqlType(StorageType storage) {
  if (storage == StorageType::kDouble) return "DOUBLE";
  return storage == StorageType::kInt32 ? "INTEGER" : "BIGINT";
}

// --- names ---

std::string Segment::NameOf(Micros arrival, int sequence) {
  const std::string text = FormatTime(FloorTo(arrival, kMicrosPerHour));  // 2026-01-02T05:00:00Z
  return fmt::format("{}{}{}T{}-{:04}", text.substr(0, 4), text.substr(5, 2), text.substr(8, 2),
                     text.substr(11, 2), sequence);
}

bool Segment::ParseName(std::string_view name, Micros* hour, int* sequence) {
  if (name.size() != 16 || name[8] != 'T' || name[11] != '-') return false;
  const StatusOr<Micros> t =
      ParseTime(fmt::format("{}-{}-{} {}:00", name.substr(0, 4), name.substr(4, 2),
                            name.substr(6, 2), name.substr(9, 2)),
                0);
  if (!t.ok() || !absl::SimpleAtoi(std::string(name.substr(12)), sequence)) return false;
  *hour = *t;
  return true;
}

std::string Segment::PathOf(const std::string& directory, std::string_view name) {
  return fmt::format("{}/hot/seg-{}.duckdb", directory, name);
}

// --- opening ---

StatusOr<std::shared_ptr<Segment>> Segment::Open(Connection* c, const std::string& directory,
                                                 const std::string& name,
                                                 const DimensionTables& dimensions,
                                                 bool read_only) {
  auto segment = std::shared_ptr<Segment>(new Segment);
  int sequence = 0;
  if (!ParseName(name, &segment->hour_, &sequence)) return Internal("no segment name: {}", name);
  segment->name_ = name;
  segment->alias_ = "seg_" + name;
  std::replace(segment->alias_.begin(), segment->alias_.end(), '-', '_');
  segment->path_ = directory.empty() ? std::string(kInMemory) : PathOf(directory, name);
  FW_RETURN_IF_ERROR(directory.empty() ? c->Execute(Cat("ATTACH ':memory:' AS ", segment->alias_))
                                       : AttachFile(c, segment->alias_, segment->path_, read_only));
  // A crash right after creation leaves a file without tables: for a reader there is nothing in it.
  Status loaded = Migrate(c, segment->alias_, segment->path_, SegmentMigrations(), read_only);
  if (loaded.ok()) loaded = segment->Load(c, dimensions);
  if (loaded.ok()) return segment;
  const Status ignored = c->Execute("DETACH " + segment->alias_);
  return loaded;
}

Status Segment::Load(Connection* c, const DimensionTables& dimensions) {
  SegmentState state;
  const auto fields = dimensions.fields();
  FW_ASSIGN_OR_RETURN(Result columns,
                      c->Query(fmt::format("SELECT table_name, column_name, data_type FROM "
                                           "duckdb_columns() WHERE database_name = {} "
                                           "ORDER BY table_name, column_index",
                                           QuoteText(alias_))));
  columns.ForEach([&](const Row& row) {
    for (int k = 0; k < kEntityKinds; ++k) {
      if (row.Text(0) != HotTable(static_cast<EntityKind>(k))) continue;
      state.samples[k].exists = true;
      const std::string column(row.Text(1));
      if (std::find(std::begin(kFixedColumns), std::end(kFixedColumns), column) !=
          std::end(kFixedColumns))
        continue;
      const auto found = fields->find(column);
      StoredField& field = state.samples[k].columns.emplace_back(
          found == fields->end() ? StoredField{column} : found->second);
      if (field.storage == StorageType::kDouble) field.held_as = HeldAs(row.Text(2));
    }
  });
  const auto measure = [&](std::string_view table, Extent* extent) -> Status {
    FW_ASSIGN_OR_RETURN(
        Result result,
        c->Query(fmt::format("SELECT count(*), min(ts), max(ts) FROM {}.{}", alias_, table)));
    result.ForEach([&](const Row& row) {
      if (row.Int64(0) > 0)
        extent->Add(row.Int64(1), row.Int64(2), static_cast<uint64_t>(row.Int64(0)));
    });
    return absl::OkStatus();
  };
  for (int k = 0; k < kEntityKinds; ++k) {
    if (!state.samples[k].exists) continue;
    FW_RETURN_IF_ERROR(measure(HotTable(static_cast<EntityKind>(k)), &state.samples[k].extent));
  }
  FW_RETURN_IF_ERROR(measure("metrics", &state.metrics));
  FW_RETURN_IF_ERROR(measure(kApplicationTable, &state.application));
  state.last_arrival = hour_;
  if (!in_memory()) {
    const Extent all = state.All();
    const std::optional<Extent> recorded = RecordedRows(path_);
    if (recorded.has_value() && recorded->rows > all.rows) {
      // Rows come in order of time but for late ones: those at the end are gone, if any were later.
      const Micros from = all.rows > 0 && all.max_ts < recorded->max_ts
                              ? std::max(all.max_ts, recorded->min_ts)
                              : recorded->min_ts;
      missing_.Add(from, recorded->max_ts, recorded->rows - all.rows);
    }
  }
  MutexLock lock(mutex_);
  state_ = std::move(state);
  return absl::OkStatus();
}

uint64_t Segment::ValuesToRewrite(EntityKind kind, const std::vector<StoredField>& wanted) const {
  const SegmentState::Table table = Describe().samples[static_cast<int>(kind)];
  const auto grows = [&](const StoredField& field) {
    const StoredField* const known = FindField(table.columns, field.column);
    return known != nullptr && known->held_as < field.held_as;
  };
  return table.extent.rows *
         static_cast<uint64_t>(std::count_if(wanted.begin(), wanted.end(), grows));
}

StatusOr<bool> Segment::EnsureColumns(Connection* c, EntityKind kind,
                                      const std::vector<StoredField>& wanted) {
  const int k = static_cast<int>(kind);
  SegmentState::Table table = Describe().samples[k];
  bool changed = false;
  const auto fits = [&](const StoredField& field) {
    const StoredField* const known = FindField(table.columns, field.column);
    return known != nullptr && known->held_as >= field.held_as;
  };
  if (table.exists && std::all_of(wanted.begin(), wanted.end(), fits)) return false;
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  if (!table.exists) {
    std::string columns;
    for (size_t i = 0; i < std::size(kFixedColumns); ++i) {
      CatTo(&columns, i == 0 ? "" : ", ", kFixedColumns[i], " ",
            i == 0 ? kHotTimeType : kFixedTypes[i]);
    }
    FW_RETURN_IF_ERROR(
        c->Execute(fmt::format("CREATE TABLE {}.{}({})", alias_, HotTable(kind), columns)));
    table.exists = changed = true;
  }
  for (const StoredField& field : wanted) {
    if (fits(field)) continue;
    const std::string_view type = HotType(field);
    StoredField* const known = FindField(table.columns, field.column);
    // The first value that is not whole, or does not fit: the column is written anew, at most twice
    // in a segment.
    const std::string_view how =
        known == nullptr ? "ADD COLUMN {} {}" : "ALTER COLUMN {} SET DATA TYPE {}";
    FW_RETURN_IF_ERROR(
        c->Execute(Cat("ALTER TABLE ", alias_, ".", HotTable(kind), " ",
                       fmt::format(fmt::runtime(how), QuoteName(field.column), type))));
    if (known == nullptr) {
      table.columns.push_back(field);
    } else {
      known->held_as = field.held_as;
    }
    changed = true;
  }
  if (!changed) return false;
  FW_RETURN_IF_ERROR(transaction.Commit());
  MutexLock lock(mutex_);
  table.extent = state_.samples[k].extent;
  state_.samples[k] = std::move(table);
  return true;
}

// --- appending ---

StatusOr<uint64_t> Segment::Absorbed(Connection* c) const {
  FW_ASSIGN_OR_RETURN(
      const int64_t generation,
      c->QueryInt64(fmt::format("SELECT max(watermark) FROM {}.progress WHERE tbl = {}", alias_,
                                QuoteText(kJournalProgress))));
  return static_cast<uint64_t>(generation);
}

Status Segment::Append(Connection* c, const StagedRows& rows, uint64_t generation, Micros arrival) {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  for (size_t t = 0; t < StagedRows::kTables; ++t) {
    const StagedTable& table = rows.tables[t];
    if (table.rows() == 0) continue;
    const std::string_view name = t == StagedRows::kMetrics ? "metrics"
                                  : t == StagedRows::kApplication
                                      ? kApplicationTable
                                      : HotTable(static_cast<EntityKind>(t));
    const auto times = t < kEntityKinds ? StagedTable::Times::kMillis : StagedTable::Times::kMicros;
    FW_RETURN_IF_ERROR(Insert(c, Cat(alias_, ".", name), table.Sorted(times).get()));
  }
  FW_RETURN_IF_ERROR(c->Execute(fmt::format("INSERT INTO {}.progress VALUES ({}, {})", alias_,
                                            QuoteText(kJournalProgress), generation)));
  FW_RETURN_IF_ERROR(c->FaultPoint("append:sent"));
  FW_RETURN_IF_ERROR(transaction.Commit());
  MutexLock lock(mutex_);
  for (int k = 0; k < kEntityKinds; ++k) state_.samples[k].extent.Add(rows.tables[k].extent());
  state_.metrics.Add(rows.tables[StagedRows::kMetrics].extent());
  state_.application.Add(rows.tables[StagedRows::kApplication].extent());
  state_.last_arrival = std::max(state_.last_arrival, arrival);
  if (!in_memory()) RecordRows(path_, state_.All());
  return absl::OkStatus();
}

void Segment::Close() {
  MutexLock lock(mutex_);
  state_.closed = true;
}

SegmentState Segment::Describe() const {
  MutexLock lock(mutex_);
  return state_;
}

}  // namespace flopwatch::store::duck
