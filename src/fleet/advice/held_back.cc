#include "fleet/advice/held_back.h"

#include <algorithm>
#include <cmath>

#include "fleet/advice/advice.h"

namespace flopwatch::fleet {
namespace {

// Runs of one program scatter by no less, whatever a few of them show.
constexpr double kLeastRunScatter = .02;
constexpr double kLeastHeldBack = .03, kHeldBackErrors = 3;

double MiddleOf(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace

std::optional<HeldBack> HeldBackBy(absl::Span<const HeldBackRuns> groups) {
  HeldBack out;
  double missing = 0, weights = 0;
  for (const HeldBackRuns& group : groups) {
    if (group.without.size() < kFewestPeers || group.with.empty()) continue;
    const double middle = MiddleOf(group.without);
    std::vector<double> away;
    for (const double v : group.without) away.push_back(std::abs(v - middle));
    const double scatter = std::max(kLeastRunScatter, 1.4826 * MiddleOf(std::move(away)));
    // The error of the middle is common to all runs that are held against it.
    const auto with = static_cast<double>(group.with.size()),
               without = static_cast<double>(group.without.size());
    const double variance = scatter * scatter * (1 / with + 1.57 / without);
    double mean = 0;
    for (const double v : group.with) mean += (middle - v) / with;
    missing += mean / variance;
    weights += 1 / variance;
    out.with += group.with.size();
    out.without += group.without.size();
  }
  if (weights <= 0) return std::nullopt;
  const double mean = missing / weights;
  if (mean < std::max(kLeastHeldBack, kHeldBackErrors / std::sqrt(weights))) return std::nullopt;
  out.share = -std::expm1(-mean);
  return out;
}

}  // namespace flopwatch::fleet
