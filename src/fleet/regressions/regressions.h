// What got worse: changes of level across the runs of a workflow, and within one run.
//
// MeasuredRun are two things apart. OFU while a kernel ran (OFU / duty): pauses of a healthy job,
// for a checkpoint, an evaluation or its start, take nothing from it. And duty over the minutes in
// which anything ran: data that comes too late lowers it, a pause does not. Values are compared by
// their logarithms, so that a change is a factor. Where the level changed is change_point.h's; here
// is what that means: whether runs can be compared, how large a change must be, and which of the
// counters moved.
//
// OFU = duty x (SM activity / duty) x (tensor activity / SM activity) x (clock / tensor clock); the
// factor that lost most names the family (docs/regressions.md).
//
// Pure. Limits are named constants; a workflow of more runs than kMostRuns is judged on its last.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "fleet/regressions/change_point.h"
#include "fleet/regressions/run.h"

namespace flopwatch::fleet {

inline constexpr size_t kLeastRunsBefore = 5;  // without so many there is no verdict
inline constexpr size_t kMostRuns = 5000;      // of a workflow that are judged
// Less GPU time at work than this for each of its GPUs says too little of a run.
inline constexpr double kLeastBusySeconds = 180;

enum class ChangeCause : uint8_t {
  // The family of a regression: what the counters show.
  kTensor,   // less tensor work while the SMs are as active
  kClock,    // the clock
  kDuty,     // kernels run for less of the time
  kMemory,   // the SMs wait for memory: DRAM is busier, tensor work less
  kNetwork,  // the SMs spin in communication: more active, at less tensor work
  kSm,       // fewer SMs at work while kernels run
  kUnknown,  // the counters that would say are missing
  // What was set otherwise: no regression.
  kGpuCount,
  kGpuModel,
  kModel,
  kPrecision,
};
inline constexpr std::string_view kChangeCauseNames[] = {
    "tensor",  "clock",     "duty",      "memory", "network",  "sm",
    "unknown", "gpu_count", "gpu_model", "model",  "precision"};
constexpr std::string_view ChangeCauseName(ChangeCause c) {
  return kChangeCauseNames[static_cast<size_t>(c)];
}
// Whether it is a family of regressions, or something that was set otherwise.
constexpr bool IsRegression(ChangeCause c) { return c < ChangeCause::kGpuCount; }

enum class ChangeMetric : uint8_t { kOfu, kDuty };
inline constexpr std::string_view kChangeMetricNames[] = {"ofu", "duty"};

// The parts of OFU, and what tells families apart; null where a counter is missing.
struct OfuFactors {
  std::optional<double> duty, sm_per_duty, tensor_per_sm, clock;  // clock: OFU / tensor activity
  std::optional<double> power_w;
  // These are gathered for findings alone, where raw rows are still there; FamilyOf() names the
  // family anew with them.
  std::optional<double> dram_active, nvlink_bytes_per_s, pcie_bytes_per_s;
};
OfuFactors FactorsOf(const WorkSums& sums);

struct Regression {
  size_t workflow = 0;  // in what was judged
  // Runs that were measured, in the workflow: [first, at) before and [at, end) after; at is the run
  // where it began. Within one run: that run alone, and `from` the moment.
  size_t first = 0, at = 0, end = 0;
  bool within_run = false;
  size_t runs_before = 0, runs_after = 0;  // that could be measured; within one run: steps
  Micros from = 0;                         // when it began
  ChangeMetric metric = ChangeMetric::kOfu;
  ChangeCause cause = ChangeCause::kUnknown;
  double before = 0, after = 0;  // of the metric, weighted by GPU-seconds
  double change = 0;             // after / before - 1 of typical runs: -0.6 is 2.5 times less
  double scatter = 0;            // of one run about the level, as a factor: 0.02 is 2 %
  double confidence = 0;         // 1 - the chance of such a change where nothing changed
  double gpu_seconds = 0;        // that ran since, as far as they were measured
  double lost_gpu_seconds = 0;   // of these: what the same OFU as before would have needed less
  OfuFactors factors_before, factors_after;
  std::string set_before, set_after;  // of what was set otherwise
};

struct RegressionOptions {
  double min_change = .02;  // smaller ones are not given
  bool within_runs = true;
};

struct RegressionJudgement {
  std::vector<Regression> findings;  // most lost GPU-seconds first
  size_t workflows = 0, judged = 0;
  size_t too_few_runs = 0;  // workflows without a verdict: fewer than kLeastRunsBefore before any
  size_t not_measured = 0;  // and those of too few runs with an OFU that is known
  size_t runs = 0, runs_judged = 0;
  double usual_scatter = 0;  // of the workflows judged together; 0 = too few to say
};
RegressionJudgement JudgeWorkflows(absl::Span<const WorkflowRuns> workflows,
                                   const RegressionOptions& options);

// What two runs were set to that makes them no comparison; null where nothing is known to differ.
std::optional<ChangeCause> SettingDifference(const RunSetting& a, const RunSetting& b);

// Names the family of a regression of OFU by its factors, with what they say of memory and links
// where that is known.
ChangeCause FamilyOf(ChangeMetric metric, const OfuFactors& before, const OfuFactors& after);
// What DRAM and links did in a part of a run; null where nobody says.
struct LinkReading {
  std::optional<double> dram_active, nvlink_bytes_per_s, pcie_bytes_per_s;
};
// Takes over what runs before and after showed, and names the family of a regression with it.
void NameWithLinks(absl::Span<const LinkReading> before, absl::Span<const LinkReading> after,
                   Regression* finding);
// What the counters showed, as short sentences.
std::vector<std::string> ChangeEvidence(const Regression& finding);

}  // namespace flopwatch::fleet
