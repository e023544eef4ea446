// The stage that hands stamped rows on: to the writer, for the store, and to the live state.
//
// Zeros of a counter that may be dead (docs/ofu.md) are not computable from the first one on. Their
// rows wait here, at most kDeadCounterSeconds and within kMaxHeldBytes over all sources, until it
// is known what they were; the live sums, which have them already, are corrected then. A process
// that is killed loses the rows that wait.
//
// Threads: one Delivery belongs to one source and is used under its lock.
#pragma once

#include <cstdint>
#include <vector>

#include "ingest/counters.h"
#include "ingest/live.h"
#include "ingest/stamp.h"
#include "ingest/writer.h"
#include "jobs/job_index.h"
#include "telemetry/exposition.h"

namespace flopwatch::ingest {

// Above it, rows that would wait are stored as suspected at once.
inline constexpr size_t kMaxHeldBytes = 64 << 20;

// A row that the store does not have yet.
struct HeldRow {
  telemetry::EntityKind kind;
  telemetry::RowHeader header;
  std::vector<double> values;
  LiveRow live;  // without jobs
};

class Delivery {
 public:
  // The pointers outlive it.
  Delivery(LiveState* live, const jobs::JobIndex* jobs, Totals* totals)
      : live_(live), jobs_(jobs), totals_(totals) {}

  // A row of a GPU or instance. `held`: what waits of it.
  void Row(telemetry::EntityKind kind, const Stamp& stamp, const telemetry::DecodedRow& row,
           std::vector<HeldRow>* held, Writer::Session* session);
  // A link, a switch or a processor: its values, and the time since `previous` that they stand for.
  void Part(telemetry::EntityKind kind, const telemetry::RowHeader& header,
            const telemetry::DecodedRow& row, Writer::Session* session);
  // The GPU lost its slot: nothing will decide about its rows. They go with the next Settle().
  void Orphan(std::vector<HeldRow>* held);
  void SettleOrphans(Writer::Session* session);
  // Stores what waits as suspected: no sample will decide it any more.
  void Settle(std::vector<HeldRow>* held, Writer::Session* session);

  bool anything_held() const { return holding_ != 0; }
  bool any_orphans() const { return !orphans_.empty(); }

 private:
  enum class Zeros : uint8_t { kTrue, kDead, kUndecided };
  void Hold(telemetry::EntityKind kind, const Stamp& stamp, const telemetry::DecodedRow& row,
            std::vector<HeldRow>* held);
  void Release(std::vector<HeldRow>* held, Zeros zeros, Writer::Session* session);

  LiveState* const live_;
  const jobs::JobIndex* const jobs_;
  Totals* const totals_;
  size_t holding_ = 0;  // GPUs with held rows
  std::vector<HeldRow> orphans_;
};

}  // namespace flopwatch::ingest
