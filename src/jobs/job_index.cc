#include "jobs/job_index.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "jobs/interval_list.h"
#include "jobs/job_catalog.h"

namespace flopwatch::jobs {
namespace {

using telemetry::EntityKey;
using telemetry::EntityLabels;
using telemetry::OwnerLabels;

constexpr int kShards = 64;
constexpr int32_t kMaxEntityId = 16'000'000;
// Times a sample may have; arithmetic with gaps and spans cannot overflow inside.
constexpr Micros kMaxTime = std::numeric_limits<Micros>::max() / 4;
constexpr Micros kMaxSpan = kMicrosPerDay;
// TakeChanges() looks for entities that fell silent once per kSweepInterval; after kSilentSweeps of them
// without an Observe() the open intervals are written as ended.
constexpr Micros kSweepInterval = kMicrosPerMinute;
constexpr int kSilentSweeps = 4;
constexpr int kObservationsPerNewJob = 4;

struct EntityState {
  // What the next sample is compared with.
  std::vector<OwnerLabels> owners;  // labels of the newest sample
  bool owners_valid = false;        // and what follows from them still holds
  Micros last_ts = std::numeric_limits<Micros>::min();
  Micros tail_to = 0;      // open label intervals reach to here; written into them by Materialise()
  Micros tail_from = 0;    // and all of them cover the time since this
  Micros valid_until = 0;  // until then the stamped set stays the same if the labels do
  // While owners_valid and the generation hold: from here to tail_to the owners are the stamped set and
  // nobody else, so that a live window needs no look at the intervals. kOpenEnd = not so.
  Micros steady_from = kOpenEnd;
  int32_t stamped_set = 0;
  uint32_t generation = 0;  // of Catalog::static_times() when valid_until was worked out
  int16_t open = 0;         // label intervals that are open
  int16_t new_jobs_left = 0;
  int8_t silent_sweeps = 0;
  bool seen = false;      // since the last sweep
  bool dirty = false;     // some interval is, and the shard's list has this entity
  bool known = false;     // has had an Observe() or a binding
  bool observed = false;  // has had an Observe() in this process
  uint8_t observations = 0;
  IntervalList intervals;
};

struct Shard {
  std::mutex mutex;
  std::vector<EntityState> entities;      // entity id / kShards
  std::vector<size_t> dirty;              // places in `entities` with intervals the store does not have
  std::vector<IntervalRecord> withdrawn;  // persisted intervals that are no more
  SweepScratch scratch;
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
  int32_t entity = 0;
  Micros since = std::numeric_limits<Micros>::min();
};

// A slot two exporters fight over does not grow without bound: later claims are ignored.
constexpr size_t kMaxTenants = 64;

struct GpuName {
  std::vector<BoundAssignment> assignments;
  std::vector<Tenancy> tenants;  // in order of `since`
};

bool Same(absl::Span<const OwnerLabels> kept, absl::Span<const OwnerLabels* const> shown) {
  if (kept.size() != shown.size()) return false;
  for (size_t k = 0; k < kept.size(); ++k) {
    if (kept[k] != *shown[k]) return false;
  }
  return true;
}

std::vector<std::string> NamesOf(const EntityKey& key, const EntityLabels& labels) {
  const std::string instance = key.gpu_instance >= 0 ? fmt::format("/{}", key.gpu_instance) : "";
  std::vector<std::string> names;
  if (!key.uuid.empty()) names.push_back(key.uuid + instance);
  if (!labels.node.empty() && labels.index >= 0)
    names.push_back(fmt::format("{}:{}{}", labels.node, labels.index, instance));
  return names;
}

}  // namespace

struct JobIndex::Impl {
  Impl(const Limits& l, Micros (*clock)()) : limits(l), monotonic(clock), catalog(l) {}

  const Limits limits;
  Micros (*const monotonic)();
  mutable std::array<Shard, kShards> shards;
  mutable JobCatalog catalog;  // its own lock, taken inside a shard's

  // Static source. Lock order: static_mutex, shard, catalog.
  std::mutex static_mutex;
  bool static_loaded = false;  // SetStatic() was called
  Micros loaded_until = 0;     // newest time Load() was told of
  absl::flat_hash_map<std::string, GpuName> names;
  absl::flat_hash_map<int32_t, std::vector<std::string>> entity_names;

  std::atomic<int64_t> next_interval{1};
  std::atomic<size_t> interval_count{0};
  std::atomic<uint64_t> refused_labels{0}, refused_intervals{0};
  std::atomic<Micros> next_sweep{0};

  Shard& ShardOf(int32_t entity) const { return shards[static_cast<size_t>(entity) % kShards]; }

  // The state of an entity in its locked shard; null when the id cannot be one.
  static EntityState* Find(Shard& shard, int32_t entity) {
    const size_t at = static_cast<size_t>(entity) / kShards;
    return entity > 0 && at < shard.entities.size() ? &shard.entities[at] : nullptr;
  }
  EntityState* FindOrMake(Shard& shard, int32_t entity) const {
    if (entity <= 0 || entity > kMaxEntityId) return nullptr;
    const size_t at = static_cast<size_t>(entity) / kShards;
    if (at >= shard.entities.size()) {
      shard.entities.resize(at + 1);
    }
    EntityState& e = shard.entities[at];
    if (!e.known) {
      e.known = true;
      e.new_jobs_left = static_cast<int16_t>(std::min(limits.new_jobs_per_entity, 32'000));
    }
    return &e;
  }
  static int32_t EntityId(size_t shard, size_t at) { return static_cast<int32_t>(at * kShards + shard); }

  // 0 = refused.
  int64_t NewIntervalId(int32_t job, int32_t entity) {
    if (interval_count.load(std::memory_order_relaxed) >= limits.max_intervals) {
      refused_intervals.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
    interval_count.fetch_add(1, std::memory_order_relaxed);
    catalog.NoteEntity(job, entity);
    return next_interval.fetch_add(1, std::memory_order_relaxed);
  }

  static void MarkDirty(Shard& shard, EntityState& e) {
    if (e.dirty) return;
    e.dirty = true;
    shard.dirty.push_back(static_cast<size_t>(&e - shard.entities.data()));
  }

  // Writes the lazily kept end of the open label intervals into them.
  static void Materialise(EntityState& e) {
    auto& list = e.intervals.mutable_all();
    int left = e.open;
    for (size_t k = list.size(); k-- > 0 && left > 0;) {
      if (!list[k].open) continue;
      --left;
      if (e.tail_to > list[k].to) {
        list[k].to = e.tail_to;
        e.intervals.FixFrom(k);
      }
    }
  }

  // Ends the open label intervals of jobs that are not in `still_shown` (ascending) and those that ended
  // before `reach`.
  static void CloseOpen(EntityState& e, absl::Span<const int32_t> still_shown, Micros reach) {
    int left = e.open;
    auto& list = e.intervals.mutable_all();
    for (size_t k = list.size(); k-- > 0 && left > 0;) {
      Interval& i = list[k];
      if (!i.open) continue;
      --left;
      if (i.to >= reach && std::binary_search(still_shown.begin(), still_shown.end(), i.job)) continue;
      i.open = false;
      i.dirty = true;
      --e.open;
    }
  }

  // Adds what a sample shows to the label intervals.
  void Record(Shard& shard, int32_t entity, EntityState& e, Micros from, Micros ts, bool newest,
              absl::Span<const int32_t> jobs) {
    Materialise(e);
    if (newest) CloseOpen(e, jobs, from - kMaxGap);
    std::vector<Interval> merged;
    for (const int32_t job : jobs) {
      const size_t at =
          e.intervals.Cover(job, from, ts, kMaxGap, &merged, [&] { return NewIntervalId(job, entity); });
      if (at == kNoInterval) continue;
      Interval& i = e.intervals.mutable_all()[at];
      if (newest && !i.open) {
        i.open = true;
        i.dirty = true;
      }
    }
    for (const Interval& gone : merged) Withdraw(shard, entity, gone);
    e.open = 0;  // merging may have taken open intervals away, so count anew
    e.tail_from = std::numeric_limits<Micros>::min();
    for (const Interval& i : e.intervals.all()) {
      if (!i.open) continue;
      ++e.open;
      e.tail_from = std::max(e.tail_from, i.from);
    }
    MarkDirty(shard, e);
  }

  void Withdraw(Shard& shard, int32_t entity, const Interval& gone) {
    interval_count.fetch_sub(1, std::memory_order_relaxed);
    if (!gone.persisted) return;
    shard.withdrawn.push_back({.id = gone.id,
                               .entity = entity,
                               .job = gone.job,
                               .rank = gone.rank,
                               .from = gone.from,
                               .to = gone.from,
                               .source = gone.source});
  }

  // Who the static file says owns the entity just before ts; empty = it does not say. Also the next time this
  // changes.
  static void StaticOwners(const EntityState& e, Micros ts, std::vector<int32_t>* jobs, Micros* until) {
    jobs->clear();
    *until = kOpenEnd;
    for (const Interval& i : e.intervals.all()) {
      if (i.source != Source::kStaticFile) continue;
      if (i.from >= ts) {
        *until = std::min(*until, i.from);
      } else if (i.to >= ts) {
        jobs->push_back(i.job);
        *until = std::min(*until, i.to);
      }
    }
    std::sort(jobs->begin(), jobs->end());
    jobs->erase(std::unique(jobs->begin(), jobs->end()), jobs->end());
  }

  // Who to stamp on a sample at ts whose labels name `label_jobs`, and until when that stays so.
  static std::vector<int32_t> Resolve(const EntityState& e, Micros ts, absl::Span<const int32_t> label_jobs,
                                      const StaticTimes& times, Micros* until) {
    std::vector<int32_t> jobs;
    StaticOwners(e, ts, &jobs, until);
    if (!jobs.empty()) return jobs;
    for (const int32_t job : label_jobs) {
      const auto it = times.find(job);
      if (it == times.end()) {
        jobs.push_back(job);
      } else if (ts <= it->second.from) {
        *until = std::min(*until, it->second.from);
      } else if (ts <= it->second.to) {
        jobs.push_back(job);
        *until = std::min(*until, it->second.to);
      }
    }
    return jobs;
  }

  // EntityState::steady_from after a newest sample whose labels name exactly the owners: when the last other
  // interval ended, and all of the jobs ran.
  static Micros SteadyFrom(const EntityState& e, absl::Span<const int32_t> jobs, const StaticTimes& times) {
    Micros from = e.tail_from;
    for (const int32_t job : jobs) {
      if (const auto it = times.find(job); it != times.end()) from = std::max(from, it->second.from);
    }
    for (const Interval& i : e.intervals.all()) {
      if (!i.open) from = std::max(from, i.to);
    }
    return from;
  }

  int32_t ObserveSlow(Shard& shard, int32_t entity, EntityState& e, Micros ts, Micros span,
                      absl::Span<const OwnerLabels* const> owners) {
    if (owners.size() > limits.max_owners) {
      refused_labels.fetch_add(owners.size() - limits.max_owners, std::memory_order_relaxed);
      owners = owners.subspan(0, limits.max_owners);
    }
    int budget = e.new_jobs_left;
    std::vector<int32_t> jobs;
    const bool complete = catalog.JobsOf(owners, &budget, &jobs);
    e.new_jobs_left = static_cast<int16_t>(budget);

    const bool newest = ts >= e.last_ts;
    if (!jobs.empty() || e.open > 0) {
      Record(shard, entity, e, ts - span, ts, newest, jobs);
    } else {
      e.tail_from = std::numeric_limits<Micros>::min();
    }
    const auto [times, generation] = catalog.static_times();
    Micros until = 0;
    const std::vector<int32_t> stamped = Resolve(e, ts, jobs, *times, &until);
    const int32_t set = catalog.SetOf(stamped);
    if (newest) {
      e.last_ts = ts;
      e.tail_to = ts;
      e.owners.clear();
      for (const OwnerLabels* owner : owners) e.owners.push_back(*owner);
      // With a job refused the next sample asks again: it may be granted what this one was not.
      e.owners_valid = complete;
      e.stamped_set = set;
      e.valid_until = until;
      e.generation = generation;
      e.steady_from = until == kOpenEnd && stamped == jobs ? SteadyFrom(e, jobs, *times) : kOpenEnd;
    } else {
      e.owners_valid = false;  // what was worked out from the intervals may not hold any more
    }
    return set;
  }

  // Makes the static intervals of an entity those that its names say now.
  void ReconcileStatic(int32_t entity) {
    std::vector<BoundAssignment> wanted;
    for (const std::string& name : entity_names[entity]) {
      const auto it = names.find(name);
      if (it == names.end()) continue;
      const std::vector<Tenancy>& tenants = it->second.tenants;
      for (size_t k = 0; k < tenants.size(); ++k) {
        if (tenants[k].entity != entity) continue;
        const Micros until = k + 1 < tenants.size() ? tenants[k + 1].since : kOpenEnd;
        for (BoundAssignment a : it->second.assignments) {
          a.from = std::max(a.from, tenants[k].since);
          a.to = std::min(a.to, until);
          if (a.from < a.to) wanted.push_back(a);
        }
      }
    }

    Shard& shard = ShardOf(entity);
    std::lock_guard lock(shard.mutex);
    EntityState* e = FindOrMake(shard, entity);
    if (e == nullptr) return;
    Materialise(*e);
    e->owners_valid = false;  // the next sample resolves anew
    MarkDirty(shard, *e);
    auto& list = e->intervals.mutable_all();
    for (size_t k = list.size(); k-- > 0;) {
      if (list[k].source != Source::kStaticFile) continue;
      const auto same = std::find_if(wanted.begin(), wanted.end(), [&](const BoundAssignment& a) {
        return a.job == list[k].job && a.rank == list[k].rank && a.from == list[k].from;
      });
      if (same == wanted.end()) {
        Withdraw(shard, entity, list[k]);
        e->intervals.Erase(k);
        continue;
      }
      if (list[k].to != same->to) {
        list[k].to = same->to;
        list[k].dirty = true;
        e->intervals.FixFrom(k);
      }
      wanted.erase(same);
    }
    for (const BoundAssignment& a : wanted) {
      Interval fresh;
      fresh.id = NewIntervalId(a.job, entity);
      if (fresh.id == 0) return;
      fresh.from = a.from;
      fresh.to = a.to;
      fresh.job = a.job;
      fresh.rank = a.rank;
      fresh.source = Source::kStaticFile;
      fresh.dirty = true;
      e->intervals.Insert(fresh);
    }
  }

  // Ends the open intervals of entities that fell silent (of all at shutdown).
  static void CloseSilent(Shard& shard, bool sweep, bool shutdown) {
    for (EntityState& e : shard.entities) {
      if (sweep) {
        e.silent_sweeps =
            e.seen ? int8_t{0} : static_cast<int8_t>(std::min(e.silent_sweeps + 1, kSilentSweeps));
        e.seen = false;
      }
      if (e.open == 0 || !(shutdown || e.silent_sweeps >= kSilentSweeps)) continue;
      Materialise(e);
      CloseOpen(e, {}, kOpenEnd);
      e.owners_valid = false;
      MarkDirty(shard, e);
    }
  }

  // Appends what `job` (0 = any) owned of one entity in [from, to), as JobIndex::Intervals() says it.
  static void AppendOwned(Shard& shard, int32_t entity, EntityState& e, Micros from, Micros to, int32_t job,
                          const StaticTimes& times, std::vector<IntervalRecord>* out) {
    if (e.intervals.empty()) return;
    Materialise(e);
    const size_t first = out->size();
    e.intervals.Sweep(from, to, times, &shard.scratch, [&](const Stretch& stretch) {
      for (const Interval* i : stretch.owners) {
        if (job != 0 && i->job != job) continue;
        // A stretch that begins or ends at the window continues as the interval does.
        const RunTime run = Effective(*i, times);
        const Micros part_from = stretch.from == from ? run.from : stretch.from;
        const Micros part_to = stretch.to == to ? run.to : stretch.to;
        // The same interval in adjoining stretches (another job joined or left) is one record.
        bool joined = false;
        for (size_t k = out->size(); k-- > first && !joined;) {
          IntervalRecord& before = (*out)[k];
          joined = before.id == i->id && before.to == part_from;
          if (joined) before.to = part_to;
        }
        if (joined) continue;
        out->push_back({.id = i->id,
                        .entity = entity,
                        .job = i->job,
                        .rank = i->rank,
                        .from = part_from,
                        .to = part_to,
                        .source = i->source});
      }
    });
  }

  // The last time an entity is known to have been in its slot.
  Micros LastKnown(int32_t entity) {
    Shard& shard = ShardOf(entity);
    std::lock_guard lock(shard.mutex);
    const EntityState* e = Find(shard, entity);
    if (e == nullptr) return std::numeric_limits<Micros>::min();
    if (e->observed) return e->last_ts;
    Micros last = e->last_ts;  // before a restart: what the store knew
    for (const Interval& i : e->intervals.all()) last = std::max(last, std::min(i.to, loaded_until));
    return last;
  }
};

JobIndex::JobIndex() : JobIndex(Limits{}) {}
JobIndex::JobIndex(const Limits& limits, Micros (*monotonic)())
    : impl_(std::make_unique<Impl>(limits, monotonic)) {}
JobIndex::~JobIndex() = default;

void JobIndex::Load(absl::Span<const JobRecord> jobs, absl::Span<const IntervalRecord> intervals,
                    absl::Span<const JobSetRecord> sets, Micros seen_until) {
  impl_->catalog.Load(jobs, sets);
  if (seen_until == 0) {
    for (const IntervalRecord& r : intervals)
      seen_until = std::max(seen_until, r.to == kOpenEnd ? r.from : r.to);
  }
  {
    std::lock_guard lock(impl_->static_mutex);
    impl_->loaded_until = seen_until;
  }
  int64_t highest = 0;
  StaticTimes times;
  for (const IntervalRecord& r : intervals) {
    highest = std::max(highest, r.id);
    if (r.to <= r.from) continue;  // withdrawn
    Shard& shard = impl_->ShardOf(r.entity);
    std::lock_guard lock(shard.mutex);
    EntityState* e = impl_->FindOrMake(shard, r.entity);
    if (e == nullptr || impl_->interval_count >= impl_->limits.max_intervals) {
      impl_->refused_intervals.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    Interval i;
    i.id = r.id;
    i.job = r.job;
    i.rank = r.rank;
    i.from = r.from;
    i.to = r.to;
    i.source = r.source;
    i.persisted = true;
    if (r.source == Source::kLabels) {
      if (r.to == kOpenEnd) {  // the process died while it was being seen
        i.open = true;
        i.to = std::max(r.from, seen_until);
        ++e->open;
      }
      e->last_ts = std::max(e->last_ts, i.to);
    } else {
      RunTime& run = times.try_emplace(r.job, RunTime{r.from, r.to}).first->second;
      run = {std::min(run.from, r.from), std::max(run.to, r.to)};
    }
    e->intervals.Insert(i);
    impl_->catalog.NoteEntity(i.job, r.entity);
    impl_->interval_count.fetch_add(1, std::memory_order_relaxed);
  }
  impl_->next_interval = std::max<int64_t>(impl_->next_interval, highest + 1);
  impl_->catalog.SetStaticTimes(std::move(times));
}

void JobIndex::SetStatic(std::vector<StaticAssignment> assignments) {
  std::lock_guard static_lock(impl_->static_mutex);
  impl_->static_loaded = true;
  for (auto& [name, gpu] : impl_->names) gpu.assignments.clear();
  StaticTimes times;
  for (const StaticAssignment& a : assignments) {
    if (a.to <= a.from || a.gpu.empty()) continue;
    const int32_t job = impl_->catalog.AddStaticJob(a);
    if (job == 0) continue;
    impl_->names[a.gpu].assignments.push_back({job, a.rank, a.from, a.to});
    RunTime& run = times.try_emplace(job, RunTime{a.from, a.to}).first->second;
    run = {std::min(run.from, a.from), std::max(run.to, a.to)};
  }
  impl_->catalog.SetStaticTimes(std::move(times));
  std::vector<int32_t> known;
  known.reserve(impl_->entity_names.size());
  for (const auto& [entity, names] : impl_->entity_names) known.push_back(entity);
  std::sort(known.begin(), known.end());  // ids are given in a repeatable order
  for (const int32_t entity : known) impl_->ReconcileStatic(entity);
}

void JobIndex::BindEntity(int32_t entity, const EntityKey& key, const EntityLabels& labels) {
  if (entity <= 0 || entity > kMaxEntityId) return;
  std::lock_guard static_lock(impl_->static_mutex);
  std::vector<std::string> names = NamesOf(key, labels);
  std::vector<std::string>& kept = impl_->entity_names[entity];
  std::vector<int32_t> changed;
  for (std::string& name : names) {
    std::vector<Tenancy>& tenants = impl_->names[name].tenants;
    if (!tenants.empty() && (tenants.back().entity == entity || tenants.size() >= kMaxTenants)) continue;
    Tenancy tenancy{entity};
    if (!tenants.empty()) {
      tenancy.since = std::max(tenants.back().since, impl_->LastKnown(tenants.back().entity));
      changed.push_back(tenants.back().entity);
    }
    tenants.push_back(tenancy);
    if (std::find(kept.begin(), kept.end(), name) == kept.end()) kept.push_back(std::move(name));
    changed.push_back(entity);
  }
  if (!impl_->static_loaded) return;
  for (const int32_t id : changed) impl_->ReconcileStatic(id);
}

int32_t JobIndex::Observe(int32_t entity, Micros ts, Micros span,
                          absl::Span<const OwnerLabels* const> owners) {
  if (ts <= 0 || ts > kMaxTime) return 0;
  span = std::clamp<Micros>(span, 0, kMaxSpan);
  Shard& shard = impl_->ShardOf(entity);
  std::lock_guard lock(shard.mutex);
  EntityState* e = impl_->FindOrMake(shard, entity);
  if (e == nullptr) return 0;
  e->seen = e->observed = true;
  if (++e->observations >= kObservationsPerNewJob) {
    e->observations = 0;
    if (e->new_jobs_left < impl_->limits.new_jobs_per_entity) ++e->new_jobs_left;
  }
  // Nothing new: the same labels, later, without a gap, and no change of the static source due.
  if (e->owners_valid && ts > e->last_ts && ts - span - e->last_ts <= kMaxGap && ts - span >= e->tail_from &&
      ts <= e->valid_until && e->generation == impl_->catalog.static_generation() && Same(e->owners, owners)) {
    e->last_ts = ts;
    e->tail_to = ts;
    return e->stamped_set;
  }
  return impl_->ObserveSlow(shard, entity, *e, ts, span, owners);
}

int32_t JobIndex::Lookup(int32_t entity, Micros ts) const {
  if (entity <= 0 || ts <= 0 || ts > kMaxTime) return 0;
  const auto times = impl_->catalog.static_times().first;
  Shard& shard = impl_->ShardOf(entity);
  std::lock_guard lock(shard.mutex);
  EntityState* e = Impl::Find(shard, entity);
  if (e == nullptr) return 0;
  Impl::Materialise(*e);
  std::vector<int32_t> jobs;
  e->intervals.Sweep(ts - 1, ts, *times, &shard.scratch, [&](const Stretch& s) {
    for (const Interval* i : s.owners) jobs.push_back(i->job);
  });
  return impl_->catalog.SetOf(jobs);
}

std::optional<JobRecord> JobIndex::job(int32_t id) const { return impl_->catalog.job(id); }
std::optional<JobRecord> JobIndex::FindJob(std::string_view key) const { return impl_->catalog.Find(key); }
std::vector<JobRecord> JobIndex::AllJobs() const { return impl_->catalog.All(); }
std::vector<int32_t> JobIndex::SetMembers(int32_t set) const { return impl_->catalog.SetMembers(set); }

std::vector<IntervalRecord> JobIndex::Intervals(Micros from, Micros to, int32_t job) const {
  const auto times = impl_->catalog.static_times().first;
  std::vector<IntervalRecord> out;
  if (job != 0) {
    for (const int32_t entity : impl_->catalog.EntitiesOf(job)) {
      Shard& shard = impl_->ShardOf(entity);
      std::lock_guard lock(shard.mutex);
      if (EntityState* e = Impl::Find(shard, entity))
        Impl::AppendOwned(shard, entity, *e, from, to, job, *times, &out);
    }
  } else {
    for (size_t s = 0; s < kShards; ++s) {
      Shard& shard = impl_->shards[s];
      std::lock_guard lock(shard.mutex);
      for (size_t at = 0; at < shard.entities.size(); ++at) {
        Impl::AppendOwned(shard, Impl::EntityId(s, at), shard.entities[at], from, to, job, *times, &out);
      }
    }
  }
  std::sort(out.begin(), out.end(), [](const IntervalRecord& a, const IntervalRecord& b) {
    return std::tie(a.entity, a.from, a.id) < std::tie(b.entity, b.from, b.id);
  });
  return out;
}

std::vector<IntervalRecord> JobIndex::EntityIntervals(int32_t entity, Micros from, Micros to) const {
  const auto times = impl_->catalog.static_times().first;
  std::vector<IntervalRecord> out;
  if (entity <= 0) return out;
  Shard& shard = impl_->ShardOf(entity);
  std::lock_guard lock(shard.mutex);
  if (EntityState* e = Impl::Find(shard, entity)) {
    Impl::AppendOwned(shard, entity, *e, from, to, 0, *times, &out);
  }
  return out;
}

std::vector<GpuSeconds> JobIndex::GpuSecondsByJob(Micros from, Micros to) const {
  const auto [times, generation] = impl_->catalog.static_times();
  // Time a job had to itself is summed in whole microseconds, so that no rounding grows with the fleet.
  struct Sum {
    int64_t alone_us = 0;
    double shared_us = 0;
  };
  absl::flat_hash_map<int32_t, Sum> sums;
  absl::flat_hash_map<int32_t, int64_t> steady_us;  // by job set
  for (Shard& shard : impl_->shards) {
    std::lock_guard lock(shard.mutex);
    for (EntityState& e : shard.entities) {
      if (e.owners_valid && e.generation == generation && from >= e.steady_from) {
        const Micros time = std::min(to, e.tail_to) - from;
        if (e.stamped_set != 0 && time > 0) steady_us[e.stamped_set] += time;
        continue;
      }
      if (e.intervals.empty()) continue;
      Impl::Materialise(e);
      e.intervals.Sweep(from, to, *times, &shard.scratch, [&](const Stretch& s) {
        for (const Interval* i : s.owners) {
          if (s.owners.size() == 1) {
            sums[i->job].alone_us += s.to - s.from;
          } else {
            sums[i->job].shared_us +=
                static_cast<double>(s.to - s.from) / static_cast<double>(s.owners.size());
          }
        }
      });
    }
  }
  for (const auto& [set, us] : steady_us) {
    const std::vector<int32_t> jobs = impl_->catalog.SetMembers(set);
    for (const int32_t job : jobs) {
      if (jobs.size() == 1) {
        sums[job].alone_us += us;
      } else {
        sums[job].shared_us += static_cast<double>(us) / static_cast<double>(jobs.size());
      }
    }
  }
  std::vector<GpuSeconds> out;
  out.reserve(sums.size());
  for (const auto& [job, sum] : sums) {
    out.push_back({job, (static_cast<double>(sum.alone_us) + sum.shared_us) / kMicrosPerSecond});
  }
  std::sort(out.begin(), out.end(), [](const GpuSeconds& a, const GpuSeconds& b) { return a.job < b.job; });
  return out;
}

Changes JobIndex::TakeChanges(bool shutdown) {
  Changes changes;
  const Micros now = impl_->monotonic();
  const bool sweep = now >= impl_->next_sweep.load(std::memory_order_relaxed);
  if (sweep) impl_->next_sweep.store(now + kSweepInterval, std::memory_order_relaxed);
  for (size_t s = 0; s < kShards; ++s) {
    Shard& shard = impl_->shards[s];
    std::lock_guard lock(shard.mutex);
    if (sweep || shutdown) impl_->CloseSilent(shard, sweep, shutdown);
    for (const size_t at : shard.dirty) {
      EntityState& e = shard.entities[at];
      e.dirty = false;
      for (Interval& i : e.intervals.mutable_all()) {
        if (!i.dirty) continue;
        i.dirty = false;
        i.persisted = true;
        changes.intervals.push_back({.id = i.id,
                                     .entity = Impl::EntityId(s, at),
                                     .job = i.job,
                                     .rank = i.rank,
                                     .from = i.from,
                                     .to = i.open ? kOpenEnd : i.to,
                                     .source = i.source});
      }
    }
    shard.dirty.clear();
    changes.intervals.insert(changes.intervals.end(), shard.withdrawn.begin(), shard.withdrawn.end());
    shard.withdrawn.clear();
  }
  // After the intervals: every job they name is in the catalogue by now.
  impl_->catalog.TakeChanges(&changes);
  return changes;
}

void JobIndex::DropBefore(Micros horizon) {
  for (Shard& shard : impl_->shards) {
    std::lock_guard lock(shard.mutex);
    for (EntityState& e : shard.entities) {
      if (e.intervals.empty()) continue;
      Impl::Materialise(e);
      const size_t gone = std::erase_if(e.intervals.mutable_all(), [&](const Interval& i) {
        return i.to <= horizon && !i.open && !i.dirty;
      });
      if (gone == 0) continue;
      impl_->interval_count.fetch_sub(gone, std::memory_order_relaxed);
      e.intervals.RebuildEnds();
    }
  }
}

IndexStats JobIndex::stats() const {
  IndexStats stats;
  impl_->catalog.AddTo(&stats);
  stats.intervals = impl_->interval_count;
  stats.refused_labels += impl_->refused_labels;
  stats.refused_intervals = impl_->refused_intervals;
  std::lock_guard lock(impl_->static_mutex);
  for (const auto& [name, gpu] : impl_->names) {
    stats.static_assignments += gpu.assignments.size();
    if (gpu.tenants.empty()) stats.static_waiting += gpu.assignments.size();
  }
  return stats;
}

}  // namespace flopwatch::jobs
