// Vector and small-matrix kernels of cuBLAS and MAGMA on CUDA cores: no tensor activity whatever
// their operand types. Their template numbers are threads and unrolling, not tiles.
//   gemv2N_kernel<int, int, A, A, A, compute, ...>, gemv2T_kernel_val, gemvNSP_kernel<A, ...>,
//   internal::gemvx::kernel<int, int, A, B, C, compute, ...>, gemmk1_kernel<...>,
//   gemmSN_NN_kernel<...>, dot_kernel<...>, reduce_1Block_kernel<...>, magma_sgemmEx_kernel<...>
#include "efficiency/gemm/families.h"

namespace flopwatch::efficiency::gemm {
namespace {

// The operands' type stands in the tensor descriptors where there are any
// ("cublasGemvTensorStridedBatched<__half const>"), else it is the first type of the arguments.
NumberType OperandOf(const NameParts& name) {
  const size_t at = name.arguments.find("TensorStridedBatched<");
  if (at != std::string_view::npos) return FindElementType(name.arguments.substr(at));
  return FindElementType(name.arguments);
}

}  // namespace

bool ReadSplitKReduce(const NameParts& name, KernelInfo* info) {
  const bool own =
      name.function.starts_with("splitKreduce") || name.function.starts_with("splitKReduce");
  const bool cutlass = name.function == "Kernel" && Contains(name.scope, "cutlass") &&
                       Contains(name.arguments.substr(0, 96), "ReduceSplitK");
  if (!own && !cutlass) return false;
  info->family = Family::kSplitKReduce;
  info->operation = Operation::kHelper;
  info->confidence = NameConfidence::kHigh;
  info->tensor_core = false;
  return true;
}

bool ReadCudaCore(const NameParts& name, KernelInfo* info) {
  const std::string_view f = name.function;
  const bool gemvx = f == "kernel" && Contains(name.scope, "gemvx::");
  if (gemvx || f.starts_with("gemv2") || f.starts_with("gemvNSP") || f.starts_with("gemv_")) {
    info->family = Family::kGemv;
    info->operation = Operation::kGemv;
  } else if (f.starts_with("gemmk1_kernel")) {
    info->family = Family::kSmallGemm;
    info->operation = Operation::kGemm;
  } else if (f.starts_with("gemmSN_")) {
    info->family = Family::kSmallGemm;
    info->operation = Operation::kGemm;
    const std::string_view layout = f.substr(7, 2);
    if (IsLayout(layout, "NT", 2, 2)) info->layout = layout;
  } else if (f.starts_with("dot_kernel")) {
    info->family = Family::kDot;
    info->operation = Operation::kDot;
  } else if (f.starts_with("reduce_1Block_kernel")) {
    info->family = Family::kDot;  // the second half of cuBLAS's dot
    info->operation = Operation::kHelper;
  } else if (f.starts_with("magma_") && Contains(f, "gemm")) {
    info->family = Family::kMagma;
    info->operation = Operation::kGemm;
  } else {
    return false;
  }
  info->confidence = NameConfidence::kMedium;
  info->tensor_core = false;
  if (name.mangled) {  // "Iii6__halfS0_S0_f": the operand follows the integers
    info->a = Contains(name.arguments.substr(0, 16), "half")       ? NumberType::kFp16
              : Contains(name.arguments.substr(0, 24), "bfloat16") ? NumberType::kBf16
              : name.arguments.starts_with("iif")                  ? NumberType::kFp32
              : name.arguments.starts_with("iid")                  ? NumberType::kFp64
                                                                   : NumberType::kUnknown;
  } else {
    info->a = OperandOf(name);
  }
  info->b = info->math = info->a;
  if (info->a != NumberType::kUnknown) info->confidence = NameConfidence::kHigh;
  return true;
}

}  // namespace flopwatch::efficiency::gemm
