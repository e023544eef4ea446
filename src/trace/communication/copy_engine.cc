#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr CommunicationName kCopyEngineNames[] = {
    // CUPTI_ACTIVITY_MEMCPY_KIND_PTOP as Kineto and Nsight Systems write it: collectives that copy
    // engines run (NCCL 2.28, PyTorch's symmetric memory, Flux) and pipeline stages of one process.
    {"memcpy ptop", "docs.nvidia.com/cupti, CUpti_ActivityMemcpyKind"},
};

}  // namespace

constinit const CommunicationFamily kCopyEngine = {
    .name = "copy-engine",
    .title = "Copies from GPU to GPU by a copy engine",
    .names = kCopyEngineNames,
    .copies = true};

}  // namespace flopwatch::trace::communication
