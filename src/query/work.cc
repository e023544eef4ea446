#include "query/work.h"

#include <cmath>

#include "fleet/divergence/peak.h"

namespace flopwatch::query {
namespace {

constexpr double kTeraSecondsPerExa = 1e6;
constexpr double kJoulesPerKwh = 3.6e6;

}  // namespace

void WorkAndEnergy::Add(const store::UsageSums& s, std::optional<double> peak_tflops) {
  const double computable = s.ofu.computable_s, powered = s.power_span_s;
  if (!peak_tflops || !(computable > 0) || !(powered > 0)) return;
  // A second without power has at most one of work.
  if (std::abs(computable - powered) > kWorkError * (computable > powered ? s.ofu.ofu_s : powered))
    return;
  eflop += s.ofu.ofu_s * *peak_tflops / kTeraSecondsPerExa;
  energy_j += s.power_j;
  gpu_seconds += computable;
}

WorkAndEnergy& WorkAndEnergy::operator+=(const WorkAndEnergy& o) {
  eflop += o.eflop;
  energy_j += o.energy_j;
  gpu_seconds += o.gpu_seconds;
  return *this;
}

std::optional<double> WorkAndEnergy::KwhPerEflop() const {
  return MeanOf(energy_j / kJoulesPerKwh, eflop);
}

std::optional<double> Peaks::Of(absl::Span<const std::string> models) {
  std::optional<double> peak;
  for (const std::string& model : models) {
    const auto [known, fresh] = known_.try_emplace(model);
    if (fresh) {
      const auto found = catalog_.Find(model);
      if (found.ok()) known->second = fleet::TrainingPeak(**found);
    }
    if (!known->second || (peak && *peak != *known->second)) return std::nullopt;
    peak = known->second;
  }
  return peak;
}

}  // namespace flopwatch::query
