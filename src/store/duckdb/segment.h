// A hot segment: one DuckDB file that takes the rows which arrive within one hour, and the rollups
// of its own rows.
//
// The rollups and their watermarks live in the same file as the rows, so one transaction covers
// both and a segment is whole by itself: after any crash its rollups are exactly its rows below the
// watermark.
//
// Tables: gpu_samples, gpu_instance_samples, ... (one a kind; fixed columns, then one a field met
// so far), metrics, job_minute, present, progress. Nothing is ever updated or deleted in them, so
// rowid is order of arrival.
//
// Threads: Append and EnsureColumns by who has the turn to write (Stage); Describe() from any.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/dimensions.h"
#include "store/duckdb/lock_order.h"
#include "store/duckdb/staged.h"
#include "telemetry/batch.h"

namespace flopwatch::store::duck {

// "gpu_samples": the table of a kind in a segment. "samples": the folder and view it is sealed into
// (GPUs and their instances share one).
std::string_view HotTable(telemetry::EntityKind kind);
std::string_view SealedTable(telemetry::EntityKind kind);

// The column a field is stored in: its own name unless a fixed column or a column of a view has it.
std::string StoredColumn(const std::string& field);
std::string_view SqlType(telemetry::StorageType storage);

struct SegmentState {
  struct Table {
    Extent extent;
    bool exists = false;
    std::vector<StoredField> columns;  // of fields, in table order
  };
  std::array<Table, kEntityKinds> samples;
  Extent metrics, application;
  Micros last_arrival = 0;
  bool closed = false;  // takes no more rows
  Extent All() const {
    Extent all = metrics;
    all.Add(application);
    for (const Table& table : samples) all.Add(table.extent);
    return all;
  }
};

class Segment {
 public:
  // Attaches hot/seg-NAME.duckdb, creating it if needed; one in memory with an empty directory.
  // `dimensions` tells how columns found in it are stored.
  static StatusOr<std::shared_ptr<Segment>> Open(Connection* c, const std::string& directory,
                                                 const std::string& name,
                                                 const DimensionTables& dimensions, bool read_only);
  // "20260102T05-0001" for the hour an arrival lies in.
  static std::string NameOf(Micros arrival, int sequence);
  // Hour and sequence of a name; false if it is none.
  static bool ParseName(std::string_view name, Micros* hour, int* sequence);
  static std::string PathOf(const std::string& directory, std::string_view name);

  // Values that EnsureColumns() would write anew.
  uint64_t ValuesToRewrite(telemetry::EntityKind kind,
                           const std::vector<StoredField>& columns) const;
  // Makes the sample table of the kind and these columns exist, and take what is wanted: a column
  // of whole numbers becomes wider, or one of doubles, where that is wanted. Returns whether
  // something was changed.
  StatusOr<bool> EnsureColumns(Connection* c, telemetry::EntityKind kind,
                               const std::vector<StoredField>& columns);

  // One transaction: the rows, and that this generation of the journal is in (Absorbed). The tables
  // and columns exist.
  Status Append(Connection* c, const StagedRows& rows, uint64_t generation, Micros arrival);
  // The last generation of the journal whose rows are here; 0 = none.
  StatusOr<uint64_t> Absorbed(Connection* c) const;
  void Close();

  SegmentState Describe() const;
  // Rows that it should have and has not, as it was opened; between the times given.
  const Extent& missing() const { return missing_; }
  const std::string& name() const { return name_; }
  const std::string& alias() const { return alias_; }
  const std::string& path() const { return path_; }
  bool in_memory() const { return path_ == kInMemory; }
  Micros hour() const { return hour_; }  // of arrival

 private:
  static constexpr std::string_view kInMemory = ":memory:";

  Segment() = default;
  // Looks at what is in it.
  Status Load(Connection* c, const DimensionTables& dimensions) FW_EXCLUDES(mutex_);
  std::string name_, alias_, path_;
  Micros hour_ = 0;
  Extent missing_;
  mutable Mutex mutex_{kSegmentRank};
  SegmentState state_ FW_GUARDED_BY(mutex_);
};

}  // namespace flopwatch::store::duck
