#include "telemetry/entity_table.h"

#include <tuple>
#include <utility>

#include "base/prefetch.h"
#include "telemetry/sequence_cache.h"

namespace flopwatch::telemetry {
namespace {

// Label sets an entity may have on average (jobs sharing it, other labels); more are refused.
constexpr size_t kSetsPerEntity = 4;
constexpr size_t kMaxSets = 30'000;  // ids are 16 bits, and two scrapes' worth may be alive at once

uint64_t KeyHash(const EntityKey& key) {
  return XXH3_64bits_withSeed(
      key.uuid.data(), key.uuid.size(),
      static_cast<uint64_t>(key.kind) << 32 ^ static_cast<uint32_t>(key.gpu_instance));
}

// A sum of these tells sets of label sets apart without regard to their order.
uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  return x * 0xc4ceb9fe1a85ec53ULL;
}

// Where label sets of one entity disagree, the choice must not depend on their order.
void Merge(const std::string& from, std::string* into) {
  if (!from.empty() && (into->empty() || from < *into)) *into = from;
}

void MergeNode(const std::string& from, const std::string& default_node, std::string* into) {
  if (*into == default_node) {
    if (!from.empty()) *into = from;
  } else if (from != default_node) {
    Merge(from, into);
  }
}

void MergeLabels(const EntityLabels& from, const std::string& default_node, EntityLabels* into) {
  MergeNode(from.node, default_node, &into->node);
  Merge(from.model, &into->model);
  Merge(from.device, &into->device);
  Merge(from.pci_bus_id, &into->pci_bus_id);
  Merge(from.driver, &into->driver);
  Merge(from.mig_profile, &into->mig_profile);
  Merge(from.nvlink_domain, &into->nvlink_domain);
  if (from.index >= 0 && (into->index < 0 || from.index < into->index)) into->index = from.index;
}

auto OwnerOrder(const OwnerLabels& o) {
  return std::tie(o.hpc_job, o.ns, o.pod, o.container, o.user);
}

}  // namespace

EntityTable::EntityTable(size_t max_entities, const std::string* default_node)
    : max_entities_(max_entities),
      max_sets_(std::min(kMaxSets, max_entities * kSetsPerEntity)),
      default_node_(default_node) {}

void EntityTable::BeginScrape(int stride) {
  ++epoch_;
  stride_ = stride;
  // What the last scrape wrote, this one writes.
  constexpr size_t kAtMost = 16;
  const size_t rows = std::min(row_slots_.size(), kAtMost);
  const size_t cells = std::min(rows * static_cast<size_t>(stride), values_.size());
  PrefetchToWrite(values_.data(), cells * sizeof(double));
  PrefetchToWrite(present_.data(), rows * sizeof(FieldMask));
  PrefetchToWrite(entities_.data(), std::min(entities_.size(), kAtMost) * sizeof(Entity));
  PrefetchToWrite(hot_.data(), std::min(hot_.size(), kAtMost) * sizeof(HotSet));
  for (size_t set = 0; set < std::min(sets_.size(), kAtMost); ++set)
    PrefetchToRead(sets_[set].get(), sizeof(LabelSet));
  seen_sets_.clear();
  row_slots_.clear();
  means_.clear();
  by_xid_.clear();
}

std::optional<uint16_t> EntityTable::FindLabelSet(uint64_t key) const {
  const auto it = set_by_key_.find(key);
  if (it == set_by_key_.end()) return std::nullopt;
  return it->second;
}

LabelFacts EntityTable::FactsOf(uint16_t id) const {
  const LabelSet& set = *sets_[id];
  LabelFacts facts;
  const EntityKind kind = entities_[set.slot].key.kind;
  facts.entity = kind == EntityKind::kGpu           ? LabelFacts::Entity::kGpu
                 : kind == EntityKind::kGpuInstance ? LabelFacts::Entity::kGpuInstance
                                                    : LabelFacts::Entity::kPart;
  facts.by_index_only = set.by_index_only;
  facts.unknown_labels = set.unknown_labels;
  facts.error_code = set.error_code;
  facts.discriminated = set.discriminated;
  facts.xid = set.xid;
  facts.clock_type = set.clock_type;
  return facts;
}

uint32_t EntityTable::FindOrAddEntity(const EntityKey& key) {
  const uint64_t hash = KeyHash(key);
  if (const auto it = slot_by_key_.find(hash); it != slot_by_key_.end()) return it->second;
  uint32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(entities_.size());
    entities_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  entities_[slot].key = key;
  entities_[slot].used = true;
  slot_by_key_.emplace(hash, slot);
  return slot;
}

std::optional<uint16_t> EntityTable::AddLabelSet(uint64_t key, std::string_view text,
                                                 LabelFacts facts) {
  if (seen_sets_.size() >= max_sets_) return std::nullopt;
  const auto known = slot_by_key_.find(KeyHash(facts.key));
  const bool has_row = known != slot_by_key_.end() && entities_[known->second].epoch == epoch_;
  if (!has_row && row_slots_.size() >= max_entities_) return std::nullopt;

  auto set = std::make_unique<LabelSet>();
  set->key = key;
  set->text = text;
  set->slot = FindOrAddEntity(facts.key);
  if (!facts.parent_uuid.empty()) {
    set->parent_slot =
        static_cast<int32_t>(FindOrAddEntity({EntityKind::kGpu, facts.parent_uuid, -1}));
  }
  set->by_index_only = facts.by_index_only;
  set->unknown_labels = facts.unknown_labels;
  set->error_code = facts.error_code;
  set->discriminated = facts.discriminated;
  set->xid = facts.xid;
  set->repaired_labels = facts.repaired_labels;
  set->refused_owner_labels = facts.refused_owner_labels;
  set->clock_type = facts.clock_type;
  set->labels = std::move(facts.labels);
  set->owner = std::move(facts.owner);

  uint16_t id;
  if (free_sets_.empty()) {
    id = static_cast<uint16_t>(sets_.size());
    sets_.emplace_back();
    hot_.emplace_back();
    texts_.emplace_back();
  } else {
    id = free_sets_.back();
    free_sets_.pop_back();
  }
  hot_[id] = {.born = ++last_born_};
  hot_[id].attention = Conversion::kMean | Conversion::kPercentIfInteger | Conversion::kByXid;
  if (facts.entity == LabelFacts::Entity::kGpuInstance)
    hot_[id].attention |= Conversion::kBoardLevel;
  sets_[id] = std::move(set);
  texts_[id] = sets_[id]->text;
  set_by_key_.emplace(key, id);
  return id;
}

uint32_t EntityTable::FirstSeen(uint16_t set) {
  HotSet& hot = hot_[set];
  hot.epoch = epoch_;
  hot.row = seen_sets_.size() < max_sets_ ? AssignRow(sets_[set]->slot) : kNoRow;
  if (hot.row != kNoRow) seen_sets_.push_back(set);
  return hot.row;
}

uint32_t EntityTable::AssignRow(uint32_t slot) {
  Entity& e = entities_[slot];
  if (e.epoch == epoch_) return e.row;
  const size_t row = row_slots_.size();
  if (row >= max_entities_) return kNoRow;
  row_slots_.push_back(slot);
  if (present_.size() <= row) {
    present_.resize(row + 1);
    weak_.resize(row + 1);
    beyond_.resize(row + 1);
    times_.resize(row + 1);
  }
  present_[row] = {};
  weak_[row] = {};
  beyond_[row] = 0;
  times_[row] = std::nullopt;
  if (values_.size() < (row + 1) * stride_) {
    values_.resize((row + 1) * stride_);
    ranks_.resize((row + 1) * stride_);
  }
  e.epoch = epoch_;
  e.row = static_cast<uint32_t>(row);
  e.signature_now = 1;
  return e.row;
}

uint32_t EntityTable::ParentRowOf(uint16_t set) {
  const int32_t parent = sets_[set]->parent_slot;
  return parent < 0 ? kNoRow : AssignRow(static_cast<uint32_t>(parent));
}

EntityTable::Put EntityTable::StoreContested(uint32_t row, FieldId field, double value,
                                             uint8_t rank) {
  const size_t cell = row * static_cast<size_t>(stride_) + field;
  if (present_[row].Test(field)) {
    const uint8_t held = weak_[row].Test(field) ? ranks_[cell] : 0;
    if (rank > held) return Put::kRepeated;
    if (rank == held)
      return rank == kCopiedRank || values_[cell] == value ? Put::kRepeated : Put::kConflict;
  }
  present_[row].Set(field);
  values_[cell] = value;
  ranks_[cell] = rank;
  if (rank == 0) {
    weak_[row].Clear(field);
  } else {
    weak_[row].Set(field);
  }
  return Put::kStored;
}

void EntityTable::StoreForMean(uint32_t row, FieldId field, double value, uint8_t rank) {
  // The dies of a GPU stand together: the cell wanted is nearly always the last one.
  for (auto m = means_.rbegin(); m != means_.rend(); ++m) {
    if (m->row == row && m->field == field && m->rank == rank) {
      m->sum += value;
      ++m->count;
      return;
    }
  }
  means_.push_back({row, field, rank, value, 1});
}

void EntityTable::StoreForXid(uint32_t row, FieldId field, double value, uint8_t rank,
                              int32_t xid) {
  const auto [it, fresh] = by_xid_.try_emplace({row, field, rank, xid}, value);
  if (!fresh) it->second = std::max(it->second, value);
}

void EntityTable::PublishByXid() {
  absl::flat_hash_map<std::tuple<uint32_t, FieldId, uint8_t>, double> sums;
  for (const auto& [key, value] : by_xid_) {
    const auto& [row, field, rank, xid] = key;
    sums[{row, field, rank}] += value;
  }
  for (const auto& [key, sum] : sums) {
    const auto& [row, field, rank] = key;
    Store(row, field, sum, rank);
  }
}

void EntityTable::GrowStride(int stride) {
  if (stride <= stride_) return;
  const size_t rows = row_slots_.size();
  std::vector<double> values(rows * stride);
  std::vector<uint8_t> ranks(rows * stride);
  for (size_t r = 0; r < rows; ++r) {
    std::copy_n(values_.begin() + r * stride_, stride_, values.begin() + r * stride);
    std::copy_n(ranks_.begin() + r * stride_, stride_, ranks.begin() + r * stride);
  }
  values_ = std::move(values);
  ranks_ = std::move(ranks);
  stride_ = stride;
}

void EntityTable::Publish(std::vector<DecodedRow>* rows) {
  for (const MeanCell& m : means_) Store(m.row, m.field, m.sum / m.count, m.rank);
  if (!by_xid_.empty()) PublishByXid();
  repaired_ = refused_owners_ = {};
  for (const uint16_t id : seen_sets_) {
    const LabelSet& set = *sets_[id];
    repaired_.Add(set.repaired_labels, set.text);
    refused_owners_.Add(set.refused_owner_labels, set.text);
    entities_[set.slot].signature_now += Mix(set.key);
    if (set.parent_slot < 0) continue;
    Entity& parent = entities_[set.parent_slot];
    if (parent.epoch != epoch_) continue;
    parent.signature_now += Mix(~set.key);
    if (present_[parent.row].Test(kSmClockMhz)) {
      Store(hot_[id].row, kSmClockMhz,
            values_[parent.row * static_cast<size_t>(stride_) + kSmClockMhz], kCopiedRank);
    }
  }
  rows->clear();
  for (uint32_t row = 0; row < row_slots_.size(); ++row) {
    const uint32_t slot = row_slots_[row];
    // This also holds where nothing is published: no entity is to point to sets not in this scrape.
    if (entities_[slot].signature != entities_[slot].signature_now) Refresh(slot);
    if (present_[row].None()) continue;  // every value of it was refused
    const Entity& e = entities_[slot];
    DecodedRow& out = rows->emplace_back();
    out.key = &e.key;
    out.labels = e.labels;
    out.owners = e.owners;
    out.slot = slot;
    out.identity_version = e.version;
    out.values = values_.data() + row * static_cast<size_t>(stride_);
    out.present = present_[row];
    out.beyond = beyond_[row];
    out.timestamp = times_[row];
  }
}

// The label sets of an entity have changed since its last scrape: say anew its names and its owner.
void EntityTable::Refresh(uint32_t slot) {
  Entity& e = entities_[slot];
  const EntityLabels* only = nullptr;
  auto merged = std::make_unique<EntityLabels>();
  merged->node = *default_node_;
  bool alike = true;
  std::vector<const OwnerLabels*> owners;
  for (const uint16_t id : seen_sets_) {
    const LabelSet& set = *sets_[id];
    if (set.slot == slot) {
      if (only == nullptr) only = &set.labels;
      alike = alike && *only == set.labels;
      MergeLabels(set.labels, *default_node_, merged.get());
      if (!set.owner.empty()) owners.push_back(&set.owner);
    } else if (set.parent_slot == static_cast<int32_t>(slot)) {
      EntityLabels of_board = set.labels;
      of_board.mig_profile.clear();
      alike = false;
      MergeLabels(of_board, *default_node_, merged.get());
    }
  }
  std::sort(owners.begin(), owners.end(), [](const OwnerLabels* a, const OwnerLabels* b) {
    return OwnerOrder(*a) < OwnerOrder(*b);
  });
  owners.erase(std::unique(owners.begin(), owners.end(),
                           [](const OwnerLabels* a, const OwnerLabels* b) { return *a == *b; }),
               owners.end());

  const EntityLabels* labels = alike && only != nullptr ? only : merged.get();
  const bool same = e.labels != nullptr && *e.labels == *labels &&
                    std::equal(owners.begin(), owners.end(), e.owners.begin(), e.owners.end(),
                               [](const OwnerLabels* a, const OwnerLabels* b) { return *a == *b; });
  if (!same) e.version = ++last_version_;
  e.labels = labels;
  e.merged = labels == merged.get() ? std::move(merged) : nullptr;
  e.owners = std::move(owners);
  e.signature = e.signature_now;
}

bool EntityTable::DropUnseen() {
  bool dropped = false;
  std::vector<bool> parent(entities_.size(), false);
  for (size_t id = 0; id < sets_.size(); ++id) {
    if (sets_[id] == nullptr) continue;
    if (Seen(static_cast<uint16_t>(id))) {
      if (sets_[id]->parent_slot >= 0) parent[sets_[id]->parent_slot] = true;
      continue;
    }
    set_by_key_.erase(sets_[id]->key);
    dropped = true;
    sets_[id].reset();
    hot_[id].born = 0;
    texts_[id] = {};
    free_sets_.push_back(static_cast<uint16_t>(id));
  }
  for (uint32_t slot = 0; slot < entities_.size(); ++slot) {
    Entity& e = entities_[slot];
    if (!e.used || e.epoch == epoch_) continue;
    // What it pointed to is gone; if it comes back it is described anew.
    e.labels = nullptr;
    e.merged.reset();
    e.owners.clear();
    e.signature = 0;
    if (parent[slot]) continue;
    slot_by_key_.erase(KeyHash(e.key));
    e.used = false;
    free_slots_.push_back(slot);
  }
  return dropped;
}

size_t EntityTable::bytes() const {
  size_t sum = hot_.capacity() * sizeof(HotSet) + values_.capacity() * sizeof(double) +
               ranks_.capacity() + entities_.capacity() * sizeof(Entity) +
               present_.capacity() * (2 * sizeof(FieldMask) + 16);
  for (const auto& set : sets_) {
    if (set != nullptr)
      sum += sizeof(LabelSet) + set->text.capacity() + set->labels.node.capacity() +
             set->labels.model.capacity();
  }
  return sum;
}

}  // namespace flopwatch::telemetry
