#include "efficiency/gemm/kernel_name.h"

#include <array>
#include <utility>

#include "efficiency/gemm/families.h"

namespace flopwatch::efficiency::gemm {
namespace {

// Attention before CUTLASS 3: FlashAttention-3 wraps itself in cutlass::device_kernel. Reductions
// before CUTLASS 2: cuDNN's split-K reduction is a cutlass::Kernel.
constexpr Reader kReaders[] = {
    ReadNvjet,       ReadXmma,     ReadFlashAttention, ReadSplitKReduce, ReadQuantised,
    ReadCutlass3,    ReadCutlass2, ReadCublas,         ReadCudaCore,     ReadCudnn,
    ReadFmhaCutlass, ReadTrtllm,   ReadTriton,
};

// `kFamilyNames` is in the order of Family.
constexpr std::string_view kFamilyNames[] = {"unknown",
                                             "nvjet",
                                             "xmma",
                                             "cutlass2",
                                             "cutlass3",
                                             "cublas",
                                             "gemv",
                                             "small_gemm",
                                             "dot",
                                             "splitk_reduce",
                                             "flash_attention",
                                             "flash_attention_2",
                                             "flash_attention_3",
                                             "cudnn_sdpa",
                                             "cudnn_conv",
                                             "fmha_cutlass",
                                             "trtllm_gemm",
                                             "trtllm_fmha",
                                             "triton_gemm",
                                             "triton_attention",
                                             "triton_pointwise",
                                             "deep_gemm",
                                             "marlin",
                                             "fused_moe",
                                             "magma"};

constexpr auto kFamilies = [] {
  std::array<Family, std::size(kFamilyNames)> out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<Family>(i);
  return out;
}();

}  // namespace

KernelInfo DecodeKernelName(std::string_view name) {
  const NameParts parts = SplitName(name);
  KernelInfo info;
  for (const Reader read : kReaders) {
    if (!read(parts, &info)) continue;
    info.cut |= parts.cut;
    // A literal 0 among template arguments is a default or another parameter, never a size.
    for (std::optional<int32_t>* size :
         {&info.tile_m, &info.tile_n, &info.tile_k, &info.stages, &info.cluster_m, &info.cluster_n,
          &info.head_dim, &info.sliced_k}) {
      if (*size && **size == 0) size->reset();
    }
    // What was cut off may have said more: splitting of K, a bias, a second CTA.
    if (info.cut && info.confidence == NameConfidence::kHigh)
      info.confidence = NameConfidence::kMedium;
    return info;
  }
  info.cut = parts.cut;
  return info;
}

std::span<const Family> AllFamilies() { return kFamilies; }

std::string_view FamilyName(Family f) { return kFamilyNames[static_cast<size_t>(f)]; }

std::string_view OperationName(Operation op) {
  // `kNames` is in the order of Operation.
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"", "gemm", "batched_gemm", "grouped_gemm", "conv_forward", "conv_data_grad",
       "conv_weight_grad", "gemv", "dot", "attention_forward", "attention_backward", "helper",
       "pointwise"});
  return kNames[static_cast<size_t>(op)];
}

std::string_view NumberTypeName(NumberType t) {
  // `kNames` is in the order of NumberType.
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"", "fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "e4m3", "e5m2", "fp6", "fp4", "int8",
       "int4", "int32", "complex64", "complex128"});
  return kNames[static_cast<size_t>(t)];
}

std::string_view NameConfidenceName(NameConfidence c) {
  // `kNames` is in the order of NameConfidence.
  static constexpr auto kNames = std::to_array<std::string_view>({"none", "low", "medium", "high"});
  return kNames[static_cast<size_t>(c)];
}

std::string_view TileAxesName(TileAxes a) {
  // `kNames` is in the order of TileAxes.
  static constexpr std::string_view kNames[] = {"", "blas", "row_major", "attention"};
  return kNames[static_cast<size_t>(a)];
}

std::string_view PrecisionOf(const KernelInfo& info) {
  switch (info.math) {
    case NumberType::kE4m3:
    case NumberType::kE5m2:
      return "fp8";
    case NumberType::kComplex64:
      return "fp32";
    case NumberType::kComplex128:
      return "fp64";
    case NumberType::kInt32:
      return "";
    default:
      return NumberTypeName(info.math);
  }
}

std::optional<hardware::Precision> TensorPrecisionOf(const KernelInfo& info) {
  using hardware::Precision;
  static constexpr std::pair<NumberType, Precision> kPrecisions[] = {
      {NumberType::kFp64, Precision::kFp64}, {NumberType::kComplex128, Precision::kFp64},
      {NumberType::kTf32, Precision::kTf32}, {NumberType::kFp16, Precision::kFp16},
      {NumberType::kBf16, Precision::kBf16}, {NumberType::kFp8, Precision::kFp8},
      {NumberType::kE4m3, Precision::kFp8},  {NumberType::kE5m2, Precision::kFp8},
      {NumberType::kFp4, Precision::kFp4},   {NumberType::kInt8, Precision::kInt8}};
  for (const auto& [type, precision] : kPrecisions) {
    if (type == info.math) return precision;
  }
  return std::nullopt;
}

}  // namespace flopwatch::efficiency::gemm
