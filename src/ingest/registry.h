// Small integer ids for what rows refer to: entities (GPUs and MIG instances), models and narrow
// series. Restored from the store at start; anything new or changed is queued for the writer, which
// stores it before the rows that use it.
//
// Threads: every method from any thread. Resolve() and Series() are called when an identity
// changes and once a day, never per sample. Past RegistryLimits Resolve() and Series() refuse and
// the caller counts it.
//
// Entities and models of which no row is kept are forgotten. Their ids are given to others after
// the next start only, when nothing in memory can still mean the old ones; until then there are
// twice as many ids as there may be entities. Series are forgotten likewise, and their ids are for
// good. One nobody uses any more makes room for another when there is none left; if it comes back
// it is the same name and labels under a new id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "efficiency/counters/honesty.h"
#include "hardware/accelerator.h"
#include "ingest/options.h"
#include "store/store.h"
#include "telemetry/sample.h"

namespace flopwatch::ingest {

// Records by id, from 1 on.
template <typename Record>
class IdTable {
 public:
  // At most `limit` records, under ids up to IdsFor(limit).
  explicit IdTable(int32_t limit) : limit_(limit) {}

  Record* Find(int32_t id) {
    if (id < 1 || static_cast<size_t>(id) > records_.size()) return nullptr;
    Record& record = records_[static_cast<size_t>(id) - 1];
    return record.id == 0 ? nullptr : &record;
  }
  const Record* Find(int32_t id) const { return const_cast<IdTable*>(this)->Find(id); }
  size_t size() const { return size_; }
  size_t Room() const {
    const size_t ids = free_.size() + static_cast<size_t>(IdsFor(limit_)) - records_.size();
    return std::min(ids, static_cast<size_t>(limit_) - std::min<size_t>(limit_, size_));
  }
  // Room() > 0. The record has its id.
  Record* Add() {
    int32_t id = 0;
    if (free_.empty()) {
      records_.emplace_back();
      id = static_cast<int32_t>(records_.size());
    } else {
      id = free_.back();
      free_.pop_back();
    }
    ++size_;
    Record* record = &records_[static_cast<size_t>(id) - 1];
    record->id = id;
    return record;
  }
  // As it was stored; false where it has no possible id.
  bool Put(const Record& record) {
    if (record.id < 1 || record.id > IdsFor(limit_)) return false;
    if (static_cast<size_t>(record.id) > records_.size()) records_.resize(record.id);
    Record& place = records_[static_cast<size_t>(record.id) - 1];
    if (place.id == 0) ++size_;
    place = record;
    return true;
  }
  // The id is not given out again, but by Reuse().
  void Remove(int32_t id) {
    if (Record* record = Find(id)) {
      *record = Record{};
      --size_;
    }
  }
  // Ids below the highest that nothing has are free.
  void Reuse() {
    free_.clear();
    for (size_t k = records_.size(); k > 0; --k)
      if (records_[k - 1].id == 0) free_.push_back(static_cast<int32_t>(k));
  }
  // By id, with those that nothing has: their `id` is 0.
  const std::deque<Record>& places() const { return records_; }

 private:
  const int32_t limit_;
  std::deque<Record> records_;  // records_[id - 1]
  std::vector<int32_t> free_;   // the lowest last
  size_t size_ = 0;
};

// What a row needs to know about its GPU.
struct Device {
  int32_t model = 0;                // 0 = the exporter names none
  double tensor_clock_max_mhz = 0;  // 0 = not in the hardware table: no OFU, never a default
  int32_t sm_count = 0;             // of the whole GPU; 0 = unknown
  double tdp_w = 0;                 // 0 = unknown
  bool half_rate = false;
  efficiency::CounterVendor vendor = efficiency::CounterVendor::kUnknown;
  bool has_profiling = true;  // false: its driver has no profiling counters
};

// What is known of the boards of a model.
Device DeviceOf(const store::ModelRecord& model);

struct ResolvedEntity {
  int32_t id = 0;
  int32_t parent = 0;  // GPU of a MIG instance
  Device device;
  double fraction = 1;  // instance SMs / GPU SMs; 1 for a GPU
};

// NVLink domains by node, as a scheduler's topology says them.
using DomainOfNode = absl::flat_hash_map<std::string, std::string>;
// What a GPU's label has before a domain that its own labels do not name.
inline constexpr std::string_view kSchedulersDomain = "slurm:";

class Registry {
 public:
  explicit Registry(const hardware::Catalog* catalog, const RegistryLimits& limits = {})
      : limits_(limits), catalog_(catalog), entities_(limits.entities), models_(limits.models) {}

  // Restores ids. Models are looked up again: a corrected hardware table corrects stored history.
  void Load(const store::Dimensions& dimensions);

  // The entity with this key, made if new, its labels up to date. An instance brings its GPU.
  // It is not forgotten while rows of it are kept that are as old as `ts`, or as the end of its
  // day: so long this need not be told again.
  StatusOr<ResolvedEntity> Resolve(const telemetry::EntityKey& key,
                                   const telemetry::EntityLabels& labels, Micros ts);
  // GPUs of these nodes, now and later, are in these domains where no exporter or target says
  // another one; others in none, where only this said one before.
  void TellDomains(DomainOfNode domains);
  // There is a row at `ts` of an entity whose labels are not taken over. False: it was forgotten.
  bool See(int32_t id, Micros ts);
  // History has a row at `ts` of an entity that is known from later.
  void SeeEarlier(int32_t id, Micros ts);
  // Times of store::RetentionStats; 0 = none may go.
  struct ForgetBefore {
    Micros unnamed = 0, unnamed_series = 0;
  };
  // Forgets entities and models that were last seen before then, but for those that wait to be
  // stored, that others which stay refer to, or that are `named` elsewhere (asked under the lock);
  // and series that have no user. Cheap where the days are those of an earlier call.
  store::ForgottenDevices Forget(const ForgetBefore& before,
                                 absl::FunctionRef<bool(int32_t)> named);
  // The series, made if new, with one more user; ReleaseSeries() for each. It is stored by
  // SeeSeries().
  StatusOr<int32_t> Series(std::string_view target, std::string_view name, std::string_view labels);
  // There is a row of the series at `ts`; not to be told again until the end of that day.
  void SeeSeries(int32_t id, std::string_view target, std::string_view name,
                 std::string_view labels, Micros ts);
  void ReleaseSeries(int32_t id);
  bool KnowsSeries(std::string_view target, std::string_view name, std::string_view labels) const;
  bool KnowsModel(std::string_view name) const;
  // How many more there may be.
  size_t RoomForEntities() const;
  size_t RoomForModels() const;
  size_t RoomForSeries() const;

  struct Changes {
    std::vector<store::EntityRecord> entities;
    std::vector<store::ModelRecord> models;
    std::vector<store::SeriesRecord> series;
  };
  Changes TakeChanges();

  std::optional<store::EntityRecord> entity(int32_t id) const;
  std::optional<store::ModelRecord> model(int32_t id) const;
  // 0 when there is none. Case-insensitive on the UUID; instance -1 = the whole GPU.
  int32_t FindEntity(std::string_view uuid, int32_t instance = -1) const;
  // What Resolve() would give for an entity that is known, without taking over its labels.
  std::optional<ResolvedEntity> Known(const telemetry::EntityKey& key) const;
  // Share of its GPU an entity is (ResolvedEntity::fraction).
  double Fraction(int32_t entity) const;
  // GPUs and instances, not parts of nodes. In id order, under the read lock: the callback must be
  // quick and must not call back.
  void ForEachEntity(absl::FunctionRef<void(const store::EntityRecord&)> visit) const;
  std::vector<store::EntityRecord> Entities() const;
  size_t entity_count() const;
  size_t node_count() const;
  uint64_t version() const;    // changes with every change
  bool has_instances() const;  // any MIG instance known

 private:
  struct Key {
    telemetry::EntityKind kind;
    std::string uuid;  // lower case
    int32_t instance;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.kind, k.uuid, k.instance);
    }
  };
  static Key KeyOf(const telemetry::EntityKey& key);
  int32_t ModelId(std::string_view name) FW_REQUIRES(mutex_);
  Device DeviceOf(int32_t model) const FW_REQUIRES_SHARED(mutex_);
  double FractionOf(const store::EntityRecord& e) const FW_REQUIRES_SHARED(mutex_);
  int32_t InstanceSms(int32_t model, std::string_view profile) const FW_REQUIRES_SHARED(mutex_);
  StatusOr<store::EntityRecord*> Upsert(const telemetry::EntityKey& key,
                                        const telemetry::EntityLabels& labels, int32_t parent,
                                        Micros ts) FW_REQUIRES(mutex_);
  void MarkDirty(store::EntityRecord& e) FW_REQUIRES(mutex_);
  // What is told once a day: not seen in any list, so no change of version().
  void SeeEntity(store::EntityRecord& e, Micros ts) FW_REQUIRES(mutex_);
  void CountNode(const std::string& node, int by) FW_REQUIRES(mutex_);
  bool GiveDomain(store::EntityRecord* gpu) const FW_REQUIRES_SHARED(mutex_);

  using Ids = absl::flat_hash_map<std::string, int32_t>;
  // A series by a hash of target, name and labels, whose texts may be long: the store has them.
  using SeriesKey = std::pair<uint64_t, uint64_t>;
  static SeriesKey KeyOfSeries(std::string_view target, std::string_view name,
                               std::string_view labels);
  struct SeriesUse {
    SeriesKey key;
    int32_t users = 0;
    Micros last_seen = 0;
  };
  void ForgetUnusedSeries(Micros before) FW_REQUIRES(mutex_);
  // While a store fails, those that wait for it do not grow with what makes room for others.
  bool TooManyWait() const FW_REQUIRES_SHARED(mutex_) {
    return waiting_series_.size() >= static_cast<size_t>(IdsFor(limits_.series));
  }
  void ForgetDevices(Micros before, absl::FunctionRef<bool(int32_t)> named,
                     store::ForgottenDevices* gone) FW_REQUIRES(mutex_);

  const RegistryLimits limits_;
  const hardware::Catalog* const catalog_;
  mutable SharedMutex mutex_;
  IdTable<store::EntityRecord> entities_ FW_GUARDED_BY(mutex_);
  IdTable<store::ModelRecord> models_ FW_GUARDED_BY(mutex_);
  // Times of last sight are ends of days: what was looked through on a day has no more to give.
  Micros forgotten_day_ FW_GUARDED_BY(mutex_) = 0, forgotten_series_day_ FW_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<Key, int32_t> entity_by_key_ FW_GUARDED_BY(mutex_);
  Ids model_by_name_ FW_GUARDED_BY(mutex_);
  Ids gpus_of_node_ FW_GUARDED_BY(mutex_);                     // how many
  std::optional<DomainOfNode> domains_ FW_GUARDED_BY(mutex_);  // nullopt = nobody has said any yet
  int32_t instances_ FW_GUARDED_BY(mutex_) = 0;
  uint64_t version_ FW_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<SeriesKey, int32_t> series_by_key_ FW_GUARDED_BY(mutex_);
  absl::flat_hash_map<int32_t, SeriesUse> series_ FW_GUARDED_BY(mutex_);  // by id
  size_t unused_series_ FW_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_set<int32_t> dirty_entities_ FW_GUARDED_BY(mutex_);
  absl::flat_hash_set<int32_t> dirty_models_ FW_GUARDED_BY(mutex_);
  absl::flat_hash_map<int32_t, store::SeriesRecord> waiting_series_ FW_GUARDED_BY(mutex_);
  int32_t last_series_ FW_GUARDED_BY(mutex_) = 0;
};

}  // namespace flopwatch::ingest
