// A new library is one file beside this one, one declaration in families.h and one line here.
#include "trace/communication/families.h"

namespace flopwatch::trace {

std::span<const CommunicationFamily* const> CommunicationFamilies() {
  namespace c = communication;
  // Kernels that compute too come first: their names often have a collective's name in them.
  static constexpr const CommunicationFamily* kFamilies[] = {
      &c::kGemmFusions,      &c::kAscendFusions, &c::kDeepEp,
      &c::kExpertParallel,   &c::kNccl,          &c::kHccl,
      &c::kOneCcl,           &c::kMscclpp,       &c::kShmem,
      &c::kServingAllReduce, &c::kTrtLlm,        &c::kSymmetricMemory,
      &c::kUserBuffers,      &c::kCopyEngine,
  };
  return kFamilies;
}

}  // namespace flopwatch::trace
