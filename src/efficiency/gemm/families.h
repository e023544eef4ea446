// The decoder's families. One file a family group (family_*.cc), one row of the table in
// kernel_name.cc. Internal to gemm/.
#pragma once

#include "efficiency/gemm/kernel_name.h"
#include "efficiency/gemm/name_scan.h"

namespace flopwatch::efficiency::gemm {

// Fills `info` and returns true where the name is of the family; leaves it alone otherwise. The
// cost for a name of another family is a few prefix comparisons.
using Reader = bool (*)(const NameParts& name, KernelInfo* info);

bool ReadNvjet(const NameParts& name, KernelInfo* info);
bool ReadXmma(const NameParts& name, KernelInfo* info);
bool ReadCutlass2(const NameParts& name, KernelInfo* info);
bool ReadCutlass3(const NameParts& name, KernelInfo* info);
bool ReadCublas(const NameParts& name, KernelInfo* info);
bool ReadCudaCore(const NameParts& name, KernelInfo* info);
bool ReadSplitKReduce(const NameParts& name, KernelInfo* info);
bool ReadFlashAttention(const NameParts& name, KernelInfo* info);
bool ReadCudnn(const NameParts& name, KernelInfo* info);
bool ReadFmhaCutlass(const NameParts& name, KernelInfo* info);
bool ReadTrtllm(const NameParts& name, KernelInfo* info);
bool ReadTriton(const NameParts& name, KernelInfo* info);
bool ReadQuantised(const NameParts& name, KernelInfo* info);

}  // namespace flopwatch::efficiency::gemm
