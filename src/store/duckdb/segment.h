// A hot segment: one DuckDB file that takes the rows which arrive within one hour, and the rollups of its own rows.
//
// The rollups and their watermarks live in the same file as the rows, so one transaction covers both and a segment is
// whole by itself: after any crash its rollups are exactly its rows below the watermark.
//
// Tables: gpu_samples, gpu_instance_samples, ... (one a kind; fixed columns, then one a field met so far), metrics,
// gpu_minute, job_minute, progress. Nothing is ever updated or deleted in them, so rowid is order of arrival.
//
// Threads: Append* and EnsureColumns from the appending thread; Describe() from any.
#ifndef FLOPWATCH_STORE_DUCKDB_SEGMENT_H_
#define FLOPWATCH_STORE_DUCKDB_SEGMENT_H_

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/dimensions.h"
#include "telemetry/batch.h"

namespace flopwatch::store::duck {

inline constexpr int kEntityKinds = 5;
// "gpu_samples": the table of a kind in a segment. "samples": the folder and view it is sealed into (GPUs and their
// instances share one).
std::string_view HotTable(telemetry::EntityKind kind);
std::string_view SealedTable(telemetry::EntityKind kind);

// Columns every sample table has, before those of fields.
inline constexpr std::string_view kFixedColumns[] = {"ts", "entity", "job_set", "model", "span_ms", "flags", "tensor_mhz"};
inline constexpr std::string_view kFixedTypes[] = {"TIMESTAMP", "INTEGER", "INTEGER", "INTEGER",
                                                   "INTEGER",   "INTEGER", "INTEGER"};
// The column a field is stored in: its own name unless a fixed column or a column of a view has it.
std::string StoredColumn(const std::string& field);
std::string_view SqlType(telemetry::StorageType storage);

// What a table holds.
struct Extent {
  uint64_t rows = 0;
  Micros min_ts = std::numeric_limits<Micros>::max();
  Micros max_ts = std::numeric_limits<Micros>::min();
  bool Overlaps(Micros from, Micros to) const { return rows > 0 && min_ts < to && max_ts >= from; }
  void Add(Micros first, Micros last, uint64_t n);
};

struct SegmentState {
  struct Table {
    Extent extent;
    bool exists = false;
    std::vector<StoredField> columns;  // of fields, in table order
  };
  std::array<Table, kEntityKinds> samples;
  Extent metrics;
  Micros last_arrival = 0;
  bool closed = false;  // takes no more rows
};

class Segment {
 public:
  // Attaches hot/seg-NAME.duckdb, creating it if needed. `fields` tells how columns found in it are stored.
  static StatusOr<std::shared_ptr<Segment>> Open(Connection* c, const std::string& directory, const std::string& name,
                                                 const DimensionTables& dimensions, bool read_only);
  // "20260102T05-0001" for the hour an arrival lies in.
  static std::string NameOf(Micros arrival, int sequence);
  // Hour and sequence of a name; false if it is none.
  static bool ParseName(std::string_view name, Micros* hour, int* sequence);
  static std::string PathOf(const std::string& directory, std::string_view name);

  // Makes the sample table of the kind and these columns exist. Returns whether something was added.
  StatusOr<bool> EnsureColumns(Connection* c, telemetry::EntityKind kind, const std::vector<StoredField>& columns);

  struct Used {
    telemetry::FieldId id;
    StoredField field;
  };
  // One transaction. `used` = fields present in the batch; their columns exist. Values a column cannot hold become NULL and
  // are counted in *unstorable.
  Status Append(Connection* c, const telemetry::SampleBatch& batch, const std::vector<Used>& used, Micros arrival,
                uint64_t* unstorable);
  Status AppendMetrics(Connection* c, absl::Span<const telemetry::MetricRow> rows, Micros arrival);
  void Close();

  SegmentState Describe() const;
  const std::string& name() const { return name_; }
  const std::string& alias() const { return alias_; }
  const std::string& path() const { return path_; }
  Micros hour() const { return hour_; }  // of arrival

 private:
  Segment() = default;
  std::string name_, alias_, path_;
  Micros hour_ = 0;
  std::vector<uint32_t> order_;  // of the rows of a batch; kept for its memory
  mutable std::mutex mutex_;     // guards state_
  SegmentState state_;
};

}  // namespace flopwatch::store::duck

#endif  // FLOPWATCH_STORE_DUCKDB_SEGMENT_H_
