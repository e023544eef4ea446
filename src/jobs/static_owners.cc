// The static file and a scheduler's books: their assignments, and which GPU each name stood for
// when.
#include <algorithm>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "jobs/job_index_impl.h"

namespace flopwatch::jobs {
namespace {

using telemetry::EntityKey;
using telemetry::EntityLabels;

std::vector<std::string> NamesOf(const EntityKey& key, const EntityLabels& labels) {
  const std::string instance = key.gpu_instance >= 0 ? fmt::format("/{}", key.gpu_instance) : "";
  std::vector<std::string> names;
  if (!key.uuid.empty()) names.push_back(key.uuid + instance);
  if (!labels.node.empty() && labels.index >= 0)
    names.push_back(fmt::format("{}:{}{}", labels.node, labels.index, instance));
  // A scheduler names devices by their minor number, which need not be the exporter's index.
  if (!labels.node.empty() && !labels.device.empty())
    names.push_back(fmt::format("{}:{}{}", labels.node, labels.device, instance));
  return names;
}

}  // namespace

void JobIndex::Impl::ReconcileStatic(int32_t entity) {
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
  const MutexLock lock(shard.mutex);
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
  for (const BoundAssignment& a : wanted)
    if (!AddInterval(entity, *e, a, Source::kStaticFile)) return;
}

bool JobIndex::Impl::AddInterval(int32_t entity, EntityState& e, const BoundAssignment& a,
                                 Source source) {
  Interval fresh;
  fresh.id = NewIntervalId(a.job, entity);
  if (fresh.id == 0) return false;
  fresh.from = a.from;
  fresh.to = a.to;
  fresh.job = a.job;
  fresh.rank = a.rank;
  fresh.source = source;
  fresh.dirty = true;
  e.intervals.Insert(fresh);
  return true;
}

void JobIndex::Impl::Vacate(const std::string& name, int32_t entity) {
  const auto it = names.find(name);
  if (it == names.end()) return;
  std::vector<Tenancy>& tenants = it->second.tenants;
  // Its time stays its own, between those of others; of several such that follow each other one is
  // enough, and before all others none.
  for (Tenancy& t : tenants)
    if (t.entity == entity) t.entity = 0;
  tenants.erase(std::unique(tenants.begin(), tenants.end(),
                            [](const Tenancy& a, const Tenancy& b) {
                              return a.entity == 0 && b.entity == 0;
                            }),
                tenants.end());
  if (!tenants.empty() && tenants[0].entity == 0) tenants.erase(tenants.begin());
  if (tenants.empty() && it->second.assignments.empty() && it->second.scheduled.empty())
    names.erase(it);
}

Micros JobIndex::Impl::LastKnown(int32_t entity) {
  Shard& shard = ShardOf(entity);
  const MutexLock lock(shard.mutex);
  const EntityState* e = Find(shard, entity);
  if (e == nullptr) return std::numeric_limits<Micros>::min();
  if (e->observed) return e->last_ts;
  Micros last = e->last_ts;  // before a restart: what the store knew
  for (const Interval& i : e->intervals.all()) last = std::max(last, std::min(i.to, loaded_until));
  return last;
}

void JobIndex::SetStatic(std::vector<StaticAssignment> assignments) {
  const MutexLock static_lock(impl_->static_mutex);
  impl_->static_loaded = true;
  for (auto& [name, gpu] : impl_->names) gpu.assignments.clear();
  impl_->has_assignments = false;
  StaticTimes times;
  for (const StaticAssignment& a : assignments) {
    if (a.to <= a.from || a.gpu.empty()) continue;
    const int32_t job = impl_->catalog.AddStaticJob(a);
    if (job == 0) continue;
    impl_->has_assignments = true;
    impl_->names[a.gpu].assignments.push_back({job, a.rank, a.from, a.to});
    WidenTo(&times, job, {a.from, a.to});
  }
  impl_->file_times = std::move(times);
  impl_->PublishTimes();
  std::vector<int32_t> known;
  known.reserve(impl_->entity_names.size());
  for (const auto& [entity, names] : impl_->entity_names) known.push_back(entity);
  std::sort(known.begin(), known.end());  // ids are given in a repeatable order
  for (const int32_t entity : known) impl_->ReconcileStatic(entity);
}

void JobIndex::BindEntity(int32_t entity, const EntityKey& key, const EntityLabels& labels) {
  if (entity <= 0 || entity > kMaxEntityId) return;
  const MutexLock static_lock(impl_->static_mutex);
  std::vector<std::string> names = NamesOf(key, labels);
  std::vector<std::string>& kept = impl_->entity_names[entity];
  std::vector<int32_t> changed;
  for (std::string& name : names) {
    std::vector<Tenancy>& tenants = impl_->names[name].tenants;
    if (!tenants.empty() && (tenants.back().entity == entity || tenants.size() >= kMaxTenants))
      continue;
    Tenancy tenancy{entity};
    if (!tenants.empty()) {
      tenancy.since = std::max(tenants.back().since, impl_->LastKnown(tenants.back().entity));
      changed.push_back(tenants.back().entity);
    }
    tenants.push_back(tenancy);
    if (std::find(kept.begin(), kept.end(), name) == kept.end()) kept.push_back(std::move(name));
    changed.push_back(entity);
  }
  for (const std::string& name : impl_->entity_names[entity]) {
    GpuName& gpu = impl_->names[name];
    for (const BoundAssignment& a : gpu.scheduled) impl_->Schedule(gpu, a);
    impl_->scheduled_waiting -= std::exchange(gpu.scheduled, {}).size();
  }
  if (std::string& node = impl_->node_of[entity]; node != labels.node) {
    node = labels.node;
    const auto cluster = impl_->cluster_of.find(node);
    impl_->SetCluster(entity, cluster == impl_->cluster_of.end() ? uint16_t{0} : cluster->second);
  }
  if (!impl_->static_loaded) return;
  for (const int32_t id : changed) impl_->ReconcileStatic(id);
}

// One of the same job and start replaces the earlier one.
void JobIndex::Impl::Wait(GpuName* name, const BoundAssignment& bound) {
  const auto same = std::ranges::find_if(name->scheduled, [&](const BoundAssignment& b) {
    return b.job == bound.job && b.from == bound.from;
  });
  if (same != name->scheduled.end()) {
    *same = bound;
  } else if (scheduled_waiting < limits.max_static_lines) {
    name->scheduled.push_back(bound);
    ++scheduled_waiting;
  } else {
    refused_intervals.fetch_add(1, std::memory_order_relaxed);
  }
}

void JobIndex::Await(StaticAssignment attempt, absl::Span<const std::string> gpus) {
  const MutexLock static_lock(impl_->static_mutex);
  const auto is_unseen = [&](const std::string& gpu) FW_REQUIRES(impl_->static_mutex) {
    const auto name = impl_->names.find(gpu);
    return name == impl_->names.end() || name->second.tenants.empty();
  };
  if (attempt.to <= attempt.from || std::ranges::none_of(gpus, is_unseen)) return;
  const int32_t job = impl_->catalog.AddStaticJob(attempt, Source::kScheduler);
  if (job == 0) return;
  WidenTo(&impl_->scheduled_times, job, {attempt.from, attempt.to});
  for (const std::string& gpu : gpus)
    if (is_unseen(gpu))
      impl_->Wait(&impl_->names[gpu], {job, attempt.rank, attempt.from, attempt.to});
}

void JobIndex::Impl::SetCluster(int32_t entity, uint16_t cluster) {
  Shard& shard = ShardOf(entity);
  const MutexLock lock(shard.mutex);
  EntityState* e = FindOrMake(shard, entity);
  if (e == nullptr || std::exchange(e->cluster, cluster) == cluster) return;
  e->owners_valid = false;  // the next sample resolves anew
  Materialise(*e);
  for (Interval& i : e->intervals.mutable_all()) {
    if (i.source != Source::kLabels) continue;
    const int32_t own = catalog.JobInCluster(i.job, cluster);
    if (own == i.job) continue;
    i.job = own;
    i.dirty = true;
    catalog.NoteEntity(own, entity);
    MarkDirty(shard, *e);
  }
}

void JobIndex::NameNodes(std::string_view cluster, absl::Span<const std::string> nodes) {
  const uint16_t id = impl_->catalog.ClusterId(cluster);
  if (id == 0) return;
  const MutexLock static_lock(impl_->static_mutex);
  absl::flat_hash_map<std::string_view, uint16_t> changed;
  for (const std::string& node : nodes) {
    if (impl_->cluster_of.size() >= kMaxNodes && !impl_->cluster_of.contains(node)) continue;
    const auto [it, fresh] = impl_->cluster_of.try_emplace(node, id);
    if (!fresh && it->second == id) continue;
    if (!fresh && it->second == 0) continue;
    if (!fresh) it->second = 0;
    changed[node] = it->second;
  }
  if (changed.empty()) return;
  std::vector<std::pair<int32_t, uint16_t>> entities;
  for (const auto& [entity, node] : impl_->node_of)
    if (const auto it = changed.find(node); it != changed.end())
      entities.emplace_back(entity, it->second);
  std::ranges::sort(entities);  // ids are given in a repeatable order
  for (const auto& [entity, of] : entities) impl_->SetCluster(entity, of);
}

void JobIndex::Impl::PublishTimes() {
  StaticTimes both = scheduled_times;
  // The static file is the stronger: what it says of a job is all there is to say.
  for (const auto& [job, run] : file_times) both[job] = run;
  catalog.SetStaticTimes(std::move(both));
}

void JobIndex::Impl::ScheduleOn(int32_t entity, const BoundAssignment& a) {
  Shard& shard = ShardOf(entity);
  const MutexLock lock(shard.mutex);
  EntityState* e = FindOrMake(shard, entity);
  if (e == nullptr) return;
  auto& list = e->intervals.mutable_all();
  const auto known = std::find_if(list.begin(), list.end(), [&](const Interval& i) {
    return i.source == Source::kScheduler && i.job == a.job && i.from == a.from;
  });
  if (known != list.end() && known->to == a.to) return;
  Materialise(*e);
  e->owners_valid = false;  // the next sample resolves anew
  MarkDirty(shard, *e);
  if (known != list.end()) {
    known->to = a.to;
    known->dirty = true;
    e->intervals.FixFrom(static_cast<size_t>(known - list.begin()));
    return;
  }
  AddInterval(entity, *e, a, Source::kScheduler);
}

void JobIndex::Impl::Schedule(const GpuName& name, const BoundAssignment& assignment) {
  const std::vector<Tenancy>& tenants = name.tenants;
  for (size_t k = 0; k < tenants.size(); ++k) {
    BoundAssignment a = assignment;
    a.from = std::max(a.from, tenants[k].since);
    if (k + 1 < tenants.size()) a.to = std::min(a.to, tenants[k + 1].since);
    if (tenants[k].entity != 0 && a.from < a.to) ScheduleOn(tenants[k].entity, a);
  }
}

bool JobIndex::Impl::WasReplaced(int32_t entity, Micros at) const {
  const auto own = entity_names.find(entity);
  if (own == entity_names.end()) return false;
  for (const std::string& name : own->second) {
    const auto it = names.find(name);
    if (it == names.end()) continue;
    for (const Tenancy& tenancy : it->second.tenants)
      if (tenancy.since == at) return true;
  }
  return false;
}

void JobIndex::Impl::EndScheduled(int32_t job, RunTime run) {
  for (const int32_t entity : catalog.EntitiesOf(job)) {
    Shard& shard = ShardOf(entity);
    const MutexLock lock(shard.mutex);
    EntityState* e = Find(shard, entity);
    if (e == nullptr) continue;
    auto& list = e->intervals.mutable_all();
    for (size_t k = 0; k < list.size(); ++k) {
      Interval& i = list[k];
      if (i.source != Source::kScheduler || i.job != job || i.from < run.from || i.from >= run.to)
        continue;
      // What ended when another board took the place ended with its own.
      if (i.to == run.to || (i.to < run.to && WasReplaced(entity, i.to))) continue;
      Materialise(*e);
      e->owners_valid = false;  // the next sample resolves anew
      MarkDirty(shard, *e);
      i.to = run.to;
      i.dirty = true;
      e->intervals.FixFrom(k);
    }
  }
}

void JobIndex::Impl::EndWaiting(const Ends& ends) {
  if (ends.empty() || scheduled_waiting == 0) return;
  for (auto& [name, gpu] : names) {
    for (BoundAssignment& a : gpu.scheduled)
      if (const auto it = ends.find({a.job, a.from}); it != ends.end()) a.to = it->second;
  }
}

void JobIndex::Schedule(absl::Span<const StaticAssignment> assignments) {
  const MutexLock static_lock(impl_->static_mutex);
  bool changed = false;
  Impl::Ends ends;
  for (const StaticAssignment& a : assignments) {
    if (a.to <= a.from) continue;
    const int32_t job = impl_->catalog.AddStaticJob(a, Source::kScheduler);
    if (job == 0) continue;
    const auto known = impl_->scheduled_times.find(job);
    if (known == impl_->scheduled_times.end()) {
      impl_->scheduled_times[job] = {a.from, a.to};
      changed = true;
    } else {
      // The end of an attempt that ran becomes known; another attempt is later.
      const bool last = a.from >= known->second.from;
      const RunTime run = {std::min(known->second.from, a.from),
                           last ? a.to : std::max(known->second.to, a.to)};
      changed |= run.from != known->second.from || run.to != known->second.to;
      known->second = run;
    }
    if (a.gpu.empty()) {
      if (a.to == kOpenEnd) continue;
      impl_->EndScheduled(job, {a.from, a.to});
      ends[{job, a.from}] = a.to;
      continue;
    }
    GpuName& name = impl_->names[a.gpu];
    const BoundAssignment bound{job, a.rank, a.from, a.to};
    if (!name.tenants.empty()) {
      impl_->Schedule(name, bound);
      continue;
    }
    impl_->Wait(&name, bound);
  }
  impl_->EndWaiting(ends);
  if (changed) impl_->PublishTimes();
}

void JobIndex::KnowTimes(absl::Span<const StaticAssignment> ran) {
  const MutexLock static_lock(impl_->static_mutex);
  for (const StaticAssignment& a : ran) {
    const auto job = impl_->catalog.Find(a.cluster, a.job);
    if (!job.has_value() || a.to <= a.from) continue;
    if (a.to == kOpenEnd || impl_->catalog.EntityCount(job->id) > 0)
      WidenTo(&impl_->scheduled_times, job->id, {a.from, a.to});
  }
  impl_->PublishTimes();
}

void JobIndex::UnbindEntities(absl::Span<const int32_t> entities) {
  const MutexLock static_lock(impl_->static_mutex);
  for (const int32_t entity : entities) {
    const auto bound = impl_->entity_names.find(entity);
    if (bound == impl_->entity_names.end()) continue;
    for (const std::string& name : bound->second) impl_->Vacate(name, entity);
    bound->second.clear();
    impl_->ReconcileStatic(entity);
    impl_->entity_names.erase(entity);
    impl_->node_of.erase(entity);
  }
}

}  // namespace flopwatch::jobs
