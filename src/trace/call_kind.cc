#include "trace/call_kind.h"

#include <string>

#include "absl/strings/ascii.h"

namespace flopwatch::trace {
namespace {

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

bool IsStepName(std::string_view name) { return name.starts_with("ProfilerStep#"); }

CallKind CallKindOf(std::string_view name) {
  if (Has(name, "GraphLaunch")) return CallKind::kGraphLaunch;
  // The last is MTIA's (HolisticTraceAnalysis, hta/common/types.py).
  if (Has(name, "LaunchKernel") || Has(name, "LaunchCooperative") || Has(name, "ModuleLaunch") ||
      name.starts_with("runFunction"))
    return CallKind::kLaunch;
  if (Has(name, "Synchronize"))
    return CallKind::kSync;  // cudaDeviceSynchronize, hipStreamSynchronize, aclrtSynchronizeStream
  const bool async = Has(name, "Async");
  if (Has(name, "Memcpy")) return async ? CallKind::kCopy : CallKind::kBlockingCopy;
  if (async) return CallKind::kOther;  // cudaMallocAsync, cudaMemsetAsync
  for (const std::string_view prefix :
       {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cudaHostUnregister",
        "hipMalloc", "hipFree", "hipHostMalloc", "hipHostFree", "cuMemAlloc", "cuMemFree",
        "cuMemHostAlloc", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease", "aclrtMalloc",
        "aclrtFree"}) {
    if (name.starts_with(prefix)) return CallKind::kAllocate;
  }
  return CallKind::kOther;
}

bool IsDataLoading(std::string_view name, Category category) {
  // The names of PyTorch's own record_function blocks, and of the iterator's Python frame
  // (torch/utils/data).
  if (Has(name, "enumerate(DataLoader)") || Has(name, "enumerate(DataPipe)")) return true;
  if (Has(name, "__next__"))
    return Has(name, "DataLoader") || Has(name, "dataloader.py") || Has(name, "DataPipe");
  if (category == Category::kPythonFunction) return false;
  const std::string lower = absl::AsciiStrToLower(std::string(name));
  // What people call the block that gets the next batch; "batch-generator" is Megatron-LM's timer.
  for (const std::string_view part :
       {"dataloader", "data_loader", "data loader", "data_loading", "data loading", "data_load",
        "load_data", "load_batch", "next_batch", "get_batch", "fetch_batch", "fetch_data",
        "data_fetch", "batch-generator"}) {
    if (Has(lower, part)) return true;
  }
  return false;
}

}  // namespace flopwatch::trace
