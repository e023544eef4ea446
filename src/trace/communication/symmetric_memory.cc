#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kTorchSource =
    "github.com/pytorch/pytorch, torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu";
constexpr std::string_view kTorchShmemSource =
    "github.com/pytorch/pytorch, torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.cu";
constexpr std::string_view kSignalSource =
    "github.com/pytorch/pytorch, torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemory.cu";
constexpr auto kOwnOfTorch = KernelClass::kCommunication;

constexpr CommunicationName kSymmetricNames[] = {
    {"one_shot_all_reduce", kTorchSource},
    {"two_shot_all_reduce", kTorchSource},
    {"one_shot_allreduce", kTorchSource},
    {"two_shot_allreduce", kTorchSource},
    {"multimem_all_reduce", kTorchSource},
    {"multimem_all_gather", kTorchSource},
    {"alltoallv", kTorchShmemSource, kOwnOfTorch, NameMatch::kWordBegin},
    {"exchangesplitandoffset", kTorchShmemSource, kOwnOfTorch, NameMatch::kWordBegin},
    {"put_signal_kernel", kSignalSource, kOwnOfTorch, NameMatch::kWordBegin},
    {"wait_signal_kernel", kSignalSource, kOwnOfTorch, NameMatch::kWordBegin},
};

}  // namespace

constinit const CommunicationFamily kSymmetricMemory = {
    .name = "symmetric-memory", .title = "PyTorch symmetric memory", .names = kSymmetricNames};

}  // namespace flopwatch::trace::communication
