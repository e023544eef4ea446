// What `--incidents KIND=N` plants in a fleet, so that finding it can be measured. docs/simulate.md
// (Incidents) says how each kind shows in the counters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flopwatch::simulate {

enum class IncidentKind : uint8_t {
  // One GPU (or the GPUs of one host) holds a synchronous job up.
  kStragglerClock,
  kStragglerPowerCap,
  kStragglerThermal,
  kStragglerStall,
  kStragglerLink,
  kStragglerHost,
  // The runs of a workflow get worse from one on.
  kRegressionTensor,
  kRegressionClock,
  kRegressionDuty,
  kRegressionMemory,
  kRegressionNetwork,
  // A run gets worse from some moment on, by the same families.
  kDropTensor,
  kDropClock,
  kDropDuty,
  kDropMemory,
  kDropNetwork,
  // The runs of a workflow change from one on, and nothing is wrong.
  kChangeGpus,
  kChangeModel,
  kChangePrecision,
  // GPUs are held and do nothing.
  kIdleNoProcess,
  kIdleNoWork,
  kIdleStartup,
  kIdleBarrier,
  kHung,
  kIdleAfterLastOutput,
  kIdleUnusedGpu,
  // A board says so; the job on it goes on, but for kXidFatal.
  kXidApplication,
  kXidMemory,
  kXidLink,
  kXidBus,
  kXidGsp,
  kEccDouble,
  kRowRemap,
  kRowRemapFailed,
  kXidFatal,
  kXidAgain,
  kXidOld,
  kRowRemapOld,
  // What a job says of its training goes wrong.
  kLossNotFinite,
  kLossSpike,
  kGradNorm,
  kLossOnce,
  // The clock of a whole job, or of all of a host's GPUs, is held low.
  kClockStuck,
  kPowerBrake,
  // A job's processes end and are started again: a pause, and nothing is wrong with it.
  kRestart,
  // All that trains waits at once, as for a file system.
  kFleetDrop,
};
inline constexpr size_t kIncidentKinds = 46;

enum class IncidentGroup : uint8_t {
  kStraggler,
  kRegression,
  kDrop,
  kChange,
  kIdle,
  kBoard,
  kReported,
  kClock,
  kPause,
  kFleet
};
IncidentGroup GroupOf(IncidentKind kind);
// The counters by which a loss shows: of regressions and drops alone.
enum class Family : uint8_t { kTensor, kClock, kDuty, kMemory, kNetwork };
Family FamilyOf(IncidentKind kind);

// "straggler_power_cap"; static.
std::string_view IncidentName(IncidentKind kind);
// One line on what it is; static.
std::string_view IncidentAbout(IncidentKind kind);
// "power_cap", "no_process": the kind of a straggler, the state of GPUs that are held idle; else
// the name.
std::string_view IncidentShortName(IncidentKind kind);

// How many of each kind are wanted, or were planted.
struct IncidentCounts {
  std::array<int32_t, kIncidentKinds> n{};
  // The smallest: the part of OFU that is lost, the part by which a GPU is slower; 0 = of any size.
  std::array<float, kIncidentKinds> least{};
  int32_t& operator[](IncidentKind k) { return n[static_cast<size_t>(k)]; }
  int32_t operator[](IncidentKind k) const { return n[static_cast<size_t>(k)]; }
  bool any() const;
};
inline constexpr int32_t kMaxIncidents = 10'000;  // of one kind
// Of a size that is asked for. They reach to 0.6, with stragglers to 0.5, with clocks to 0.36.
inline constexpr float kLeastSize = 0.02F, kMostLeast = 0.35F;

// Adds "KIND=N,KIND=N@SIZE" to *counts, SIZE being the smallest of those that have one; a kind that
// is not known is refused with the nearest one.
Status ParseIncidents(std::string_view text, IncidentCounts* counts);
// Every kind with its line, for `--incidents list`.
std::string IncidentList();

}  // namespace flopwatch::simulate
