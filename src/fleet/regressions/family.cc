// Which part of OFU moved.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fleet/regressions/regressions.h"

namespace flopwatch::fleet {
namespace {

// DRAM must be busier by this factor for memory to be what the SMs wait for: with less work done it
// would be less busy.
constexpr double kMoreDram = 1.02;
// Power that fell by so much more than tensor work alone explains is a GPU that spins.
constexpr double kLessPower = .95;
// And so are SMs that are more active at less tensor work, by this and by this part of what the
// tensor work lost: who waits in a collective keeps them busy.
constexpr double kMoreSm = .01, kMoreSmOfLoss = .1;

std::optional<double> FactorRatio(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b && *b > 0 ? std::optional<double>(*a / *b) : std::nullopt;
}

// By how much a factor fell, as a logarithm; 0 where it is not known.
double Fell(const std::optional<double>& before, const std::optional<double>& after) {
  const auto ratio = FactorRatio(after, before);
  return ratio && *ratio > 0 ? -std::log(*ratio) : 0;
}

}  // namespace

OfuFactors FactorsOf(const WorkSums& s) {
  OfuFactors f;
  f.duty = s.Duty();
  f.sm_per_duty = FactorRatio(s.SmActive(), s.Duty());
  f.tensor_per_sm = FactorRatio(s.TensorActive(), s.SmActive());
  f.clock = FactorRatio(s.Ofu(), s.TensorActive());
  f.power_w = s.PowerW();
  return f;
}

ChangeCause FamilyOf(ChangeMetric metric, const OfuFactors& before, const OfuFactors& after,
                     std::optional<double> expected_power_w) {
  if (metric == ChangeMetric::kDuty) return ChangeCause::kDuty;
  const double clock = Fell(before.clock, after.clock),
               sm = Fell(before.sm_per_duty, after.sm_per_duty),
               tensor = Fell(before.tensor_per_sm, after.tensor_per_sm);
  if (!before.clock || !after.clock) return ChangeCause::kUnknown;
  if (clock >= std::max(sm, tensor)) return ChangeCause::kClock;
  if (!before.tensor_per_sm || !after.tensor_per_sm) return ChangeCause::kUnknown;
  if (const auto dram = FactorRatio(after.dram_active, before.dram_active); dram && *dram >= kMoreDram)
    return ChangeCause::kMemory;
  if (sm > tensor) return ChangeCause::kSm;
  if (-sm >= std::max(kMoreSm, kMoreSmOfLoss * tensor)) return ChangeCause::kNetwork;
  if (const auto power = FactorRatio(after.power_w, expected_power_w);
      power && *power < kLessPower)
    return ChangeCause::kNetwork;
  return ChangeCause::kTensor;
}

void NameWithLinks(absl::Span<const LinkReading> before, absl::Span<const LinkReading> after,
                   Regression* f) {
  if (!IsRegression(f->cause)) return;
  const auto values = [](absl::Span<const LinkReading> runs,
                         std::optional<double> LinkReading::*member) {
    std::vector<double> out;
    for (const LinkReading& r : runs)
      if (r.*member) out.push_back(*(r.*member));
    return out;
  };
  const auto mean = [](const std::vector<double>& v) -> std::optional<double> {
    if (v.empty()) return std::nullopt;
    double sum = 0;
    for (const double x : v) sum += x;
    return sum / static_cast<double>(v.size());
  };
  const std::vector<double> dram_a = values(before, &LinkReading::dram_active),
                            dram_b = values(after, &LinkReading::dram_active);
  // Runs differ in how busy their memory is: no run before may have been as busy as any after.
  const bool apart = !dram_a.empty() && !dram_b.empty() &&
                     *std::ranges::min_element(dram_b) > *std::ranges::max_element(dram_a);
  if (apart) {
    f->factors_before.dram_active = mean(dram_a);
    f->factors_after.dram_active = mean(dram_b);
  }
  f->cause = FamilyOf(f->metric, f->factors_before, f->factors_after, f->expected_power_w);
  f->factors_before.dram_active = mean(dram_a);
  f->factors_after.dram_active = mean(dram_b);
  for (const auto& [to, from] :
       {std::pair(&OfuFactors::nvlink_bytes_per_s, &LinkReading::nvlink_bytes_per_s),
        std::pair(&OfuFactors::pcie_bytes_per_s, &LinkReading::pcie_bytes_per_s)}) {
    f->factors_before.*to = mean(values(before, from));
    f->factors_after.*to = mean(values(after, from));
  }
}

std::vector<std::string> ChangeEvidence(const Regression& f) {
  std::vector<std::string> out;
  const auto say = [&](std::string_view what, const std::optional<double>& before,
                       const std::optional<double>& after, double unit, std::string_view of) {
    const auto ratio = FactorRatio(after, before);
    if (!ratio) return;
    out.push_back(fmt::format("{} {:.3g} -> {:.3g}{} ({:+.1f} %)", what, *before * unit,
                              *after * unit, of, (*ratio - 1) * 100));
  };
  const OfuFactors &a = f.factors_before, &b = f.factors_after;
  say("duty", a.duty, b.duty, 100, " %");
  say("SM activity per duty", a.sm_per_duty, b.sm_per_duty, 100, " %");
  say("tensor per SM activity", a.tensor_per_sm, b.tensor_per_sm, 100, " %");
  say("clock", a.clock, b.clock, 100, " % of the tensor clock");
  say("power", a.power_w, b.power_w, 1, " W");
  if (f.expected_power_w && b.power_w && *b.power_w < kLessPower * *f.expected_power_w) {
    out.push_back(fmt::format("so much work usually draws {:.0f} W", *f.expected_power_w));
  }
  say("DRAM", a.dram_active, b.dram_active, 100, " %");
  say("NVLink", a.nvlink_bytes_per_s, b.nvlink_bytes_per_s, 1e-9, " GB/s");
  say("PCIe", a.pcie_bytes_per_s, b.pcie_bytes_per_s, 1e-9, " GB/s");
  return out;
}

}  // namespace flopwatch::fleet
