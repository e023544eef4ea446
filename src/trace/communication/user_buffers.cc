#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kUserBufferSource =
    "github.com/NVIDIA/TransformerEngine, "
    "transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu";

constexpr CommunicationName kUserBufferNames[] = {
    {"userbuffers_", kUserBufferSource},
};

}  // namespace

constinit const CommunicationFamily kUserBuffers = {.name = "user-buffers",
                                                    .title = "User buffers of Transformer Engine",
                                                    .names = kUserBufferNames};

}  // namespace flopwatch::trace::communication
