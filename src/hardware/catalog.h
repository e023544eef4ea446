// The built-in facts, one constant row per device (catalog_nvidia.cc, catalog_other.cc). Internal
// to this room; everyone else sees hardware::Accelerator. docs/hardware.md says how to add a
// device.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "hardware/accelerator.h"

namespace flopwatch::hardware {

// FLOPs (int8: integer operations) per SM and clock, dense. Absent = no such path, or not known.
struct Rates {
  std::optional<double> fp16{}, tf32{}, fp8{}, fp4{}, int8{};
};

// Published dense peaks, TFLOP/s (TOP/s for int8). fp64 is the tensor path.
struct PublishedPeak {
  std::optional<double> fp16{}, tf32{}, fp8{}, fp4{}, int8{}, fp64{};
};

struct MigRow {
  std::string_view profile{};
  int sm_count = 0;
};

struct DeviceFacts {
  std::string_view vendor = "NVIDIA", model{};
  std::string_view names{};  // what drivers report, separated by '|'
  std::string_view arch{};
  std::optional<int> sm_count{};
  std::optional<double> tensor_clock_mhz{}, sm_clock_mhz{};
  Rates rates{};
  PublishedPeak peak{};
  std::optional<double> tpa_ceiling{};
  std::array<double, 2> mem_gb{};  // 0 = no second variant
  std::optional<double> mem_bw_gbps{}, link_bw_gbps{}, tdp_w{};
  bool has_bf16 = true;
  Confidence confidence = Confidence::kQuoted;
  std::string_view source{}, note{};
  std::span<const MigRow> mig{};
};

std::span<const DeviceFacts> NvidiaDevices();
std::span<const DeviceFacts> OtherDevices();

}  // namespace flopwatch::hardware
