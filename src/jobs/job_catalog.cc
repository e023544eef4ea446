#include "jobs/job_catalog.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/static_fields.h"

namespace flopwatch::jobs {
namespace {

using telemetry::OwnerLabels;

// What exporters, prolog scripts and relabelling rules write where there is no job. 0 is no Slurm
// job id.
constexpr std::array<std::string_view, 12> kPlaceholders = {
    "", "-", "--", "none", "null", "(null)", "nil", "<nil>", "<none>", "n/a", "0", "<no value>"};

// The label without spaces and quotes around it; "" when it stands for nothing.
std::string_view Meaning(std::string_view label) {
  label = Trim(label);
  while (label.size() >= 2 && (label.front() == '"' || label.front() == '\'') &&
         label.back() == label.front())
    label = Trim(label.substr(1, label.size() - 2));
  for (const std::string_view p : kPlaceholders)
    if (EqualsIgnoringCase(label, p)) return {};
  return label;
}

}  // namespace

std::string JobKey(const OwnerLabels& owner) {
  const std::string_view hpc_job = Meaning(owner.hpc_job);
  if (!hpc_job.empty()) return std::string(hpc_job);
  const std::string_view pod = Meaning(owner.pod);
  if (pod.empty()) return {};
  const std::string_view ns = Meaning(owner.ns);
  return ns.empty() ? std::string(pod) : fmt::format("{}/{}", ns, pod);
}

void JobCatalog::Load(absl::Span<const JobRecord> jobs, absl::Span<const JobSetRecord> sets) {
  const MutexLock lock(mutex_);
  for (const JobRecord& record : jobs) {
    if (record.id <= 0 || static_cast<size_t>(record.id) > limits_.max_jobs) continue;
    const auto at = static_cast<size_t>(record.id);
    if (at >= jobs_.size()) jobs_.resize(at + 1);
    job_count_ += jobs_[at].record.id == 0 ? 1 : 0;
    jobs_[at].record = record;
    by_key_[record.key] = record.id;
  }
  for (const JobSetRecord& set : sets) {
    if (set.id <= 0 || static_cast<size_t>(set.id) > 2 * limits_.max_jobs || set.jobs.empty())
      continue;
    const auto at = static_cast<size_t>(set.id);
    if (at >= sets_.size()) sets_.resize(at + 1);
    sets_[at] = set.jobs;
    std::sort(sets_[at].begin(), sets_[at].end());
    if (set.jobs.size() > 1) {
      set_ids_[sets_[at]] = set.id;
    } else if (Job* job = Get(set.jobs[0])) {
      job->single_set = set.id;
    }
  }
}

JobCatalog::Job* JobCatalog::Get(int32_t id) {
  const auto at = static_cast<size_t>(id);
  return id > 0 && at < jobs_.size() && jobs_[at].record.id != 0 ? &jobs_[at] : nullptr;
}

void JobCatalog::MarkDirty(Job& job) {
  if (job.dirty) return;
  job.dirty = true;
  dirty_jobs_.push_back(job.record.id);
}

JobCatalog::Job* JobCatalog::FindOrMake(std::string_view key, int* budget) {
  if (const auto it = by_key_.find(absl::string_view(key.data(), key.size())); it != by_key_.end())
    return Get(it->second);
  const size_t id = std::max<size_t>(jobs_.size(), 1);
  if (id > limits_.max_jobs || (budget != nullptr && *budget <= 0)) {
    ++refused_jobs_;
    return nullptr;
  }
  if (budget != nullptr) --*budget;
  jobs_.resize(id + 1);
  Job& job = jobs_[id];
  job.record.id = static_cast<int32_t>(id);
  job.record.key = std::string(key);
  by_key_.emplace(job.record.key, job.record.id);
  ++job_count_;
  MarkDirty(job);
  return &job;
}

bool JobCatalog::JobsOf(absl::Span<const OwnerLabels* const> owners, int* budget,
                        std::vector<int32_t>* jobs) {
  jobs->clear();
  bool complete = true;
  for (const OwnerLabels* owner : owners) {
    const std::string key = JobKey(*owner);
    if (key.empty()) continue;
    const std::string_view user = Meaning(owner->user);
    const MutexLock lock(mutex_);
    if (key.size() > limits_.max_key_bytes || user.size() > limits_.max_key_bytes) {
      ++refused_labels_;
      continue;
    }
    Job* job = FindOrMake(key, budget);
    if (job == nullptr) {
      complete = false;
      continue;
    }
    if (!user.empty() && job->record.user.empty()) {
      job->record.user = Printable(user, limits_.max_key_bytes);
      MarkDirty(*job);
    }
    if (job->record.name.empty() && Meaning(owner->hpc_job).empty()) {
      job->record.name = Printable(Meaning(owner->pod), limits_.max_key_bytes);
      MarkDirty(*job);
    }
    jobs->push_back(job->record.id);
  }
  std::sort(jobs->begin(), jobs->end());
  jobs->erase(std::unique(jobs->begin(), jobs->end()), jobs->end());
  return complete;
}

int32_t JobCatalog::AddStaticJob(const StaticAssignment& a) {
  if (a.job.empty()) return 0;
  const MutexLock lock(mutex_);
  if (a.job.size() > limits_.max_key_bytes) {
    ++refused_labels_;
    return 0;
  }
  Job* job = FindOrMake(a.job, nullptr);
  if (job == nullptr) return 0;
  JobRecord updated = job->record;
  updated.source = Source::kStaticFile;
  if (!a.name.empty()) updated.name = a.name;
  if (!a.user.empty()) updated.user = a.user;
  if (!a.workflow.empty()) updated.workflow = a.workflow;
  if (updated != job->record) {
    job->record = std::move(updated);
    MarkDirty(*job);
  }
  return job->record.id;
}

int32_t JobCatalog::SetOf(absl::Span<const int32_t> jobs) {
  if (jobs.empty()) return 0;
  const MutexLock lock(mutex_);
  if (jobs.size() == 1) {
    Job* job = Get(jobs[0]);
    if (job == nullptr) return 0;
    if (job->single_set == 0) {
      job->single_set = static_cast<int32_t>(sets_.size());
      sets_.push_back({jobs[0]});
      dirty_sets_.push_back(job->single_set);
    }
    return job->single_set;
  }
  std::vector<int32_t> members(jobs.begin(), jobs.end());
  if (const auto it = set_ids_.find(members); it != set_ids_.end()) return it->second;
  // Sets are as bounded as jobs: no more shared sets than jobs allowed.
  if (sets_.size() > 2 * limits_.max_jobs) {
    ++refused_jobs_;
    return 0;
  }
  const auto id = static_cast<int32_t>(sets_.size());
  sets_.push_back(members);
  set_ids_.emplace(std::move(members), id);
  dirty_sets_.push_back(id);
  return id;
}

void JobCatalog::NoteEntity(int32_t id, int32_t entity) {
  const MutexLock lock(mutex_);
  Job* job = Get(id);
  if (job == nullptr || (!job->entities.empty() && job->entities.back() == entity)) return;
  job->entities.push_back(entity);
  ++entity_notes_;
  if (job->entities.size() < job->tidy_at) return;
  entity_notes_ -= job->entities.size();
  std::sort(job->entities.begin(), job->entities.end());
  job->entities.erase(std::unique(job->entities.begin(), job->entities.end()), job->entities.end());
  entity_notes_ += job->entities.size();
  job->tidy_at = std::max<size_t>(32, 2 * job->entities.size());
}

void JobCatalog::ForgetEntities(absl::Span<const std::pair<int32_t, int32_t>> gone) {
  const MutexLock lock(mutex_);
  for (size_t at = 0; at < gone.size();) {
    size_t end = at + 1;
    while (end < gone.size() && gone[end].first == gone[at].first) ++end;
    if (Job* job = Get(gone[at].first)) {
      const auto of_job = gone.subspan(at, end - at);
      entity_notes_ -= std::erase_if(job->entities, [&](int32_t e) {
        return std::binary_search(of_job.begin(), of_job.end(), std::pair(of_job[0].first, e));
      });
      if (job->entities.capacity() > 4 * job->entities.size()) job->entities.shrink_to_fit();
    }
    at = end;
  }
}

size_t JobCatalog::EntityCount(int32_t id) const {
  const MutexLock lock(mutex_);
  const Job* job = Get(id);
  return job == nullptr ? 0 : job->entities.size();
}

std::vector<int32_t> JobCatalog::EntitiesOf(int32_t id) const {
  std::vector<int32_t> out;
  {
    const MutexLock lock(mutex_);
    if (const Job* job = Get(id)) out = job->entities;
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::pair<std::shared_ptr<const StaticTimes>, uint32_t> JobCatalog::static_times() const {
  const MutexLock lock(mutex_);
  return {static_times_, generation_.load(std::memory_order_relaxed)};
}

void JobCatalog::SetStaticTimes(StaticTimes times) {
  auto next = std::make_shared<const StaticTimes>(std::move(times));
  const MutexLock lock(mutex_);
  static_times_ = std::move(next);
  generation_.fetch_add(1, std::memory_order_release);
}

std::optional<JobRecord> JobCatalog::job(int32_t id) const {
  const MutexLock lock(mutex_);
  const Job* job = Get(id);
  if (job == nullptr) return std::nullopt;
  return job->record;
}

std::optional<JobRecord> JobCatalog::Find(std::string_view key) const {
  const MutexLock lock(mutex_);
  const auto it = by_key_.find(absl::string_view(key.data(), key.size()));
  if (it == by_key_.end()) return std::nullopt;
  return Get(it->second)->record;
}

std::vector<JobRecord> JobCatalog::All() const {
  const MutexLock lock(mutex_);
  std::vector<JobRecord> out;
  out.reserve(job_count_);
  for (const Job& job : jobs_)
    if (job.record.id != 0) out.push_back(job.record);
  return out;
}

std::vector<int32_t> JobCatalog::SetMembers(int32_t set) const {
  const MutexLock lock(mutex_);
  if (set <= 0 || static_cast<size_t>(set) >= sets_.size()) return {};
  return sets_[static_cast<size_t>(set)];
}

void JobCatalog::TakeChanges(Changes* changes) {
  const MutexLock lock(mutex_);
  for (const int32_t id : dirty_jobs_) {
    Job& job = *Get(id);
    job.dirty = false;
    changes->jobs.push_back(job.record);
  }
  for (const int32_t id : dirty_sets_)
    changes->sets.push_back({id, sets_[static_cast<size_t>(id)]});
  dirty_jobs_.clear();
  dirty_sets_.clear();
}

void JobCatalog::AddTo(IndexStats* stats) const {
  const MutexLock lock(mutex_);
  stats->jobs = job_count_;
  stats->job_gpus = entity_notes_;
  stats->sets = sets_.size() - 1;
  stats->refused_labels += refused_labels_;
  stats->refused_jobs += refused_jobs_;
}

}  // namespace flopwatch::jobs
