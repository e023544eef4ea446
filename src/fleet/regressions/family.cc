// Which part of OFU moved.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fleet/regressions/regressions.h"

namespace flopwatch::fleet {
namespace {

// DRAM must be busier by this factor for memory to be what the SMs wait for: with less work done it
// would be less busy, by as much. Runs differ in that; between what they show and what less work
// would have shown must be so many standard errors.
constexpr double kMoreDram = 1.015, kDramErrors = 2, kLeastDramScatter = .01;
// Who waits in a collective keeps the SMs busy: they are more active at less tensor work, by this
// and by this part of what the tensor work lost. A kernel that does its work less well keeps them
// as busy, or less.
constexpr double kMoreSm = .004, kMoreSmOfLoss = .02;
// Or there is more to send for the same work, by this part of what the work lost, while the SMs are
// at least about as active.
constexpr double kMoreLinkOfLoss = .5, kLeastMoreLink = .04, kSmAsActive = .003;

std::optional<double> FactorRatio(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b && *b > 0 ? std::optional<double>(*a / *b) : std::nullopt;
}

// By how much a factor fell, as a logarithm; 0 where it is not known.
double Fell(const std::optional<double>& before, const std::optional<double>& after) {
  const auto ratio = FactorRatio(after, before);
  return ratio && *ratio > 0 ? -std::log(*ratio) : 0;
}

// Whether the runs after are busier by more than runs scatter about what `lost` of the work (a
// logarithm) leaves.
bool Busier(const std::vector<double>& before, const std::vector<double>& after, double lost) {
  double squares = 0;
  const auto level = [&](const std::vector<double>& v) {
    double sum = 0, sum2 = 0;
    for (const double x : v) {
      const double y = std::log(std::max(x, 1e-9));
      sum += y;
      sum2 += y * y;
    }
    const auto n = static_cast<double>(v.size());
    squares += std::max(0.0, sum2 - sum * sum / n);
    return sum / n;
  };
  if (before.empty() || after.empty()) return false;
  const double more = level(after) - level(before);
  const double degrees = std::max(1.0, static_cast<double>(before.size() + after.size()) - 2);
  const double scatter = std::max(kLeastDramScatter, std::sqrt(squares / degrees));
  return more > 0 && more + lost > kDramErrors * scatter *
                                       std::sqrt(1 / static_cast<double>(before.size()) +
                                                 1 / static_cast<double>(after.size()));
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

ChangeCause FamilyOf(ChangeMetric metric, const OfuFactors& before, const OfuFactors& after) {
  if (metric == ChangeMetric::kDuty) return ChangeCause::kDuty;
  const double clock = Fell(before.clock, after.clock),
               sm = Fell(before.sm_per_duty, after.sm_per_duty),
               tensor = Fell(before.tensor_per_sm, after.tensor_per_sm);
  if (!before.clock || !after.clock) return ChangeCause::kUnknown;
  if (clock >= std::max(sm, tensor)) return ChangeCause::kClock;
  if (!before.tensor_per_sm || !after.tensor_per_sm) return ChangeCause::kUnknown;
  if (const auto dram = FactorRatio(after.dram_active, before.dram_active);
      dram && *dram >= kMoreDram)
    return ChangeCause::kMemory;
  if (sm > tensor) return ChangeCause::kSm;
  if (-sm >= std::max(kMoreSm, kMoreSmOfLoss * tensor)) return ChangeCause::kNetwork;
  const auto link = FactorRatio(after.nvlink_bytes_per_s, before.nvlink_bytes_per_s);
  const double loss = sm + tensor + clock;
  if (link && *link > 0 && -sm >= -kSmAsActive &&
      std::log(*link) + loss >= std::max(kLeastMoreLink, kMoreLinkOfLoss * loss))
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
  for (const auto& [to, from] :
       {std::pair(&OfuFactors::nvlink_bytes_per_s, &LinkReading::nvlink_bytes_per_s),
        std::pair(&OfuFactors::pcie_bytes_per_s, &LinkReading::pcie_bytes_per_s)}) {
    f->factors_before.*to = mean(values(before, from));
    f->factors_after.*to = mean(values(after, from));
  }
  if (Busier(dram_a, dram_b, -std::log1p(std::clamp(f->change, -.99, 0.0)))) {
    f->factors_before.dram_active = mean(dram_a);
    f->factors_after.dram_active = mean(dram_b);
  }
  f->cause = FamilyOf(f->metric, f->factors_before, f->factors_after);
  f->factors_before.dram_active = mean(dram_a);
  f->factors_after.dram_active = mean(dram_b);
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
  say("DRAM", a.dram_active, b.dram_active, 100, " %");
  say("NVLink", a.nvlink_bytes_per_s, b.nvlink_bytes_per_s, 1e-9, " GB/s");
  say("PCIe", a.pcie_bytes_per_s, b.pcie_bytes_per_s, 1e-9, " GB/s");
  return out;
}

}  // namespace flopwatch::fleet
