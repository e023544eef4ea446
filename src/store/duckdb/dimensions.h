// The describing tables: GPUs, models, jobs, who owned what when, series, fields. In meta.duckdb
// they are logs (schema.cc); `dim.*` in the in-memory catalogue holds the latest record of each,
// for joins and views.
//
// Threads: any. Who writes has a lease; the writers of a store also take turns (Stage), so that
// none waits here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/lock_order.h"
#include "store/store.h"

namespace flopwatch::store::duck {

// How a column is stored in this directory, fixed when the column is first seen: a later program
// with another scale for the same field keeps to it.
struct StoredField {
  std::string column;
  telemetry::StorageType storage = telemetry::StorageType::kDouble;
  double stored_per_unit = 1;
  // In a segment the column of a field stored as kDouble is one of whole numbers of 32 or 64 bits
  // (kWholeTypes) where every value so far is one, as those of most counters of unknown type are.
  // The engine takes such columns in at a third of the cost and less. Sealed files and views have
  // DOUBLE.
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
    kAttempts,
    kNodes,
    kLogCount
  };

  // Creates dim.* and fills it from the logs. With `writer`, rewrites logs that are mostly
  // overwritten records, and keeps beside `path`, the file of `meta`, how many records it should
  // have. DataLoss where it has fewer: ids would be given twice. "" = that is not asked.
  Status Open(Connection* c, bool writer, const std::string& path);

  // Each call is one transaction in meta.duckdb.
  Status PutEntities(Connection* c, absl::Span<const EntityRecord> records);
  Status PutModels(Connection* c, absl::Span<const ModelRecord> records);
  Status PutSeries(Connection* c, absl::Span<const SeriesRecord> records);
  Status PutClaims(Connection* c, absl::Span<const telemetry::ApplicationClaim> records);
  Status PutJobs(Connection* c, const jobs::Changes& changes);
  Status PutBooks(Connection* c, const jobs::BookChanges& changes);
  // Records how the field in `column` is stored, unless it is recorded already; returns what holds.
  StatusOr<StoredField> PutField(Connection* c, const std::string& column,
                                 const telemetry::FieldSpec& spec);
  // Fields are by column name.
  using Fields = absl::flat_hash_map<std::string, StoredField>;
  std::shared_ptr<const Fields> fields() const;  // from any thread

  // Forgets intervals that ended before `horizon`; returns how many records that were.
  StatusOr<int64_t> DropIntervals(Connection* c, Micros horizon);
  // Likewise attempts of jobs, and times of nodes.
  struct DroppedBooks {
    int64_t attempts = 0, nodes = 0;
  };
  StatusOr<DroppedBooks> DropBooks(Connection* c, Micros horizon);
  int64_t IntervalRecords() const;
  // Grows with every record that is written.
  int64_t RecordsWritten() const;
  // Deletes jobs and job sets, but for the highest id of each; returns how many of each it had.
  struct Deleted {
    int64_t jobs = 0, sets = 0;
  };
  StatusOr<Deleted> ForgetJobs(Connection* c, const jobs::Forgotten& forgotten);
  struct DeletedDevices {
    int64_t entities = 0, models = 0, series = 0;
  };
  StatusOr<DeletedDevices> ForgetDevices(Connection* c, const ForgottenDevices& forgotten);
  StatusOr<int64_t> ForgetClaims(Connection* c, absl::Span<const int32_t> claims);
  // Rewrites logs of which most records were overwritten since the last time. Call between
  // transactions.
  Status CompactIfWorthwhile(Connection* c);

  static StatusOr<store::Dimensions> Load(Connection* c);
  // The latest record of every attempt and node.
  static StatusOr<jobs::BookChanges> LoadBooks(Connection* c);
  // Models by id, for applying tensor clocks.
  static StatusOr<absl::flat_hash_map<int32_t, ModelRecord>> LoadModels(Connection* c);
  // Latest state of every interval that touches [from, to).
  static StatusOr<std::vector<jobs::IntervalRecord>> LoadIntervals(Connection* c, Micros from,
                                                                   Micros to);
  // Shares of a GPU that MIG instances are, by id; whole GPUs are not in it.
  static StatusOr<absl::flat_hash_map<int32_t, double>> LoadWeights(Connection* c);

 private:
  using Fill = absl::FunctionRef<void(Appender&, size_t row, size_t index)>;
  // Adds `count` records to a log, in one transaction.
  Status PutLog(Connection* c, Log log, size_t count, Fill fill) FW_EXCLUDES(writing_);
  Status Refresh(Connection* c, Log log, int64_t from_seq) FW_REQUIRES(writing_);
  // Deletes the records of these ids, but for the highest there is; returns how many ids were
  // there.
  StatusOr<int64_t> Delete(Connection* c, Log log, absl::Span<const int32_t> forgotten)
      FW_REQUIRES(writing_);
  // Deletes every record of an id whose latest one ended, by `end`, before `horizon`.
  StatusOr<int64_t> DropEnded(Connection* c, Log log, std::string_view end, Micros horizon)
      FW_REQUIRES(writing_);
  Status Compact(Connection* c, Log log) FW_REQUIRES(writing_);
  // A kill may come between a change and its note. What is added is noted afterwards, so that the
  // note never says more than there is; before something is deleted it goes.
  void ForgetNote() FW_REQUIRES(writing_);
  void NoteRecords() FW_REQUIRES(writing_);
  uint64_t Records() const FW_REQUIRES(writing_);  // of all logs, and fields
  Status CountRecords(Connection* c) FW_REQUIRES(writing_);
  // Notes what Put*() has committed to a log: it is counted now, and joins and views see it.
  Status Written(Connection* c, Log log, size_t records) FW_REQUIRES(writing_);

  mutable Mutex writing_{kDimensionsRank};  // held while statements run
  std::array<int64_t, kLogCount> next_seq_ FW_GUARDED_BY(writing_){};
  // Records of each log; `live_` is as of the last compaction or open.
  std::array<int64_t, kLogCount> rows_ FW_GUARDED_BY(writing_){}, live_ FW_GUARDED_BY(writing_){};
  // The highest id, where that should have been deleted; 0 = not. It goes when there is a higher
  // one.
  std::array<int32_t, kLogCount> withheld_ FW_GUARDED_BY(writing_){};
  std::string path_ FW_GUARDED_BY(writing_);  // "" = no note is kept
  mutable Mutex fields_mutex_{kFieldsRank};   // held while the pointer is copied
  std::shared_ptr<const Fields> fields_ FW_GUARDED_BY(fields_mutex_) =
      std::make_shared<const Fields>();
};

}  // namespace flopwatch::store::duck
