#include "trace/analysis/kernel_names.h"

#include <algorithm>

#include "efficiency/gemm/kernel_name.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {

using efficiency::gemm::DecodeKernelName;
using efficiency::gemm::Family;
using efficiency::gemm::KernelInfo;
using efficiency::gemm::NumberType;

bool IsProductKernel(std::string_view name) {
  const KernelInfo info = DecodeKernelName(name);
  if (info.family != Family::kUnknown) return info.family != Family::kTritonPointwise;
  return HasAny(name, {"gemm", "conv", "attention", "attn", "fmha", "flash", "cudnn", "winograd",
                       "wgrad", "dgrad", "fprop"});
}

bool IsTensorCoreKernel(std::string_view name) {
  const KernelInfo info = DecodeKernelName(name);
  if (info.tensor_core.has_value()) return *info.tensor_core;
  return HasAny(
      name,
      {"h884",       "s884",       "h1688",      "s1688",    "hmma",      "imma",
       "i8816",      "16816",      "16832",      "s161616",  "xmma_gemm", "xmma_implicit_gemm",
       "xmma_fprop", "xmma_dgrad", "xmma_wgrad", "tensorop", "wgmma",     "gmma",
       "mfma",       "nvjet",      "tcgen05"});
}

bool IsFp32ProductKernel(std::string_view name) {
  const KernelInfo info = DecodeKernelName(name);
  if (info.tensor_core.value_or(false)) return false;
  if (info.a == NumberType::kFp32 || info.math == NumberType::kFp32) return true;
  return HasAny(name, {"sgemm", "scudnn", "simt_s", "fp32", "f32f32"}) && !IsTensorCoreKernel(name);
}

bool IsDataMovingKernel(std::string_view name) {
  if (IsProductKernel(name) && !HasAny(name, {"nchwtonhwc", "nhwctonchw"})) return false;
  return HasAny(name, {"elementwise", "copy", "gather", "scatter", "index", "transpose", "permute",
                       "catarray", "nchwtonhwc", "nhwctonchw", "triton_poi"});
}

bool IsPageable(std::string_view name) { return HasAny(name, {"pageable"}); }

bool IsTensorCoreOperator(std::string_view name) {
  // The plugin's list of eligible operators, with the backwards and newer names.
  static constexpr std::string_view kNames[] = {"aten::addmm",
                                                "aten::addmm_",
                                                "aten::mm",
                                                "aten::bmm",
                                                "aten::baddbmm",
                                                "aten::matmul",
                                                "aten::linear",
                                                "aten::addbmm",
                                                "aten::addmv",
                                                "aten::_scaled_mm",
                                                "aten::conv1d",
                                                "aten::conv2d",
                                                "aten::conv3d",
                                                "aten::conv_tbc",
                                                "aten::conv_transpose1d",
                                                "aten::conv_transpose2d",
                                                "aten::conv_transpose3d",
                                                "aten::convolution",
                                                "aten::_convolution",
                                                "aten::cudnn_convolution",
                                                "aten::cudnn_convolution_backward",
                                                "aten::cudnn_convolution_backward_input",
                                                "aten::cudnn_convolution_backward_weight",
                                                "aten::cudnn_convolution_transpose",
                                                "aten::convolution_backward",
                                                "aten::miopen_convolution",
                                                "aten::gru_cell",
                                                "aten::lstm_cell",
                                                "aten::rnn_relu_cell",
                                                "aten::rnn_tanh_cell",
                                                "aten::_cudnn_rnn",
                                                "aten::einsum"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace flopwatch::trace
