// Accelerator specifications: SMs, FLOPs per SM and cycle by precision, tensor clock, dense peaks,
// memory, links, TDP, with confidence and source. Facts from public datasheets and device queries
// (docs/hardware.md); no network, no device.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::hardware {

enum class Precision { kFp64, kTf32, kFp16, kBf16, kFp8, kInt8, kFp4 };
StatusOr<Precision> ParsePrecision(std::string_view name);  // "BF16"; an error lists the names
std::string_view PrecisionName(Precision p);

// kIndependent: the clock comes from elsewhere than the published peak, so that the two agreeing
// means something. kDerived: the clock was solved from the published peak (agreement by
// construction) or copied from a sibling part. kQuoted: only a published figure; no SM count and
// clock to check it with.
enum class Confidence { kIndependent, kDerived, kQuoted };
std::string_view ConfidenceName(Confidence c);

// GPU-instance profile of a MIG GPU and the SMs it owns, as `nvidia-smi mig -lgip` lists them.
struct MigProfile {
  std::string name;  // "1g.5gb"
  int sm_count = 0;
};

struct Accelerator {
  std::string vendor, model, arch;
  std::vector<std::string> reported_names;  // whole strings the driver reports
  std::optional<int> sm_count;
  std::optional<double> tensor_clock_max_mhz;  // OFU denominator
  std::optional<double> sm_clock_max_mhz;  // what the driver calls maximum: not the OFU denominator
  // FLOPs (or integer ops) per SM and cycle, dense; absent where the part has no such tensor path
  // or it is not known.
  std::optional<double> fp16_per_sm_clk, tf32_per_sm_clk, fp8_per_sm_clk, fp4_per_sm_clk,
      int8_per_sm_clk;
  bool has_bf16 = true;  // at the FP16 rate; Volta, Turing, Ascend 910A have no BF16 tensor path
  // Rates as published, dense.
  std::optional<double> fp16_tflops, tf32_tflops, fp8_tflops, fp4_tflops, int8_tops, fp64_tc_tflops;
  std::optional<double> tpa_ceiling_fp32_acc;  // 0.5 = half-rate board; absent = not known
  std::vector<double> mem_gb;                  // one entry per variant
  std::optional<double> mem_bw_gbps, link_bw_gbps, tdp_w;
  std::vector<MigProfile> mig_profiles;  // empty = no MIG, or not known
  Confidence confidence = Confidence::kQuoted;
  std::string source, note;
};

struct Peak {
  double tflops = 0;
  std::optional<double> clock_mhz;  // absent where only a published figure exists
  std::optional<int> sm_count;
  Confidence confidence = Confidence::kQuoted;
  std::string source;
};

// Peak = SMs x FLOPs/SM/clock x tensor clock (the OFU paper, eq. 5) where known, else the published
// dense figure, which is always kQuoted. NotFound names the precisions that are known.
StatusOr<Peak> PeakOf(const Accelerator& a, Precision p);

// SMs of a MIG profile on a part; NotFound where the profile is not known for it. Suffixes that
// only add or remove media and graphics engines ("1g.5gb+me", "1g.24gb-me") do not change the SMs.
// Compute-instance names ("1c.3g.20gb") are not GPU instances and are refused.
StatusOr<int> MigProfileSms(const Accelerator& a, std::string_view profile);

// Lookup by whole name after normalising (vendor prefix, case, dashes and blanks): every name a
// driver reports and every model name of the table. "B300" never matches "GB300". NotFound names
// the string and the nearest known name, or, for some words of a name ("H100", "A100 40GB"), the
// devices that have them; there is no default.
//
// A part of a device is never the device. A MIG instance ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", as
// CUDA calls it) and a compute partition ("MI300X CPX") have an entry of their own with the SMs
// that are theirs, peaks from those alone, and no board's values; they are not in all(). A vGPU
// ("GRID A100-40C") or an SR-IOV function ("MI300X VF") does not say what share it has: NotFound
// with the reason.
class Catalog {
 public:
  static const Catalog& Builtin();
  // Builtin plus site entries (TOML text, format in docs/hardware.md): an entry named like a known
  // model changes the keys it gives, another name adds a device. Errors name the entry and the key.
  static StatusOr<Catalog> WithOverrides(std::string_view toml);

  StatusOr<const Accelerator*> Find(std::string_view reported_name) const;
  std::span<const Accelerator> all() const { return entries_; }

 private:
  // Rebuilds names_ and the parts; fails where one name would stand for two devices.
  Status Index();
  void IndexParts();

  std::vector<Accelerator> entries_;
  std::vector<Accelerator> parts_;
  std::map<std::string, size_t, std::less<>> part_names_;  // normal form -> part
  std::map<std::string, size_t, std::less<>> names_;       // normal form -> entry
};

inline constexpr size_t kMaxOverrideBytes = 1 << 20;
inline constexpr size_t kMaxOverrideEntries = 1024;

// What Find() compares: "NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3" -> "h100 80gb hbm3".
std::string NormaliseName(std::string_view reported_name);

}  // namespace flopwatch::hardware
