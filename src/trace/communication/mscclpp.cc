#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr CommunicationName kMscclppNames[] = {
    {"mscclpp", "github.com/microsoft/mscclpp, src/ext/collectives: mscclpp::collective::*"},
    {"msccl", "github.com/ROCm/rccl, src/device/msccl_kernel_impl.h: mscclKernel_*"},
};

}  // namespace

constinit const CommunicationFamily kMscclpp = {
    .name = "mscclpp", .title = "Microsoft MSCCL and MSCCL++", .names = kMscclppNames};

}  // namespace flopwatch::trace::communication
