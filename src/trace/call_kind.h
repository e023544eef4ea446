// What calls and blocks of the host do, by their names: shared by everything that asks what the
// host did while the GPU was idle.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/event_table.h"

namespace flopwatch::trace {

// What a runtime or driver call does (CUDA, HIP, Ascend ACL).
enum class CallKind : uint8_t {
  kOther,
  kLaunch,        // one kernel
  kGraphLaunch,   // many kernels: no per-kernel launch cost
  kCopy,          // asynchronous copies
  kBlockingCopy,  // cudaMemcpy and the like
  kSync,          // blocks the host: *Synchronize
  kAllocate,      // device or pinned memory, not stream-ordered (cudaMallocAsync is not one)
};
CallKind CallKindOf(std::string_view name);

// Launches that a CUDA stream takes before the launch call itself blocks, as HTA 0.6 has it.
inline constexpr int64_t kFullQueue = 1024;

// Whether a CPU row of this name waits for or makes the next batch: PyTorch's data loader and data
// pipes, and names people give such annotations.
bool IsDataLoading(std::string_view name, Category category);

// "ProfilerStep#N".
bool IsStepName(std::string_view name);

}  // namespace flopwatch::trace
