// Devices of other vendors. "SM" stands for compute unit (AMD) or AI core (Ascend). Only AMD
// exposes a counter that means what tensor activity means; for the rest the peak serves MFU, and
// OFU stays not computable (docs/hardware.md).
#include "hardware/catalog.h"

namespace flopwatch::hardware {
namespace {

constexpr Rates kCdna2{.fp16 = 1024};
constexpr Rates kCdna3{.fp16 = 2048};
constexpr Rates kCdna4{.fp16 = 4096};
constexpr Rates kDaVinci{.fp16 = 8192};

constexpr std::string_view kCdnaSource = "vendor datasheet peak; clock = peak engine clock";

using enum Confidence;

// A device in four groups: identity; clocks and peaks; board; confidence.
// clang-format off
constexpr DeviceFacts kOtherDevices[] = {
    {.vendor = "AMD", .model = "MI210", .names = "AMD Instinct MI210", .arch = "CDNA2",
     .sm_count = 104, .tensor_clock_mhz = 1700, .sm_clock_mhz = 1700, .rates = kCdna2,
     .peak = {.fp16 = 181, .int8 = 181, .fp64 = 45.3},
     .mem_gb = {64}, .mem_bw_gbps = 1638, .link_bw_gbps = 300, .tdp_w = 300,
     .confidence = kIndependent, .source = kCdnaSource},
    {.vendor = "AMD", .model = "MI250", .names = "AMD Instinct MI250", .arch = "CDNA2",
     .sm_count = 208, .tensor_clock_mhz = 1700, .sm_clock_mhz = 1700, .rates = kCdna2,
     .peak = {.fp16 = 362.1, .int8 = 362.1, .fp64 = 90.5},
     .mem_gb = {128}, .mem_bw_gbps = 3277, .link_bw_gbps = 800, .tdp_w = 560,
     .confidence = kIndependent, .source = kCdnaSource,
     .note = "two dies: tools list two devices of half this"},
    {.vendor = "AMD", .model = "MI250X", .names = "AMD Instinct MI250X", .arch = "CDNA2",
     .sm_count = 220, .tensor_clock_mhz = 1700, .sm_clock_mhz = 1700, .rates = kCdna2,
     .peak = {.fp16 = 383, .int8 = 383, .fp64 = 95.7},
     .mem_gb = {128}, .mem_bw_gbps = 3277, .link_bw_gbps = 800, .tdp_w = 560,
     .confidence = kIndependent, .source = kCdnaSource,
     .note = "two dies: tools list two devices of half this"},
    {.vendor = "AMD", .model = "MI300A", .names = "AMD Instinct MI300A", .arch = "CDNA3",
     .sm_count = 228, .tensor_clock_mhz = 2100, .sm_clock_mhz = 2100, .rates = kCdna3,
     .peak = {.fp16 = 980.6, .tf32 = 490.3, .fp8 = 1961.2, .int8 = 1961.2, .fp64 = 122.6},
     .mem_gb = {128}, .mem_bw_gbps = 5300, .link_bw_gbps = 1024, .tdp_w = 760,
     .confidence = kIndependent, .source = kCdnaSource, .note = "550-760 W configurable"},
    {.vendor = "AMD", .model = "MI300X", .names = "AMD Instinct MI300X|AMD Instinct MI300X OAM",
     .arch = "CDNA3",
     .sm_count = 304, .tensor_clock_mhz = 2100, .sm_clock_mhz = 2100, .rates = kCdna3,
     .peak = {.fp16 = 1307.4, .tf32 = 653.7, .fp8 = 2614.9, .int8 = 2614.9, .fp64 = 163.4},
     .mem_gb = {192}, .mem_bw_gbps = 5300, .link_bw_gbps = 1024, .tdp_w = 750,
     .confidence = kIndependent, .source = kCdnaSource,
     .note = "under GEMM load the clock stays well below 2100 MHz; best public GEMM about half of "
             "peak"},
    {.vendor = "AMD", .model = "MI308X", .names = "AMD Instinct MI308X", .arch = "CDNA3",
     .sm_count = 80, .tensor_clock_mhz = 2100, .sm_clock_mhz = 2100, .rates = kCdna3,
     .peak = {.fp16 = 344, .tf32 = 172, .fp8 = 688, .int8 = 688},
     .mem_gb = {192}, .mem_bw_gbps = 5300, .link_bw_gbps = 1024, .tdp_w = 650,
     .confidence = kIndependent, .source = "secondary tables; peak engine clock",
     .note = "export part"},
    {.vendor = "AMD", .model = "MI325X", .names = "AMD Instinct MI325X", .arch = "CDNA3",
     .sm_count = 304, .tensor_clock_mhz = 2100, .sm_clock_mhz = 2100, .rates = kCdna3,
     .peak = {.fp16 = 1307.4, .tf32 = 653.7, .fp8 = 2614.9, .int8 = 2614.9, .fp64 = 163.4},
     .mem_gb = {256}, .mem_bw_gbps = 6000, .link_bw_gbps = 1024, .tdp_w = 1000,
     .confidence = kIndependent, .source = kCdnaSource},
    {.vendor = "AMD", .model = "MI350X", .names = "AMD Instinct MI350X", .arch = "CDNA4",
     .sm_count = 256, .tensor_clock_mhz = 2200, .sm_clock_mhz = 2200, .rates = kCdna4,
     .peak = {.fp16 = 2306.9, .fp8 = 4613.7, .fp4 = 9227.5, .int8 = 4613.7, .fp64 = 72.1},
     .mem_gb = {288}, .mem_bw_gbps = 8000, .link_bw_gbps = 1075, .tdp_w = 1000,
     .confidence = kIndependent, .source = kCdnaSource, .note = "no TF32; FP6 at the FP4 rate"},
    {.vendor = "AMD", .model = "MI355X", .names = "AMD Instinct MI355X", .arch = "CDNA4",
     .sm_count = 256, .tensor_clock_mhz = 2400, .sm_clock_mhz = 2400, .rates = kCdna4,
     .peak = {.fp16 = 2516.6, .fp8 = 5033.2, .fp4 = 10066.3, .int8 = 5033.2, .fp64 = 78.6},
     .mem_gb = {288}, .mem_bw_gbps = 8000, .link_bw_gbps = 1075, .tdp_w = 1400,
     .confidence = kIndependent, .source = kCdnaSource, .note = "no TF32; FP6 at the FP4 rate"},
    {.vendor = "Huawei", .model = "Ascend 910A", .names = "910A", .arch = "Da Vinci",
     .sm_count = 32, .tensor_clock_mhz = 1000, .sm_clock_mhz = 1000, .rates = kDaVinci,
     .peak = {.fp16 = 256, .int8 = 512},
     .mem_gb = {32}, .mem_bw_gbps = 1200, .tdp_w = 310, .has_bf16 = false,
     .confidence = kIndependent, .source = "public tables and device dumps; clock assumed",
     .note = "SM = AI core, 16x16x16 FP16 multiply-adds a cycle; clock assumed: "
             "2.4 % above the published 256"},
    {.vendor = "Huawei", .model = "Ascend 910B1", .names = "910B1", .arch = "Da Vinci",
     .sm_count = 25, .tensor_clock_mhz = 1850, .sm_clock_mhz = 1850, .rates = kDaVinci,
     .peak = {.fp16 = 378.9, .int8 = 757.8},
     .mem_gb = {64}, .mem_bw_gbps = 1600, .link_bw_gbps = 392, .tdp_w = 400,
     .confidence = kIndependent, .source = "device dump (25 cores, 1850 MHz); peak computed",
     .note = "SM = AI core; busy-time counter only, outside the profiler"},
    {.vendor = "Huawei", .model = "Ascend 910B2", .names = "910B2", .arch = "Da Vinci",
     .sm_count = 24, .tensor_clock_mhz = 1800, .sm_clock_mhz = 1800, .rates = kDaVinci,
     .peak = {.fp16 = 353.9, .int8 = 707.8},
     .mem_gb = {64}, .mem_bw_gbps = 1600, .link_bw_gbps = 392, .tdp_w = 400,
     .confidence = kDerived, .source = "secondary tables; clock solved from the peak",
     .note = "353.9 to 376 in circulation"},
    {.vendor = "Huawei", .model = "Ascend 910B3", .names = "910B3", .arch = "Da Vinci",
     .sm_count = 20, .tensor_clock_mhz = 1911, .sm_clock_mhz = 1911, .rates = kDaVinci,
     .peak = {.fp16 = 313, .int8 = 626},
     .mem_gb = {64}, .mem_bw_gbps = 1600, .link_bw_gbps = 392, .tdp_w = 400,
     .confidence = kDerived, .source = "secondary tables; clock solved from the peak"},
    {.vendor = "Huawei", .model = "Ascend 910B4", .names = "910B4", .arch = "Da Vinci",
     .sm_count = 20, .tensor_clock_mhz = 1709, .sm_clock_mhz = 1709, .rates = kDaVinci,
     .peak = {.fp16 = 280, .int8 = 560},
     .mem_gb = {32}, .mem_bw_gbps = 800, .link_bw_gbps = 392, .tdp_w = 310,
     .confidence = kDerived, .source = "secondary tables; clock solved from the peak"},
    {.vendor = "Huawei", .model = "Ascend 910C (2 dies)", .names = "Ascend910", .arch = "Da Vinci",
     .peak = {.fp16 = 800, .int8 = 1600},
     .mem_gb = {128}, .mem_bw_gbps = 3200, .link_bw_gbps = 784,
     .confidence = kQuoted, .source = "secondary tables",
     .note = "752 to 800 quoted; tools list two dies of half this"},
    {.vendor = "Google", .model = "TPU v4", .names = "tpu-v4", .arch = "TPU",
     .peak = {.fp16 = 275, .int8 = 275},
     .mem_gb = {32}, .mem_bw_gbps = 1200,
     .confidence = kQuoted, .source = "cloud documentation",
     .note = "figure is BF16; tensorcore_utilization is a vendor ratio, not a tensor-cycle "
             "counter"},
    {.vendor = "Google", .model = "TPU v5e", .names = "tpu-v5-lite-podslice", .arch = "TPU",
     .peak = {.fp16 = 197, .int8 = 394},
     .mem_gb = {16}, .mem_bw_gbps = 819,
     .confidence = kQuoted, .source = "cloud documentation",
     .note = "figure is BF16; tensorcore_utilization is a vendor ratio, not a tensor-cycle "
             "counter"},
    {.vendor = "Google", .model = "TPU v5p", .names = "tpu-v5p-slice", .arch = "TPU",
     .peak = {.fp16 = 459, .int8 = 918},
     .mem_gb = {95}, .mem_bw_gbps = 2765,
     .confidence = kQuoted, .source = "cloud documentation",
     .note = "figure is BF16; tensorcore_utilization is a vendor ratio, not a tensor-cycle "
             "counter"},
    {.vendor = "Google", .model = "TPU v6e", .names = "tpu-v6e-slice", .arch = "TPU",
     .peak = {.fp16 = 918, .int8 = 1836},
     .mem_gb = {32}, .mem_bw_gbps = 1640,
     .confidence = kQuoted, .source = "cloud documentation",
     .note = "figure is BF16; tensorcore_utilization is a vendor ratio, not a tensor-cycle "
             "counter"},
    {.vendor = "Google", .model = "TPU v7x (Ironwood)", .names = "tpu7x", .arch = "TPU",
     .peak = {.fp16 = 2307, .fp8 = 4614},
     .mem_gb = {192}, .mem_bw_gbps = 7370,
     .confidence = kQuoted, .source = "cloud documentation",
     .note = "figure is BF16; tensorcore_utilization is a vendor ratio, not a tensor-cycle "
             "counter"},
    {.vendor = "Intel", .model = "Gaudi 2", .names = "HL-225", .arch = "Gaudi",
     .tensor_clock_mhz = 1650, .sm_clock_mhz = 1650, .peak = {.fp16 = 432, .fp8 = 865},
     .mem_gb = {96}, .mem_bw_gbps = 2450, .link_bw_gbps = 600, .tdp_w = 600,
     .confidence = kQuoted, .source = "vendor figure",
     .note = "two matrix engines of 65536 multiply-adds; utilisation counter is a duty cycle"},
    {.vendor = "Intel", .model = "Gaudi 3", .names = "HL-325L", .arch = "Gaudi",
     .tensor_clock_mhz = 1600, .sm_clock_mhz = 1600, .peak = {.fp16 = 1677, .fp8 = 1677},
     .mem_gb = {128}, .mem_bw_gbps = 3700, .link_bw_gbps = 1200, .tdp_w = 900,
     .confidence = kQuoted, .source = "vendor figure",
     .note = "1835 on the sheet at 1750 MHz, 1677 as shipped at 1600"},
    {.vendor = "AWS", .model = "Trainium2", .names = "trn2", .arch = "NeuronCore",
     .peak = {.fp16 = 667, .fp8 = 1299},
     .mem_gb = {96}, .mem_bw_gbps = 2900, .link_bw_gbps = 1280,
     .confidence = kQuoted, .source = "vendor figure", .note = "figure is BF16"},
};
// clang-format on

}  // namespace

std::span<const DeviceFacts> OtherDevices() { return kOtherDevices; }

}  // namespace flopwatch::hardware
