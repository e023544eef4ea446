// One exporter as the pipeline knows it: its decoder, what each of its GPUs last said, and its
// counters. Turns the rows of a scrape into stamped rows: entity id, span, flags, job set, cycle
// rate (pipeline.h states the rules).
//
// Threads: one mutex; uncontended, because a target is scraped by one thread at a time.
#ifndef FLOPWATCH_INGEST_SOURCE_H_
#define FLOPWATCH_INGEST_SOURCE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "efficiency/ofu.h"
#include "jobs/job_index.h"
#include "ingest/application.h"
#include "ingest/claims.h"
#include "ingest/joiner.h"
#include "ingest/live.h"
#include "ingest/pipeline.h"
#include "ingest/registry.h"
#include "ingest/writer.h"
#include "telemetry/exposition.h"

namespace flopwatch::ingest {

// Reasons a row or a body is refused: the decoder's, then the pipeline's own.
enum class IngestRefusal : uint8_t {
  kDuplicateExporter = static_cast<uint8_t>(telemetry::Refusal::kCount),
  kUuidConflict,
  kStaleTimestamp,
  kFutureTimestamp,
  kEntityLimit,
  kSourceLimit,
  kCount,
};
inline constexpr size_t kRefusalCount = static_cast<size_t>(IngestRefusal::kCount);
std::string_view RefusalName(size_t reason);
using RefusalCounts = std::array<uint64_t, kRefusalCount>;
Counts NonZero(const RefusalCounts& counts);

struct Totals {
  std::atomic<uint64_t> scrapes{0}, rows{0}, samples{0}, narrow{0}, late_rows{0},
      zero_weight_rows{0}, frozen_rows{0};
  std::atomic<uint64_t> held_rows{0}, held_bytes{0};  // now
  std::array<std::atomic<uint64_t>, kRefusalCount> refused{};
};

// What all sources of a pipeline share. References outlive the sources.
struct IngestContext {
  const PipelineOptions& options;
  std::function<Micros()> clock;
  Registry& registry;
  jobs::JobIndex& jobs;
  LiveState& live;
  Writer& writer;
  telemetry::FieldRegistry& fields;
  Claims& claims;
  ApplicationIntake& application;
  Totals& totals;
};

class Source {
 public:
  Source(IngestContext* context, uint32_t id, std::string name, std::string node);
  ~Source();

  TargetStats Ingest(std::string_view body, Micros ts, int shard);
  // Hands over rows that wait for the verdict on a counter, as suspected: no sample will decide it
  // any more. Of a source that was fed since `silent_since`, only if `silent_since` is 0.
  void Settle(Micros silent_since);
  SourceInfo info() const;
  uint32_t id() const { return id_; }
  Micros last_ingest() const { return last_ingest_.load(std::memory_order_relaxed); }

 private:
  // A row that the store does not have yet.
  struct Held {
    telemetry::EntityKind kind;
    telemetry::RowHeader header;
    std::vector<double> values;
    LiveRow live;  // without jobs
  };
  // What is remembered of one GPU or instance between scrapes.
  struct Slot {
    bool resolved = false;
    uint32_t identity_version = 0;
    telemetry::EntityKind kind = telemetry::EntityKind::kGpu;
    ResolvedEntity entity;
    // This scrape.
    uint64_t scrape = 0;  // number of the scrape the row pointer belongs to
    const telemetry::DecodedRow* row = nullptr;
    uint64_t instances_scrape = 0;         // scrape in which instances of this GPU were listed,
    uint64_t tensor_instances_scrape = 0;  // and with tensor activity
    int32_t parent_slot = -1;
    // Since earlier scrapes.
    std::array<double, 8> last{};  // what a repeat repeats
    Micros fresh_ts = 0;           // last row that was not a repeat
    efficiency::DeadCounterDetector dead;
    std::vector<Held> held;  // until it is known whether the counter is dead
    // The claim on it (claims.h).
    uint64_t node_hash = 0;
    Evidence evidence = Evidence::kNone;
    std::optional<efficiency::CycleReading> cycles;  // at fresh_ts
    Micros cycles_ts = 0;
    double cycle_scale = 0;  // 0 = not calibrated
    float tensor_mhz = 0;
    int32_t job_set = 0;
    std::vector<int32_t> jobs;
  };
  struct Stamp {
    telemetry::RowHeader header;
    LiveRow live;
    efficiency::CounterState counter = efficiency::CounterState::kAlive;
  };

  bool Resolve(const telemetry::DecodedRow& row, Micros ts);
  Claims::Claim ClaimOf(int32_t entity, uint64_t node, Evidence evidence) const {
    return {.source = id_, .entity = entity, .node = node, .evidence = evidence};
  }
  Claims::Timing timing() const {
    return {.nominal_interval = ctx_->options.nominal_interval, .max_span = ctx_->options.max_span};
  }
  Claims::Verdict Admit(const Slot& slot, Micros ts, bool own_timestamp);
  bool IsRepeat(Slot& slot, const telemetry::DecodedRow& row, const telemetry::DecodedRow& board);
  void StampCycles(Slot& slot, const telemetry::DecodedRow& row, double clock_mhz, Micros ts,
                   bool repeat, Stamp* stamp, Micros* previous);
  void AddPart(const Slot& slot, const telemetry::DecodedRow& row, Micros ts, Micros previous,
               Writer::Session* session);
  void StampRow(Slot& slot, const telemetry::DecodedRow& row, Micros ts, Micros scrape_ts,
                Micros previous, Stamp* stamp);
  void AddOrHold(Slot& slot, const Stamp& stamp, const telemetry::DecodedRow& row,
                 Writer::Session* session);
  void Hold(Slot& slot, const Stamp& stamp, const telemetry::DecodedRow& row, int fields);
  enum class Release : uint8_t { kTrueZeros, kDead, kUndecided };
  void ReleaseHeld(std::vector<Held>* held, Release as, Writer::Session* session);
  void SettleGone(Micros ts, Writer::Session* session);
  // Collects what an application reports for OfferApplication().
  void IngestApplication(int32_t series, const telemetry::NarrowSample& sample, Micros ts);
  int32_t NewSeries(const telemetry::NarrowSample& sample);
  void OfferApplication();
  void IngestNarrow(const telemetry::NarrowSample& sample, Micros ts, Writer::Session* session);
  void Refuse(IngestRefusal reason, uint64_t n = 1);

  IngestContext* const ctx_;
  const uint32_t id_;
  const std::string name_, node_;
  const bool pushed_;
  const telemetry::ApplicationSource application_source_;
  std::atomic<Micros> last_ingest_{0};

  mutable std::mutex mutex_;
  telemetry::ExpositionDecoder decoder_;
  std::vector<Slot> slots_;
  size_t holding_ = 0;         // slots with held rows
  std::vector<Held> orphans_;  // held rows of GPUs that lost their slot
  absl::flat_hash_map<int32_t, int32_t> slot_of_entity_;
  // Hash of name and labels -> id; 0 = refused; negative: -1 - index in application_.
  absl::flat_hash_map<uint64_t, int32_t> series_;
  struct ApplicationMember {
    telemetry::ApplicationKey key;
    bool is_step = false;
    size_t group = 0;  // index in application_groups_
  };
  std::vector<ApplicationMember> application_;
  std::vector<telemetry::ApplicationSeries>
      application_groups_;  // by what they claim and who says it
  absl::flat_hash_map<std::string, size_t> group_of_;
  std::map<std::pair<size_t, Micros>, telemetry::ApplicationSample>
      application_now_;  // of this scrape
  uint64_t scrape_ = 0;
  RefusalCounts refused_{}, refused_now_{};
  TargetStats stats_;  // without refused
};

}  // namespace flopwatch::ingest

#endif  // FLOPWATCH_INGEST_SOURCE_H_
