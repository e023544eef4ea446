#include "ingest/writer.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace flopwatch::ingest {
namespace {

using telemetry::EntityKind;
using telemetry::MetricRow;
using telemetry::RowHeader;
using telemetry::SampleBatch;

constexpr Micros kMaintenanceInterval = kMicrosPerMinute;
constexpr int kShutdownTries = 3;

double MsSince(Micros start) { return static_cast<double>(MonotonicNow() - start) / 1e3; }

}  // namespace

size_t Writer::Batch::bytes() const {
  size_t total = metrics.size() * sizeof(MetricRow);
  for (const SampleBatch& b : samples)
    total += b.rows.size() * sizeof(RowHeader) + b.values.size() * sizeof(double);
  return total;
}

size_t Writer::Batch::rows() const {
  size_t total = metrics.size();
  for (const SampleBatch& b : samples) total += b.size();
  return total;
}

void Writer::Batch::SetStride(int fields) {
  stride = fields;
  for (size_t k = 0; k < samples.size(); ++k) {
    samples[k].stride = fields;
    samples[k].kind = static_cast<EntityKind>(k);
  }
}

void Writer::Batch::Clear() {
  for (SampleBatch& b : samples) b.Clear();
  metrics.clear();
}

Writer::Writer(const PipelineOptions& options, store::Store* store, Registry* registry,
               jobs::JobIndex* jobs, jobs::Books* books, telemetry::FieldRegistry* fields,
               ApplicationIntake* application)
    : options_(options),
      store_(store),
      fields_(fields),
      turn_(std::make_shared<WriteTurn>(store, registry, jobs, books)) {
  retention_.emplace(store, jobs, application, registry, books);
  next_rollup_ = MonotonicNow() + options_.rollup_interval;
  next_maintenance_ = MonotonicNow() + kMaintenanceInterval;
}

Writer::Writer(const PipelineOptions& options, const Writer& beside)
    : options_(options), store_(beside.store_), fields_(beside.fields_), turn_(beside.turn_) {}

void Writer::Start(std::function<void()> on_tick) {
  on_tick_ = std::move(on_tick);
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
  if (store_ != nullptr && options_.maintenance && retention_)
    upkeep_ = std::jthread([this](std::stop_token stop) { Upkeep(stop); });
}

void Writer::Stop() {
  for (std::jthread* thread : {&upkeep_, &thread_}) thread->request_stop();
  for (std::jthread* thread : {&upkeep_, &thread_})
    if (thread->joinable()) thread->join();
}

Writer::~Writer() {
  Stop();
  if (store_ == nullptr) return;
  Status status;
  for (int attempt = 0; attempt < kShutdownTries; ++attempt) {
    status = WriteAll();
    if (status.ok() && retention_) {
      const MutexLock turn(turn_->mutex);
      status = Describe(/*shutdown=*/true);
    }
    if (status.ok() && options_.maintenance) status = store_->RollUp();
    if (status.ok()) return;
  }
  LogError("stopping with {} rows not stored: {}", queued_rows_.load(),
           std::string(status.message()));
}

// --- adding rows ---

Writer::Session::Session(Writer* writer, int shard)
    : writer_(writer), shard_(&writer->shards_[shard]) {
  shard_->mutex.lock();
  rows_before_ = shard_->open.rows();
  bytes_before_ = shard_->open.bytes();
}

Writer::Batch* Writer::Session::open() { return &shard_->open; }

void Writer::Session::Account() {
  writer_->queued_rows_ += open()->rows() - rows_before_;
  writer_->queued_bytes_ += open()->bytes() - bytes_before_;
}

void Writer::Session::Add(EntityKind kind, const RowHeader& header, const double* values,
                          int count) {
  if (writer_->store_ == nullptr) return;
  Batch* const batch = open();
  if (count > batch->stride) {
    // A column was added since the batch was begun: rows of one batch have one stride.
    if (batch->rows() > 0) {
      Account();
      writer_->Enqueue(batch);
      rows_before_ = bytes_before_ = 0;
    }
    batch->SetStride(std::max(count, writer_->fields_->size()));
  }
  SampleBatch& samples = batch->samples[static_cast<size_t>(kind)];
  samples.rows.push_back(header);
  samples.values.insert(samples.values.end(), values, values + count);
  if (count < batch->stride) samples.values.resize(samples.values.size() + batch->stride - count);
}

void Writer::Session::AddMetric(const MetricRow& row) {
  if (writer_->store_ != nullptr) open()->metrics.push_back(row);
}

Writer::Session::~Session() {
  Account();
  if (open()->rows() >= kBatchRows || open()->bytes() >= kBatchBytes) writer_->Enqueue(open());
  const bool overfull = writer_->Overfull();
  if (overfull && !writer_->options_.backfill) writer_->DropOldest(open());
  shard_->mutex.unlock();
  if (overfull && writer_->options_.backfill) writer_->WaitForRoom();
}

// Bounded: when the store is broken for good, back-fill goes on and Flush() reports the error.
void Writer::WaitForRoom() {
  wake_.NotifyAll();
  MutexLock lock(queue_mutex_);
  room_.WaitFor(queue_mutex_, kMicrosPerMinute, [this] { return !Overfull(); });
}

bool Writer::Overfull() const {
  return queued_rows_ > options_.max_queued_rows || queued_bytes_ > options_.max_queued_bytes;
}

void Writer::Release(size_t rows, size_t bytes) {
  queued_rows_ -= rows;
  queued_bytes_ -= bytes;
  room_.NotifyAll();
}

Writer::Batch Writer::TakeSpare() {
  if (spares_.empty()) return {};
  Batch spare = std::move(spares_.back());
  spares_.pop_back();
  return spare;
}

void Writer::GiveSpare(Batch batch) {
  batch.Clear();
  MutexLock lock(queue_mutex_);
  if (spares_.size() < kSpareBatches) spares_.push_back(std::move(batch));
}

void Writer::Enqueue(Batch* open) {
  MutexLock lock(queue_mutex_);
  const int stride = open->stride;
  queue_.push_back(std::exchange(*open, TakeSpare()));
  open->SetStride(stride);
}

void Writer::DropOldest(Batch* own) {
  MutexLock lock(queue_mutex_);
  while (Overfull() && !queue_.empty()) {
    dropped_rows_ += queue_.front().rows();
    Release(queue_.front().rows(), queue_.front().bytes());
    queue_.pop_front();
  }
  if (Overfull() && own->rows() > 0) {
    dropped_rows_ += own->rows();
    Release(own->rows(), own->bytes());
    own->Clear();
  }
}

// --- the writer thread ---

void Writer::Collect() {
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    if (shard.open.rows() > 0) Enqueue(&shard.open);
  }
}

// The next batch to write; small ones are joined so that one flush is one transaction.
bool Writer::NextBatch(Batch* out) {
  MutexLock lock(queue_mutex_);
  if (queue_.empty()) return false;
  *out = std::move(queue_.front());
  queue_.pop_front();
  while (!queue_.empty() && queue_.front().stride == out->stride &&
         out->rows() + queue_.front().rows() <= kBatchRows &&
         out->bytes() + queue_.front().bytes() <= kBatchBytes) {
    Batch& next = queue_.front();
    for (size_t k = 0; k < out->samples.size(); ++k) {
      SampleBatch& to = out->samples[k];
      const SampleBatch& from = next.samples[k];
      to.rows.insert(to.rows.end(), from.rows.begin(), from.rows.end());
      to.values.insert(to.values.end(), from.values.begin(), from.values.end());
    }
    out->metrics.insert(out->metrics.end(), next.metrics.begin(), next.metrics.end());
    next.Clear();
    if (spares_.size() < kSpareBatches) spares_.push_back(std::move(next));
    queue_.pop_front();
  }
  return true;
}

void Writer::LeaveOutSetAside(const DescribingRecords& describing, Batch* batch) {
  if (!describing.any_set_aside()) return;
  const size_t rows = batch->rows(), bytes = batch->bytes();
  for (SampleBatch& b : batch->samples) {
    size_t kept = 0;
    for (size_t r = 0; r < b.rows.size(); ++r) {
      if (describing.EntitySetAside(b.rows[r].entity)) continue;
      if (kept != r) {
        b.rows[kept] = b.rows[r];
        std::copy_n(b.values.begin() + static_cast<std::ptrdiff_t>(r * b.stride), b.stride,
                    b.values.begin() + static_cast<std::ptrdiff_t>(kept * b.stride));
      }
      ++kept;
    }
    b.rows.resize(kept);
    b.values.resize(kept * b.stride);
  }
  std::erase_if(batch->metrics,
                [&](const MetricRow& row) { return describing.SeriesSetAside(row.series); });
  refused_by_store_ += rows - batch->rows();
  Release(rows - batch->rows(), bytes - batch->bytes());
}

// Parts of a batch that were stored are emptied at once: a retry does not store them twice.
Status Writer::WriteBatch(Batch* batch) {
  const Micros arrival = options_.Clock();
  const auto settle = [&](const Status& status, size_t rows, size_t bytes) -> bool {
    if (!status.ok() && !absl::IsInvalidArgument(status)) return false;
    if (!status.ok()) {
      refused_by_store_ += rows;
      Record(status, "a batch the store refuses was dropped");
    }
    Release(rows, bytes);
    return true;
  };
  for (SampleBatch& b : batch->samples) {
    if (b.rows.empty()) continue;
    const Status status = store_->Append(b, *fields_, arrival);
    if (!settle(status, b.rows.size(),
                b.rows.size() * sizeof(RowHeader) + b.values.size() * sizeof(double)))
      return status;
    b.Clear();
  }
  if (!batch->metrics.empty()) {
    const Status status = store_->AppendMetrics(batch->metrics, arrival);
    if (!settle(status, batch->metrics.size(), batch->metrics.size() * sizeof(MetricRow)))
      return status;
    batch->metrics.clear();
  }
  return absl::OkStatus();
}

Status Writer::Describe(bool shutdown) {
  const Status status = turn_->describing.Write(shutdown);
  refused_describing_ = turn_->describing.refused();
  return status;
}

Status Writer::WriteAll() {
  Collect();
  while (true) {
    if (!has_in_flight_) {
      if (!NextBatch(&in_flight_)) break;
      has_in_flight_ = true;
    }
    {
      const MutexLock turn(turn_->mutex);
      FW_RETURN_IF_ERROR(Describe(/*shutdown=*/false));
      LeaveOutSetAside(turn_->describing, &in_flight_);
      FW_RETURN_IF_ERROR(WriteBatch(&in_flight_));
    }
    has_in_flight_ = false;
    GiveSpare(std::exchange(in_flight_, Batch{}));
  }
  const MutexLock turn(turn_->mutex);
  return Describe(/*shutdown=*/false);
}

void Writer::Record(const Status& status, std::string_view what) {
  ++flush_errors_;
  LogWarn("{}: {}", what, std::string(status.message()));
  MutexLock lock(state_mutex_);
  last_error_ = std::string(status.message());
}

void Writer::Maintain() {
  const Micros monotonic = MonotonicNow();
  if (monotonic >= next_rollup_) {
    if (const Status s = store_->RollUp(); !s.ok()) Record(s, "rolling up");
    next_rollup_ = MonotonicNow() + options_.rollup_interval;
    MutexLock lock(state_mutex_);
    last_rollup_ms_ = MsSince(monotonic);
  }
  if (monotonic >= next_maintenance_) {
    next_maintenance_ = monotonic + kMaintenanceInterval;
    const Micros now = options_.Clock();
    if (const Status s = store_->Seal(now); !s.ok()) Record(s, "sealing closed hours");
    if (const Status s = retention_->Apply(now); !s.ok()) Record(s, "applying retention");
    store_time_ = store_->stats().retention.mark;
  }
}

void Writer::Upkeep(std::stop_token stop) {
  while (!stop.stop_requested()) {
    {
      MutexLock lock(state_mutex_);
      const Micros wait = std::min(next_rollup_, next_maintenance_) - MonotonicNow();
      upkeep_wake_.WaitFor(state_mutex_, stop, std::max<Micros>(wait, 0), [] { return false; });
    }
    if (!stop.stop_requested()) Maintain();
  }
}

void Writer::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    uint64_t wanted = 0;
    bool asked = false;  // by Flush()
    {
      MutexLock lock(state_mutex_);
      wake_.WaitFor(state_mutex_, stop, options_.flush_interval,
                    [this]() FW_REQUIRES(state_mutex_) {
                      return flush_wanted_ != flush_done_ || (options_.backfill && Overfull());
                    });
      wanted = flush_wanted_;
      asked = wanted != flush_done_;
    }
    if (stop.stop_requested()) break;
    if (on_tick_) on_tick_();
    Status status;
    if (store_ != nullptr) {
      const Micros start = MonotonicNow();
      if (asked || start >= retry_at_) {
        status = WriteAll();
        if (status.ok()) {
          ++flushes_;
          backoff_ = retry_at_ = 0;
          storing_ = true;
          MutexLock lock(state_mutex_);
          last_error_.clear();
          last_flush_ms_ = MsSince(start);
          last_flush_ = options_.Clock();
        } else {
          backoff_ = std::clamp(2 * backoff_, kFirstBackoff, kMaxBackoff);
          retry_at_ = MonotonicNow() + backoff_;
          Record(status, "writing to the store");
          {
            MutexLock lock(state_mutex_);
            flush_error_ = std::string(status.message());
          }
          storing_ = false;
        }
      } else {
        Collect();
        continue;
      }
    }
    if (asked) {
      MutexLock lock(state_mutex_);
      flush_done_ = wanted;
      flush_status_ = status;
      flushed_.NotifyAll();
    }
  }
  MutexLock lock(state_mutex_);
  flush_done_ = flush_wanted_;
  flushed_.NotifyAll();
}

Status Writer::Flush() {
  Status status;
  {
    MutexLock lock(state_mutex_);
    const uint64_t mine = ++flush_wanted_;
    wake_.NotifyAll();
    flushed_.Wait(state_mutex_, [&]() FW_REQUIRES(state_mutex_) { return flush_done_ >= mine; });
    status = flush_status_;
  }
  // The caller rolls up, not the writer thread: it may have to wait for the end of a sealing.
  return status.ok() && store_ != nullptr ? store_->RollUp() : status;
}

Status Writer::Storing() const {
  if (storing_ && !Overfull()) return absl::OkStatus();
  if (storing_)
    return Unavailable("nothing is taken while {} rows wait to be stored; send it again later",
                       queued_rows_.load());
  MutexLock lock(state_mutex_);
  return Unavailable("nothing can be stored now, so nothing is taken: {}; send it again later",
                     flush_error_);
}

void Writer::FillStats(PipelineStats* s) const {
  s->dropped_rows = dropped_rows_;
  s->refused_by_store = refused_by_store_;
  s->refused_describing = refused_describing_;
  s->queued_rows = queued_rows_;
  s->queued_bytes = queued_bytes_;
  s->flushes = flushes_;
  s->flush_errors = flush_errors_;
  MutexLock lock(state_mutex_);
  s->last_flush_ms = last_flush_ms_;
  s->last_rollup_ms = last_rollup_ms_;
  s->last_flush = last_flush_;
  s->last_store_error = last_error_;
}

}  // namespace flopwatch::ingest
