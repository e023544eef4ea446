#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kMc2Source =
    "gitcode.com/cann/ops-transformer, mc2: MatmulAllReduce, AllGatherMatmul, "
    "MatmulReduceScatter, MoeDistributeDispatch, MoeDistributeCombine";
constexpr auto kFusedMc2 = KernelClass::kFused;

constexpr CommunicationName kAscendFusionNames[] = {
    {"matmulallreduce", kMc2Source, kFusedMc2},     {"allgathermatmul", kMc2Source, kFusedMc2},
    {"matmulreducescatter", kMc2Source, kFusedMc2}, {"moedistributedispatch", kMc2Source},
    {"moedistributecombine", kMc2Source},
};

}  // namespace

constinit const CommunicationFamily kAscendFusions = {
    .name = "ascend-fusions",
    .title = "Ascend's operators of products with collectives, and of experts",
    .names = kAscendFusionNames};

}  // namespace flopwatch::trace::communication
