// What a run of a workflow measures: the work it did, without pauses and hangs. Private to this
// folder.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "fleet/regressions/regressions.h"

namespace flopwatch::fleet {

// Runs that do nearly no tensor work are not measured by it.
inline constexpr double kLeastOfu = .01;

struct MeasuredRun {
  size_t run = 0;  // in the workflow
  WorkSums sums;
  double ofu = 0;              // logarithm of OFU / duty
  std::optional<double> duty;  // logarithm
  bool brief = false;          // its start is a large part of it, which lowers its duty
  const RunSetting* setting = nullptr;
};
// Nothing where the run cannot be measured.
std::optional<MeasuredRun> MeasureRun(const WorkflowRun& run, size_t index);

inline std::optional<double> ValueOf(const MeasuredRun& m, ChangeMetric metric) {
  return metric == ChangeMetric::kOfu ? m.ofu : m.duty;
}
inline std::optional<double> MetricOf(const WorkSums& s, ChangeMetric metric) {
  return metric == ChangeMetric::kOfu ? s.BusyOfu() : s.Duty();
}

// The steps of a run in which it worked.
std::vector<const RunStep*> WorkSteps(const WorkflowRun& run);

// Steps of about the same length, with the logarithms of what they measure.
struct StepSeries {
  std::vector<const RunStep*> steps;
  std::vector<double> values;
};
StepSeries SeriesOf(const WorkflowRun& run, ChangeMetric metric);
// The largest difference between the levels before and after any place of the series: how far a run
// goes from one level to another by itself. Nothing of few steps.
std::optional<double> ShiftOf(const std::vector<double>& values);
// What a drop within a run must be at least, by how far other runs of its workflow shift; nothing
// where these are too few.
std::optional<double> LeastDrop(std::vector<double> shifts);
// A drop within the series that lasts to its end, is no scatter of steps, and is `least_drop` or
// more (a difference of logarithms).
std::optional<LevelChange> DropWithin(const std::vector<double>& values, double least_drop,
                                      double alpha, double min_change);

}  // namespace flopwatch::fleet
