// The denominator: what a product is paid in, and what the chip can do in it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "efficiency/gemm/kernel_name.h"
#include "hardware/accelerator.h"
#include "trace/event_table.h"
#include "trace/ops/ops.h"

namespace flopwatch::trace {

// With kFp32OrTf32, operands are FP32 of which the trace does not say whether TF32 was allowed.
enum class Pay : uint8_t {
  kUnknown,
  kFp64,
  kFp32,
  kFp32OrTf32,
  kTf32,
  kBf16,
  kFp16,
  kFp8,
  kInt8,
  kFp4
};
inline constexpr size_t kPayCount = 10;
std::string_view PayName(Pay pay);  // "bf16", "fp32|tf32", ...; "" for kUnknown

// Reads a framework's names of types: "float", "c10::BFloat16", "Half", "c10::Float8_e4m3fn",
// "signed char", Ascend's "DT_BF16".
Pay PayOfType(std::string_view type);
// Pay of a product of two operands: the slower of the two; one that is not known leaves the other.
Pay PayOfOperands(Pay a, Pay b);
// What the kernel's name shows: it settles FP32 against TF32, and stands in where no types were
// recorded.
Pay Refine(Pay by_types, const efficiency::gemm::KernelInfo& kernel);

struct PeakRange {
  double low = 0, high = 0;  // FLOP/s; equal unless the precision is kFp32OrTf32
  std::string source;
};

// Peaks of one rank's chip. NotFound for an accelerator named in the options that the table does
// not know.
class Peaks {
 public:
  static StatusOr<Peaks> Of(const RankTrace& rank, int32_t device, const OpsOptions& options);

  // The peak, or why there is none.
  const StatusOr<PeakRange>& Of(Pay pay) const { return of_[static_cast<size_t>(pay)]; }
  // The peak that msprof-analyze takes on Ascend: by the first input type of the range's first
  // kernel, FP32 as FP16; `known` is false where its type is none of its list and FP16 stands in.
  std::optional<double> AscendPeak(std::string_view type, bool* known) const;

  const std::string& gpu() const { return gpu_; }  // "" = unknown
  std::optional<double> tensor_clock_mhz() const { return clock_; }
  bool ascend() const { return ascend_fp16_.has_value(); }

 private:
  std::string gpu_;
  std::optional<double> clock_;
  std::optional<double> ascend_fp16_;  // FLOP/s by info.json, or the user's
  std::optional<double> ascend_int8_;
  std::array<StatusOr<PeakRange>, kPayCount> of_;
};

}  // namespace flopwatch::trace
