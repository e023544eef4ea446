// Trackable resources (TRES) as sacct, squeue and scontrol write them:
// "billing=16,cpu=16,gres/gpu:h100=16,gres/gpu=16,mem=2000M,node=2". Pure; any thread.
//
// The typed counts are the untyped one again, by type, and only the types that a cluster configured
// (AccountingStorageTRES) appear: `gpus` is the untyped count, and the sum of the typed ones only
// where there is no untyped one. A job that holds shards has no gres/gpu at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_read.h"
#include "base/status.h"

namespace flopwatch::slurm {

inline constexpr size_t kMaxTresBytes = 64u << 10;
inline constexpr size_t kMaxTresEntries = 256;

struct TypedCount {
  std::string type;  // "h100"; of a MIG instance its profile: "1g.5gb", "nvidia_a100_3g.20gb"
  int64_t count = 0;
  bool operator==(const TypedCount&) const = default;
};

// Absent means that it is not named or not known (Slurm's NO_VAL), never 0.
struct Tres {
  std::optional<int64_t> cpus, nodes, memory_bytes;
  // What Slurm counts as gres/gpu: whole GPUs, and MIG instances where the nodes give those out.
  std::optional<int64_t> gpus;
  std::vector<TypedCount> gpu_types;     // in the order written
  std::optional<int64_t> mig_instances;  // of `gpus`, by their types; absent where no type says so
  std::optional<int64_t> shards, mps;    // parts of GPUs: gres/shard, gres/mps
  // Nothing of a GPU is named. On a cluster whose accounting does not track gres/gpu this is true
  // of every job.
  bool names_no_gpu() const { return !gpus && !shards && !mps; }
  bool operator==(const Tres&) const = default;
};

// "" and "(null)" name nothing. InvalidArgument names the entry that cannot be read.
StatusOr<Tres> ParseTres(std::string_view text);
// The list of {type, name, count} that sacct --json writes; counts plain or wrapped.
StatusOr<Tres> ParseTresJson(const Json& list);

// "1g.5gb", "a100_3g.20gb", "MIG-1g.10gb.me": the name of a MIG profile is in it.
bool IsMigType(std::string_view type);
// 4294967294, 4294967295, 18446744073709551614 and 18446744073709551615: Slurm's NO_VAL, INFINITE.
bool IsNoValue(uint64_t value);
// A number of a JSON document of any version: plain, or {"set", "infinite", "number"}. Absent for
// null, unset, infinite, NO_VAL and what is no whole number from 0.
std::optional<int64_t> JsonCount(const Json& value);

}  // namespace flopwatch::slurm
