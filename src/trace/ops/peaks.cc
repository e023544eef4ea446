#include "trace/ops/peaks.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include "absl/strings/ascii.h"

namespace flopwatch::trace {
namespace {

using efficiency::gemm::KernelInfo;
using hardware::Accelerator;
using hardware::Precision;

// FP32 results of multiply-adds per clock and SM outside the tensor cores (CUDA C++ programming
// guide, table of arithmetic throughput by compute capability): 7.x and 8.0: 64; 8.6 and later:
// 128.
std::optional<int> Fp32LanesPerSm(const Accelerator& a, const Device* device) {
  if (a.vendor != "NVIDIA") return std::nullopt;
  if (device != nullptr && device->compute_major > 0) {
    const int capability = device->compute_major * 10 + std::max(0, device->compute_minor);
    return capability <= 80 ? 64 : 128;
  }
  if (a.arch == "Volta" || a.arch == "Turing") return 64;
  // GA100 has twice the tensor rate of the other Ampere chips, and half their FP32 lanes.
  if (a.arch == "Ampere") return a.fp16_per_sm_clk.value_or(0) >= 2048 ? 64 : 128;
  return 128;
}

std::optional<PeakRange> VectorFp32(const Accelerator& a, const Device* device) {
  const auto lanes = Fp32LanesPerSm(a, device);
  const auto clock = a.sm_clock_max_mhz ? a.sm_clock_max_mhz : a.tensor_clock_max_mhz;
  if (!lanes || !clock || !a.sm_count) return std::nullopt;
  const double peak = 2.0 * *lanes * *a.sm_count * *clock * 1e6;
  return PeakRange{
      peak, peak,
      fmt::format("{} SMs x {} FP32 lanes x 2 x {:.0f} MHz", *a.sm_count, *lanes, *clock)};
}

StatusOr<PeakRange> FromTable(const Accelerator& a, Precision precision) {
  const StatusOr<hardware::Peak> peak = hardware::PeakOf(a, precision);
  if (!peak.ok()) return peak.status();
  return PeakRange{
      peak->tflops * 1e12, peak->tflops * 1e12,
      fmt::format("hardware table, {} ({})", a.model, hardware::ConfidenceName(peak->confidence))};
}

StatusOr<PeakRange> OfAccelerator(const Accelerator& a, const Device* device, Pay pay) {
  static constexpr std::pair<Pay, Precision> kOfTable[] = {
      {Pay::kFp64, Precision::kFp64}, {Pay::kTf32, Precision::kTf32},
      {Pay::kBf16, Precision::kBf16}, {Pay::kFp16, Precision::kFp16},
      {Pay::kFp8, Precision::kFp8},   {Pay::kInt8, Precision::kInt8},
      {Pay::kFp4, Precision::kFp4}};
  for (const auto& [of, precision] : kOfTable)
    if (pay == of) return FromTable(a, precision);
  if (pay != Pay::kFp32 && pay != Pay::kFp32OrTf32)
    return FailedPrecondition("neither types nor the kernel's name tell the precision");
  const auto vector = VectorFp32(a, device);
  if (!vector) return FailedPrecondition("no FP32 peak is known for {}", a.model);
  if (pay == Pay::kFp32) return *vector;
  const StatusOr<PeakRange> tf32 = FromTable(a, Precision::kTf32);
  if (!tf32.ok()) return *vector;  // a chip without TF32
  return PeakRange{std::min(vector->low, tf32->low), std::max(vector->high, tf32->high),
                   "FP32 and TF32: " + tf32->source};
}

// The user's figure: of the precision, else of every other.
std::optional<double> Given(const OpsOptions& options, std::string_view name) {
  auto it = options.peak_tflops.find(std::string(name));
  if (it == options.peak_tflops.end() || name.empty()) it = options.peak_tflops.find("");
  if (it == options.peak_tflops.end()) return std::nullopt;
  return it->second * 1e12;
}

}  // namespace

std::string_view PayName(Pay pay) {
  constexpr std::string_view kNames[kPayCount] = {"",     "fp64", "fp32", "fp32|tf32", "tf32",
                                                  "bf16", "fp16", "fp8",  "int8",      "fp4"};
  return kNames[static_cast<size_t>(pay)];
}

Pay PayOfType(std::string_view type) {
  std::string name = absl::AsciiStrToLower(std::string(type));
  for (const std::string_view prefix : {"c10::", "torch.", "dt_"})
    if (std::string_view(name).starts_with(prefix)) name.erase(0, prefix.size());
  const auto starts = [&](std::string_view with) {
    return std::string_view(name).starts_with(with);
  };
  if (starts("float8") || starts("fp8") || starts("hifloat8") || starts("hf8")) return Pay::kFp8;
  if (starts("float4") || starts("fp4")) return Pay::kFp4;
  if (name == "bfloat16" || name == "bf16") return Pay::kBf16;
  if (name == "half" || name == "float16" || name == "fp16") return Pay::kFp16;
  if (name == "float" || name == "float32" || name == "fp32") return Pay::kFp32OrTf32;
  if (name == "double" || name == "float64") return Pay::kFp64;
  if (name == "signed char" || name == "unsigned char" || name == "int8" || name == "uint8" ||
      name == "char" || name == "byte" || name == "qint8" || name == "quint8") {
    return Pay::kInt8;
  }
  return Pay::kUnknown;
}

Pay PayOfOperands(Pay a, Pay b) {
  if (a == Pay::kUnknown) return b;
  if (b == Pay::kUnknown) return a;
  return std::min(a, b);  // the enumeration goes from slow to fast
}

Pay Refine(Pay by_types, const KernelInfo& kernel) {
  if (by_types != Pay::kUnknown && by_types != Pay::kFp32OrTf32) return by_types;
  const std::string_view shown = efficiency::gemm::PrecisionOf(kernel);
  if (by_types == Pay::kFp32OrTf32) {
    if (shown == "tf32") return Pay::kTf32;
    if (kernel.tensor_core.has_value()) return *kernel.tensor_core ? Pay::kTf32 : Pay::kFp32;
    return by_types;
  }
  for (size_t i = 1; i < kPayCount; ++i) {
    const auto pay = static_cast<Pay>(i);
    if (pay != Pay::kFp32OrTf32 && PayName(pay) == shown) return pay;
  }
  return Pay::kUnknown;
}

StatusOr<Peaks> Peaks::Of(const RankTrace& rank, int32_t device_id, const OpsOptions& options) {
  const hardware::Catalog& catalog =
      options.catalog != nullptr ? *options.catalog : hardware::Catalog::Builtin();
  const Device* const device = rank.DeviceOf(device_id) != nullptr ? rank.DeviceOf(device_id)
                               : rank.devices.empty()              ? nullptr
                                                                   : &rank.devices.front();
  Peaks out;
  const Accelerator* accelerator = nullptr;
  Status unknown;  // why the accelerator is not known
  if (!options.gpu.empty()) {
    StatusOr<const Accelerator*> found = catalog.Find(options.gpu);
    if (!found.ok()) return found.status();
    accelerator = *found;
  } else if (device == nullptr || device->name.empty()) {
    unknown = FailedPrecondition("the trace does not name its GPU; give --gpu or --peak-tflops");
  } else {
    const StatusOr<const Accelerator*> found = catalog.Find(device->name);
    if (found.ok())
      accelerator = *found;
    else
      unknown = Advise(WithCode(found.status(), absl::StatusCode::kFailedPrecondition),
                       "give --gpu or --peak-tflops");
    out.gpu_ = device->name;
  }
  if (accelerator != nullptr) out.gpu_ = accelerator->model;
  out.clock_ = options.tensor_clock_mhz;
  if (!out.clock_ && accelerator != nullptr) out.clock_ = accelerator->tensor_clock_max_mhz;

  // Ascend: cores x clock of info.json x 8192 (AscendChip); a cube makes twice as many INT8
  // operations a cycle.
  const bool ascend = rank.format == "ascend";
  std::string ascend_source;
  if (ascend) {
    out.ascend_fp16_ = Given(options, "fp16");
    out.ascend_int8_ = Given(options, "int8");
    if (out.ascend_fp16_) ascend_source = "given";
    if (!out.ascend_fp16_ && device != nullptr && std::isfinite(device->tensor_peak_flops) &&
        device->tensor_peak_flops > 0) {
      out.ascend_fp16_ = device->tensor_peak_flops;
      ascend_source = "info.json: AI cores x clock x 8192";
    }
    if (!out.ascend_int8_ && out.ascend_fp16_) out.ascend_int8_ = 2 * *out.ascend_fp16_;
  }

  for (size_t i = 0; i < kPayCount; ++i) {
    const auto pay = static_cast<Pay>(i);
    const auto given = Given(options, pay == Pay::kFp32OrTf32 ? "" : PayName(pay));
    if (given && pay != Pay::kFp32OrTf32) {
      out.of_[i] = PeakRange{*given, *given, "given"};
    } else if (pay == Pay::kFp32OrTf32 && (given || (options.peak_tflops.contains("fp32") &&
                                                     options.peak_tflops.contains("tf32")))) {
      const double fp32 = Given(options, "fp32").value_or(given.value_or(0)),
                   tf32 = Given(options, "tf32").value_or(fp32);
      out.of_[i] = PeakRange{std::min(fp32, tf32), std::max(fp32, tf32), "given"};
    } else if (ascend && !ascend_source.empty() && pay != Pay::kUnknown && pay != Pay::kFp64 &&
               pay != Pay::kFp8 && pay != Pay::kFp4) {
      const double peak = pay == Pay::kInt8 ? *out.ascend_int8_ : *out.ascend_fp16_;
      const bool fp32 = pay == Pay::kFp32 || pay == Pay::kFp32OrTf32 || pay == Pay::kTf32;
      out.of_[i] = PeakRange{
          peak, peak,
          fp32 ? ascend_source + " (FP16: msprof-analyze takes it for FP32 too)" : ascend_source};
    } else if (accelerator != nullptr) {
      out.of_[i] = OfAccelerator(*accelerator, device, pay);
    } else {
      out.of_[i] = ascend ? FailedPrecondition(
                                "info.json does not give the chip's cores and clock; give "
                                "--peak-tflops")
                          : unknown;
    }
  }
  return out;
}

std::optional<double> Peaks::AscendPeak(std::string_view type, bool* known) const {
  *known = type.empty() || type == "FLOAT" || type == "FLOAT16" || type == "BF16" ||
           type == "DT_BF16" || type == "INT8";
  return type == "INT8" ? ascend_int8_ : ascend_fp16_;
}

}  // namespace flopwatch::trace
