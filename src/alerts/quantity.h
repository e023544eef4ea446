// What a rule's condition may name, declared once (kQuantities in quantity.cc): of which subject,
// in which unit, and where it comes from. docs/alerts.md has the same table; a test compares them.
// A quantity that is not known is NaN, and what follows from it is not known either.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/types/span.h"

namespace flopwatch::alerts {

// What a rule is about: each subject of this kind is judged by itself.
enum class Scope : uint8_t { kGpu, kJob, kNode, kFleet };
inline constexpr size_t kScopes = 4;
inline constexpr std::string_view kScopeNames[] = {"gpu", "job", "node", "fleet"};
constexpr std::string_view ScopeName(Scope s) { return kScopeNames[static_cast<size_t>(s)]; }

// In the order of kQuantities.
enum class Quantity : uint8_t {
  // Of a GPU, its newest sample.
  kGpuOfu,
  kGpuTensor,
  kGpuSmActive,
  kGpuDuty,
  kGpuActivity,
  kGpuPower,
  kGpuTemperature,
  kGpuClock,
  kGpuClockShare,
  kGpuClockToJob,
  kGpuPowerToJob,
  kGpuDutyToJob,
  kGpuOfuToJob,
  kGpuMemory,
  kGpuAge,
  kGpuAllocated,
  kGpuJobs,
  kGpuJobGpus,
  kGpuJobDuty,
  kGpuThrottle,
  kGpuXid,
  kGpuXidNew,
  kGpuEccNew,
  kGpuRowRemaps,
  kGpuRowRemapPending,
  kGpuRowRemapFailed,
  kGpuNvlinkErrors,
  kGpuPcieReplays,
  kGpuCounterFault,
  // Of a job, over kWindow.
  kJobOfu,
  kJobTensor,
  kJobSmActive,
  kJobDuty,
  kJobPower,
  kJobClock,
  kJobGpus,
  kJobCoverage,
  kJobBusyOfu,
  kJobBaselineOfu,
  kJobBaselineWindows,
  kJobLowOfu,
  kJobBaselineTensor,
  kJobBaselinePower,
  kJobBaselineDuty,
  kJobBaselineSpread,
  kJobShared,
  kJobQuietest,
  kJobBusyDuty,
  kJobLostShare,
  // Of a job, as it says itself.
  kJobReportAge,
  kJobReportInterval,
  kJobProgressAge,
  kJobTokens,
  kJobBaselineTokens,
  kJobMfu,
  kJobBaselineMfu,
  kJobReportWindows,
  kJobLoss,
  kJobBaselineLoss,
  kJobLossSpread,
  kJobGradNorm,
  kJobBaselineGradNorm,
  kJobNotFinite,
  // Of a job, by questions over the store (judge.h).
  kJobDivergence,
  kJobDivergenceFlagged,
  kJobDivergenceExcess,
  kJobDivergenceCaused,
  kJobHistoryRuns,
  kJobHistoryOfu,
  kJobHistoryScatter,
  kJobHistoryLow,
  // Of a node.
  kNodeSilence,
  kNodeGpus,
  kNodeAllocated,
  kNodeAlive,
  // Of the fleet, over kWindow.
  kFleetOfu,
  kFleetBaselineOfu,
  kFleetBaselineWindows,
  kFleetGpus,
  kFleetCoverage,
  kCount
};
inline constexpr size_t kQuantityCount = static_cast<size_t>(Quantity::kCount);

using QuantitySet = std::bitset<kQuantityCount>;  // by number

struct QuantitySpec {
  Quantity quantity;
  Scope scope;
  std::string_view name, unit, help;
};
absl::Span<const QuantitySpec> Quantities();
const QuantitySpec& SpecOf(Quantity q);
// nullopt: no subject of this kind has such a quantity.
std::optional<Quantity> FindQuantity(Scope scope, std::string_view name);

}  // namespace flopwatch::alerts
