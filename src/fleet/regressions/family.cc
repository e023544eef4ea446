// Which part of OFU moved.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fleet/regressions/regressions.h"

namespace flopwatch::fleet {
namespace {

// DRAM must be busier by this factor for memory to be what the SMs wait for: with less work done it
// would be less busy.
constexpr double kMoreDram = 1.05;
// Power that fell by so much more than tensor work alone explains is a GPU that spins.
constexpr double kLessPower = .97;

std::optional<double> Ratio(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b && *b > 0 ? std::optional<double>(*a / *b) : std::nullopt;
}

// By how much a factor fell, as a logarithm; 0 where it is not known.
double Fell(const std::optional<double>& before, const std::optional<double>& after) {
  const auto ratio = Ratio(after, before);
  return ratio && *ratio > 0 ? -std::log(*ratio) : 0;
}

}  // namespace

Factors FactorsOf(const WorkSums& s) {
  Factors f;
  f.duty = s.Duty();
  f.sm_per_duty = Ratio(s.SmActive(), s.Duty());
  f.tensor_per_sm = Ratio(s.TensorActive(), s.SmActive());
  f.clock = Ratio(s.Ofu(), s.TensorActive());
  f.power_w = s.PowerW();
  return f;
}

Cause FamilyOf(Metric metric, const Factors& before, const Factors& after) {
  if (metric == Metric::kDuty) return Cause::kDuty;
  const double clock = Fell(before.clock, after.clock),
               sm = Fell(before.sm_per_duty, after.sm_per_duty),
               tensor = Fell(before.tensor_per_sm, after.tensor_per_sm);
  if (!before.clock || !after.clock) return Cause::kUnknown;
  if (clock >= std::max(sm, tensor)) return Cause::kClock;
  if (!before.tensor_per_sm || !after.tensor_per_sm) return Cause::kUnknown;
  if (const auto dram = Ratio(after.dram_active, before.dram_active); dram && *dram >= kMoreDram)
    return Cause::kMemory;
  if (sm > tensor) return Cause::kSm;
  return Cause::kTensor;
}

std::vector<std::string> EvidenceOf(const Finding& f) {
  std::vector<std::string> out;
  const auto say = [&](std::string_view what, const std::optional<double>& before,
                       const std::optional<double>& after, double unit, std::string_view of) {
    const auto ratio = Ratio(after, before);
    if (!ratio) return;
    out.push_back(fmt::format("{} {:.3g} -> {:.3g}{} ({:+.1f} %)", what, *before * unit,
                              *after * unit, of, (*ratio - 1) * 100));
  };
  const Factors &a = f.factors_before, &b = f.factors_after;
  say("duty", a.duty, b.duty, 100, " %");
  say("SM activity per duty", a.sm_per_duty, b.sm_per_duty, 100, " %");
  say("tensor per SM activity", a.tensor_per_sm, b.tensor_per_sm, 100, " %");
  say("clock", a.clock, b.clock, 100, " % of the tensor clock");
  say("power", a.power_w, b.power_w, 1, " W");
  say("DRAM", a.dram_active, b.dram_active, 100, " %");
  say("NVLink", a.nvlink_bytes_per_s, b.nvlink_bytes_per_s, 1e-9, " GB/s");
  say("PCIe", a.pcie_bytes_per_s, b.pcie_bytes_per_s, 1e-9, " GB/s");
  return out;
}

}  // namespace flopwatch::fleet
