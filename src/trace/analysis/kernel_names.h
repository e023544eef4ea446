// What analyses and rules ask of the names of kernels, copies and operators beside their class.
#pragma once

#include <string_view>

namespace flopwatch::trace {

// A matrix product, convolution or attention kernel, by the kernel-name decoder and common parts of
// names.
bool IsProductKernel(std::string_view name);
// Runs on tensor cores, as far as the name says: the decoder first, then the marks of the
// TensorBoard plugin's list (step_roles.cc) and of newer GPUs (wgmma, MFMA).
bool IsTensorCoreKernel(std::string_view name);
// An FP32 product outside tensor cores, as far as the name says (sgemm, scudnn).
bool IsFp32ProductKernel(std::string_view name);
// A layout conversion or copy, elementwise, gather, index or transpose kernel: work limited by
// memory.
bool IsDataMovingKernel(std::string_view name);
// An operator that could use tensor cores (the plugin's list: linear layers, matrix products,
// convolutions and their backwards).
bool IsTensorCoreOperator(std::string_view name);

// A copy whose host side is pageable, as CUPTI names it ("Memcpy HtoD (Pageable -> Device)").
bool IsPageable(std::string_view name);

}  // namespace flopwatch::trace
