#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kMoriSource =
    "github.com/ROCm/mori, src/ops/dispatch_combine: EpDispatch*Kernel, EpCombine*Kernel";
constexpr std::string_view kPplxSource =
    "github.com/perplexityai/pplx-garden, p2p-all-to-all/a2a-kernels/src/a2a";
constexpr std::string_view kTrtMoeSource =
    "github.com/NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/communicationKernels/"
    "moeAlltoAllKernels.cu; FlashInfer has the same";

constexpr CommunicationName kExpertNames[] = {
    {"epdispatchintranode", kMoriSource},      {"epcombineintranode", kMoriSource},
    {"epdispatchinternode", kMoriSource},      {"epcombineinternode", kMoriSource},
    {"a2a_dispatch_send_kernel", kPplxSource}, {"a2a_dispatch_recv_kernel", kPplxSource},
    {"a2a_combine_send_kernel", kPplxSource},  {"a2a_combine_recv_kernel", kPplxSource},
    {"moea2adispatchkernel", kTrtMoeSource},   {"moea2acombinekernel", kTrtMoeSource},
};

}  // namespace

constinit const CommunicationFamily kExpertParallel = {
    .name = "expert-parallel",
    .title = "All-to-all of experts of other libraries",
    .names = kExpertNames};

}  // namespace flopwatch::trace::communication
