#include "store/duckdb/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/rollup.h"
#include "store/duckdb/schema.h"

namespace flopwatch::store::duck {
namespace {

using telemetry::EntityKind;
using telemetry::RowHeader;
using telemetry::SampleBatch;
using telemetry::StorageType;

// Rows whose values are turned from rows into columns at a time: they stay in the second-level cache.
constexpr size_t kBlockRows = 256;

// Names that fixed columns and columns of user-visible views have.
constexpr std::string_view kReserved[] = {"ts",     "entity", "job_set", "model",  "span_ms", "flags", "tensor_mhz", "gpu",
                                          "gpu_instance", "node", "job", "span_s", "ofu",     "day",   "hour",       "rowid"};

template <typename T>
void Convert(const SampleBatch& batch, const uint32_t* order, size_t begin, size_t n, const Segment::Used& used,
             Appender* appender, size_t column, uint64_t* unstorable) {
  T* out = appender->Data<T>(column) + begin;
  const size_t stride = static_cast<size_t>(batch.stride);
  const double* values = batch.values.data() + used.id;
  const double scale = used.field.stored_per_unit;
  const size_t word = used.id >> 6;
  const int bit = used.id & 63;
  for (size_t r = 0; r < n; ++r) {
    const size_t row = order[r];
    const bool present = (batch.rows[row].present.words[word] >> bit) & 1;
    double v = present ? values[row * stride] : 0;
    bool valid = present;
    if constexpr (std::is_same_v<T, double>) {
      if (!std::isfinite(v)) valid = false;
      out[r] = v;
    } else {
      v = std::nearbyint(v * scale);
      // The upper bound of int64 is not a double: the next one below is what fits.
      constexpr double kMax = sizeof(T) == 4 ? 2147483647.0 : 9223372036854774784.0;
      if (!(v >= -kMax && v <= kMax)) {
        valid = false;
        v = 0;
      }
      out[r] = static_cast<T>(v);
    }
    if (!valid) {
      appender->SetNull(column, begin + r);
      if (present) ++*unstorable;
    }
  }
}

}  // namespace

std::string_view HotTable(EntityKind kind) {
  static constexpr std::string_view kNames[kEntityKinds] = {"gpu_samples", "gpu_instance_samples", "link_samples",
                                                            "switch_samples", "cpu_samples"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view SealedTable(EntityKind kind) {
  return kind == EntityKind::kGpu || kind == EntityKind::kGpuInstance ? "samples" : HotTable(kind);
}

std::string StoredColumn(const std::string& field) {
  for (std::string_view name : kReserved) {
    if (field == name) return "metric_" + field;
  }
  return field;
}

std::string_view SqlType(StorageType storage) {
  switch (storage) {
    case StorageType::kInt32:
      return "INTEGER";
    case StorageType::kInt64:
      return "BIGINT";
    case StorageType::kDouble:
      break;
  }
  return "DOUBLE";
}

void Extent::Add(Micros first, Micros last, uint64_t n) {
  rows += n;
  min_ts = std::min(min_ts, first);
  max_ts = std::max(max_ts, last);
}

// --- names ---

std::string Segment::NameOf(Micros arrival, int sequence) {
  const std::string text = FormatTime(FloorTo(arrival, kMicrosPerHour));  // 2026-01-02T05:00:00Z
  return fmt::format("{}{}{}T{}-{:04}", text.substr(0, 4), text.substr(5, 2), text.substr(8, 2), text.substr(11, 2),
                     sequence);
}

bool Segment::ParseName(std::string_view name, Micros* hour, int* sequence) {
  if (name.size() != 16 || name[8] != 'T' || name[11] != '-') return false;
  const StatusOr<Micros> t = ParseTime(fmt::format("{}-{}-{} {}:00", name.substr(0, 4), name.substr(4, 2),
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

StatusOr<std::shared_ptr<Segment>> Segment::Open(Connection* c, const std::string& directory, const std::string& name,
                                                 const DimensionTables& dimensions, bool read_only) {
  auto segment = std::shared_ptr<Segment>(new Segment);
  int sequence = 0;
  if (!ParseName(name, &segment->hour_, &sequence)) return absl::InternalError("no segment name: " + name);
  segment->name_ = name;
  segment->alias_ = "seg_" + name;
  std::replace(segment->alias_.begin(), segment->alias_.end(), '-', '_');
  segment->path_ = PathOf(directory, name);
  FW_RETURN_IF_ERROR(AttachFile(c, segment->alias_, segment->path_, read_only));
  const Status migrated = Migrate(c, segment->alias_, segment->path_, SegmentMigrations(), read_only);
  if (!migrated.ok()) {
    // A crash right after creation leaves a file without tables: for a reader there is nothing in it.
    const Status ignored = c->Execute("DETACH " + segment->alias_);
    return migrated;
  }
  const std::string& alias = segment->alias_;
  SegmentState& state = segment->state_;
  const auto fields = dimensions.fields();
  FW_ASSIGN_OR_RETURN(Result columns,
                      c->Query(fmt::format("SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = {} "
                                           "ORDER BY table_name, column_index",
                                           QuoteText(alias))));
  columns.ForEach([&](const Row& row) {
    for (int k = 0; k < kEntityKinds; ++k) {
      if (row.Text(0) != HotTable(static_cast<EntityKind>(k))) continue;
      state.samples[k].exists = true;
      const std::string column(row.Text(1));
      if (std::find(std::begin(kFixedColumns), std::end(kFixedColumns), column) != std::end(kFixedColumns)) continue;
      const auto field = fields->find(column);
      state.samples[k].columns.push_back(field == fields->end() ? StoredField{column} : field->second);
    }
  });
  const auto measure = [&](std::string_view table, Extent* extent) -> Status {
    FW_ASSIGN_OR_RETURN(Result result,
                        c->Query(fmt::format("SELECT count(*), min(ts), max(ts) FROM {}.{}", alias, table)));
    result.ForEach([&](const Row& row) {
      if (row.Int64(0) > 0) extent->Add(row.Int64(1), row.Int64(2), static_cast<uint64_t>(row.Int64(0)));
    });
    return absl::OkStatus();
  };
  for (int k = 0; k < kEntityKinds; ++k) {
    if (!state.samples[k].exists) continue;
    FW_RETURN_IF_ERROR(measure(HotTable(static_cast<EntityKind>(k)), &state.samples[k].extent));
  }
  FW_RETURN_IF_ERROR(measure("metrics", &state.metrics));
  state.last_arrival = segment->hour_;
  return segment;
}

StatusOr<bool> Segment::EnsureColumns(Connection* c, EntityKind kind, const std::vector<StoredField>& wanted) {
  const int k = static_cast<int>(kind);
  SegmentState::Table table = Describe().samples[k];
  bool changed = false;
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  if (!table.exists) {
    std::string columns;
    for (size_t i = 0; i < std::size(kFixedColumns); ++i) {
      CatTo(&columns, i == 0 ? "" : ", ", kFixedColumns[i], " ", kFixedTypes[i]);
    }
    FW_RETURN_IF_ERROR(c->Execute(fmt::format("CREATE TABLE {}.{}({})", alias_, HotTable(kind), columns)));
    table.exists = changed = true;
  }
  for (const StoredField& field : wanted) {
    const auto same = [&](const StoredField& f) { return f.column == field.column; };
    if (std::any_of(table.columns.begin(), table.columns.end(), same)) continue;
    FW_RETURN_IF_ERROR(c->Execute(fmt::format("ALTER TABLE {}.{} ADD COLUMN {} {}", alias_, HotTable(kind),
                                              QuoteName(field.column), SqlType(field.storage))));
    table.columns.push_back(field);
    changed = true;
  }
  if (!changed) return false;
  FW_RETURN_IF_ERROR(transaction.Commit());
  std::lock_guard lock(mutex_);
  table.extent = state_.samples[k].extent;
  state_.samples[k] = std::move(table);
  return true;
}

// --- appending ---

Status Segment::Append(Connection* c, const SampleBatch& batch, const std::vector<Used>& used, Micros arrival,
                       uint64_t* unstorable) {
  const size_t rows = batch.rows.size();
  // Sorted by GPU within the batch: neighbouring rows then share job, model and much of their values, which costs less
  // space, and slices of the fleet can be read without touching every block (docs/store.md).
  order_.resize(rows);
  std::iota(order_.begin(), order_.end(), 0u);
  const auto before = [&](uint32_t a, uint32_t b) {
    const RowHeader &x = batch.rows[a], &y = batch.rows[b];
    return x.entity != y.entity ? x.entity < y.entity : x.ts < y.ts;
  };
  if (!std::is_sorted(order_.begin(), order_.end(), before)) std::stable_sort(order_.begin(), order_.end(), before);

  std::vector<std::string> columns(std::begin(kFixedColumns), std::end(kFixedColumns));
  for (const Used& u : used) columns.push_back(u.field.column);
  uint64_t lost = 0;
  Extent extent;
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  {
    FW_ASSIGN_OR_RETURN(std::unique_ptr<Appender> appender,
                        Appender::Create(c, alias_, std::string(HotTable(batch.kind)), columns));
    for (size_t done = 0; done < rows; done += Appender::kChunkRows) {
      const size_t n = std::min(rows - done, Appender::kChunkRows);
      const uint32_t* order = order_.data() + done;
      auto* ts = appender->Data<int64_t>(0);
      auto* entity = appender->Data<int32_t>(1);
      auto* job_set = appender->Data<int32_t>(2);
      auto* model = appender->Data<int32_t>(3);
      auto* span = appender->Data<int32_t>(4);
      auto* flags = appender->Data<int32_t>(5);
      auto* mhz = appender->Data<int32_t>(6);
      for (size_t r = 0; r < n; ++r) {
        const RowHeader& h = batch.rows[order[r]];
        ts[r] = h.ts;
        entity[r] = h.entity;
        job_set[r] = h.job_set;
        model[r] = h.model;
        span[r] = std::max(h.span_ms, 0);
        flags[r] = static_cast<int32_t>(h.flags);
        const double scaled = std::nearbyint(h.tensor_mhz * kTensorMhzScale);
        if ((h.flags & telemetry::kCyclePath) != 0 && scaled >= 0 && scaled <= 2147483647.0) {
          mhz[r] = static_cast<int32_t>(scaled);
        } else {
          mhz[r] = 0;
          appender->SetNull(6, r);
        }
        extent.Add(h.ts, h.ts, 1);
      }
      for (size_t block = 0; block < n; block += kBlockRows) {
        const size_t m = std::min(n - block, kBlockRows);
        for (size_t u = 0; u < used.size(); ++u) {
          const size_t column = std::size(kFixedColumns) + u;
          switch (used[u].field.storage) {
            case StorageType::kInt32:
              Convert<int32_t>(batch, order + block, block, m, used[u], appender.get(), column, &lost);
              break;
            case StorageType::kInt64:
              Convert<int64_t>(batch, order + block, block, m, used[u], appender.get(), column, &lost);
              break;
            case StorageType::kDouble:
              Convert<double>(batch, order + block, block, m, used[u], appender.get(), column, &lost);
              break;
          }
        }
      }
      FW_RETURN_IF_ERROR(appender->Send(n));
    }
    FW_RETURN_IF_ERROR(appender->Close());
  }
  FW_RETURN_IF_ERROR(transaction.Commit());
  *unstorable += lost;
  std::lock_guard lock(mutex_);
  state_.samples[static_cast<int>(batch.kind)].extent.Add(extent.min_ts, extent.max_ts, rows);
  state_.last_arrival = std::max(state_.last_arrival, arrival);
  return absl::OkStatus();
}

Status Segment::AppendMetrics(Connection* c, absl::Span<const telemetry::MetricRow> rows, Micros arrival) {
  Extent extent;
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  {
    FW_ASSIGN_OR_RETURN(std::unique_ptr<Appender> appender,
                        Appender::Create(c, alias_, "metrics", {"ts", "series", "value"}));
    for (size_t done = 0; done < rows.size(); done += Appender::kChunkRows) {
      const size_t n = std::min(rows.size() - done, Appender::kChunkRows);
      for (size_t r = 0; r < n; ++r) {
        const telemetry::MetricRow& m = rows[done + r];
        appender->Data<int64_t>(0)[r] = m.ts;
        appender->Data<int32_t>(1)[r] = m.series;
        appender->Data<double>(2)[r] = m.value;
        extent.Add(m.ts, m.ts, 1);
      }
      FW_RETURN_IF_ERROR(appender->Send(n));
    }
    FW_RETURN_IF_ERROR(appender->Close());
  }
  FW_RETURN_IF_ERROR(transaction.Commit());
  std::lock_guard lock(mutex_);
  state_.metrics.Add(extent.min_ts, extent.max_ts, rows.size());
  state_.last_arrival = std::max(state_.last_arrival, arrival);
  return absl::OkStatus();
}

void Segment::Close() {
  std::lock_guard lock(mutex_);
  state_.closed = true;
}

SegmentState Segment::Describe() const {
  std::lock_guard lock(mutex_);
  return state_;
}

}  // namespace flopwatch::store::duck
