// The parts of a Fleet, shared by the files of this room.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/activity.h"
#include "simulate/demand.h"
#include "simulate/fields.h"
#include "simulate/fleet.h"
#include "simulate/plan.h"
#include "simulate/planting.h"
#include "simulate/random.h"
#include "simulate/telemetry_faults.h"

namespace flopwatch::simulate {

struct Fleet::Model {
  FleetOptions options;
  PresetSpec spec;
  std::unique_ptr<DemandModel> demand;
  Planting planting;
  Plan plan;
  std::unique_ptr<Activity> activity;
  TelemetryFaults faults;
  std::vector<int64_t> cluster_interval_ms;
  std::map<int32_t, PlantedLie> lies;  // by GPU

  const ClusterSpec& Cluster(const Host& h) const { return spec.clusters[h.cluster]; }
  // The device in a slot at a second: its generation counts the swaps so far.
  int Generation(int32_t gpu, int32_t t) const;
  // "GPU-xxxxxxxx-xxxx-..." into 40 bytes.
  void WriteUuid(int32_t gpu, int generation, char* out) const;
  std::string Uuid(int32_t gpu, int generation) const;
  std::string JobKey(int32_t job) const;  // as the scheduler: "2100017", or "namespace/name"
  std::string JobName(int32_t job) const;
  // Pod of a rank (Kubernetes clusters).
  std::string PodName(int32_t job, int32_t rank) const;
  std::string_view Namespace(int32_t job) const;
  bool kubernetes(int32_t job) const;
  // Whether a host's exporter lists a partitioned GPU beside its instances.
  bool ListsPartitionedGpus(int32_t host) const {
    return (Key(options.seed, Purpose::kHost, host, 2) & 1) != 0;
  }
};

inline constexpr size_t kUuidBytes = 40;

// Counters that lie (counter_lies.h): chooses the GPUs; the lie of a GPU at a second, null = none;
// what it does to the values; under which name, whether and how much too large (negative: too
// small) a field is written.
void PlantCounterLies(Fleet::Model* m);
const PlantedLie* LieOf(const Fleet::Model& m, int32_t gpu, int32_t t);
void ApplyLie(const Fleet::Model& m, const PlantedLie& lie, int32_t t, Values* out);
std::string_view NameUnder(CounterLie lie, const FieldDef& f);
bool HasUnder(CounterLie lie, const FieldDef& f);
int64_t ScaleUnder(CounterLie lie, const FieldDef& f, int32_t host);

// Reads what the counters of a lane show at second t, the ratios as means over (t - window, t]; no
// telemetry faults.
void ReadLane(const Fleet::Model& m, int32_t lane, int32_t t, int32_t window, Values* out);

}  // namespace flopwatch::simulate
