#include "telemetry/field_table.h"

namespace flopwatch::telemetry {
namespace {

using enum FieldKind;
using enum StorageType;

constexpr double kPerCent = 100;    // divisor: per cent -> ratio
constexpr double kPerMilli = 1e3;   // divisor: mJ -> J
constexpr double kPerMicro = 1e6;   // divisor: uJ -> J, Hz -> MHz
constexpr double kMebi = 1048576;   // divisor: bytes -> MiB
constexpr double kKiloBytes = 1e3;  // factor: KB/s -> B/s (NVML documents KB, not KiB)

// Bounds are far above any part in sight and below what the storage type holds, so a value that
// passes is stored exactly.
constexpr double kMaxMhz = 20'000, kMaxMemMhz = 50'000;
constexpr double kMaxWatts = 100'000;  // Int32 milliwatts hold 2.1 MW
constexpr double kMaxMib = 1e8;        // 95 TiB
constexpr double kMaxCelsius = 1'000;
constexpr double kMaxBytesPerSecond = 1e15;
constexpr double kMaxJoules = 9e12;  // 2^53 mJ
constexpr double kLargestCount = 9.2e18;

constexpr CanonicalRow kRows[] = {
    {kTensorActive, "tensor_active", "1", kRatio, kInt32, 1e6, false, 1,
     "share of cycles in which the tensor pipe was active, mean over the exporter's window (TPA)"},
    {kSmClockMhz, "sm_clock_mhz", "MHz", kGauge, kInt32, 1, true, kMaxMhz,
     "SM clock, an instant reading; AMD: mean over the dies' system clocks"},
    {kSmActive, "sm_active", "1", kRatio, kInt32, 1e6, false, 1,
     "share of cycles with at least one warp on an SM; AMD: vector ALU busy"},
    {kSmOccupancy, "sm_occupancy", "1", kRatio, kInt32, 1e6, false, 1,
     "resident warps over the maximum"},
    {kGrActive, "gr_active", "1", kRatio, kInt32, 1e6, false, 1,
     "share of time the graphics or compute engine was active; AMD: GUI active"},
    {kDramActive, "dram_active", "1", kRatio, kInt32, 1e6, false, 1,
     "share of cycles the memory interface moved data"},
    {kFp64Active, "fp64_active", "1", kRatio, kInt32, 1e6, false, 1,
     "share of cycles the FP64 pipe was active"},
    {kFp32Active, "fp32_active", "1", kRatio, kInt32, 1e6, false, 1,
     "share of cycles the FP32 pipe was active"},
    {kFp16Active, "fp16_active", "1", kRatio, kInt32, 1e6, false, 1,
     "share of cycles the FP16 pipe was active (not the tensor pipe)"},
    {kIntActive, "int_active", "1", kRatio, kInt32, 1e6, false, 1,
     "share of cycles the integer pipe was active"},
    {kTensorHmmaActive, "tensor_hmma_active", "1", kRatio, kInt32, 1e6, false, 1,
     "tensor pipe, 16-bit class (FP16, BF16, TF32)"},
    {kTensorImmaActive, "tensor_imma_active", "1", kRatio, kInt32, 1e6, false, 1,
     "tensor pipe, integer"},
    {kTensorDfmaActive, "tensor_dfma_active", "1", kRatio, kInt32, 1e6, false, 1,
     "tensor pipe, FP64"},
    {kSmCyclesElapsed, "sm_cycles_elapsed", "cycles", kCounter, kInt64, 1, false, kLargestCount,
     "SM cycles elapsed, monotonic total (DCGM 4.6+)"},
    {kSmCyclesActive, "sm_cycles_active", "cycles", kCounter, kInt64, 1, false, kLargestCount,
     "SM cycles active, monotonic total (DCGM 4.6+)"},
    {kMmaCyclesActive, "mma_cycles_active", "cycles", kCounter, kInt64, 1, false, kLargestCount,
     "matrix-pipe cycles active, monotonic total (DCGM 4.6+): OFU without clock sampling"},
    {kGpuUtil, "gpu_util", "1", kRatio, kInt32, 1e6, false, 1,
     "duty cycle: share of time any kernel ran; says nothing of how much of the chip; absent on "
     "MIG"},
    {kMemCopyUtil, "mem_copy_util", "1", kRatio, kInt32, 1e2, false, 1,
     "share of time device memory was read or written"},
    {kFbUsedMib, "fb_used_mib", "MiB", kGauge, kInt32, 1, false, kMaxMib, "framebuffer used"},
    {kFbFreeMib, "fb_free_mib", "MiB", kGauge, kInt32, 1, false, kMaxMib, "framebuffer free"},
    {kPowerW, "power_w", "W", kGauge, kInt32, 1e3, true, kMaxWatts, "board power"},
    {kPowerLimitW, "power_limit_w", "W", kGauge, kInt32, 1e3, true, kMaxWatts,
     "board power limit in force"},
    {kEnergyJ, "energy_j", "J", kCounter, kInt64, 1e3, true, kMaxJoules,
     "energy since the driver was loaded"},
    {kGpuTempC, "gpu_temp_c", "C", kGauge, kInt32, 1, true, kMaxCelsius, "GPU temperature"},
    {kMemTempC, "mem_temp_c", "C", kGauge, kInt32, 1, true, kMaxCelsius,
     "memory temperature; 0 on boards without a sensor"},
    {kMemClockMhz, "mem_clock_mhz", "MHz", kGauge, kInt32, 1, true, kMaxMemMhz, "memory clock"},
    {kPcieTxBps, "pcie_tx_bps", "B/s", kGauge, kInt64, 1, false, kMaxBytesPerSecond,
     "PCIe transmit rate, headers included"},
    {kPcieRxBps, "pcie_rx_bps", "B/s", kGauge, kInt64, 1, false, kMaxBytesPerSecond,
     "PCIe receive rate, headers included"},
    {kNvlinkTxBps, "nvlink_tx_bps", "B/s", kGauge, kInt64, 1, false, kMaxBytesPerSecond,
     "NVLink transmit rate, all links"},
    {kNvlinkRxBps, "nvlink_rx_bps", "B/s", kGauge, kInt64, 1, false, kMaxBytesPerSecond,
     "NVLink receive rate, all links"},
    {kClockEventReasons, "clock_event_reasons", "bits", kGauge, kInt64, 1, true, 4'294'967'295.0,
     "why the clock is not at its maximum: 0x1 idle, 0x2 application clocks, 0x4 software power "
     "cap, 0x8 hardware slowdown, 0x10 sync boost, 0x20 software thermal, 0x40 hardware thermal, "
     "0x80 power brake, 0x100 display"},
    {kXid, "xid", "code", kGauge, kInt32, 1, false, 1e6,
     "last XID error code, not a count; 0 = none"},
    {kXidErrors, "xid_errors", "1", kGauge, kInt64, 1, false, kLargestCount,
     "XID errors of any code that the exporter has counted: since it began, or in its window of "
     "some "
     "minutes; where it grows there is a new one, also where `xid` stays the same"},
    {kEccSbe, "ecc_sbe", "1", kCounter, kInt64, 1, true, kLargestCount,
     "single-bit ECC errors since the driver was loaded"},
    {kEccDbe, "ecc_dbe", "1", kCounter, kInt64, 1, true, kLargestCount,
     "double-bit ECC errors since the driver was loaded"},
    {kRowRemaps, "row_remaps", "1", kCounter, kInt64, 1, true, kLargestCount,
     "memory rows remapped for uncorrectable errors, over the board's life"},
    {kRowRemapPending, "row_remap_pending", "1", kGauge, kInt32, 1, true, 1,
     "1 where a row waits for the reset that remaps it, else 0"},
    {kRowRemapFailed, "row_remap_failed", "1", kGauge, kInt32, 1, true, 1,
     "1 where a row could not be remapped: the board has no spare one, else 0"},
    {kNvlinkErrors, "nvlink_errors", "1", kCounter, kInt64, 1, true, kLargestCount,
     "NVLink CRC errors, all links: the first sign of a bad link"},
    {kPcieReplays, "pcie_replays", "1", kCounter, kInt64, 1, true, kLargestCount, "PCIe replays"},
    {kEncUtil, "enc_util", "1", kRatio, kInt32, 1e2, false, 1,
     "share of time the video encoder was active"},
    {kDecUtil, "dec_util", "1", kRatio, kInt32, 1e2, false, 1,
     "share of time the video decoder was active"},
};
static_assert(std::size(kRows) == kCanonicalFieldCount);

// Names in upper case are dcgm-exporter's: up to DCGM 4.5, the renamed fields of 4.6 (same values),
// and the base-unit fields of 4.7 (new units). Lower-case dcgm_* are the 1.x namespace.
// nvidia_smi_* is nvidia_gpu_exporter, the rest AMD's device-metrics-exporter.
constexpr SpellingRow kSpellings[] = {
    {kTensorActive, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"},
    {kTensorActive, "DCGM_FI_PROF_TENSOR_UTIL_RATIO"},
    {kTensorActive, "nvidia_smi_mig_tensor_activity_ratio"},
    // MfmaUtil of rocprofiler: relative to the cycles in which the GPU was active at all
    // (docs/fields.md).
    {.id = kTensorActive,
     .name = "gpu_prof_tensor_active_percent",
     .divisor = kPerCent,
     .amd = true},

    {kSmClockMhz, "DCGM_FI_DEV_SM_CLOCK"},
    {kSmClockMhz, "DCGM_FI_DEV_SM_CLOCK_HERTZ", 1, kPerMicro},
    {kSmClockMhz, "dcgm_sm_clock"},
    {kSmClockMhz, "nvidia_smi_clocks_current_sm_clock_hz", 1, kPerMicro},
    {.id = kSmClockMhz, .name = "gpu_clock{system}", .mean = true, .amd = true},

    {kSmActive, "DCGM_FI_PROF_SM_ACTIVE"},
    {kSmActive, "DCGM_FI_PROF_SM_UTIL_RATIO"},
    {kSmActive, "nvidia_smi_mig_sm_activity_ratio"},
    {.id = kSmActive, .name = "gpu_prof_sm_active", .divisor = kPerCent, .amd = true},

    {kSmOccupancy, "DCGM_FI_PROF_SM_OCCUPANCY"},
    {kSmOccupancy, "DCGM_FI_PROF_SM_OCCUPANCY_RATIO"},
    {kSmOccupancy, "nvidia_smi_mig_sm_occupancy_ratio"},
    {.id = kSmOccupancy, .name = "gpu_prof_occupancy_percent", .divisor = kPerCent, .amd = true},

    {kGrActive, "DCGM_FI_PROF_GR_ENGINE_ACTIVE"},
    {kGrActive, "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"},
    {kGrActive, "nvidia_smi_mig_graphics_activity_ratio"},
    {.id = kGrActive, .name = "gpu_prof_gui_util_percent", .divisor = kPerCent, .amd = true},

    {kDramActive, "DCGM_FI_PROF_DRAM_ACTIVE"},
    {kDramActive, "DCGM_FI_PROF_DRAM_UTIL_RATIO"},

    {kFp64Active, "DCGM_FI_PROF_PIPE_FP64_ACTIVE"},
    {kFp64Active, "DCGM_FI_PROF_FP64_UTIL_RATIO"},
    {kFp32Active, "DCGM_FI_PROF_PIPE_FP32_ACTIVE"},
    {kFp32Active, "DCGM_FI_PROF_FP32_UTIL_RATIO"},
    {kFp16Active, "DCGM_FI_PROF_PIPE_FP16_ACTIVE"},
    {kFp16Active, "DCGM_FI_PROF_FP16_UTIL_RATIO"},
    {kIntActive, "DCGM_FI_PROF_PIPE_INT_ACTIVE"},
    {kIntActive, "DCGM_FI_PROF_INT_UTIL_RATIO"},
    {kTensorHmmaActive, "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE"},
    {kTensorHmmaActive, "DCGM_FI_PROF_HMMA_UTIL_RATIO"},
    {kTensorImmaActive, "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE"},
    {kTensorImmaActive, "DCGM_FI_PROF_IMMA_UTIL_RATIO"},
    {kTensorDfmaActive, "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE"},
    {kTensorDfmaActive, "DCGM_FI_PROF_DFMA_UTIL_RATIO"},

    {kSmCyclesElapsed, "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL"},
    {kSmCyclesActive, "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL"},
    {kMmaCyclesActive, "DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL"},

    {kGpuUtil, "DCGM_FI_DEV_GPU_UTIL", 1, kPerCent},
    {.id = kGpuUtil, .name = "DCGM_FI_DEV_GPU_UTIL_RATIO", .percent_if_integer = true},
    {kGpuUtil, "dcgm_gpu_utilization", 1, kPerCent},
    {kGpuUtil, "nvidia_smi_utilization_gpu_ratio"},
    {.id = kGpuUtil, .name = "gpu_gfx_activity", .divisor = kPerCent, .amd = true},

    {kMemCopyUtil, "DCGM_FI_DEV_MEM_COPY_UTIL", 1, kPerCent},
    {kMemCopyUtil, "DCGM_FI_DEV_MEMORY_UTIL_RATIO"},
    {kMemCopyUtil, "dcgm_mem_copy_utilization", 1, kPerCent},
    {kMemCopyUtil, "nvidia_smi_utilization_memory_ratio"},
    {.id = kMemCopyUtil, .name = "gpu_umc_activity", .divisor = kPerCent, .amd = true},

    {kFbUsedMib, "DCGM_FI_DEV_FB_USED"},
    {kFbUsedMib, "DCGM_FI_DEV_FB_USED_BYTES", 1, kMebi},
    {kFbUsedMib, "dcgm_fb_used"},
    {kFbUsedMib, "nvidia_smi_memory_used_bytes", 1, kMebi},
    {kFbUsedMib, "nvidia_smi_mig_memory_used_bytes", 1, kMebi},
    {.id = kFbUsedMib, .name = "gpu_used_vram", .amd = true},

    {kFbFreeMib, "DCGM_FI_DEV_FB_FREE"},
    {kFbFreeMib, "DCGM_FI_DEV_FB_FREE_BYTES", 1, kMebi},
    {kFbFreeMib, "dcgm_fb_free"},
    {kFbFreeMib, "nvidia_smi_memory_free_bytes", 1, kMebi},
    {kFbFreeMib, "nvidia_smi_mig_memory_free_bytes", 1, kMebi},
    {.id = kFbFreeMib, .name = "gpu_free_vram", .amd = true},

    {kPowerW, "DCGM_FI_DEV_POWER_USAGE"},
    {kPowerW, "DCGM_FI_DEV_BOARD_POWER_WATTS"},
    {kPowerW, "dcgm_power_usage"},
    {kPowerW, "nvidia_smi_power_draw_watts"},
    {.id = kPowerW, .name = "gpu_package_power", .amd = true},
    {.id = kPowerW, .name = "gpu_average_package_power", .amd = true},
    {.id = kPowerW, .name = "gpu_power_usage", .amd = true},
    {.id = kPowerW, .name = "gpu_power", .amd = true},

    {kPowerLimitW, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT"},
    {kPowerLimitW, "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"},
    {kPowerLimitW, "DCGM_FI_DEV_POWER_MGMT_LIMIT"},
    {kPowerLimitW, "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS"},
    {kPowerLimitW, "nvidia_smi_enforced_power_limit_watts"},
    {kPowerLimitW, "nvidia_smi_power_limit_watts"},

    {kEnergyJ, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1, kPerMilli},
    {kEnergyJ, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL"},
    {kEnergyJ, "dcgm_total_energy_consumption", 1, kPerMilli},
    {kEnergyJ, "nvidia_smi_energy_joules_total"},
    {.id = kEnergyJ, .name = "gpu_energy_consumed", .divisor = kPerMicro, .amd = true},

    {kGpuTempC, "DCGM_FI_DEV_GPU_TEMP"},
    {kGpuTempC, "DCGM_FI_DEV_GPU_TEMP_CELSIUS"},
    {kGpuTempC, "dcgm_gpu_temp"},
    {kGpuTempC, "nvidia_smi_temperature_gpu"},
    {.id = kGpuTempC, .name = "gpu_junction_temperature", .amd = true},
    {.id = kGpuTempC, .name = "gpu_edge_temperature", .amd = true},

    {kMemTempC, "DCGM_FI_DEV_MEMORY_TEMP"},
    {kMemTempC, "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"},
    {kMemTempC, "dcgm_memory_temp"},
    {kMemTempC, "nvidia_smi_temperature_memory"},
    {.id = kMemTempC, .name = "gpu_memory_temperature", .amd = true},

    {kMemClockMhz, "DCGM_FI_DEV_MEM_CLOCK"},
    {kMemClockMhz, "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", 1, kPerMicro},
    {kMemClockMhz, "dcgm_memory_clock"},
    {kMemClockMhz, "nvidia_smi_clocks_current_memory_clock_hz", 1, kPerMicro},
    {.id = kMemClockMhz, .name = "gpu_clock{memory}", .mean = true, .amd = true},

    {kPcieTxBps, "DCGM_FI_PROF_PCIE_TX_BYTES"},
    {kPcieTxBps, "DCGM_FI_DEV_PCIE_TX_THROUGHPUT", kKiloBytes},
    {kPcieTxBps, "dcgm_pcie_tx_throughput", kKiloBytes},
    {kPcieTxBps, "nvidia_smi_pcie_throughput_tx_bytes_per_second"},
    {kPcieTxBps, "nvidia_smi_mig_pcie_throughput_tx_bytes_per_second"},
    {kPcieRxBps, "DCGM_FI_PROF_PCIE_RX_BYTES"},
    {kPcieRxBps, "DCGM_FI_DEV_PCIE_RX_THROUGHPUT", kKiloBytes},
    {kPcieRxBps, "dcgm_pcie_rx_throughput", kKiloBytes},
    {kPcieRxBps, "nvidia_smi_pcie_throughput_rx_bytes_per_second"},
    {kPcieRxBps, "nvidia_smi_mig_pcie_throughput_rx_bytes_per_second"},
    {kNvlinkTxBps, "DCGM_FI_PROF_NVLINK_TX_BYTES"},
    {kNvlinkRxBps, "DCGM_FI_PROF_NVLINK_RX_BYTES"},

    {kClockEventReasons, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"},
    {kClockEventReasons, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"},
    {kClockEventReasons, "nvidia_smi_clocks_event_reasons_active"},
    {kClockEventReasons, "nvidia_smi_clocks_throttle_reasons_active"},

    {kXid, "DCGM_FI_DEV_XID_ERRORS"},
    {kXid, "DCGM_FI_DEV_XID_ERROR"},
    {kXid, "dcgm_xid_errors"},
    {.id = kXidErrors, .name = "DCGM_EXP_XID_ERRORS_TOTAL", .by_xid = true},
    {.id = kXidErrors, .name = "DCGM_EXP_XID_ERRORS_COUNT", .by_xid = true},

    {kEccSbe, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"},
    {kEccSbe, "dcgm_ecc_sbe_volatile_total"},
    {kEccSbe, "nvidia_smi_ecc_errors_corrected_volatile_total"},
    {.id = kEccSbe, .name = "gpu_ecc_correct_total", .amd = true},
    {kEccDbe, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"},
    {kEccDbe, "dcgm_ecc_dbe_volatile_total"},
    {kEccDbe, "nvidia_smi_ecc_errors_uncorrected_volatile_total"},
    {.id = kEccDbe, .name = "gpu_ecc_uncorrect_total", .amd = true},
    {kRowRemaps, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"},
    {kRowRemaps, "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"},
    {kRowRemaps, "nvidia_smi_remapped_rows_uncorrectable"},
    {kRowRemapPending, "DCGM_FI_DEV_ROW_REMAP_PENDING"},
    {kRowRemapPending, "nvidia_smi_remapped_rows_pending"},
    {kRowRemapFailed, "DCGM_FI_DEV_ROW_REMAP_FAILURE"},
    {kRowRemapFailed, "nvidia_smi_remapped_rows_failure"},

    {kNvlinkErrors, "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"},
    {kNvlinkErrors, "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL"},
    {kNvlinkErrors, "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC"},
    {kNvlinkErrors, "DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL"},
    {kNvlinkErrors, "dcgm_nvlink_flit_crc_error_count_total"},

    {kPcieReplays, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"},
    {kPcieReplays, "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"},
    {kPcieReplays, "dcgm_pcie_replay_counter"},
    {.id = kPcieReplays, .name = "pcie_replay_count", .amd = true},

    {kEncUtil, "DCGM_FI_DEV_ENC_UTIL", 1, kPerCent},
    {kEncUtil, "DCGM_FI_DEV_ENC_UTIL_RATIO"},
    {kEncUtil, "dcgm_enc_utilization", 1, kPerCent},
    {kEncUtil, "nvidia_smi_utilization_encoder_ratio"},
    {kDecUtil, "DCGM_FI_DEV_DEC_UTIL", 1, kPerCent},
    {kDecUtil, "DCGM_FI_DEV_DEC_UTIL_RATIO"},
    {kDecUtil, "dcgm_dec_utilization", 1, kPerCent},
    {kDecUtil, "nvidia_smi_utilization_decoder_ratio"},
};

}  // namespace

absl::Span<const CanonicalRow> CanonicalRows() { return kRows; }
absl::Span<const SpellingRow> SpellingRows() { return kSpellings; }

}  // namespace flopwatch::telemetry
