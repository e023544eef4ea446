// Generic resources of a node or of a job on a node: "gpu:h100:3(IDX:3-5)", "gpu:rtx8000:8(S:0-1)",
// "gpu:h100:8(IDX:0-7),shard:h100:32(2/8,0/8)", "gpu:0,tpu:0". Pure; any thread.
//
// IDX is the device's minor number (what SLURM_JOB_GPUS has and nvidia-smi calls the index of an
// unfiltered listing), never an entry of CUDA_VISIBLE_DEVICES. It is there only while a job runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jobs/slurm/tres.h"

namespace flopwatch::slurm {

inline constexpr int32_t kMaxGpuIndex = 4095;  // on one node
inline constexpr size_t kMaxGresBytes = 64u << 10;

struct Gres {
  std::string name;  // "gpu", "shard", "mps"
  std::string type;  // "h100"; "" where none is given
  std::optional<int64_t> count;
  std::vector<int32_t> indices;  // ascending, distinct; empty where not known
  bool operator==(const Gres&) const = default;
};

// "", "(null)", "N/A" and "none" are no resource. InvalidArgument names what cannot be read.
StatusOr<std::vector<Gres>> ParseGres(std::string_view text);
// "0,1,4-7", as in IDX and SLURM_JOB_GPUS.
StatusOr<std::vector<int32_t>> ParseGpuIndices(std::string_view text);

// Of the entries "gpu": the count over all types, absent where no entry says one; and their
// indices, ascending.
std::optional<int64_t> GpuCount(const std::vector<Gres>& gres);
std::vector<int32_t> GpuIndices(const std::vector<Gres>& gres);

}  // namespace flopwatch::slurm
