// Small integer ids for what rows refer to: entities (GPUs and MIG instances), models and narrow
// series. Restored from the store at start; anything new or changed is queued for the writer, which
// stores it before the rows that use it.
//
// Threads: every method from any thread. Resolve() and Series() are called when an identity
// changes, never per sample. Past RegistryLimits Resolve() and Series() refuse and the caller
// counts it. Ids of entities and models are for good. A series nobody uses any more makes room for
// another when there is none left; if it comes back it is the same name and labels under a new id.
#pragma once

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
#include "hardware/accelerator.h"
#include "ingest/options.h"
#include "store/store.h"
#include "telemetry/sample.h"

namespace flopwatch::ingest {

// What a row needs to know about its GPU.
struct Device {
  int32_t model = 0;                // 0 = the exporter names none
  double tensor_clock_max_mhz = 0;  // 0 = not in the hardware table: no OFU, never a default
  int32_t sm_count = 0;             // of the whole GPU; 0 = unknown
  double tdp_w = 0;                 // 0 = unknown
  bool half_rate = false;
};

struct ResolvedEntity {
  int32_t id = 0;
  int32_t parent = 0;  // GPU of a MIG instance
  Device device;
  double fraction = 1;  // instance SMs / GPU SMs; 1 for a GPU
};

class Registry {
 public:
  explicit Registry(const hardware::Catalog* catalog, const RegistryLimits& limits = {})
      : limits_(limits), catalog_(catalog) {}

  // Restores ids. Models are looked up again: a corrected hardware table corrects stored history.
  void Load(const store::Dimensions& dimensions);

  // The entity with this key, made if new, its labels up to date. An instance brings its GPU.
  StatusOr<ResolvedEntity> Resolve(const telemetry::EntityKey& key,
                                   const telemetry::EntityLabels& labels, Micros ts);
  // The series, made if new, with one more user; ReleaseSeries() for each.
  StatusOr<int32_t> Series(std::string_view target, std::string_view name, std::string_view labels);
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
  void CountNode(const std::string& node, int by) FW_REQUIRES(mutex_);

  using Ids = absl::flat_hash_map<std::string, int32_t>;
  // A series by a hash of target, name and labels, whose texts may be long: the store has them.
  using SeriesKey = std::pair<uint64_t, uint64_t>;
  static SeriesKey KeyOfSeries(std::string_view target, std::string_view name,
                               std::string_view labels);
  struct SeriesUse {
    SeriesKey key;
    int32_t users = 0;
  };
  void ForgetUnusedSeries() FW_REQUIRES(mutex_);

  const RegistryLimits limits_;
  const hardware::Catalog* const catalog_;
  mutable SharedMutex mutex_;
  std::deque<store::EntityRecord> entities_ FW_GUARDED_BY(mutex_);  // entities_[id - 1]
  std::deque<store::ModelRecord> models_ FW_GUARDED_BY(mutex_);     // models_[id - 1]
  absl::flat_hash_map<Key, int32_t> entity_by_key_ FW_GUARDED_BY(mutex_);
  Ids model_by_name_ FW_GUARDED_BY(mutex_);
  Ids gpus_of_node_ FW_GUARDED_BY(mutex_);  // how many
  int32_t instances_ FW_GUARDED_BY(mutex_) = 0;
  uint64_t version_ FW_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<SeriesKey, int32_t> series_by_key_ FW_GUARDED_BY(mutex_);
  absl::flat_hash_map<int32_t, SeriesUse> series_ FW_GUARDED_BY(mutex_);  // by id
  size_t unused_series_ FW_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_set<int32_t> dirty_entities_ FW_GUARDED_BY(mutex_);
  std::vector<int32_t> dirty_models_ FW_GUARDED_BY(mutex_);
  std::vector<store::SeriesRecord> new_series_ FW_GUARDED_BY(mutex_);
  int32_t last_series_ FW_GUARDED_BY(mutex_) = 0;
};

}  // namespace flopwatch::ingest
