// The canonical sample: one row per entity (GPU or MIG instance, ...) and observation, one value
// per field.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/time.h"
#include "efficiency/sample_flags.h"
#include "telemetry/field.h"

namespace flopwatch::telemetry {

enum class EntityKind : uint8_t { kGpu = 0, kGpuInstance = 1, kLink = 2, kSwitch = 3, kCpu = 4 };
inline constexpr int kEntityKinds = 5;
// The others are parts of a node: an NVLink of a switch, an NVSwitch, a processor or one of its
// cores. They have values but no tensor pipe: no OFU, no job, and they are no GPUs anywhere.
inline bool IsGpu(EntityKind kind) { return kind <= EntityKind::kGpuInstance; }

// Identity: (UUID, GPU-instance id). Host label and gpu index are attributes, never keys: the
// label's case depends on the exporter's version, and the index is not stable. Where an exporter
// gives no UUID (AMD, bare series) the serial number, else "NODE/gpuINDEX", stands in for it. Parts
// are "NODE/nvswitch0", "NODE/nvswitch0/nvlink3", "NODE/cpu0", "NODE/cpu0/core12".
struct EntityKey {
  EntityKind kind = EntityKind::kGpu;
  std::string uuid;
  int32_t gpu_instance = -1;  // MIG GPU-instance id; -1 = the whole device
  bool operator==(const EntityKey&) const = default;
};

struct EntityLabels {
  std::string node;    // Hostname / hostname label, else the target's node name
  std::string model;   // as reported; "" = not reported
  std::string device;  // "nvidia0"
  std::string pci_bus_id;
  std::string driver;
  std::string mig_profile;  // "1g.5gb"
  // GPUs with the same name are joined by NVLink ("CLUSTER-UUID.CLIQUE", a rack's name); "" = not
  // said: those of its node are.
  std::string nvlink_domain;
  int32_t index = -1;  // gpu="0"
  bool operator==(const EntityLabels&) const = default;
};

// Who the exporter says owns the entity. Empty strings = not said. jobs/ makes a job key of it.
struct OwnerLabels {
  std::string hpc_job;
  std::string ns;  // namespace / pod_namespace / exported_namespace
  std::string pod;
  std::string container;
  std::string user;  // where a site adds it
  bool empty() const { return hpc_job.empty() && pod.empty() && ns.empty() && container.empty(); }
  bool operator==(const OwnerLabels&) const = default;
};

// A bit per field id.
struct FieldMask {
  std::array<uint64_t, kMaxFields / 64> words{};
  void Set(FieldId id) { words[id >> 6] |= uint64_t{1} << (id & 63); }
  void Clear(FieldId id) { words[id >> 6] &= ~(uint64_t{1} << (id & 63)); }
  bool Test(FieldId id) const { return (words[id >> 6] >> (id & 63)) & 1; }
  bool None() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
};

// The flags of a sample, under this room's name too.
using efficiency::SampleFlag;
using enum efficiency::SampleFlag;

}  // namespace flopwatch::telemetry
