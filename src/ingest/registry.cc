#include "ingest/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "base/text.h"

namespace flopwatch::ingest {
namespace {

using store::EntityRecord;
using store::ModelRecord;
using telemetry::EntityKey;
using telemetry::EntityKind;
using telemetry::EntityLabels;

bool Names(std::string_view name, std::string_view lower_case_word) {
  return absl::AsciiStrToLower(std::string(name)).find(lower_case_word) != std::string::npos;
}

// By the name that the driver reports: "NVIDIA H100 80GB HBM3", "Tesla T4", "AMD Instinct MI300X".
efficiency::CounterVendor VendorOf(std::string_view name) {
  for (const std::string_view amd : {"amd", "instinct", "radeon"})
    if (Names(name, amd)) return efficiency::CounterVendor::kAmd;
  for (const std::string_view nvidia : {"nvidia", "tesla", "grid", "quadro", "geforce"})
    if (Names(name, nvidia)) return efficiency::CounterVendor::kNvidia;
  return efficiency::CounterVendor::kUnknown;
}

// GeForce boards before Blackwell and the GB10 have none (dcgm-exporter #404, DCGM #234).
bool HasProfiling(std::string_view name) {
  if (hardware::NormaliseName(name) == "gb10") return false;
  return !Names(name, "geforce") || Names(name, "rtx 50");
}

// What the hardware table says about a reported name; unknown where it says nothing.
ModelRecord LookUp(const hardware::Catalog& catalog, int32_t id, std::string_view name) {
  ModelRecord record;
  record.id = id;
  record.name = name;
  const auto found = catalog.Find(name);
  if (!found.ok()) return record;
  const hardware::Accelerator& a = **found;
  record.tensor_clock_max_mhz = a.tensor_clock_max_mhz;
  record.sm_count = a.sm_count.value_or(0);
  record.tdp_w = a.tdp_w.value_or(0);
  // With FP32 accumulation the counter of half-rate boards tops out at half (docs/ofu.md).
  record.half_rate = a.tpa_ceiling_fp32_acc.has_value() && *a.tpa_ceiling_fp32_acc < 0.75;
  return record;
}

bool SameFacts(const ModelRecord& a, const ModelRecord& b) {
  return a.tensor_clock_max_mhz == b.tensor_clock_max_mhz && a.sm_count == b.sm_count &&
         a.tdp_w == b.tdp_w && a.half_rate == b.half_rate;
}

// A label that is not said any more wipes nothing: exporters leave labels out on some lines.
bool Merge(std::string& known, const std::string& said) {
  if (said.empty() || said == known) return false;
  known = said;
  return true;
}

bool MergeLabels(EntityLabels& known, const EntityLabels& said) {
  bool changed = Merge(known.node, said.node);
  changed |= Merge(known.model, said.model);
  changed |= Merge(known.device, said.device);
  changed |= Merge(known.pci_bus_id, said.pci_bus_id);
  changed |= Merge(known.driver, said.driver);
  changed |= Merge(known.mig_profile, said.mig_profile);
  changed |= Merge(known.nvlink_domain, said.nvlink_domain);
  if (said.index >= 0 && said.index != known.index) {
    known.index = said.index;
    changed = true;
  }
  return changed;
}

// The hash maps' own string_view, which is not std's where the library was built for C++14.
absl::string_view AbslView(std::string_view s) { return {s.data(), s.size()}; }

constexpr uint64_t kSecondHalf = 0x9e3779b97f4a7c15;  // of a key of two hashes

}  // namespace

void Registry::Load(const store::Dimensions& d) {
  WriterLock lock(mutex_);
  for (const ModelRecord& stored : d.models) {
    ModelRecord now = LookUp(*catalog_, stored.id, stored.name);
    now.last_seen = stored.last_seen;
    if (!models_.Put(now)) continue;
    if (!SameFacts(now, stored)) dirty_models_.insert(stored.id);
    model_by_name_[stored.name] = stored.id;
  }
  for (const EntityRecord& e : d.entities) {
    if (!entities_.Put(e)) continue;
    entity_by_key_[KeyOf(e.key)] = e.id;
    if (e.key.kind == EntityKind::kGpu) CountNode(e.labels.node, 1);
    if (e.key.kind == EntityKind::kGpuInstance) ++instances_;
  }
  models_.Reuse();
  entities_.Reuse();
  // The newest ones: ids of series that made room for others are in the store too.
  for (const store::SeriesRecord& s : d.series) last_series_ = std::max(last_series_, s.id);
  std::vector<const store::SeriesRecord*> newest;
  for (const store::SeriesRecord& s : d.series) newest.push_back(&s);
  std::sort(newest.begin(), newest.end(), [](auto* a, auto* b) { return a->id > b->id; });
  for (const store::SeriesRecord* s : newest) {
    if (series_.size() >= static_cast<size_t>(limits_.series)) break;
    const SeriesKey key = KeyOfSeries(s->target, s->name, s->labels);
    if (!series_by_key_.emplace(key, s->id).second) continue;
    series_.emplace(s->id, SeriesUse{key, 0, s->last_seen});
    ++unused_series_;
  }
}

Registry::Key Registry::KeyOf(const EntityKey& key) {
  return {key.kind, absl::AsciiStrToLower(key.uuid), key.gpu_instance};
}

int32_t Registry::ModelId(std::string_view name) {
  if (name.empty()) return 0;
  const auto it = model_by_name_.find(AbslView(name));
  if (it != model_by_name_.end()) return it->second;
  // Past the limit an exporter is inventing names: its GPUs, and no others, stay "model unknown".
  if (models_.Room() == 0) return 0;
  ModelRecord* const model = models_.Add();
  *model = LookUp(*catalog_, model->id, name);
  model_by_name_.emplace(name, model->id);
  dirty_models_.insert(model->id);
  return model->id;
}

Device DeviceOf(const ModelRecord& model) {
  return {.model = model.id,
          .tensor_clock_max_mhz = model.tensor_clock_max_mhz.value_or(0),
          .sm_count = model.sm_count,
          .tdp_w = model.tdp_w,
          .half_rate = model.half_rate,
          .vendor = VendorOf(model.name),
          .has_profiling = HasProfiling(model.name)};
}

Device Registry::DeviceOf(int32_t model) const {
  const ModelRecord* const m = models_.Find(model);
  return m == nullptr ? Device{} : ingest::DeviceOf(*m);
}

int32_t Registry::InstanceSms(int32_t model, std::string_view profile) const {
  const ModelRecord* const m = models_.Find(model);
  if (m == nullptr || profile.empty()) return 0;
  const auto accelerator = catalog_->Find(m->name);
  if (!accelerator.ok()) return 0;
  return hardware::MigProfileSms(**accelerator, profile).value_or(0);
}

// The fraction is that of the store's dim.weights: by SMs; where these are not known by compute
// slices of the profile ("2g.10gb" is 2 of 7); else one of seven.
double Registry::FractionOf(const EntityRecord& e) const {
  if (e.key.kind != EntityKind::kGpuInstance) return 1;
  const int32_t gpu_sms = DeviceOf(e.model).sm_count;
  if (gpu_sms > 0 && e.sm_count > 0)
    return std::min(1.0, static_cast<double>(e.sm_count) / gpu_sms);
  int slices = 1;
  const std::string& profile = e.labels.mig_profile;
  const char* end = profile.data() + profile.size();
  const auto [after, ec] = std::from_chars(profile.data(), end, slices);
  if (ec != std::errc() || after == end || *after != 'g') slices = 1;
  return std::clamp(slices / 7.0, 1 / 7.0, 1.0);
}

void Registry::MarkDirty(EntityRecord& e) {
  ++version_;
  dirty_entities_.insert(e.id);
}

void Registry::SeeEntity(EntityRecord& e, Micros ts) {
  if (ts >= e.last_seen) {
    e.last_seen = EndOfDay(ts);
    dirty_entities_.insert(e.id);
  }
  ModelRecord* const m = models_.Find(e.model);
  if (m != nullptr && e.last_seen > m->last_seen) {
    m->last_seen = e.last_seen;
    dirty_models_.insert(m->id);
  }
}

bool Registry::See(int32_t id, Micros ts) {
  {
    ReaderLock lock(mutex_);
    const EntityRecord* const e = entities_.Find(id);
    if (e == nullptr || ts < e->last_seen) return e != nullptr;
  }
  WriterLock lock(mutex_);
  EntityRecord* const e = entities_.Find(id);
  if (e == nullptr) return false;
  SeeEntity(*e, ts);
  if (EntityRecord* const gpu = entities_.Find(e->parent)) SeeEntity(*gpu, ts);
  return true;
}

void Registry::SeeEarlier(int32_t id, Micros ts) {
  WriterLock lock(mutex_);
  for (EntityRecord* e = entities_.Find(id); e != nullptr; e = entities_.Find(e->parent)) {
    if (ts >= e->first_seen) continue;
    e->first_seen = ts;
    MarkDirty(*e);
  }
}

store::ForgottenDevices Registry::Forget(const ForgetBefore& before,
                                         absl::FunctionRef<bool(int32_t)> named) {
  WriterLock lock(mutex_);
  store::ForgottenDevices gone;
  if (before.unnamed > 0 && forgotten_day_ != FloorTo(before.unnamed, kMicrosPerDay)) {
    forgotten_day_ = FloorTo(before.unnamed, kMicrosPerDay);
    ForgetDevices(before.unnamed, named, &gone);
  }
  if (before.unnamed_series > 0 &&
      forgotten_series_day_ != FloorTo(before.unnamed_series, kMicrosPerDay)) {
    forgotten_series_day_ = FloorTo(before.unnamed_series, kMicrosPerDay);
    gone.series_before = before.unnamed_series;
    ForgetUnusedSeries(before.unnamed_series);
  }
  return gone;
}

void Registry::ForgetDevices(Micros before, absl::FunctionRef<bool(int32_t)> named,
                             store::ForgottenDevices* gone) {
  absl::flat_hash_set<int32_t> silent, gpus, models;  // the last two: that are referred to
  for (const EntityRecord& e : entities_.places()) {
    if (e.id == 0) continue;
    if (e.last_seen < before && !dirty_entities_.contains(e.id) && !named(e.id)) {
      silent.insert(e.id);
    } else {
      gpus.insert(e.parent);
      models.insert(e.model);
    }
  }
  for (const int32_t id : silent) {
    if (gpus.contains(id)) {
      models.insert(entities_.Find(id)->model);
    } else {
      gone->entities.push_back(id);
    }
  }
  for (const ModelRecord& m : models_.places()) {
    if (m.id != 0 && m.last_seen < before && !dirty_models_.contains(m.id) &&
        !models.contains(m.id))
      gone->models.push_back(m.id);
  }
  std::sort(gone->entities.begin(), gone->entities.end());
  for (const int32_t id : gone->entities) {
    const EntityRecord& e = *entities_.Find(id);
    entity_by_key_.erase(KeyOf(e.key));
    if (e.key.kind == EntityKind::kGpu) CountNode(e.labels.node, -1);
    if (e.key.kind == EntityKind::kGpuInstance) --instances_;
    entities_.Remove(id);
  }
  for (const int32_t id : gone->models) {
    model_by_name_.erase(models_.Find(id)->name);
    models_.Remove(id);
  }
  if (!gone->entities.empty() || !gone->models.empty()) ++version_;
}

void Registry::CountNode(const std::string& node, int by) {
  const auto it = gpus_of_node_.try_emplace(node, 0).first;
  if ((it->second += by) <= 0) gpus_of_node_.erase(it);
}

// Whether it changed.
bool Registry::GiveDomain(EntityRecord* gpu) const {
  std::string& domain = gpu->labels.nvlink_domain;
  if (!domains_.has_value() || !(domain.empty() || domain.starts_with(kSchedulersDomain)))
    return false;
  const auto it = domains_->find(gpu->labels.node);
  std::string now =
      it == domains_->end() ? std::string() : fmt::format("{}{}", kSchedulersDomain, it->second);
  if (now == domain) return false;
  domain = std::move(now);
  return true;
}

void Registry::TellDomains(DomainOfNode domains) {
  WriterLock lock(mutex_);
  if (domains_ == domains) return;
  domains_ = std::move(domains);
  for (size_t id = 1; id <= entities_.places().size(); ++id) {
    EntityRecord* const e = entities_.Find(static_cast<int32_t>(id));
    if (e != nullptr && e->key.kind == EntityKind::kGpu && GiveDomain(e)) MarkDirty(*e);
  }
}

StatusOr<EntityRecord*> Registry::Upsert(const EntityKey& key, const EntityLabels& labels,
                                         int32_t parent, Micros ts) {
  Key lookup = KeyOf(key);
  const auto it = entity_by_key_.find(lookup);
  EntityRecord* e = nullptr;
  bool changed = false;
  if (it != entity_by_key_.end()) {
    e = entities_.Find(it->second);
    const std::string old_node = e->labels.node;
    changed = MergeLabels(e->labels, labels);
    if (key.kind == EntityKind::kGpu && old_node != e->labels.node) {
      CountNode(old_node, -1);
      CountNode(e->labels.node, 1);
    }
  } else {
    if (entities_.Room() == 0) {
      return ResourceExhausted("GPU {}: {} GPUs are known already, of at most {}",
                               Printable(key.uuid, 80), entities_.size(), limits_.entities);
    }
    e = entities_.Add();
    e->key = key;
    e->labels = labels;
    e->first_seen = ts;
    entity_by_key_.emplace(std::move(lookup), e->id);
    if (key.kind == EntityKind::kGpu) CountNode(e->labels.node, 1);
    if (key.kind == EntityKind::kGpuInstance) ++instances_;
    changed = true;
  }
  if (key.kind == EntityKind::kGpu) changed |= GiveDomain(e);
  const int32_t model = ModelId(e->labels.model);
  const int32_t sms = e->key.kind == EntityKind::kGpuInstance
                          ? InstanceSms(model, e->labels.mig_profile)
                          : DeviceOf(model).sm_count;
  changed |= e->model != model || e->sm_count != sms || e->parent != parent || ts < e->first_seen;
  e->model = model;
  e->sm_count = sms;
  e->parent = parent;
  e->first_seen = std::min(e->first_seen, ts);
  if (changed) MarkDirty(*e);
  SeeEntity(*e, ts);
  return e;
}

StatusOr<ResolvedEntity> Registry::Resolve(const EntityKey& key, const EntityLabels& labels,
                                           Micros ts) {
  WriterLock lock(mutex_);
  int32_t parent = 0;
  if (key.kind == EntityKind::kGpuInstance) {
    EntityLabels of_gpu = labels;
    of_gpu.mig_profile.clear();
    FW_ASSIGN_OR_RETURN(EntityRecord * gpu, Upsert(EntityKey{.uuid = key.uuid}, of_gpu, 0, ts));
    parent = gpu->id;
  }
  FW_ASSIGN_OR_RETURN(EntityRecord * e, Upsert(key, labels, parent, ts));
  return ResolvedEntity{
      .id = e->id, .parent = parent, .device = DeviceOf(e->model), .fraction = FractionOf(*e)};
}

Registry::SeriesKey Registry::KeyOfSeries(std::string_view target, std::string_view name,
                                          std::string_view labels) {
  const auto texts = std::make_tuple(AbslView(target), AbslView(name), AbslView(labels));
  return {absl::HashOf(texts), absl::HashOf(texts, kSecondHalf)};
}

void Registry::ForgetUnusedSeries(Micros before) {
  absl::erase_if(series_, [&](const auto& s) FW_REQUIRES(mutex_) {
    if (s.second.users > 0 || s.second.last_seen >= before) return false;
    series_by_key_.erase(s.second.key);
    --unused_series_;
    return true;
  });
}

StatusOr<int32_t> Registry::Series(std::string_view target, std::string_view name,
                                   std::string_view labels) {
  const SeriesKey key = KeyOfSeries(target, name, labels);
  WriterLock lock(mutex_);
  if (const auto it = series_by_key_.find(key); it != series_by_key_.end()) {
    SeriesUse& use = series_[it->second];
    if (use.users++ == 0) --unused_series_;
    return it->second;
  }
  const auto limit = static_cast<size_t>(limits_.series);
  if (series_.size() >= limit && unused_series_ > 0 && !TooManyWait())
    ForgetUnusedSeries(std::numeric_limits<Micros>::max());
  if (series_.size() >= limit || TooManyWait()) {
    return ResourceExhausted("narrow series: {} are known already", limits_.series);
  }
  const int32_t id = ++last_series_;
  series_by_key_.emplace(key, id);
  series_.emplace(id, SeriesUse{key, 1});
  return id;
}

void Registry::SeeSeries(int32_t id, std::string_view target, std::string_view name,
                         std::string_view labels, Micros ts) {
  WriterLock lock(mutex_);
  const auto it = series_.find(id);
  if (it == series_.end() || ts < it->second.last_seen) return;
  it->second.last_seen = EndOfDay(ts);
  waiting_series_[id] = {.id = id,
                         .target = std::string(target),
                         .name = std::string(name),
                         .labels = std::string(labels),
                         .last_seen = it->second.last_seen};
}

void Registry::ReleaseSeries(int32_t id) {
  WriterLock lock(mutex_);
  const auto it = series_.find(id);
  if (it != series_.end() && --it->second.users == 0) ++unused_series_;
}

bool Registry::KnowsSeries(std::string_view target, std::string_view name,
                           std::string_view labels) const {
  ReaderLock lock(mutex_);
  return series_by_key_.contains(KeyOfSeries(target, name, labels));
}

bool Registry::KnowsModel(std::string_view name) const {
  ReaderLock lock(mutex_);
  return model_by_name_.contains(AbslView(name));
}

size_t Registry::RoomForEntities() const {
  ReaderLock lock(mutex_);
  return entities_.Room();
}

size_t Registry::RoomForModels() const {
  ReaderLock lock(mutex_);
  return models_.Room();
}

size_t Registry::RoomForSeries() const {
  ReaderLock lock(mutex_);
  if (TooManyWait()) return 0;
  return static_cast<size_t>(limits_.series) - series_.size() + unused_series_;
}

Registry::Changes Registry::TakeChanges() {
  WriterLock lock(mutex_);
  Changes out;
  for (int32_t id : dirty_entities_) out.entities.push_back(*entities_.Find(id));
  std::sort(out.entities.begin(), out.entities.end(),
            [](const EntityRecord& a, const EntityRecord& b) { return a.id < b.id; });
  for (int32_t id : dirty_models_) out.models.push_back(*models_.Find(id));
  dirty_entities_ = {};  // with its memory: a whole fleet is new once
  dirty_models_.clear();
  for (auto& [id, series] : waiting_series_) out.series.push_back(std::move(series));
  std::sort(out.series.begin(), out.series.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  waiting_series_ = {};
  return out;
}

std::optional<EntityRecord> Registry::entity(int32_t id) const {
  ReaderLock lock(mutex_);
  const EntityRecord* const e = entities_.Find(id);
  return e == nullptr ? std::nullopt : std::optional(*e);
}

std::optional<ModelRecord> Registry::model(int32_t id) const {
  ReaderLock lock(mutex_);
  const ModelRecord* const m = models_.Find(id);
  return m == nullptr ? std::nullopt : std::optional(*m);
}

int32_t Registry::FindEntity(std::string_view uuid, int32_t instance) const {
  ReaderLock lock(mutex_);
  const auto it =
      entity_by_key_.find(KeyOf({.kind = instance < 0 ? EntityKind::kGpu : EntityKind::kGpuInstance,
                                 .uuid = std::string(uuid),
                                 .gpu_instance = instance}));
  return it == entity_by_key_.end() ? 0 : it->second;
}

std::optional<ResolvedEntity> Registry::Known(const EntityKey& key) const {
  ReaderLock lock(mutex_);
  const auto it = entity_by_key_.find(KeyOf(key));
  if (it == entity_by_key_.end()) return std::nullopt;
  const EntityRecord& e = *entities_.Find(it->second);
  return ResolvedEntity{
      .id = e.id, .parent = e.parent, .device = DeviceOf(e.model), .fraction = FractionOf(e)};
}

double Registry::Fraction(int32_t entity) const {
  ReaderLock lock(mutex_);
  const EntityRecord* const e = entities_.Find(entity);
  return e == nullptr ? 1 : FractionOf(*e);
}

void Registry::ForEachEntity(absl::FunctionRef<void(const EntityRecord&)> visit) const {
  ReaderLock lock(mutex_);
  for (const EntityRecord& e : entities_.places())
    if (e.id != 0 && telemetry::IsGpu(e.key.kind)) visit(e);
}

std::vector<EntityRecord> Registry::Entities() const {
  std::vector<EntityRecord> out;
  ForEachEntity([&](const EntityRecord& e) { out.push_back(e); });
  return out;
}

size_t Registry::node_count() const {
  ReaderLock lock(mutex_);
  return gpus_of_node_.size();
}

uint64_t Registry::version() const {
  ReaderLock lock(mutex_);
  return version_;
}

bool Registry::has_instances() const {
  ReaderLock lock(mutex_);
  return instances_ > 0;
}

size_t Registry::entity_count() const {
  ReaderLock lock(mutex_);
  return entities_.size();
}

}  // namespace flopwatch::ingest
