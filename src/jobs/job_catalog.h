// The jobs and job sets that are known, by id and by key. One mutex, held for lookups only;
// JobIndex takes it inside an entity shard's lock, never the other way round.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "jobs/interval_list.h"
#include "jobs/job_index.h"

namespace flopwatch::jobs {

class JobCatalog {
 public:
  explicit JobCatalog(const Limits& limits) : limits_(limits) {}

  void Load(absl::Span<const JobRecord> jobs, absl::Span<const JobSetRecord> sets);

  // Distinct jobs the labels of a row at `seen` name, ascending, made where new. Each new one takes
  // one from `*budget`; false when a job was refused for want of budget or room: ask again with the
  // next sample. `cluster` (ClusterId) is whose job ids they are, 0 = not known.
  bool JobsOf(absl::Span<const telemetry::OwnerLabels* const> owners, Micros seen, uint16_t cluster,
              int* budget, MayMakeKnown may_make, std::vector<int32_t>* jobs);
  // 0 when the job table is full or the key too long.
  int32_t AddStaticJob(const StaticAssignment& assignment, Source source = Source::kStaticFile);
  // A number for the name of a cluster, for as long as this lives; 0 for "" and where there are
  // more than kMaxClusters.
  static constexpr size_t kMaxClusters = 4096;
  uint16_t ClusterId(std::string_view cluster);
  // The job of `cluster` with the id that `job` has, made where new; `job` itself where it is one
  // of that cluster, or of none that is known, or has no scheduler's id.
  int32_t JobInCluster(int32_t job, uint16_t cluster);
  // `jobs` ascending and distinct, of a row at `seen` (0 = of none); 0 for none, and where a set is
  // new and refused.
  int32_t SetOf(absl::Span<const int32_t> jobs, Micros seen, MayMakeKnown may_make);
  // Rows up to `ts` are stamped with the set.
  void Seen(int32_t set, Micros ts);

  struct Silent {
    Micros last_seen = 0;
    int32_t job = 0;  // or set
  };
  std::vector<int32_t> Ids() const;
  // How many jobs must go for one part in `part` of the table to be free.
  size_t ShortOf(size_t part) const;
  // Appends those of `jobs` that were last seen before `before`, as far as the store has them and
  // the static file does not name them.
  void FindSilent(absl::Span<const int32_t> jobs, Micros before, std::vector<Silent>* out) const;
  // What the store has and Load() had no room for, as far as it was last seen before `before`.
  void TakeUnloaded(Micros before, Forgotten* out);
  // Forgets those that nobody has seen since, with the sets they are in.
  void Forget(absl::Span<const Silent> jobs, Forgotten* out);

  // Entities that have intervals of a job: where to look for its GPUs.
  void NoteEntity(int32_t job, int32_t entity);
  // They have none any more. Pairs of job and entity, sorted.
  void ForgetEntities(absl::Span<const std::pair<int32_t, int32_t>> gone);
  std::vector<int32_t> EntitiesOf(int32_t job) const;
  // The count is at least that of EntitiesOf(), and at most about twice it.
  size_t EntityCount(int32_t job) const;

  // The times in which the static file says jobs ran. Readers keep the table they got while
  // SetStaticTimes() puts another in place, hence shared ownership.
  std::pair<std::shared_ptr<const StaticTimes>, uint32_t> static_times() const;
  uint32_t static_generation() const { return generation_.load(std::memory_order_acquire); }
  void SetStaticTimes(StaticTimes times);

  std::optional<JobRecord> job(int32_t id) const;
  std::optional<JobRecord> Find(std::string_view key) const;
  std::optional<JobRecord> Find(std::string_view cluster, std::string_view id) const;
  std::vector<std::string> KeysOfId(std::string_view id) const;
  std::vector<JobRecord> All() const;
  std::vector<int32_t> SetMembers(int32_t set) const;
  void ForEachMember(int32_t set, absl::FunctionRef<void(int32_t)> visit) const;
  bool VisitJob(int32_t id, absl::FunctionRef<void(const JobRecord&)> visit) const;
  void TakeChanges(Changes* changes);
  void AddTo(IndexStats* stats) const;

 private:
  struct Job {
    JobRecord record;                  // id 0 = no such job
    std::vector<int32_t> entities;     // some twice: a job may come and go
    size_t tidy_at = 32;               // size at which they are made distinct
    int32_t single_set = 0;            // the set of this job alone; 0 = not made yet
    std::vector<int32_t> shared_sets;  // with others; of some, another member was forgotten
    size_t tidy_sets_at = 32;          // size at which those are left out
    bool dirty = false;
  };
  Job* FindOrMake(std::string_view cluster, std::string_view id, int* budget, MayMakeKnown may_make)
      FW_REQUIRES(mutex_);
  // The job with this id of this cluster; of "" that of any, where there is one alone. One whose
  // cluster is not known may be of any.
  Job* FindIn(std::string_view cluster, std::string_view id) FW_REQUIRES(mutex_);
  const Job* FindIn(std::string_view cluster, std::string_view id) const FW_REQUIRES(mutex_) {
    return const_cast<JobCatalog*>(this)->FindIn(cluster, id);
  }
  Job* FindKey(std::string_view key) FW_REQUIRES(mutex_);
  // Another cluster has a job with its id: its key names its cluster from now on.
  void NameCluster(Job& job) FW_REQUIRES(mutex_);
  // Each job may still get the set of itself alone, so sets of several are no more than jobs.
  size_t RoomForSharedSets() const FW_REQUIRES(mutex_) {
    return limits_.max_jobs - std::min(limits_.max_jobs, set_ids_.size());
  }
  void MarkDirty(Job& job) FW_REQUIRES(mutex_);
  void SeeJob(Job& job, Micros ts) FW_REQUIRES(mutex_);
  void JoinSet(Job& job, int32_t set) FW_REQUIRES(mutex_);
  void ForgetSet(int32_t set, Forgotten* out) FW_REQUIRES(mutex_);
  // 0, counted, when all have been given.
  int32_t NewSetId() FW_REQUIRES(mutex_);
  Job* Get(int32_t id) FW_REQUIRES(mutex_);
  const Job* Get(int32_t id) const FW_REQUIRES(mutex_) {
    return const_cast<JobCatalog*>(this)->Get(id);
  }

  const Limits limits_;
  mutable Mutex mutex_;
  // By id. Not by position: ids are never used again, and what is forgotten takes no room.
  absl::flat_hash_map<int32_t, std::unique_ptr<Job>> jobs_ FW_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, int32_t> by_key_ FW_GUARDED_BY(mutex_);
  absl::flat_hash_map<int32_t, std::vector<int32_t>> sets_ FW_GUARDED_BY(mutex_);  // by id
  // Of ids that jobs of several clusters have (or had: their keys stay), those jobs.
  absl::flat_hash_map<std::string, std::vector<int32_t>> shared_ids_ FW_GUARDED_BY(mutex_);
  std::vector<std::string> clusters_ FW_GUARDED_BY(mutex_) = {""};                   // by ClusterId
  int32_t last_job_ FW_GUARDED_BY(mutex_) = 0, last_set_ FW_GUARDED_BY(mutex_) = 0;  // ids given
  // `set_ids_` has the sets with two jobs or more.
  absl::flat_hash_map<std::vector<int32_t>, int32_t> set_ids_ FW_GUARDED_BY(mutex_);
  std::vector<int32_t> dirty_jobs_ FW_GUARDED_BY(mutex_), dirty_sets_ FW_GUARDED_BY(mutex_);
  std::vector<Silent> unloaded_jobs_ FW_GUARDED_BY(mutex_), unloaded_sets_ FW_GUARDED_BY(mutex_);
  std::shared_ptr<const StaticTimes> static_times_ FW_GUARDED_BY(mutex_) =
      std::make_shared<StaticTimes>();
  std::atomic<uint32_t> generation_{1};  // raised under mutex_, read without it
  uint64_t refused_labels_ FW_GUARDED_BY(mutex_) = 0, refused_jobs_ FW_GUARDED_BY(mutex_) = 0;
  size_t entity_notes_ FW_GUARDED_BY(mutex_) = 0;
};

}  // namespace flopwatch::jobs
