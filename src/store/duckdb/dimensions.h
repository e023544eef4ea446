// The describing tables: GPUs, models, jobs, who owned what when, series, fields. In meta.duckdb
// they are logs (schema.cc); `dim.*` in the in-memory catalogue holds the latest record of each,
// for joins and views.
//
// Threads: everything that writes from one thread at a time; Load* and fields() from any.
#ifndef FLOPWATCH_STORE_DUCKDB_DIMENSIONS_H_
#define FLOPWATCH_STORE_DUCKDB_DIMENSIONS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "store/duckdb/connection.h"
#include "store/store.h"

namespace flopwatch::store::duck {

// How a column is stored in this directory, fixed when the column is first seen: a later program
// with another scale for the same field keeps to it.
struct StoredField {
  std::string column;
  telemetry::StorageType storage = telemetry::StorageType::kDouble;
  double stored_per_unit = 1;
  // In a segment, of a field stored as kDouble: its column is one of whole numbers of 32 or 64 bits
  // (kWholeTypes), because every value so far is one, as those of most counters of unknown type
  // are. The engine takes such columns in at a third of the cost and less. Sealed files and views
  // have DOUBLE.
  telemetry::StorageType held_as = telemetry::StorageType::kDouble;
  bool whole() const { return held_as != telemetry::StorageType::kDouble; }
};

class DimensionTables {
 public:
  enum Log : int {
    kEntities,
    kModels,
    kJobs,
    kIntervals,
    kSetMembers,
    kSeries,
    kClaims,
    kLogCount
  };

  // Creates dim.* and fills it from the logs; with `compact`, rewrites logs that are mostly
  // overwritten records.
  Status Open(Connection* c, bool compact);

  // Each call is one transaction in meta.duckdb.
  Status PutEntities(Connection* c, absl::Span<const EntityRecord> records);
  Status PutModels(Connection* c, absl::Span<const ModelRecord> records);
  Status PutSeries(Connection* c, absl::Span<const SeriesRecord> records);
  Status PutClaims(Connection* c, absl::Span<const telemetry::ApplicationClaim> records);
  Status PutJobs(Connection* c, const jobs::Changes& changes);
  // Records how the field in `column` is stored, unless it is recorded already; returns what holds.
  StatusOr<StoredField> PutField(Connection* c, const std::string& column,
                                 const telemetry::FieldSpec& spec);
  // By column name.
  using Fields = absl::flat_hash_map<std::string, StoredField>;
  std::shared_ptr<const Fields> fields() const;  // from any thread

  // Forgets intervals that ended before `horizon`.
  Status DropIntervals(Connection* c, Micros horizon);
  // Rewrites logs of which most records were overwritten since the last time. Call between
  // transactions.
  Status CompactIfWorthwhile(Connection* c);

  static StatusOr<store::Dimensions> Load(Connection* c);
  // Models by id, for applying tensor clocks.
  static StatusOr<absl::flat_hash_map<int32_t, ModelRecord>> LoadModels(Connection* c);
  // Latest state of every interval that touches [from, to).
  static StatusOr<std::vector<jobs::IntervalRecord>> LoadIntervals(Connection* c, Micros from,
                                                                   Micros to);
  // Shares of a GPU that MIG instances are, by id; whole GPUs are not in it.
  static StatusOr<absl::flat_hash_map<int32_t, double>> LoadWeights(Connection* c);

 private:
  Status Refresh(Connection* c, Log log, int64_t from_seq);
  Status Compact(Connection* c, Log log);

  std::array<int64_t, kLogCount> next_seq_{};
  std::array<int64_t, kLogCount> rows_{},
      live_{};                // of each log; live at the last compaction or open
  mutable std::mutex mutex_;  // guards the pointer
  std::shared_ptr<const Fields> fields_ = std::make_shared<const Fields>();
};

}  // namespace flopwatch::store::duck

#endif  // FLOPWATCH_STORE_DUCKDB_DIMENSIONS_H_
