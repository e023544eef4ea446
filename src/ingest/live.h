// Live accumulators: what is true now, in memory, updated per row and read by the API and /metrics
// in microseconds. Per GPU the latest sample; per job, per model and for the fleet running totals,
// from which any window is a difference.
//
// A window begins at a slot and reaches to the newest row: slots of ten seconds within kFineWindow
// of the newest row, of a minute within kLongestWindow. A row belongs to the slot its time is in,
// as in the store's rollups. A window costs one subtraction per job, whatever its length. Rows may
// come late by as much as the tier is deep. Threads: Update from ingest threads, snapshots from
// any; sharded locks, none held longer than one shard's copy. Memory: 1.4 KB a GPU, about 17 KB a
// job that ran within the last hour.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/time.h"
#include "efficiency/counters/honesty.h"
#include "ingest/options.h"
#include "store/store.h"
#include "telemetry/sample.h"

namespace flopwatch::ingest {

inline constexpr Micros kFineWindow = 5 * kMicrosPerMinute;
inline constexpr Micros kLongestWindow = kMicrosPerHour;
inline constexpr Micros kGpuSlot = 5 * kMicrosPerMinute;  // of what is kept of each GPU

// What a board says of its troubles; -1 = it does not say.
struct GpuTroubles {
  int32_t xid = -1;         // the last code, however old; 0 = none
  int64_t xid_errors = -1;  // that the exporter has counted (docs/fields.md)
  int64_t throttle = -1;    // clock event reasons
  int64_t ecc_dbe = -1, nvlink_errors = -1, pcie_replays = -1;  // totals
  int32_t row_remaps = -1;                                      // likewise
  int8_t row_remap_pending = -1, row_remap_failed = -1;         // 1 = it is so, 0 = it is not
};

struct GpuNow {
  int32_t entity = 0, job_set = 0, model = 0;
  uint32_t flags = 0;  // telemetry::SampleFlag
  Micros ts = 0;
  bool instance = false;  // a MIG instance, not a whole GPU
  static constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
  double ofu = kAbsent, tensor_active = kAbsent, sm_clock_mhz = kAbsent, sm_active = kAbsent;
  double sm_occupancy = kAbsent, gpu_util = kAbsent, power_w = kAbsent, fb_used_mib = kAbsent,
         gpu_temp_c = kAbsent;
  efficiency::CounterVerdict counters;  // whether these can be believed
  GpuTroubles troubles;
};

// A stamped row: what it adds to the sums is efficiency/accounting.h, as for the rows of the store.
struct LiveRow {
  GpuNow now;
  double span_s = 0;    // the time it stands for; with kFrozen, the time it said nothing new in
  double fraction = 1;  // share of its GPU (MIG)
  absl::Span<const int32_t> jobs;  // members of now.job_set; empty = nobody
};

class LiveState {
 public:
  explicit LiveState(int32_t last_entity = RegistryLimits().entities);
  ~LiveState();
  // Rows of one scrape, each of another entity. Those of one time, job set and model are added up
  // before they go into the sums.
  void Update(absl::Span<const LiveRow> rows);
  void Update(const LiveRow& row) { Update(absl::MakeConstSpan(&row, 1)); }
  // Says that rows of this entity at about this time come soon: what they change is cold, and asked
  // for now it comes while the caller does something else.
  void Prefetch(int32_t entity, Micros ts) const;
  // The server's clock says `now`. Where there are rows of a later time (kClockStep), it has been
  // set back, and they stand in the way of what is now: the windows begin anew, and whoever was
  // seen later was last seen now. The store answers for what came before. Else one comparison.
  void NoteClock(Micros now) {
    if (newest() > now + kClockStep) StepBack(now);
  }
  // Takes back a row that was given to Update() and puts another verdict on it in its place: same
  // entity, time and jobs.
  void Revise(const LiveRow& before, const LiveRow& after);

  // Latest row of each entity; of one job or of all (0).
  std::vector<GpuNow> Gpus(int32_t job = 0) const;
  // The same without copying; called under a lock, must be quick.
  void ForEachGpu(int32_t job, absl::FunctionRef<void(const GpuNow&)> visit) const;
  // Of all, some hundreds at once; called without a lock, with copies that may be changed.
  void ForEachGpuPiece(absl::FunctionRef<void(absl::Span<GpuNow>)> visit) const;
  // Latest row of one entity; ts = 0 when it was never seen.
  GpuNow Gpu(int32_t entity) const;
  // Sums of one GPU or instance, in its own seconds, from the first kGpuSlot that begins at or
  // after `from` on (Align): of the time since it got the job set it has now, which `since` gives.
  // Empty where it has another.
  struct GpuWindow {
    Micros since = 0;
    store::UsageSums sums;
  };
  std::optional<GpuWindow> GpuSince(int32_t entity, int32_t job_set, Micros from) const;
  // GPUs (not instances) with a row after `since`.
  int32_t GpusReporting(Micros since) const;

  // The beginning of a window asked for from `from` on: the first slot that begins at or after it.
  Micros Align(Micros from) const;
  // Sums of the rows at or after Align(from).
  store::UsageSums FleetSince(Micros from) const;
  std::vector<store::JobUsage> JobsSince(Micros from) const;  // in no order
  store::UsageSums JobSince(int32_t job, Micros from) const;
  std::vector<std::pair<int32_t, store::UsageSums>> ModelsSince(Micros from) const;  // model id
  // The sums of the last `window` before the newest row.
  store::UsageSums Fleet(Micros window) const { return FleetSince(newest() - window + 1); }
  // Sums by minute, from Align(from) rounded down to a minute; minutes without rows are left out.
  std::vector<store::UsagePoint> FleetMinutes(Micros from) const;
  std::vector<store::UsagePoint> JobMinutes(int32_t job, Micros from) const;

  Micros newest() const;
  Micros oldest() const;  // first row since start; 0 = none
  // Forgets jobs without a row in the last hour, and the sums of GPUs without. Called once a
  // minute.
  void Expire();

 private:
  void StepBack(Micros now);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flopwatch::ingest
