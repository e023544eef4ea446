// The jobs and job sets that are known, by id and by key. One mutex, held for lookups only;
// JobIndex takes it inside an entity shard's lock, never the other way round.
#pragma once

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

  // Distinct jobs the labels name, ascending, made where new. Each new one takes one from
  // `*budget`; false when a job was refused for want of budget or room: ask again with the next
  // sample.
  bool JobsOf(absl::Span<const telemetry::OwnerLabels* const> owners, int* budget,
              std::vector<int32_t>* jobs);
  // 0 when the job table is full or the key too long.
  int32_t AddStaticJob(const StaticAssignment& assignment);
  // `jobs` ascending and distinct; 0 for none.
  int32_t SetOf(absl::Span<const int32_t> jobs);

  // Entities that have intervals of a job: where to look for its GPUs.
  void NoteEntity(int32_t job, int32_t entity);
  // They have none any more. Pairs of job and entity, sorted.
  void ForgetEntities(absl::Span<const std::pair<int32_t, int32_t>> gone);
  std::vector<int32_t> EntitiesOf(int32_t job) const;
  // At least as many as EntitiesOf() gives, at most about twice.
  size_t EntityCount(int32_t job) const;

  // When the static file says jobs ran. Readers keep the table they got while SetStaticTimes() puts
  // another in place, hence shared ownership.
  std::pair<std::shared_ptr<const StaticTimes>, uint32_t> static_times() const;
  uint32_t static_generation() const { return generation_.load(std::memory_order_acquire); }
  void SetStaticTimes(StaticTimes times);

  std::optional<JobRecord> job(int32_t id) const;
  std::optional<JobRecord> Find(std::string_view key) const;
  std::vector<JobRecord> All() const;
  std::vector<int32_t> SetMembers(int32_t set) const;
  void TakeChanges(Changes* changes);
  void AddTo(IndexStats* stats) const;

 private:
  struct Job {
    JobRecord record;               // id 0 = no such job
    std::vector<int32_t> entities;  // some twice: a job may come and go
    size_t tidy_at = 32;            // size at which they are made distinct
    int32_t single_set = 0;         // the set of this job alone; 0 = not made yet
    bool dirty = false;
  };
  Job* FindOrMake(std::string_view key, int* budget) FW_REQUIRES(mutex_);
  void MarkDirty(Job& job) FW_REQUIRES(mutex_);
  Job* Get(int32_t id) FW_REQUIRES(mutex_);
  const Job* Get(int32_t id) const FW_REQUIRES(mutex_) {
    return const_cast<JobCatalog*>(this)->Get(id);
  }

  const Limits limits_;
  mutable Mutex mutex_;
  std::vector<Job> jobs_ FW_GUARDED_BY(mutex_);  // by id; [0] is nobody
  absl::flat_hash_map<std::string, int32_t> by_key_ FW_GUARDED_BY(mutex_);
  std::vector<std::vector<int32_t>> sets_ FW_GUARDED_BY(mutex_){{}};  // by id; [0] is empty
  // Of sets with two jobs or more.
  absl::flat_hash_map<std::vector<int32_t>, int32_t> set_ids_ FW_GUARDED_BY(mutex_);
  std::vector<int32_t> dirty_jobs_ FW_GUARDED_BY(mutex_), dirty_sets_ FW_GUARDED_BY(mutex_);
  std::shared_ptr<const StaticTimes> static_times_ FW_GUARDED_BY(mutex_) =
      std::make_shared<StaticTimes>();
  std::atomic<uint32_t> generation_{1};  // raised under mutex_, read without it
  uint64_t refused_labels_ FW_GUARDED_BY(mutex_) = 0, refused_jobs_ FW_GUARDED_BY(mutex_) = 0;
  size_t job_count_ FW_GUARDED_BY(mutex_) = 0, entity_notes_ FW_GUARDED_BY(mutex_) = 0;
};

}  // namespace flopwatch::jobs
