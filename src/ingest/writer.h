// Rows on their way to the store: one open batch per shard, a bounded queue of full ones, the
// thread that writes them, and one for the store's upkeep (rolling up, sealing, retention), which
// may take minutes and holds up no flush.
//
// Order of writing: a batch is taken first, then everything new about entities, models, series and
// jobs, so that what a row refers to is always stored before the row. Failures are retried with
// back-off from kFirstBackoff to kMaxBackoff; rows keep arriving meanwhile, up to the bounds, then
// the oldest batch not yet begun is dropped and counted.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "ingest/counters.h"
#include "ingest/describing.h"
#include "ingest/options.h"
#include "ingest/registry.h"
#include "ingest/retention.h"
#include "jobs/job_index.h"
#include "store/store.h"
#include "telemetry/batch.h"

namespace flopwatch::ingest {

// Who writes to a store does it in turn: what is new about GPUs and jobs is handed out once, and
// must be there before the rows of whoever has them. Held for one batch.
struct WriteTurn {
  WriteTurn(store::Store* store, Registry* registry, jobs::JobIndex* jobs, jobs::Books* books)
      : describing(store, registry, jobs, books) {}
  Mutex mutex;
  DescribingRecords describing FW_GUARDED_BY(mutex);
};

class Writer {
  struct Batch;
  struct Shard;

 public:
  static constexpr size_t kBatchRows = 65'536;        // an open batch is queued at this size,
  static constexpr size_t kBatchBytes = 16ull << 20;  // or at this one
  static constexpr size_t kSpareBatches = 4;          // emptied batches kept for their memory
  static constexpr Micros kFirstBackoff = kMicrosPerSecond;
  static constexpr Micros kMaxBackoff = 30 * kMicrosPerSecond;

  // `store` null: rows are discarded at once (live only).
  Writer(const PipelineOptions& options, store::Store* store, Registry* registry,
         jobs::JobIndex* jobs, jobs::Books* books, telemetry::FieldRegistry* fields,
         ApplicationIntake* application);
  // Writes into the store of another writer, which outlives it and does the store's upkeep.
  Writer(const PipelineOptions& options, const Writer& beside);
  ~Writer();  // stops, writes what is queued, and closes open intervals unless it is `beside`
              // another

  // One scrape's access to its shard's open batch. Holds the shard's lock from its beginning to its
  // end, which the thread-safety analysis cannot follow through an object with methods of its own;
  // the destructor accounts for what was added.
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
    // What was added since the last time goes into the writer's account of what is queued.
    void Account();
    Batch* open() FW_NO_THREAD_ANALYSIS;
    Writer* const writer_;
    Shard* const shard_;
    size_t rows_before_, bytes_before_;
  };

  Status Flush();
  // OK while what is added can be expected to be stored within a flush interval. Unavailable, with
  // the reason, from a flush that failed until one works, and while the queue is full: who can send
  // again is told to, instead of taking its rows into a queue that may have to drop them.
  Status Storing() const;
  // The store's own estimate of now (store/clock_guard.h), a minute old at most; 0 = not known.
  Micros store_time() const { return store_time_.load(std::memory_order_relaxed); }
  void FillStats(PipelineStats* stats) const;
  // `on_tick` is called by the writer thread about once a flush interval.
  void Start(std::function<void()> on_tick);
  void Stop();  // ends the threads; what is added afterwards is written by the destructor

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
    Mutex mutex;  // before queue_mutex_
    Batch open FW_GUARDED_BY(mutex);
  };

  void Run(std::stop_token stop);
  void Collect();                                         // open batches -> queue
  void Enqueue(Batch* open) FW_EXCLUDES(queue_mutex_);    // caller holds the shard of `open`
  void DropOldest(Batch* own) FW_EXCLUDES(queue_mutex_);  // caller holds the shard of `own`
  Batch TakeSpare() FW_REQUIRES(queue_mutex_);
  void GiveSpare(Batch batch);
  bool Overfull() const;
  void WaitForRoom();
  void Release(size_t rows, size_t bytes);
  Status WriteAll();
  Status Describe(bool shutdown) FW_REQUIRES(turn_->mutex);
  // Rows whose GPU or series the store has refused leave the batch, counted.
  void LeaveOutSetAside(const DescribingRecords& describing, Batch* batch);
  Status WriteBatch(Batch* batch);
  bool NextBatch(Batch* out);
  void Upkeep(std::stop_token stop);  // of the upkeep thread
  void Maintain();
  void Record(const Status& status, std::string_view what);

  const PipelineOptions options_;
  store::Store* const store_;
  telemetry::FieldRegistry* const fields_;
  std::function<void()> on_tick_;

  std::array<Shard, kMaxShards> shards_;
  Mutex queue_mutex_;
  CondVar room_;  // back-fill waits for it
  std::deque<Batch> queue_ FW_GUARDED_BY(queue_mutex_);
  std::vector<Batch> spares_ FW_GUARDED_BY(queue_mutex_);
  std::atomic<size_t> queued_rows_{0}, queued_bytes_{0};
  std::atomic<Micros> store_time_{0};
  std::atomic<uint64_t> dropped_rows_{0}, refused_by_store_{0}, flushes_{0}, flush_errors_{0};
  std::atomic<uint64_t> refused_describing_{0};

  // Writer thread only.
  Batch in_flight_;
  bool has_in_flight_ = false;
  Micros backoff_ = 0, retry_at_ = 0;
  const std::shared_ptr<WriteTurn> turn_;
  // Upkeep thread only.
  Micros next_rollup_ = 0, next_maintenance_ = 0;
  std::optional<Retention> retention_;  // nothing where another writer keeps the store up

  std::atomic<bool> storing_{true};  // the last flush worked
  mutable Mutex state_mutex_;
  CondVar wake_, flushed_, upkeep_wake_;
  uint64_t flush_wanted_ FW_GUARDED_BY(state_mutex_) = 0;
  uint64_t flush_done_ FW_GUARDED_BY(state_mutex_) = 0;
  Status flush_status_ FW_GUARDED_BY(state_mutex_);
  std::string last_error_ FW_GUARDED_BY(state_mutex_);
  std::string flush_error_ FW_GUARDED_BY(state_mutex_);  // why not storing_
  double last_flush_ms_ FW_GUARDED_BY(state_mutex_) = 0;
  double last_rollup_ms_ FW_GUARDED_BY(state_mutex_) = 0;
  Micros last_flush_ FW_GUARDED_BY(state_mutex_) = 0;
  std::jthread thread_, upkeep_;
};

}  // namespace flopwatch::ingest
