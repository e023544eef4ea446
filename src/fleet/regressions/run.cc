#include "fleet/regressions/run.h"

#include <cmath>

namespace flopwatch::fleet {
namespace {

std::optional<double> MeanOverSpan(double sum, double seconds) {
  return seconds > 0 ? std::optional<double>(sum / seconds) : std::nullopt;
}

}  // namespace

WorkSums& WorkSums::operator+=(const WorkSums& o) {
  for (double WorkSums::*const m :
       {&WorkSums::busy_s, &WorkSums::ofu_s, &WorkSums::ofu_span_s, &WorkSums::duty_s,
        &WorkSums::duty_span_s, &WorkSums::sm_s, &WorkSums::sm_span_s, &WorkSums::tensor_s,
        &WorkSums::tensor_span_s, &WorkSums::clock_mhz_s, &WorkSums::clock_span_s,
        &WorkSums::power_j, &WorkSums::power_span_s, &WorkSums::occupancy_s,
        &WorkSums::occupancy_span_s})
    this->*m += o.*m;
  return *this;
}

std::optional<double> WorkSums::Ofu() const { return MeanOverSpan(ofu_s, ofu_span_s); }
std::optional<double> WorkSums::Duty() const { return MeanOverSpan(duty_s, duty_span_s); }

std::optional<double> WorkSums::BusyOfu() const {
  const auto ofu = Ofu(), duty = Duty();
  return ofu && duty && *duty > 0 ? std::optional<double>(*ofu / *duty) : std::nullopt;
}

std::optional<double> WorkSums::SmActive() const { return MeanOverSpan(sm_s, sm_span_s); }
std::optional<double> WorkSums::TensorActive() const {
  return MeanOverSpan(tensor_s, tensor_span_s);
}
std::optional<double> WorkSums::ClockMhz() const { return MeanOverSpan(clock_mhz_s, clock_span_s); }
std::optional<double> WorkSums::PowerW() const { return MeanOverSpan(power_j, power_span_s); }
std::optional<double> WorkSums::Occupancy() const {
  return MeanOverSpan(occupancy_s, occupancy_span_s);
}

std::optional<double> LevelOf(const WorkflowRun& run, double least_busy_s) {
  WorkSums sums;
  for (const RunStep& step : run.steps) sums += step.sums;
  const auto ofu = sums.BusyOfu();
  if (!ofu || !(*ofu > 0) || sums.busy_s < least_busy_s) return std::nullopt;
  return std::log(*ofu);
}

}  // namespace flopwatch::fleet
