#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kNvshmemSource = "github.com/NVIDIA/nvshmem, src/host/stream/coll";

constexpr CommunicationName kShmemNames[] = {
    {"nvshmem", kNvshmemSource},
    {"rocshmem", "github.com/ROCm/rocSHMEM"},
    {"aclshmem", "gitcode.com/cann/shmem"},
    // The kernel of nvshmem_barrier_on_stream() has no prefix.
    {"barrier_on_stream_kernel", kNvshmemSource, KernelClass::kCommunication,
     NameMatch::kWordBegin},
};

}  // namespace

constinit const CommunicationFamily kShmem = {
    .name = "shmem", .title = "NVSHMEM, ROC_SHMEM and ACLSHMEM", .names = kShmemNames};

}  // namespace flopwatch::trace::communication
