#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kFlashInferSource =
    "github.com/flashinfer-ai/flashinfer, include/flashinfer/comm/trtllm_allreduce_fusion.cuh, "
    "trtllm_mnnvl_allreduce.cuh; TensorRT-LLM, cpp/tensorrt_llm/kernels/communicationKernels";

// They add the residual and normalise on the way; what takes their time is the all-reduce.
constexpr CommunicationName kTrtLlmNames[] = {
    {"allreduce_fusion_kernel", kFlashInferSource},
    {"oneshotallreduce", kFlashInferSource},
    {"twoshotallreduce", kFlashInferSource},
    {"trtllm_mnnvl_allreduce", kFlashInferSource},
};

}  // namespace

constinit const CommunicationFamily kTrtLlm = {
    .name = "trt-llm",
    .title = "All-reduce kernels of TensorRT-LLM and FlashInfer",
    .names = kTrtLlmNames};

}  // namespace flopwatch::trace::communication
