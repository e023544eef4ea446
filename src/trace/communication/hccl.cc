#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kHcclSource =
    "gitee.com/ascend/cann-hccl: hcom_allReduce__*, hcom_allGather__* and the tasks below them";

constexpr CommunicationName kHcclNames[] = {
    {"hccl", kHcclSource},
    {"hcom_", kHcclSource},
    // Collectives that run on the vector cores.
    {"aiv_all_gather", kHcclSource},
};

}  // namespace

constinit const CommunicationFamily kHccl = {
    .name = "hccl", .title = "Huawei HCCL", .names = kHcclNames};

}  // namespace flopwatch::trace::communication
