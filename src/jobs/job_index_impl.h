// The inside of JobIndex: the state of each entity and the parts that work on it, spread over files
// by purpose: job_index.cc (load, changes, retention), observe.cc (labels), static_owners.cc (the
// static file), owned.cc (answers).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "jobs/interval_list.h"
#include "jobs/job_catalog.h"
#include "jobs/job_index.h"
#include "telemetry/sample.h"

namespace flopwatch::jobs {

inline constexpr size_t kShards = 64;
// Entities with neighbouring ids are in one shard, beside each other: they are visited together.
inline constexpr size_t kRun = 64;
inline constexpr size_t kMaxNodes = 4'000'000;  // whose cluster is remembered
inline constexpr int32_t kMaxEntityId = 16'000'000;
// Times a sample may have; arithmetic with gaps and spans cannot overflow inside.
inline constexpr Micros kMaxTime = std::numeric_limits<Micros>::max() / 4;
inline constexpr Micros kMaxSpan = kMicrosPerDay;
// TakeChanges() looks for entities that fell silent once per kSweepInterval; after kSilentSweeps of
// them without an Observe() the open intervals are written as ended.
inline constexpr Micros kSweepInterval = kMicrosPerMinute;
inline constexpr int kSilentSweeps = 4;
inline constexpr int kObservationsPerNewJob = 4;
// Jobs looked at while the catalogue is locked: about a millisecond.
inline constexpr size_t kForgetSlice = 4096;

inline int32_t DayOf(Micros ts) { return static_cast<int32_t>(ts / kMicrosPerDay); }

struct EntityState {
  // What the next sample is compared with.
  std::vector<telemetry::OwnerLabels> owners;  // labels of the newest sample
  bool owners_valid = false;                   // and what follows from them still holds
  Micros last_ts = std::numeric_limits<Micros>::min();
  Micros tail_to = 0;      // open label intervals reach to here; written into them by Materialise()
  Micros tail_from = 0;    // and all of them cover the time since this
  Micros valid_until = 0;  // until then the stamped set stays the same if the labels do
  // While owners_valid and the generation hold, the owners from here to tail_to are the stamped set
  // and nobody else, so that a live window needs no look at the intervals. kOpenEnd = not so.
  Micros steady_from = kOpenEnd;
  int32_t stamped_set = 0;
  int32_t noted_day = 0;    // the last one in which the catalogue was told that stamped_set is seen
  uint32_t generation = 0;  // of Catalog::static_times() when valid_until was worked out
  uint16_t cluster = 0;     // whose node it is on (JobCatalog::ClusterId); 0 = not known
  int16_t open = 0;         // label intervals that are open
  int16_t new_jobs_left = 0;
  int8_t silent_sweeps = 0;
  bool seen = false;         // since the last sweep
  bool dirty = false;        // some interval is, and the shard's list has this entity
  bool known = false;        // has had an Observe() or a binding
  bool observed = false;     // has had an Observe() in this process
  bool of_the_past = false;  // its newest one was: open intervals are stored with an end
  uint8_t observations = 0;
  IntervalList intervals;
};

struct Shard {
  Mutex mutex;
  std::vector<EntityState> entities FW_GUARDED_BY(mutex);  // by Impl::PlaceOf()
  // Places in `entities` with intervals the store does not have.
  std::vector<size_t> dirty FW_GUARDED_BY(mutex);
  // Persisted intervals that are no more.
  std::vector<IntervalRecord> withdrawn FW_GUARDED_BY(mutex);
  SweepScratch scratch FW_GUARDED_BY(mutex);
};

// A static assignment as the index keeps it: names replaced by ids.
struct BoundAssignment {
  int32_t job = 0;
  int32_t rank = -1;
  Micros from = 0;
  Micros to = kOpenEnd;
};

// Who sat in a slot (or had a UUID) since when.
struct Tenancy {
  int32_t entity = 0;  // 0 = one that is forgotten
  Micros since = std::numeric_limits<Micros>::min();
};

// A slot two exporters fight over does not grow without bound: later claims are ignored.
inline constexpr size_t kMaxTenants = 64;

struct GpuName {
  std::vector<BoundAssignment> assignments;
  std::vector<BoundAssignment> scheduled;  // by a scheduler, before anybody was known by this name
  std::vector<Tenancy> tenants;            // in order of `since`
};

struct JobIndex::Impl {
  Impl(const Limits& l, Micros (*clock)()) : limits(l), monotonic(clock), catalog(l) {}

  const Limits limits;
  Micros (*const monotonic)();
  mutable std::array<Shard, kShards> shards;
  mutable JobCatalog catalog;  // its own lock, taken inside a shard's

  // Static source. Lock order: static_mutex, shard, catalog.
  Mutex static_mutex;
  bool static_loaded FW_GUARDED_BY(static_mutex) = false;    // SetStatic() was called
  bool has_assignments FW_GUARDED_BY(static_mutex) = false;  // it gave any
  Micros loaded_until FW_GUARDED_BY(static_mutex) = 0;       // newest time Load() was told of
  absl::flat_hash_map<std::string, GpuName> names FW_GUARDED_BY(static_mutex);
  absl::flat_hash_map<int32_t, std::vector<std::string>> entity_names FW_GUARDED_BY(static_mutex);
  // Nodes by cluster (JobCatalog::ClusterId, 0 = several name it), and the node of each entity.
  absl::flat_hash_map<std::string, uint16_t> cluster_of FW_GUARDED_BY(static_mutex);
  absl::flat_hash_map<int32_t, std::string> node_of FW_GUARDED_BY(static_mutex);
  size_t scheduled_waiting FW_GUARDED_BY(static_mutex) = 0;  // GpuName::scheduled of all
  // When jobs ran: by the static file, and by a scheduler (of jobs that have intervals).
  StaticTimes file_times FW_GUARDED_BY(static_mutex), scheduled_times FW_GUARDED_BY(static_mutex);

  std::atomic<int64_t> next_interval{1};
  std::atomic<size_t> interval_count{0};
  std::atomic<uint64_t> refused_labels{0}, refused_intervals{0};
  std::atomic<Micros> next_sweep{0};

  Mutex forget_mutex;  // before the others
  // What Forget() has done: by day, for jobs that nothing names, and for want of room.
  std::pair<int32_t, int32_t> forgotten_days FW_GUARDED_BY(forget_mutex){-1, -1};

  Shard& ShardOf(int32_t entity) const {
    return shards[static_cast<size_t>(entity) / kRun % kShards];
  }
  static size_t PlaceOf(int32_t entity) {
    const auto id = static_cast<size_t>(entity);
    return id / (kRun * kShards) * kRun + id % kRun;
  }

  // The state of an entity in its locked shard; null when the id cannot be one.
  static EntityState* Find(Shard& shard, int32_t entity) FW_REQUIRES(shard.mutex) {
    const size_t at = PlaceOf(entity);
    return entity > 0 && at < shard.entities.size() ? &shard.entities[at] : nullptr;
  }

  EntityState* FindOrMake(Shard& shard, int32_t entity) const FW_REQUIRES(shard.mutex);

  static int32_t EntityId(size_t shard, size_t at) {
    return static_cast<int32_t>((at / kRun * kShards + shard) * kRun + at % kRun);
  }

  // 0 = refused.
  int64_t NewIntervalId(int32_t job, int32_t entity);

  static void MarkDirty(Shard& shard, EntityState& e) FW_REQUIRES(shard.mutex) {
    if (e.dirty) return;
    e.dirty = true;
    shard.dirty.push_back(static_cast<size_t>(&e - shard.entities.data()));
  }

  // Writes the lazily kept end of the open label intervals into them.
  static void Materialise(EntityState& e);

  // Ends the open label intervals of jobs that are not in `still_shown` (ascending) and those that
  // ended before `reach` or began after `until` (when a clock was ahead).
  static void CloseOpen(EntityState& e, absl::Span<const int32_t> still_shown, Micros reach,
                        Micros until = kOpenEnd);

  // Adds what a sample shows to the label intervals.
  void Record(Shard& shard, int32_t entity, EntityState& e, Micros from, Micros ts, bool newest,
              absl::Span<const int32_t> jobs) FW_REQUIRES(shard.mutex);

  void Withdraw(Shard& shard, int32_t entity, const Interval& gone) FW_REQUIRES(shard.mutex);

  // Gives who the static file says owns the entity just before ts (empty = it does not say), and
  // the next time this changes.
  static void StaticOwners(const EntityState& e, Micros ts, std::vector<int32_t>* jobs,
                           Micros* until);

  // Who to stamp on a sample at ts whose labels name `label_jobs`, and until when that stays so.
  static std::vector<int32_t> Resolve(const EntityState& e, Micros ts,
                                      absl::Span<const int32_t> label_jobs,
                                      const StaticTimes& times, Micros* until);

  // EntityState::steady_from after a newest sample whose labels name exactly the owners: when the
  // last other interval ended, and all of the jobs ran.
  static Micros SteadyFrom(const EntityState& e, absl::Span<const int32_t> jobs,
                           const StaticTimes& times);

  int32_t ObserveSlow(Shard& shard, int32_t entity, EntityState& e, Micros ts, Micros span,
                      absl::Span<const telemetry::OwnerLabels* const> owners, MayMakeKnown may_make)
      FW_REQUIRES(shard.mutex);

  // Makes the static intervals of an entity those that its names say now.
  void ReconcileStatic(int32_t entity) FW_REQUIRES(static_mutex);

  // The assignment as a new interval of the entity, whose shard is locked; false where it is
  // refused.
  bool AddInterval(int32_t entity, EntityState& e, const BoundAssignment& a, Source source);

  // What labels on the entity name are ids of this cluster; also what they have named so far.
  void SetCluster(int32_t entity, uint16_t cluster) FW_REQUIRES(static_mutex);

  // Puts an assignment of a scheduler on the entities that had the name in its time.
  void Schedule(const GpuName& name, const BoundAssignment& assignment) FW_REQUIRES(static_mutex);
  void ScheduleOn(int32_t entity, const BoundAssignment& assignment) FW_REQUIRES(static_mutex);
  // The job's attempt that began at `run.from` ended at `run.to`.
  void EndScheduled(int32_t job, RunTime run) FW_REQUIRES(static_mutex);
  // Whether another entity took over a name of this one at `at`.
  bool WasReplaced(int32_t entity, Micros at) const FW_REQUIRES(static_mutex);
  // The same for those whose GPU is not known yet; by job and start, the end.
  using Ends = absl::flat_hash_map<std::pair<int32_t, Micros>, Micros>;
  void EndWaiting(const Ends& ends) FW_REQUIRES(static_mutex);
  // A scheduler's assignment of a GPU that nobody is called by yet.
  void Wait(GpuName* name, const BoundAssignment& bound) FW_REQUIRES(static_mutex);
  // Gives the catalogue the times of both.
  void PublishTimes() FW_REQUIRES(static_mutex);
  // The name is no more that of `entity`.
  void Vacate(const std::string& name, int32_t entity) FW_REQUIRES(static_mutex);

  // Ends the open intervals of entities that fell silent (of all at shutdown).
  void CloseSilent(Shard& shard, bool sweep, bool shutdown) FW_REQUIRES(shard.mutex);

  // Tells the catalogue, once a day, that rows are stamped with the set of this entity.
  void NoteSeen(EntityState& e) {
    if (e.stamped_set == 0 || DayOf(e.last_ts) <= e.noted_day) return;
    e.noted_day = DayOf(e.last_ts);
    catalog.Seen(e.stamped_set, e.last_ts);
  }

  // Whether an interval of the job is remembered.
  bool HasInterval(int32_t job) const;

  // Adds who owned what in [from, to), without the entities that `skip`, called with the shard
  // locked, takes; `after_run` is called without a lock after some at a time, and false from it
  // ends it.
  template <typename Skip, typename F>
  void CollectOwned(Micros from, Micros to, const StaticTimes& times, Skip&& skip, OwnedTimes* out,
                    F&& after_run);

  // Appends what `job` (0 = any) owned of one entity in [from, to), as JobIndex::Intervals().
  static void AppendOwned(Shard& shard, int32_t entity, EntityState& e, Micros from, Micros to,
                          int32_t job, const StaticTimes& times, std::vector<IntervalRecord>* out)
      FW_REQUIRES(shard.mutex);

  // The last time an entity is known to have been in its slot.
  Micros LastKnown(int32_t entity) FW_REQUIRES(static_mutex);
};

}  // namespace flopwatch::jobs
