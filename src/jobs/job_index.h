// Who owned which GPU when. Intervals (entity, from, to) -> job are the truth for GPU-seconds; the
// job a stored row carries is a cache of them, stamped at ingest.
//
// Shared GPUs: while k jobs hold one GPU, each is charged 1/k of its GPU-seconds and of its OFU
// sums, so that the sum over jobs is the GPU's own time, once. A "job set" is that group of jobs
// with equal shares; set 0 is "nobody".
//
// Sources, strongest first: a static file (TOML or CSV), a scheduler's books, then labels on the
// samples (hpc_job; pod/namespace/container). Where a stronger source covers an entity at a time,
// weaker ones are ignored for it; labels naming a job that the static file or the books know count
// only within the time that these give it (a stale job-map file is ignored).
//
// Label intervals: a sample at ts stands for (ts - span, ts]. An interval is the union of the
// samples that showed the job, with gaps of at most kMaxGap closed; it ends at the last such
// sample. The result does not depend on the order in which samples arrive. Rules and their reasons:
// docs/jobs.md.
//
// Threads: all methods may be called from any thread. Entities are spread over shards with a mutex
// each; Observe with nothing new takes one uncontended lock, compares the labels and allocates
// nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/status.h"
#include "base/time.h"
#include "jobs/owned_times.h"
#include "telemetry/sample.h"

namespace flopwatch::jobs {

inline constexpr Micros kOpenEnd = std::numeric_limits<Micros>::max();

// A job that reappears on a GPU after at most so long never left it: two missed scrapes at 60 s, an
// exporter or server restart, pod labels missing at random (dcgm-exporter #342, #411). Slurm holds
// a requeued job for two minutes before it may start under its old id, so a longer tolerance would
// join two runs.
inline constexpr Micros kMaxGap = 150 * kMicrosPerSecond;

// Named limits; a hit is counted in Stats and the label is then as if it were absent.
struct Limits {
  // Remembered at a time. Ids are never used again: after 2^31 jobs of all time (at 20,000 a day in
  // 294 years) new ones are refused.
  size_t max_jobs = 4'000'000;
  size_t max_intervals = 32'000'000;  // in memory
  size_t max_static_lines = 10'000'000;
  size_t max_key_bytes = 512;  // of a job id, pod, namespace, user
  size_t max_owners = 64;      // jobs on one GPU at one time
  // New jobs that labels of one entity may create: so many at once, and one more for every four
  // observations. Keeps one broken exporter from filling the job table.
  int new_jobs_per_entity = 64;
};

// Asked for each job, or set of jobs that share a GPU, that a sample would make known, with the
// room that is left for others; under the index's locks. No: the label is as if it were absent.
using MayMakeKnown = absl::FunctionRef<bool(size_t room)>;

// Numbers that the store has; which of two is the stronger says Strength().
enum class Source : uint8_t { kLabels = 1, kStaticFile = 2, kScheduler = 3 };
constexpr int Strength(Source source) {
  return source == Source::kStaticFile ? 3 : source == Source::kScheduler ? 2 : 1;
}

struct JobRecord {
  int32_t id = 0;  // small, store-wide; 0 is never a job
  // The job id a person knows: "2115078", or "namespace/pod". Where jobs of several clusters have
  // one id, it is "CLUSTER:2115078" for each of them; a key may become that later.
  std::string key;
  std::string name, user, workflow;
  std::string cluster;  // as its scheduler or its node's names it; "" = not known
  Source source = Source::kLabels;
  // The end of the last day (UTC) in which a row was this job's; 0 = none was yet. Kept with the
  // record, and moved on at most once a day, so that a restart does not make silent jobs young.
  Micros last_seen = 0;
  bool operator==(const JobRecord&) const = default;
};

struct IntervalRecord {
  int64_t id = 0;  // a later record with the same id replaces the earlier one (an end became known)
  int32_t entity = 0;
  int32_t job = 0;
  int32_t rank = -1;  // -1 = not known
  Micros from = 0;
  Micros to = kOpenEnd;  // exclusive
  Source source = Source::kLabels;
  bool operator==(const IntervalRecord&) const = default;
};

// Members of a job set, each with share 1/size.
struct JobSetRecord {
  int32_t id = 0;
  std::vector<int32_t> jobs;
};

// Changes since the last call of TakeChanges(), for the store.
struct Changes {
  std::vector<JobRecord> jobs;
  std::vector<IntervalRecord> intervals;
  std::vector<JobSetRecord> sets;
  bool empty() const { return jobs.empty() && intervals.empty() && sets.empty(); }
};

// By when jobs may be forgotten; times of the store (store::ClockGuard), 0 = none may.
struct ForgetBefore {
  Micros unnamed = 0;  // nothing that is stored names a job that was last seen before this
  Micros if_full = 0;  // where there is hardly room, those last seen before this may go as well
};
// What was forgotten; the store may forget it too.
struct Forgotten {
  std::vector<int32_t> jobs, sets;
  size_t early = 0;  // of `jobs`: for want of room, although rollups name them
  bool empty() const { return jobs.empty() && sets.empty(); }
};

// GPU-seconds of a job in [from, to): exact from intervals, shared time divided. Open static
// intervals end at `to`, label intervals at the last sample that showed the job.
// A line of a static file, not bound to an entity id. `gpu`: UUID, "UUID/INSTANCE",
// "NODE:INDEX" (the exporter's), "NODE:nvidiaN" (the device's minor number, as schedulers count).
struct StaticAssignment {
  std::string gpu;
  std::string job, name, user, workflow;
  int32_t rank = -1;
  Micros from = 0;
  Micros to = kOpenEnd;
  std::string cluster = {};  // whose id `job` is; "" = not said
};
// CSV with header gpu,from,to,job[,rank,user,workflow,name], or TOML (file_name ends in .toml)
// [[assignment]] with the same keys. `to` absent or empty = still running. Times as ParseTime reads
// them, relative ones from `now`. Errors name file, line and field. Limit:
// Limits::max_static_lines.
StatusOr<std::vector<StaticAssignment>> ParseStaticFile(std::string_view text,
                                                        std::string_view file_name, Micros now);

// The job key an exporter's labels name, or "" when they name none: hpc_job, else namespace/pod (a
// container or namespace alone owns nothing). Placeholders exporters write for "no job" are no job:
// "", quotes only, -, none, null, N/A, 0, ...
std::string JobKey(const telemetry::OwnerLabels& owner);

// The id that the job's cluster gave it: its key without "CLUSTER:".
std::string_view IdOf(const JobRecord& job);
// The key where jobs of several clusters have the id.
std::string KeyOfCluster(std::string_view cluster, std::string_view id);

// Counters for /metrics and status.
struct IndexStats {
  size_t jobs = 0, sets = 0, intervals = 0;
  size_t job_gpus = 0;  // entries of the lists that say which GPUs a job's intervals are on
  size_t static_assignments = 0, static_waiting = 0;  // waiting = their GPU has not been seen
  uint64_t refused_labels = 0;     // label too long, or too many owners on one GPU
  uint64_t refused_jobs = 0;       // max_jobs, new_jobs_per_entity or who may make them known
  uint64_t refused_intervals = 0;  // max_intervals
};

class JobIndex {
 public:
  JobIndex();
  // `monotonic` tells how long an entity has been silent; tests pass their own.
  explicit JobIndex(const Limits& limits, Micros (*monotonic)() = MonotonicNow);
  ~JobIndex();

  // Restores what the store knew at start; call before anything else. `seen_until` is the newest
  // sample in the store (StoreStats::newest_ts): after a crash an interval stored as open was last
  // seen then. 0 = not known; such an interval then ends at the newest time the records themselves
  // name.
  void Load(absl::Span<const JobRecord> jobs, absl::Span<const IntervalRecord> intervals,
            absl::Span<const JobSetRecord> sets, Micros seen_until = 0);

  // Replaces all assignments of the static source: one that is no longer listed is retracted for
  // every GPU known by BindEntity. Those whose GPU is not known yet wait until BindEntity names it.
  // Without a call, static intervals from Load stay as they are.
  void SetStatic(std::vector<StaticAssignment> assignments);
  // Adds what a scheduler says: unlike those of SetStatic(), assignments that are not listed stay,
  // also over a restart. One of the same job, GPU and start replaces the earlier one. One without a
  // GPU says only when its job ran: with an end, it ends what the job holds since that start (a
  // scheduler knows which GPUs only while it runs). Those whose GPU is not known yet wait for
  // BindEntity().
  void Schedule(absl::Span<const StaticAssignment> assignments);
  // Tells the index a GPU it may have waiting assignments for. Call for every known entity after
  // Load, for a new one, and when its node or index changes: a slot ("NODE:INDEX") then passes on,
  // its past stays with the board that was in it.
  void BindEntity(int32_t entity, const telemetry::EntityKey& key,
                  const telemetry::EntityLabels& labels);

  // What was told of an attempt before a restart: those of its GPUs that nobody is called by yet
  // wait for BindEntity(), as after Schedule(); of the others it is known. After BindEntity() of
  // every GPU that is known; KnowTimes() after the last one.
  void Await(StaticAssignment attempt, absl::Span<const std::string> gpus);

  // These nodes are the cluster's: a job id that labels on their GPUs show is one of that cluster.
  // A node that several clusters name is of none. Label intervals of another cluster's job with the
  // same id, recorded before this was known, become those of the cluster's own.
  void NameNodes(std::string_view cluster, absl::Span<const std::string> nodes);

  // When jobs ran, as their scheduler said before a restart: of those that are known and hold
  // something, or still run, what labels say counts within these times alone.
  void KnowTimes(absl::Span<const StaticAssignment> ran);

  // Whether an interval of any job on the entity is remembered.
  bool HasIntervals(int32_t entity) const;
  // These entities are forgotten, and their ids may be given to others after the next start: what
  // they were called is nobody's until a GPU says that name again, and what a file has assigned to
  // them meanwhile is withdrawn.
  void UnbindEntities(absl::Span<const int32_t> entities);

  // Says that Observe() of this entity comes soon: what it compares is cold, and asked for now it
  // comes while the caller does something else.
  void Prefetch(int32_t entity) const;

  // The owners the labels of a sample at `ts` name (possibly none); the sample stands for (ts -
  // span, ts]. Opens, extends and closes label intervals, and returns the job set to stamp on the
  // row (from the strongest source). span 0 = not known: the sample marks an instant, and is joined
  // with its neighbours within kMaxGap.
  //
  // `of_the_past`: the sample is history's. Each entity gets its history at a time of its own, so
  // that after a crash the store's newest sample would say nothing of when this one was last seen:
  // its intervals are never stored as open, but with the end that they have so far.
  int32_t Observe(int32_t entity, Micros ts, Micros span,
                  absl::Span<const telemetry::OwnerLabels* const> owners, MayMakeKnown may_make,
                  bool of_the_past = false);
  int32_t Observe(int32_t entity, Micros ts, Micros span,
                  absl::Span<const telemetry::OwnerLabels* const> owners) {
    return Observe(entity, ts, span, owners, [](size_t) { return true; });
  }

  // The clock by which `entity` was observed was set back: its next sample, at `ts`, shows what is
  // now, although there are later ones. Without this a sample is late then, and closes nothing.
  void SetBack(int32_t entity, Micros ts);

  // The job set that owned `entity` just before `ts` (from < ts <= to), as a sample at `ts` needs
  // it, from intervals.
  int32_t Lookup(int32_t entity, Micros ts) const;

  std::optional<JobRecord> job(int32_t id) const;
  // By its key; also by "CLUSTER:ID" where the key is the id alone.
  std::optional<JobRecord> FindJob(std::string_view key) const;
  // By the id that its cluster gave it; of a cluster that is not named ("") where one job alone has
  // the id.
  std::optional<JobRecord> FindJobOf(std::string_view cluster, std::string_view id) const;
  // The keys of jobs of several clusters that have this id, sorted; empty where one job alone has.
  std::vector<std::string> KeysOfId(std::string_view id) const;
  std::vector<JobRecord> AllJobs() const;
  // Members of a set; empty for 0.
  std::vector<int32_t> SetMembers(int32_t set) const;
  // The same, and job(), without copies: called under a lock, must be quick and ask nothing here.
  void ForEachMember(int32_t set, absl::FunctionRef<void(int32_t)> visit) const;
  bool VisitJob(int32_t id, absl::FunctionRef<void(const JobRecord&)> visit) const;  // is there
  // Who owned what in [from, to), of one job or of all (job = 0), by the strongest source: parts of
  // intervals that a stronger source overrides are left out, so one interval may give several
  // records with its id. Ends are not clipped to the window. Sorted by entity, then time.
  std::vector<IntervalRecord> Intervals(Micros from, Micros to, int32_t job = 0) const;
  // What Intervals() says, clipped to [from, to), without a copy of it all. Calls f once for every
  // entity that somebody owned, for neighbours that the same jobs owned at the same times together
  // (most of a job's GPUs are). `stretches` are in order of time. Both are valid during the call,
  // in which no lock is held.
  void ForEachOwned(Micros from, Micros to, VisitOwned f) const;
  // The same, kept, for a question that looks at it several times; nullopt where it has more than
  // `most` stretches.
  std::optional<OwnedTimes> Owned(Micros from, Micros to, size_t most) const;
  // The same for one entity, all jobs, by time.
  std::vector<IntervalRecord> EntityIntervals(int32_t entity, Micros from, Micros to) const;
  // The number of entities with a remembered interval of the job: Intervals() of it looks at them.
  size_t GpusEver(int32_t job) const;
  // Sorted by job. The sum over jobs is the time in which GPUs had any owner.
  std::vector<GpuSeconds> GpuSecondsByJob(Micros from, Micros to) const;

  // Changes since the last call. Keep them until the store has them: they are not given twice. A
  // label interval that is still being seen is written as open (to = kOpenEnd) once and again when
  // it ends; an interval that was withdrawn or merged into another is written as empty (to = from).
  // With `shutdown`, open label intervals are written with the end they have now, so that a clean
  // restart continues exactly.
  Changes TakeChanges(bool shutdown = false);

  // Forgets intervals that ended before `horizon` (retention) and where to look for them; who the
  // jobs were stays, because stored rows name them. The store drops its own copies itself.
  // `horizon` is by the store's time, never by a clock alone (store::ClockGuard). Returns how many.
  size_t DropBefore(Micros horizon);

  // Forgets jobs without an interval that were last seen before `before.unnamed`, and the sets they
  // are in; at most kForgetAtOnce a call, the longest silent first. With less than one part in
  // kRoomPart left of max_jobs, also others without an interval, until there is so much. A job that
  // comes back is new and gets another id. Cheap where neither day has changed since a call that
  // found no more to forget.
  static constexpr size_t kForgetAtOnce = 100'000;
  static constexpr size_t kRoomPart = 16;
  Forgotten Forget(const ForgetBefore& before);
  // Less than that part of max_jobs is free.
  bool ShortOfRoom() const;

  IndexStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flopwatch::jobs
