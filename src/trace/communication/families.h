// The families there are; registry.cc puts them in the order they are asked. Internal to this
// folder.
#pragma once

#include "trace/communication/family.h"

namespace flopwatch::trace::communication {

extern const CommunicationFamily kAscendFusions, kCopyEngine, kDeepEp, kExpertParallel,
    kGemmFusions, kHccl, kMscclpp, kNccl, kOneCcl, kServingAllReduce, kShmem, kSymmetricMemory,
    kTrtLlm, kUserBuffers;

}  // namespace flopwatch::trace::communication
