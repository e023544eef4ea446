// One exporter as the pipeline knows it: its decoder, what each of its GPUs last said, and its
// counters. The way of a body, a stage a file:
//
//   decode (telemetry/exposition) ─▶ resolve ─▶ stamp ─▶ deliver   rows of GPUs and parts of nodes
//                                └─▶ narrow                        every other series
//
// Threads: one mutex; uncontended, because a target is scraped by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "ingest/budget.h"
#include "ingest/counters.h"
#include "ingest/deliver.h"
#include "ingest/judge.h"
#include "ingest/narrow.h"
#include "ingest/pipeline.h"
#include "ingest/resolve.h"
#include "ingest/stamp.h"
#include "telemetry/exposition.h"

namespace flopwatch::ingest {

class Source {
 public:
  // What `parts`, `claims` and `totals` refer to outlives the source. `id`: its number in claims.
  // `budgets`, which may be null, is told what it holds, on the account of who brought it.
  Source(const IngestParts& parts, Claims* claims, Totals* totals, Budgets* budgets, uint32_t id,
         const Origin& origin);
  ~Source();  // settles

  TargetStats Ingest(const telemetry::ScrapeBody& body, Micros ts, int shard, Newcomers* newcomers);
  // Hands over rows that wait for the verdict on a counter, as suspected: no sample will decide it
  // any more. Of a source that was fed since `silent_since`, only if `silent_since` is 0.
  void Settle(Micros silent_since);
  // Counts what was refused before it became a body of this source.
  void Refuse(telemetry::Refusal reason, uint64_t n);
  SourceInfo info() const;
  // What is thought of the counters of each GPU and instance of the last scrape.
  std::vector<GpuCounters> Counters(const efficiency::CounterPatience& patience) const;
  uint32_t id() const { return id_; }
  Micros last_ingest() const { return last_ingest_.load(std::memory_order_relaxed); }
  // The time is by the monotonic clock, whatever times its samples carry.
  Micros last_fed() const { return last_fed_.load(std::memory_order_relaxed); }
  SourceKind kind() const { return kind_; }
  // Its sender's sources hold more than they may.
  bool too_much() const { return too_much_.load(std::memory_order_relaxed); }

 private:
  // What is remembered of one slot of the decoder between scrapes.
  struct Slot {
    Identity who;
    // The fields up to `parent_slot` are of this scrape.
    uint64_t scrape = 0;  // number of the scrape that `row` belongs to
    const telemetry::DecodedRow* row = nullptr;
    uint64_t instances_scrape = 0;         // scrape in which instances of this GPU were listed,
    uint64_t tensor_instances_scrape = 0;  // and with tensor activity
    int32_t parent_slot = -1;
    // `state` and `held` are kept from earlier scrapes.
    GpuState state;
    efficiency::CounterJudge judge;
    bool doubted = false;  // `judge` has found something
    std::string renamed;   // the name that its tensor activity seems to have; "" = its own
    std::vector<HeldRow> held;
  };
  struct Weighed {  // rows of a scrape
    uint64_t rows = 0, late = 0, weightless = 0, frozen = 0;
    std::array<uint32_t, 4> opinions{};
    std::array<uint32_t, efficiency::kCounterRules> findings{};
  };

  Micros TimeOf(const telemetry::DecodedRow& row, Micros ts) const {
    return FloorTo(row.timestamp.value_or(ts), kMicrosPerMilli);
  }
  // `now` is the server's clock.
  bool TimeIsCredible(std::optional<Micros> timestamp, Micros now) FW_REQUIRES(mutex_);
  // The slot of a row of this scrape that was resolved, else nullptr.
  Slot* SlotOf(const telemetry::DecodedRow& row) FW_REQUIRES(mutex_);
  // The stages, over all rows of a scrape.
  void Resolve(const telemetry::DecodedScrape& scrape, Micros ts, Micros now, Newcomers* newcomers)
      FW_REQUIRES(mutex_);
  void LinkInstances(const telemetry::DecodedScrape& scrape) FW_REQUIRES(mutex_);
  Weighed StampAndDeliver(const telemetry::DecodedScrape& scrape, Micros ts, Micros now,
                          Newcomers* newcomers, Writer::Session* session) FW_REQUIRES(mutex_);
  // What the row means, without whose it is.
  Stamp StampAlone(const telemetry::DecodedRow& row, Micros ts, Micros scrape_ts, Micros previous,
                   Slot* slot) FW_REQUIRES(mutex_);
  Stamp StampGpu(const telemetry::DecodedRow& row, Micros ts, Micros scrape_ts, Micros previous,
                 Newcomers* newcomers, Slot* slot) FW_REQUIRES(mutex_);
  // Tells the GPU's judge of the row, and the stamp what is thought of its counters.
  void JudgeCounters(const RowToStamp& in, Stamp* stamp, Slot* slot, Weighed* weighed)
      FW_REQUIRES(mutex_);
  RowToStamp ToStamp(const telemetry::DecodedRow& row, Micros ts, Micros scrape_ts, Micros previous,
                     const Slot& slot) const FW_REQUIRES(mutex_);
  void DeliverPart(const Slot& slot, Micros ts, Micros previous, Writer::Session* session)
      FW_REQUIRES(mutex_);
  void SettleGone(Micros ts, Writer::Session* session) FW_REQUIRES(mutex_);
  TargetStats Count(const telemetry::DecodedScrape& scrape, const Weighed& weighed, Micros ts)
      FW_REQUIRES(mutex_);
  void Refuse(IngestRefusal reason, uint64_t n = 1) FW_REQUIRES(mutex_);

  const PipelineOptions& options_;
  const StampRules rules_;
  const telemetry::FieldRegistry& fields_;
  LiveState* const live_;
  Writer* const writer_;
  Totals* const totals_;
  const uint32_t id_;
  const std::string name_, node_;  // Origin::Text(), Origin::node
  const SourceKind kind_;
  Budgets* const budgets_;    // null: nobody counts what it holds
  const std::string sender_;  // who brought it
  std::atomic<Micros> last_ingest_{0}, last_fed_{0};
  std::atomic<bool> too_much_{false};

  mutable Mutex mutex_;
  telemetry::ExpositionDecoder decoder_ FW_GUARDED_BY(mutex_);
  Resolver resolver_ FW_GUARDED_BY(mutex_);
  Delivery delivery_ FW_GUARDED_BY(mutex_);
  NarrowSeries narrow_ FW_GUARDED_BY(mutex_);
  efficiency::Siblings siblings_ FW_GUARDED_BY(mutex_);
  LikeTensor like_tensor_ FW_GUARDED_BY(mutex_);
  std::vector<Slot> slots_ FW_GUARDED_BY(mutex_);
  absl::flat_hash_map<int32_t, int32_t> slot_of_entity_ FW_GUARDED_BY(mutex_);
  int64_t bytes_ FW_GUARDED_BY(mutex_) = 0;  // that `budgets_` was told of
  uint64_t scrape_ FW_GUARDED_BY(mutex_) = 0;
  RefusalCounts refused_ FW_GUARDED_BY(mutex_){}, refused_now_ FW_GUARDED_BY(mutex_){};
  TargetStats stats_ FW_GUARDED_BY(mutex_);  // without refused
};

}  // namespace flopwatch::ingest
