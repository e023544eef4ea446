#include "jobs/job_catalog.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/static_fields.h"

namespace flopwatch::jobs {
namespace {

using telemetry::OwnerLabels;

constexpr int32_t kLastId = std::numeric_limits<int32_t>::max();

// What exporters, prolog scripts and relabelling rules write for no job. 0 is no Slurm job id.
constexpr std::array<std::string_view, 12> kPlaceholders = {
    "", "-", "--", "none", "null", "(null)", "nil", "<nil>", "<none>", "n/a", "0", "<no value>"};

// To ask a table of strings without making one.
absl::string_view Text(std::string_view text) { return {text.data(), text.size()}; }

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

std::string KeyOfCluster(std::string_view cluster, std::string_view id) {
  return fmt::format("{}:{}", cluster, id);
}

std::string_view IdOf(const JobRecord& job) {
  std::string_view id = job.key;
  if (!job.cluster.empty() && id.size() > job.cluster.size() && id.starts_with(job.cluster) &&
      id[job.cluster.size()] == ':')
    id.remove_prefix(job.cluster.size() + 1);
  return id;
}

void JobCatalog::Load(absl::Span<const JobRecord> jobs, absl::Span<const JobSetRecord> sets) {
  const MutexLock lock(mutex_);
  // Where there are more than there is room for, those that were seen last.
  absl::flat_hash_map<int32_t, Micros> unloaded;
  std::vector<const JobRecord*> newest;
  newest.reserve(jobs.size());
  for (const JobRecord& record : jobs) {
    if (record.id <= 0 || record.key.empty()) continue;
    last_job_ = std::max(last_job_, record.id);
    newest.push_back(&record);
  }
  if (newest.size() > limits_.max_jobs) {
    std::sort(newest.begin(), newest.end(), [](const JobRecord* a, const JobRecord* b) {
      return std::pair(a->last_seen, a->id) > std::pair(b->last_seen, b->id);
    });
    for (size_t k = limits_.max_jobs; k < newest.size(); ++k) {
      unloaded_jobs_.push_back({newest[k]->last_seen, newest[k]->id});
      unloaded[newest[k]->id] = newest[k]->last_seen;
    }
    newest.resize(limits_.max_jobs);
  }
  jobs_.reserve(newest.size());
  by_key_.reserve(newest.size());
  sets_.reserve(sets.size());
  for (const JobRecord* record : newest) {
    auto& job = jobs_[record->id];
    job = std::make_unique<Job>();
    job->record = *record;
    // A job that came back after it was forgotten has two records until the first one goes.
    int32_t& of_key = by_key_[record->key];
    of_key = std::max(of_key, record->id);
    const std::string_view plain = IdOf(*record);
    if (plain.size() < record->key.size()) shared_ids_[std::string(plain)].push_back(record->id);
  }
  for (const JobSetRecord& set : sets) {
    if (set.id <= 0 || set.jobs.empty()) continue;
    last_set_ = std::max(last_set_, set.id);
    const auto missing =
        std::find_if(set.jobs.begin(), set.jobs.end(),
                     [this](int32_t job) FW_REQUIRES(mutex_) { return Get(job) == nullptr; });
    if (missing != set.jobs.end()) {
      const auto seen = unloaded.find(*missing);
      unloaded_sets_.push_back({seen == unloaded.end() ? 0 : seen->second, set.id});
      continue;
    }
    std::vector<int32_t>& members = sets_[set.id];
    members = set.jobs;
    std::sort(members.begin(), members.end());
    if (members.size() > 1) {
      set_ids_[members] = set.id;
      for (const int32_t job : members) JoinSet(*Get(job), set.id);
    } else {
      Get(members[0])->single_set = set.id;
    }
  }
}

JobCatalog::Job* JobCatalog::Get(int32_t id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : it->second.get();
}

void JobCatalog::SeeJob(Job& job, Micros ts) {
  if (ts < job.record.last_seen || ts <= 0) return;
  job.record.last_seen = EndOfDay(ts);
  MarkDirty(job);
}

void JobCatalog::Seen(int32_t set, Micros ts) {
  const MutexLock lock(mutex_);
  const auto it = sets_.find(set);
  if (it == sets_.end()) return;
  for (const int32_t job : it->second) SeeJob(*Get(job), ts);
}

void JobCatalog::MarkDirty(Job& job) {
  if (job.dirty) return;
  job.dirty = true;
  dirty_jobs_.push_back(job.record.id);
}

JobCatalog::Job* JobCatalog::FindKey(std::string_view key) {
  const auto it = by_key_.find(Text(key));
  return it == by_key_.end() ? nullptr : Get(it->second);
}

JobCatalog::Job* JobCatalog::FindIn(std::string_view cluster, std::string_view id) {
  Job* const job = FindKey(id);
  if (cluster.empty()) {
    if (job != nullptr) return job;
    // "alpha:17", of a job that is "17" as long as no other cluster has one.
    const size_t colon = id.find(':');
    if (colon == 0 || colon == std::string_view::npos) return nullptr;
    Job* const plain = FindKey(id.substr(colon + 1));
    return plain != nullptr && plain->record.cluster == id.substr(0, colon) ? plain : nullptr;
  }
  if (job != nullptr && job->record.cluster == cluster) return job;
  if (shared_ids_.contains(Text(id))) {
    Job* const named = FindKey(KeyOfCluster(cluster, id));
    return named != nullptr && named->record.cluster == cluster ? named : nullptr;
  }
  return job != nullptr && job->record.cluster.empty() ? job : nullptr;
}

void JobCatalog::NameCluster(Job& job) {
  const std::string id(IdOf(job.record));
  if (id != job.record.key) return;
  if (const auto it = by_key_.find(id); it != by_key_.end() && it->second == job.record.id)
    by_key_.erase(it);
  job.record.key = KeyOfCluster(job.record.cluster, id);
  by_key_[job.record.key] = job.record.id;
  shared_ids_[id].push_back(job.record.id);
  MarkDirty(job);
}

JobCatalog::Job* JobCatalog::FindOrMake(std::string_view cluster, std::string_view id, int* budget,
                                        MayMakeKnown may_make) {
  // "alpha:17" in cluster alpha is its 17.
  if (!cluster.empty() && id.size() > cluster.size() + 1 && id.starts_with(cluster) &&
      id[cluster.size()] == ':')
    id.remove_prefix(cluster.size() + 1);
  if (Job* const known = FindIn(cluster, id)) {
    if (known->record.cluster.empty() && !cluster.empty()) {
      known->record.cluster = std::string(cluster);
      MarkDirty(*known);
    }
    return known;
  }
  if (jobs_.size() >= limits_.max_jobs || last_job_ == kLastId ||
      (budget != nullptr && *budget <= 0) || !may_make(limits_.max_jobs - jobs_.size())) {
    ++refused_jobs_;
    return nullptr;
  }
  if (budget != nullptr) --*budget;
  auto made = std::make_unique<Job>();
  Job& job = *made;
  job.record.id = ++last_job_;
  job.record.key = std::string(id);
  job.record.cluster = std::string(cluster);
  jobs_.emplace(job.record.id, std::move(made));
  MarkDirty(job);
  Job* const other = FindKey(id);  // of another cluster
  if (other != nullptr && !other->record.cluster.empty()) NameCluster(*other);
  if (!cluster.empty() && (shared_ids_.contains(Text(id)) || FindKey(id) != nullptr)) {
    NameCluster(job);
  } else {
    by_key_.emplace(job.record.key, job.record.id);
  }
  return &job;
}

uint16_t JobCatalog::ClusterId(std::string_view cluster) {
  const MutexLock lock(mutex_);
  const auto it = std::find(clusters_.begin(), clusters_.end(), cluster);
  if (it != clusters_.end()) return static_cast<uint16_t>(it - clusters_.begin());
  if (clusters_.size() > kMaxClusters || cluster.size() > limits_.max_key_bytes) return 0;
  clusters_.emplace_back(cluster);
  return static_cast<uint16_t>(clusters_.size() - 1);
}

int32_t JobCatalog::JobInCluster(int32_t id, uint16_t cluster) {
  const MutexLock lock(mutex_);
  const Job* const job = Get(id);
  if (job == nullptr || cluster == 0 || job->record.cluster.empty() ||
      job->record.cluster == clusters_[cluster])
    return id;
  const std::string plain(IdOf(job->record));
  Job* const own = FindOrMake(clusters_[cluster], plain, nullptr, [](size_t) { return true; });
  return own == nullptr ? id : own->record.id;
}

bool JobCatalog::JobsOf(absl::Span<const OwnerLabels* const> owners, Micros seen, uint16_t cluster,
                        int* budget, MayMakeKnown may_make, std::vector<int32_t>* jobs) {
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
    // Pods are named by their namespace, whatever the node's scheduler.
    const bool of_scheduler = !Meaning(owner->hpc_job).empty();
    Job* job = FindOrMake(of_scheduler ? clusters_[cluster] : "", key, budget, may_make);
    if (job == nullptr) {
      complete = false;
      continue;
    }
    if (!user.empty() && job->record.user.empty()) {
      job->record.user = std::string(user);
      MarkDirty(*job);
    }
    if (job->record.name.empty() && !of_scheduler) {
      job->record.name = std::string(Meaning(owner->pod));
      MarkDirty(*job);
    }
    SeeJob(*job, seen);
    jobs->push_back(job->record.id);
  }
  std::sort(jobs->begin(), jobs->end());
  jobs->erase(std::unique(jobs->begin(), jobs->end()), jobs->end());
  return complete;
}

int32_t JobCatalog::AddStaticJob(const StaticAssignment& a, Source source) {
  if (a.job.empty()) return 0;
  const MutexLock lock(mutex_);
  if (a.job.size() > limits_.max_key_bytes || a.cluster.size() > limits_.max_key_bytes) {
    ++refused_labels_;
    return 0;
  }
  Job* job = FindOrMake(a.cluster, a.job, nullptr, [](size_t) { return true; });
  if (job == nullptr) return 0;
  JobRecord updated = job->record;
  if (Strength(source) > Strength(updated.source)) updated.source = source;
  if (!a.name.empty()) updated.name = a.name;
  if (!a.user.empty()) updated.user = a.user;
  if (!a.workflow.empty()) updated.workflow = a.workflow;
  if (updated != job->record) {
    job->record = std::move(updated);
    MarkDirty(*job);
  }
  return job->record.id;
}

int32_t JobCatalog::NewSetId() {
  if (last_set_ != kLastId) return ++last_set_;
  ++refused_jobs_;
  return 0;
}

void JobCatalog::JoinSet(Job& job, int32_t set) {
  job.shared_sets.push_back(set);
  if (job.shared_sets.size() < job.tidy_sets_at) return;
  std::erase_if(job.shared_sets,
                [this](int32_t s) FW_REQUIRES(mutex_) { return !sets_.contains(s); });
  job.tidy_sets_at = std::max<size_t>(32, 2 * job.shared_sets.size());
}

int32_t JobCatalog::SetOf(absl::Span<const int32_t> jobs, Micros seen, MayMakeKnown may_make) {
  if (jobs.empty()) return 0;
  const MutexLock lock(mutex_);
  for (const int32_t id : jobs) {
    Job* job = Get(id);
    if (job == nullptr) return 0;  // forgotten since the caller looked
    SeeJob(*job, seen);
  }
  if (jobs.size() == 1) {
    Job* job = Get(jobs[0]);
    if (job->single_set != 0) return job->single_set;
    job->single_set = NewSetId();
    if (job->single_set == 0) return 0;
    sets_[job->single_set] = {jobs[0]};
    dirty_sets_.push_back(job->single_set);
    return job->single_set;
  }
  std::vector<int32_t> members(jobs.begin(), jobs.end());
  if (const auto it = set_ids_.find(members); it != set_ids_.end()) return it->second;
  const size_t room = RoomForSharedSets();
  if (room == 0 || !may_make(room)) {
    ++refused_jobs_;
    return 0;
  }
  const int32_t id = NewSetId();
  if (id == 0) return 0;
  sets_[id] = members;
  for (const int32_t job : members) JoinSet(*Get(job), id);
  set_ids_.emplace(std::move(members), id);
  dirty_sets_.push_back(id);
  return id;
}

// --- forgetting ---

std::vector<int32_t> JobCatalog::Ids() const {
  const MutexLock lock(mutex_);
  std::vector<int32_t> ids;
  ids.reserve(jobs_.size());
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  return ids;
}

size_t JobCatalog::ShortOf(size_t part) const {
  const size_t wanted = std::max<size_t>(1, limits_.max_jobs / part);
  const MutexLock lock(mutex_);
  const size_t room = limits_.max_jobs - std::min(limits_.max_jobs, jobs_.size());
  return wanted - std::min(wanted, room);
}

void JobCatalog::FindSilent(absl::Span<const int32_t> jobs, Micros before,
                            std::vector<Silent>* out) const {
  const MutexLock lock(mutex_);
  for (const int32_t id : jobs) {
    const Job* job = Get(id);
    if (job != nullptr && job->record.last_seen < before && !job->dirty &&
        !static_times_->contains(id))
      out->push_back({job->record.last_seen, id});
  }
}

void JobCatalog::TakeUnloaded(Micros before, Forgotten* out) {
  const MutexLock lock(mutex_);
  const auto take = [before](std::vector<Silent>* from, std::vector<int32_t>* to) {
    std::erase_if(*from, [&](const Silent& s) {
      if (s.last_seen >= before) return false;
      to->push_back(s.job);
      return true;
    });
  };
  take(&unloaded_sets_, &out->sets);
  take(&unloaded_jobs_, &out->jobs);
}

void JobCatalog::ForgetSet(int32_t set, Forgotten* out) {
  const auto it = sets_.find(set);
  if (it == sets_.end()) return;
  if (it->second.size() > 1) set_ids_.erase(it->second);
  sets_.erase(it);
  out->sets.push_back(set);
}

void JobCatalog::Forget(absl::Span<const Silent> jobs, Forgotten* out) {
  const MutexLock lock(mutex_);
  for (const Silent& silent : jobs) {
    const auto it = jobs_.find(silent.job);
    if (it == jobs_.end()) continue;
    const Job& job = *it->second;
    if (job.record.last_seen != silent.last_seen || job.dirty ||
        static_times_->contains(silent.job))
      continue;
    ForgetSet(job.single_set, out);
    for (const int32_t set : job.shared_sets) ForgetSet(set, out);
    const auto key = by_key_.find(job.record.key);
    if (key != by_key_.end() && key->second == silent.job) by_key_.erase(key);
    const auto shared = shared_ids_.find(Text(IdOf(job.record)));
    if (shared != shared_ids_.end()) {
      std::erase(shared->second, silent.job);
      if (shared->second.empty()) shared_ids_.erase(shared);
    }
    entity_notes_ -= job.entities.size();
    jobs_.erase(it);
    out->jobs.push_back(silent.job);
  }
  // A table keeps the room it had at its fullest until it is told.
  const auto shrink = [](auto& table) {
    if (table.capacity() > 1024 && table.size() < table.capacity() / 4) table.rehash(0);
  };
  shrink(jobs_);
  shrink(by_key_);
  shrink(shared_ids_);
  shrink(sets_);
  shrink(set_ids_);
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

std::optional<JobRecord> JobCatalog::Find(std::string_view key) const { return Find("", key); }

std::optional<JobRecord> JobCatalog::Find(std::string_view cluster, std::string_view id) const {
  const MutexLock lock(mutex_);
  const Job* const job = FindIn(cluster, id);
  if (job == nullptr) return std::nullopt;
  return job->record;
}

std::vector<std::string> JobCatalog::KeysOfId(std::string_view id) const {
  const MutexLock lock(mutex_);
  std::vector<std::string> keys;
  const auto it = shared_ids_.find(Text(id));
  if (it == shared_ids_.end()) return keys;
  for (const int32_t job : it->second) keys.push_back(Get(job)->record.key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<JobRecord> JobCatalog::All() const {
  const MutexLock lock(mutex_);
  std::vector<JobRecord> out;
  out.reserve(jobs_.size());
  for (const auto& [id, job] : jobs_) out.push_back(job->record);
  std::sort(out.begin(), out.end(),
            [](const JobRecord& a, const JobRecord& b) { return a.id < b.id; });
  return out;
}

std::vector<int32_t> JobCatalog::SetMembers(int32_t set) const {
  const MutexLock lock(mutex_);
  const auto it = sets_.find(set);
  return it == sets_.end() ? std::vector<int32_t>() : it->second;
}

void JobCatalog::ForEachMember(int32_t set, absl::FunctionRef<void(int32_t)> visit) const {
  const MutexLock lock(mutex_);
  const auto it = sets_.find(set);
  if (it == sets_.end()) return;
  for (const int32_t job : it->second) visit(job);
}

bool JobCatalog::VisitJob(int32_t id, absl::FunctionRef<void(const JobRecord&)> visit) const {
  const MutexLock lock(mutex_);
  const Job* job = Get(id);
  if (job != nullptr) visit(job->record);
  return job != nullptr;
}

void JobCatalog::TakeChanges(Changes* changes) {
  const MutexLock lock(mutex_);
  for (const int32_t id : dirty_jobs_) {
    Job& job = *Get(id);  // what is dirty is not forgotten
    job.dirty = false;
    changes->jobs.push_back(job.record);
  }
  for (const int32_t id : dirty_sets_)
    if (const auto it = sets_.find(id); it != sets_.end())
      changes->sets.push_back({id, it->second});
  dirty_jobs_.clear();
  dirty_sets_.clear();
}

void JobCatalog::AddTo(IndexStats* stats) const {
  const MutexLock lock(mutex_);
  stats->jobs = jobs_.size();
  stats->job_gpus = entity_notes_;
  stats->sets = sets_.size();
  stats->refused_labels += refused_labels_;
  stats->refused_jobs += refused_jobs_;
}

}  // namespace flopwatch::jobs
