// The fields a simulated exporter writes, in dcgm-exporter's spelling and order.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace flopwatch::simulate {

// What one GPU or instance shows at one tick, as integers in the unit of the text.
enum Value : uint8_t {
  kSmClock,
  kMemClock,
  kMemTemp,
  kGpuTemp,
  kPowerMw,
  kEnergyMj,
  kPcieReplay,
  kUtilPct,
  kMemCopyPct,
  kZero,
  kXid,
  kFbFree,
  kFbUsed,
  kGrPpm,
  kTensorPpm,
  kDramPpm,
  kSmPpm,
  kPcieTx,
  kPcieRx,
  // The rest is only in the set of 100.
  kOccupancyPpm,
  kFp64Ppm,
  kFp32Ppm,
  kFp16Ppm,
  kHmmaPpm,
  kIntPpm,
  kNvlinkTx,
  kNvlinkRx,
  kCyclesElapsed,
  kCyclesActive,
  kMmaCycles,
  kPowerLimitMw,
  kClockReasons,
  kFbTotal,
  kFbReserved,
  kFbUsedPpm,
  kMaxSmClock,
  kPstate,
  kPowerViolation,
  kThermalViolation,
  kEccSbe,
  kRemappedRows,
  kNvlinkTotal,
  kPcieTxKb,
  kPcieRxKb,
  kLinkTx,
  kLinkRx,
  // 0 without incidents.
  kLinkErrors,
  kLinkRecoveries,
  kEccDbe,
  kUncorrectableRows,
  kRowRemapFailure,
  kXidCount,
  kRowRemapPending,  // -1 = the exporter does not say it
  kValueCount,
};
using Values = std::array<int64_t, kValueCount>;

enum class Format : uint8_t {
  kInteger,
  kPpm,    // 0.279412
  kMilli,  // 113.611000
  // AMD's exporter: 27.941200 per cent of a ratio, whole watts, microjoules of millijoules.
  kPercentOfPpm,
  kWattsOfMilli,
  kMicroOfMilli,
};

enum class Scope : uint8_t {
  kAll,       // also on the lines of a MIG instance (board values are repeated there)
  kWholeGpu,  // absent on MIG instances
};

struct FieldDef {
  std::string_view name, help, type;
  Value value;
  Format format = Format::kInteger;
  Scope scope = Scope::kAll;
};

// 20 or 100 fields. The set of 20 is dcgm-exporter's default set and SM activity.
// `incidents`: the smaller set with the fields by which incidents show.
std::span<const FieldDef> Fields(int count, bool incidents = false);
// Those of AMD's device-metrics-exporter with the profiler switched on.
std::span<const FieldDef> AmdFields();

}  // namespace flopwatch::simulate
