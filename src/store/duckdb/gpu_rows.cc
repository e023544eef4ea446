#include "store/duckdb/gpu_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/mutex.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/handle.h"
#include "store/duckdb/roller.h"

namespace flopwatch::store::duck {
namespace {

using telemetry::EntityKind;

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
// Rows that one sort holds: about 200 MB with ten values a row, of 512 that the engine has at
// least.
constexpr uint64_t kSortedRows = 400'000;
constexpr size_t kOwnColumns = 5;  // of fw_visit() before the values: ts, entity, ...

// Hands rows to the visitor, one thread's chunk after another's.
class VisitSink {
 public:
  VisitSink(size_t values, GpuRowVisitor visit) : values_(values), visit_(visit) {}

  // False: the visitor wants no more.
  bool Rows(duckdb_data_chunk chunk) {
    GpuRows rows;
    rows.count = duckdb_data_chunk_get_size(chunk);
    const auto data = [&](idx_t column) {
      return duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, column));
    };
    rows.ts = static_cast<const int64_t*>(data(1));
    rows.entity = static_cast<const int32_t*>(data(2));
    rows.span_ms = static_cast<const int32_t*>(data(3));
    rows.flags = static_cast<const int32_t*>(data(4));
    rows.job_set = static_cast<const int32_t*>(data(5));
    MutexLock lock(mutex_);
    filled_.resize(values_);
    for (size_t v = 0; v < values_; ++v) {
      duckdb_vector vector = duckdb_data_chunk_get_vector(chunk, 1 + kOwnColumns + v);
      const auto* values = static_cast<const double*>(duckdb_vector_get_data(vector));
      const uint64_t* validity = duckdb_vector_get_validity(vector);
      if (validity != nullptr) {
        for (size_t i = 0; i < rows.count; ++i)
          filled_[v][i] = ((validity[i >> 6] >> (i & 63)) & 1) != 0 ? values[i] : kAbsent;
        values = filled_[v].data();
      }
      rows.values.push_back(values);
    }
    if (status_.ok()) status_ = visit_(rows);
    return status_.ok();
  }
  size_t values() const { return values_; }
  Status status() {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  const size_t values_;
  Mutex mutex_;
  GpuRowVisitor visit_ FW_GUARDED_BY(mutex_);
  Status status_ FW_GUARDED_BY(mutex_);
  std::vector<std::array<double, kVectorRows>> filled_ FW_GUARDED_BY(mutex_);
};
using VisitHandle = Handle<VisitSink>;

void VisitUpdate(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_aggregate_state*) {
  if (duckdb_data_chunk_get_size(chunk) == 0) return;
  const auto* id =
      static_cast<const int64_t*>(duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0)));
  VisitSink* sink = VisitHandle::Find(*id);
  if (sink == nullptr ||
      duckdb_data_chunk_get_column_count(chunk) != 1 + kOwnColumns + sink->values()) {
    duckdb_aggregate_function_set_error(info,
                                        "fw_visit: no such sink; it is for the store's own use");
  } else if (!sink->Rows(chunk)) {
    duckdb_aggregate_function_set_error(info, "fw_visit: no more rows are wanted");
  }
}

void AddParameter(duckdb_aggregate_function f, duckdb_type t) {
  duckdb_logical_type type = duckdb_create_logical_type(t);
  duckdb_aggregate_function_add_parameter(f, type);
  duckdb_destroy_logical_type(&type);
}

}  // namespace

std::string GpuRowReader::Select(absl::Span<const std::string_view> columns, std::string_view from,
                                 absl::FunctionRef<bool(const std::string&)> has) const {
  std::string sql = "SELECT epoch_us(ts) AS ts_us, entity, span_ms, flags, job_set";
  for (size_t v = 0; v < columns.size(); ++v) {
    const std::string stored = StoredColumn(std::string(columns[v]));
    const auto field = fields_.find(stored);
    if (stored == "tensor_mhz") {  // no field of exporters, but a part of every row
      CatTo(&sql, fmt::format(", tensor_mhz::DOUBLE / {:.17g}", kTensorMhzScale));
    } else if (field == fields_.end() || !has(stored)) {
      CatTo(&sql, ", NULL::DOUBLE");
    } else {
      CatTo(&sql, ", ", QuoteName(stored), "::DOUBLE");
      if (field->second.stored_per_unit != 1)
        CatTo(&sql, fmt::format(" / {:.17g}", field->second.stored_per_unit));
    }
    CatTo(&sql, " AS v", v);
  }
  return Cat(sql, " FROM ", from);
}

std::vector<GpuRowReader::Source> GpuRowReader::Sources(
    Window w, absl::Span<const std::string_view> columns) const {
  std::vector<Source> sources;
  for (const auto& segment : layout_.Readable()) {
    const SegmentState state = segment->Describe();
    for (const EntityKind kind : kRolledKinds) {
      const SegmentState::Table& table = state.samples[static_cast<int>(kind)];
      if (!table.extent.Overlaps(w.from, w.to)) continue;
      sources.push_back({Select(columns, Cat(segment->alias(), ".", HotTable(kind)),
                                [&](const std::string& column) {
                                  return std::any_of(
                                      table.columns.begin(), table.columns.end(),
                                      [&](const StoredField& f) { return f.column == column; });
                                }),
                         table.extent});
    }
  }
  std::map<std::string, SealedFiles> by_schema;
  for (const auto& f : layout_.Select("samples", w.from, w.to)) by_schema[f->columns].push_back(f);
  for (const auto& [schema, files] : by_schema) {
    const std::string all = Cat(",", schema, ",");
    Source source{
        Select(columns, ScanFiles(layout_.directory, files, ", hive_partitioning = false"),
               [&](const std::string& c) { return Contains(all, Cat(",", c, ",")); }),
        {}};
    for (const auto& f : files) source.extent.Add(f->min_ts, f->max_ts, f->rows);
    sources.push_back(std::move(source));
  }
  return sources;
}

Status GpuRowReader::VisitAny(Window w, const std::vector<Source>& sources, size_t values,
                              GpuRowVisitor visit) {
  VisitSink sink(values, visit);
  const VisitHandle handle(&sink);
  std::vector<std::string> selects;
  for (const Source& source : sources) {
    selects.push_back(fmt::format("{} WHERE ts >= {} AND ts < {}", source.select,
                                  TimeLiteral(w.from), TimeLiteral(w.to)));
  }
  std::string arguments = "ts_us, entity, span_ms, flags, job_set";
  for (size_t v = 0; v < values; ++v) CatTo(&arguments, ", v", v);
  const Status ran = c_->Execute(
      fmt::format("SELECT fw_visit({}, {}) FROM ({})", handle.id(), arguments, UnionAll(selects)));
  FW_RETURN_IF_ERROR(sink.status());  // which is why the statement failed, where both did
  return ran;
}

Status GpuRowReader::VisitByGpu(Window hour, const std::vector<Source>& sources, size_t values,
                                GpuRowVisitor visit) {
  // The rows of the hour, as if they were spread evenly over what a source has, and at most those
  // of it that arrived within one: where that is far off, a sort is larger or smaller.
  double rows = 0;
  std::vector<std::string> selects;
  for (const Source& source : sources) {
    if (!source.extent.Overlaps(hour.from, hour.to)) continue;
    const auto length = static_cast<double>(
        std::max<Micros>(source.extent.max_ts - source.extent.min_ts, kMicrosPerHour));
    rows += static_cast<double>(source.extent.rows) *
            std::min(1.0, static_cast<double>(hour.to - hour.from) / length);
    selects.push_back(fmt::format("{} WHERE ts >= {} AND ts < {}", source.select,
                                  TimeLiteral(hour.from), TimeLiteral(hour.to)));
  }
  if (selects.empty()) return absl::OkStatus();
  FW_ASSIGN_OR_RETURN(const int64_t last, c_->QueryInt64("SELECT max(id) FROM dim.entities"));
  const auto parts = static_cast<int64_t>(rows / kSortedRows) + 1;
  const int64_t step = last / parts + 1;
  std::array<Micros, kVectorRows> ts;
  std::array<std::array<int32_t, kVectorRows>, kOwnColumns - 1> numbers;
  std::vector<std::array<double, kVectorRows>> filled(values);
  for (int64_t first = 0; first <= last; first += step) {
    std::vector<std::string> bounded;
    for (const std::string& select : selects) {
      bounded.push_back(
          fmt::format("{} AND entity >= {} AND entity < {}", select, first, first + step));
    }
    FW_ASSIGN_OR_RETURN(
        Result result,
        c_->Query(fmt::format("SELECT * FROM ({}) ORDER BY entity, ts_us", UnionAll(bounded))));
    GpuRows chunk;
    chunk.ts = ts.data();
    chunk.entity = numbers[0].data();
    chunk.span_ms = numbers[1].data();
    chunk.flags = numbers[2].data();
    chunk.job_set = numbers[3].data();
    for (const auto& column : filled) chunk.values.push_back(column.data());
    Status status;
    result.ForEach([&](const Row& row) {
      if (!status.ok()) return;
      ts[chunk.count] = row.Int64(0);
      for (size_t i = 0; i < numbers.size(); ++i)
        numbers[i][chunk.count] = static_cast<int32_t>(row.Int64(1 + i));
      for (size_t v = 0; v < values; ++v) {
        const size_t column = kOwnColumns + v;
        filled[v][chunk.count] = row.IsNull(column) ? kAbsent : row.Double(column);
      }
      if (++chunk.count == kVectorRows) {
        status = visit(chunk);
        chunk.count = 0;
      }
    });
    if (status.ok() && chunk.count > 0) status = visit(chunk);
    FW_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

Status GpuRowReader::Visit(Window w, absl::Span<const std::string_view> columns, RowOrder order,
                           GpuRowVisitor visit) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  if (columns.size() > kMaxVisitedColumns) {
    return InvalidArgument("{} columns of GPU rows were asked for at once; {} are the most",
                           columns.size(), kMaxVisitedColumns);
  }
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c_, /*read_only=*/true));
  const std::vector<Source> sources = Sources(w, columns);
  if (sources.empty()) return absl::OkStatus();
  if (order == RowOrder::kAny) return VisitAny(w, sources, columns.size(), visit);
  Micros first = std::numeric_limits<Micros>::max(), last = std::numeric_limits<Micros>::min();
  for (const Source& source : sources) {
    first = std::min(first, source.extent.min_ts);
    last = std::max(last, source.extent.max_ts);
  }
  const Micros to = std::min(w.to, last + 1);
  for (Micros from = std::max(w.from, first); from < to;) {
    const Micros end = std::min(FloorTo(from, kMicrosPerHour) + kMicrosPerHour, to);
    FW_RETURN_IF_ERROR(VisitByGpu({from, end}, sources, columns.size(), visit));
    from = end;
  }
  return absl::OkStatus();
}

Status RegisterGpuRows(Connection* c) {
  constexpr const char* kName = "fw_visit";
  duckdb_aggregate_function_set set = duckdb_create_aggregate_function_set(kName);
  const absl::Cleanup destroy_set = [&] { duckdb_destroy_aggregate_function_set(&set); };
  for (size_t values = 0; values <= kMaxVisitedColumns; ++values) {
    duckdb_aggregate_function f = duckdb_create_aggregate_function();
    const absl::Cleanup destroy = [&] { duckdb_destroy_aggregate_function(&f); };
    duckdb_aggregate_function_set_name(f, kName);
    AddParameter(f, DUCKDB_TYPE_BIGINT);  // the sink
    AddParameter(f, DUCKDB_TYPE_BIGINT);  // the time
    for (size_t i = 1; i < kOwnColumns; ++i) AddParameter(f, DUCKDB_TYPE_INTEGER);
    for (size_t i = 0; i < values; ++i) AddParameter(f, DUCKDB_TYPE_DOUBLE);
    duckdb_logical_type count = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
    duckdb_aggregate_function_set_return_type(f, count);
    duckdb_destroy_logical_type(&count);
    duckdb_aggregate_function_set_functions(
        f, [](duckdb_function_info) -> idx_t { return sizeof(int64_t); },
        [](duckdb_function_info, duckdb_aggregate_state state) {
          *reinterpret_cast<int64_t*>(state) = 0;
        },
        VisitUpdate,
        [](duckdb_function_info, duckdb_aggregate_state*, duckdb_aggregate_state*, idx_t) {},
        [](duckdb_function_info, duckdb_aggregate_state*, duckdb_vector result, idx_t n,
           idx_t offset) {
          std::fill_n(static_cast<int64_t*>(duckdb_vector_get_data(result)) + offset, n, 0);
        });
    duckdb_aggregate_function_set_special_handling(f);  // rows with NULLs count too
    if (duckdb_add_aggregate_function_to_set(set, f) != DuckDBSuccess)
      return Internal("the database engine refused an overload of fw_visit");
  }
  if (duckdb_register_aggregate_function_set(c->raw(), set) != DuckDBSuccess)
    return Internal("the database engine refused the function fw_visit");
  return absl::OkStatus();
}

}  // namespace flopwatch::store::duck
