#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kNcclSource =
    "github.com/NVIDIA/nccl, src/device/generate.py (ncclDevKernel_*), "
    "src/device/symmetric/generate.py (ncclSymkDevKernel_*); before 2.19 ncclKernel_*";
constexpr std::string_view kRcclSource = "github.com/ROCm/rccl, src/device";

constexpr CommunicationName kNcclNames[] = {
    {"nccl", kNcclSource},
    {"rccl", kRcclSource},
};

}  // namespace

constinit const CommunicationFamily kNccl = {
    .name = "nccl", .title = "NCCL, and RCCL, which keeps its names", .names = kNcclNames};

}  // namespace flopwatch::trace::communication
