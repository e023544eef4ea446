#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kVllmSource =
    "github.com/vllm-project/vllm, csrc/custom_all_reduce.cuh; SGLang, sgl-kernel/csrc/allreduce";
constexpr std::string_view kAiterSource =
    "github.com/ROCm/aiter, csrc/include/custom_all_reduce.cuh";
constexpr std::string_view kQuickSource =
    "github.com/mk1-project/quickreduce; vLLM, csrc/quickreduce/quick_reduce.h";
constexpr std::string_view kSglangJitSource =
    "github.com/sgl-project/sglang, jit_kernel: all_reduce_one_shot_push_kernel";

constexpr CommunicationName kServingNames[] = {
    {"cross_device_reduce", kVllmSource},   {"reduce_scatter_cross_device_store", kAiterSource},
    {"allreduce_prototype_", kQuickSource}, {"quickreduce::", kQuickSource},
    {"quick_reduce", kQuickSource},         {"all_reduce_one_shot", kSglangJitSource},
};

}  // namespace

constinit const CommunicationFamily kServingAllReduce = {
    .name = "serving",
    .title = "All-reduce kernels of vLLM, SGLang, aiter and quick reduce",
    .names = kServingNames};

}  // namespace flopwatch::trace::communication
