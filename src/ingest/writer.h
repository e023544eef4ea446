// Rows on their way to the store: one open batch per shard, a bounded queue of full ones, the
// thread that writes them, and one for the store's upkeep (rolling up, sealing, retention), which
// may take minutes and holds up no flush.
//
// Order of writing: a batch is taken first, then everything new about entities, models, series and
// jobs, so that what a row refers to is always stored before the row. Failures are retried with
// back-off from kFirstBackoff to kMaxBackoff; rows keep arriving meanwhile, up to the bounds, then
// the oldest batch not yet begun is dropped and counted.
#ifndef FLOPWATCH_INGEST_WRITER_H_
#define FLOPWATCH_INGEST_WRITER_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "jobs/job_index.h"
#include "ingest/pipeline.h"
#include "ingest/registry.h"
#include "store/store.h"
#include "telemetry/batch.h"

namespace flopwatch::ingest {

class Writer {
 public:
  static constexpr size_t kBatchRows = 65'536;        // an open batch is queued at this size,
  static constexpr size_t kBatchBytes = 16ull << 20;  // or at this one
  static constexpr size_t kSpareBatches = 4;          // emptied batches kept for their memory
  static constexpr Micros kFirstBackoff = kMicrosPerSecond;
  static constexpr Micros kMaxBackoff = 30 * kMicrosPerSecond;

  // `store` null: rows are discarded at once (live only).
  Writer(const PipelineOptions& options, store::Store* store, Registry* registry,
         jobs::JobIndex* jobs, telemetry::FieldRegistry* fields);
  ~Writer();  // writes what is queued, closes open intervals

  // One scrape's access to its shard's open batch. Holds the shard's lock; the destructor accounts
  // for what was added.
  class Session {
   public:
    Session(Writer* writer, int shard);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    // `values[0..count)` by FieldId, valid where header.present says so.
    void Add(telemetry::EntityKind kind, const telemetry::RowHeader& header, const double* values,
             int count);
    void AddMetric(const telemetry::MetricRow& row);

   private:
    Writer* writer_;
    int shard_;
    std::unique_lock<std::mutex> lock_;
    size_t rows_before_, bytes_before_;
    friend class Writer;
  };

  Status Flush();
  void FillStats(PipelineStats* stats) const;
  // Called by the writer thread about once a second (rates, expiry).
  void set_on_tick(std::function<void()> on_tick) { on_tick_ = std::move(on_tick); }
  void Start();

 private:
  struct Batch {
    std::array<telemetry::SampleBatch, telemetry::kEntityKinds> samples;  // by kind
    std::vector<telemetry::MetricRow> metrics;
    int stride = 0;
    size_t rows() const;
    size_t bytes() const;
    void SetStride(int fields);
    void Clear();
  };
  struct Shard {
    std::mutex mutex;
    Batch open;
  };

  void Run(std::stop_token stop);
  void Collect();               // open batches -> queue
  void Enqueue(Batch* open);    // caller holds the shard
  void DropOldest(Batch* own);  // caller holds the shard of `own`
  Batch TakeSpare();
  void GiveSpare(Batch batch);
  bool Overfull() const;
  void Release(size_t rows, size_t bytes);
  Status WriteAll();
  Status WriteDimensions(bool shutdown);
  Status WriteBatch(Batch* batch);
  bool NextBatch(Batch* out);
  void Upkeep(std::stop_token stop);  // of the upkeep thread
  void Maintain();
  void Record(const Status& status, std::string_view what);

  const PipelineOptions options_;
  store::Store* const store_;
  Registry* const registry_;
  jobs::JobIndex* const jobs_;
  telemetry::FieldRegistry* const fields_;
  std::function<void()> on_tick_;
  std::function<Micros()> clock_;

  std::array<Shard, kMaxShards> shards_;
  mutable std::mutex queue_mutex_;
  std::condition_variable room_;  // back-fill waits for it
  std::deque<Batch> queue_;
  std::vector<Batch> spares_;
  std::atomic<size_t> queued_rows_{0}, queued_bytes_{0};
  std::atomic<uint64_t> dropped_rows_{0}, refused_by_store_{0}, flushes_{0}, flush_errors_{0};

  // Writer thread only.
  Batch in_flight_;
  bool has_in_flight_ = false;
  Registry::Changes pending_;
  jobs::Changes pending_jobs_;
  Micros backoff_ = 0, retry_at_ = 0;
  // Upkeep thread only.
  Micros next_rollup_ = 0, next_maintenance_ = 0;

  mutable std::mutex state_mutex_;
  std::condition_variable_any wake_;
  std::condition_variable flushed_;
  uint64_t flush_wanted_ = 0, flush_done_ = 0;
  Status flush_status_;
  std::string last_error_;
  double last_flush_ms_ = 0, last_rollup_ms_ = 0;
  Micros last_flush_ = 0;
  std::condition_variable_any upkeep_wake_;
  std::jthread thread_, upkeep_;
};

}  // namespace flopwatch::ingest

#endif  // FLOPWATCH_INGEST_WRITER_H_
