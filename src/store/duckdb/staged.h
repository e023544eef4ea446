// Rows that are safe on disk (in the journal) and not yet in a segment, as the columns they will be
// stored in.
//
// Why they wait: a commit of the engine costs a few milliseconds for every hundred columns however
// few its rows are, and half as much a row when it brings a whole row group. So every flush goes to
// the journal, which costs one write and one fsync, and the engine gets rows a few seconds at a
// time, or as soon as a reader asks (docs/store.md, "Journal").
//
// Threads: none of its own; one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "base/status.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/dimensions.h"
#include "store/duckdb/insert.h"
#include "telemetry/application.h"
#include "telemetry/batch.h"

namespace flopwatch::store::duck {

using telemetry::kEntityKinds;

// Columns every sample table has, before those of fields; with the types they have in views and
// sealed files. In a hot table `ts` is a TIMESTAMP_MS: rows are taken at whole milliseconds, and
// beside microseconds it saves ten of 25 bits a row. (A table that was made before schema version 5
// has a TIMESTAMP, and goes on with it until it is sealed.)
inline constexpr std::string_view kFixedColumns[] = {"ts",      "entity", "job_set",   "model",
                                                     "span_ms", "flags",  "tensor_mhz"};
inline constexpr std::string_view kFixedTypes[] = {"TIMESTAMP", "INTEGER", "INTEGER", "INTEGER",
                                                   "INTEGER",   "INTEGER", "INTEGER"};
inline constexpr std::string_view kHotTimeType = "TIMESTAMP_MS";

// What a table holds.
struct Extent {
  uint64_t rows = 0;
  Micros min_ts = std::numeric_limits<Micros>::max();
  Micros max_ts = std::numeric_limits<Micros>::min();
  bool Overlaps(Micros from, Micros to) const { return rows > 0 && min_ts < to && max_ts >= from; }
  void Add(Micros first, Micros last, uint64_t n) {
    rows += n;
    min_ts = std::min(min_ts, first);
    max_ts = std::max(max_ts, last);
  }
  void Add(const Extent& other) {
    if (other.rows > 0) Add(other.min_ts, other.max_ts, other.rows);
  }
};

// Doubles that are all whole numbers go to the engine as decimals without a fraction, which it
// keeps in 32 or 64 bits: they compress as integers do, and of integers it samples three times as
// many values for the count of distinct ones, which no query of ours asks for (0.3 instead of 0.1
// of them; a thirtieth of what the whole server costs).
struct WholeType {
  int digits;
  int64_t limit;  // the largest absolute value
  std::string_view sql;
};
inline constexpr WholeType kWholeTypes[] = {
    // They stand by StorageType: kInt32, kInt64.
    {9, 999'999'999, "DECIMAL(9,0)"},
    {18, int64_t{1} << 53, "DECIMAL(18,0)"},  // beyond it, not every whole number is a double
};

class StagedTable {
 public:
  struct Column {
    std::string name;
    // Values as stored: scaled integers, or doubles. INTEGER, BIGINT (and TIMESTAMP in
    // microseconds), DOUBLE, by StorageType.
    std::variant<std::vector<int32_t>, std::vector<int64_t>, std::vector<double>> values;
    std::vector<uint64_t> absent;  // bit r: row r is NULL; shorter than the rows = the rest is not
    // The column is of doubles, these values are whole numbers in the narrowest integers for them.
    bool whole = false;

    telemetry::StorageType held_as() const {
      return static_cast<telemetry::StorageType>(values.index());
    }
  };
  struct Source {  // of a column of a batch
    telemetry::FieldId id;
    StoredField field;
  };

  enum class Times : uint8_t { kMillis, kMicros };  // what `ts` is sent as

  // Replaces the contents, with times in whole milliseconds. Values a column cannot hold become
  // NULL; returns how many.
  uint64_t Fill(const telemetry::SampleBatch& batch, const std::vector<Source>& sources);
  void Fill(absl::Span<const telemetry::MetricRow> rows);
  void Fill(absl::Span<const telemetry::ApplicationSample> samples);  // application.cc
  // Rows of `other` after the rows of this; columns only one of them has are NULL in the other's
  // rows. Whole numbers become as wide as in the wider of the two, doubles where one has those.
  // FailedPrecondition when a column has two types otherwise; nothing is changed then.
  Status Add(const StagedTable& other);
  // Takes the rows from the given one on out of the table.
  StagedTable TakeFrom(size_t row);
  void Clear();

  size_t rows() const { return rows_; }
  const Extent& extent() const { return extent_; }                 // times of the rows
  const std::vector<Column>& columns() const { return columns_; }  // the first is ts
  size_t bytes() const;                                            // of their values

  // Every row in this order: by the second column (entity, series or claim), then by time.
  // Neighbouring rows then share job, model and much of their values, which costs less space, and
  // slices of the fleet can be read without touching every block. A view: the table outlives it and
  // does not change meanwhile.
  std::unique_ptr<RowSource> Sorted(Times times) const;

  // One table as bytes: integers less their minimum in 0 to 8 bytes; doubles that are whole numbers
  // likewise.
  void EncodeTo(std::string* out) const;
  // Reads one table from the front of *in. DataLoss when it is not one; no allocation is larger
  // than the input allows.
  static StatusOr<StagedTable> Decode(std::string_view* in);

 private:
  Column* Find(std::string_view name);
  void Measure();  // extent_ from the first column

  size_t rows_ = 0;
  Extent extent_;
  std::vector<Column> columns_;
};

// One table for each kind of entity, metrics, and what applications report.
struct StagedRows {
  static constexpr size_t kMetrics = kEntityKinds;
  static constexpr size_t kApplication =
      kMetrics + 1;  // their numbers are in journals: add at the end
  static constexpr size_t kTables = kApplication + 1;
  std::array<StagedTable, kTables> tables;

  size_t rows() const;
  size_t bytes() const;
  void Clear();
  std::string Encode() const;  // tables that have rows
  static StatusOr<StagedRows> Decode(std::string_view in);
  Status Add(const StagedRows& other);
};

}  // namespace flopwatch::store::duck
