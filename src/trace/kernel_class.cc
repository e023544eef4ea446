#include "trace/kernel_class.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace flopwatch::trace {
namespace {

// A kernel communicates when its name contains one of these, without regard to case.
constexpr std::string_view kCommunicationNames[] = {
    "nccl",  // NVIDIA NCCL: ncclKernel_*, ncclDevKernel_*; RCCL keeps the prefix
    "rccl",  // AMD RCCL's own
    "hccl",
    "hcom_",   // Huawei HCCL
    "oneccl",  // Intel oneCCL
    "mscclpp",
    "msccl",      // Microsoft MSCCL
    "nvshmem",    // NVIDIA NVSHMEM
    "deep_ep::",  // DeepSeek DeepEP: dispatch, combine, notify_dispatch, cached_notify, all between
                  // GPUs
    "cross_device_reduce",  // vLLM / SGLang custom all-reduce (1stage, 2stage)
    "one_shot_all_reduce", "two_shot_all_reduce", "oneshotallreduce",
    "twoshotallreduce",  // PyTorch symmetric memory, TensorRT-LLM
    "one_shot_allreduce", "two_shot_allreduce", "allreduce_fusion_kernel", "multimem_all_reduce",
    "multimem_all_gather", "custom_ar", "quick_reduce", "userbuffers_",
    "kuserbuffers",  // AMD quick reduce; Transformer Engine user buffers
};

}  // namespace

std::string_view KernelClassName(KernelClass c) {
  static constexpr std::string_view kNames[] = {"", "COMPUTATION", "COMMUNICATION", "MEMORY"};
  static_assert(std::size(kNames) == static_cast<size_t>(KernelClass::kMemory) + 1);
  return kNames[static_cast<size_t>(c)];
}

bool IsCommunicationKernel(std::string_view name, const std::vector<std::string>& more) {
  const std::string lower = absl::AsciiStrToLower(std::string(name));
  const auto contains = [&](std::string_view part) {
    return lower.find(part) != std::string::npos;
  };
  return std::ranges::any_of(kCommunicationNames, contains) ||
         std::ranges::any_of(
             more, [&](const std::string& part) { return contains(absl::AsciiStrToLower(part)); });
}

std::vector<KernelClass> ClassifyRows(const StringPool& names, const RankTrace& rank,
                                      const std::vector<std::string>& more) {
  const EventTable& e = rank.events;
  std::vector<KernelClass> out(e.size(), KernelClass::kNone);
  std::vector<KernelClass> by_name(names.size(), KernelClass::kNone);  // kNone = not judged yet
  for (Row r = 0; r < e.size(); ++r) {
    if (e.category[r] == Category::kGpuMemcpy || e.category[r] == Category::kGpuMemset) {
      out[r] = KernelClass::kMemory;
    } else if (e.category[r] == Category::kKernel) {
      KernelClass& known = by_name[e.name[r]];
      if (known == KernelClass::kNone)
        known = IsCommunicationKernel(names.Text(e.name[r]), more) ? KernelClass::kCommunication
                                                                   : KernelClass::kCompute;
      out[r] = rank.CollectiveOf(r) != nullptr ? KernelClass::kCommunication : known;
    }
  }
  return out;
}

}  // namespace flopwatch::trace
