#include "fleet/stragglers/robust.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace flopwatch::fleet {
namespace {

constexpr double kSdPerMad = 1.4826;  // of a normal distribution
constexpr double kBiweightReach = 4;  // sd
constexpr int kBiweightRounds = 20;
constexpr double kBiweightTolerance = 1e-3;  // of an sd

}  // namespace

double MedianOf(std::vector<double> x) {
  if (x.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  if (x.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(x.begin(), middle)) / 2;
}

double RobustSd(std::span<const double> x) {
  if (x.size() < 2) return 0;
  const double median = MedianOf({x.begin(), x.end()});
  std::vector<double> away;
  away.reserve(x.size());
  for (const double v : x) away.push_back(std::abs(v - median));
  return kSdPerMad * MedianOf(std::move(away));
}

Location BiweightLocation(std::span<const double> x, double sd, int skip) {
  std::vector<double> start;
  start.reserve(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    if (static_cast<int>(i) != skip) start.push_back(x[i]);
  Location out{MedianOf(std::move(start)), 0};
  for (int round = 0; round < kBiweightRounds; ++round) {
    double sum = 0, weight = 0, squares = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (static_cast<int>(i) == skip) continue;
      const double z = (x[i] - out.at) / (kBiweightReach * sd);
      if (!(std::abs(z) < 1)) continue;
      const double w = (1 - z * z) * (1 - z * z);
      sum += w * x[i];
      weight += w;
      squares += w * w;
    }
    if (!(weight > 0)) return {out.at, 1};  // two groups, none at their middle
    const double before = out.at;
    out = {sum / weight, weight * weight / squares};
    if (std::abs(out.at - before) < kBiweightTolerance * sd) break;
  }
  return out;
}

double NormalDensity(double x, double sd) {
  const double z = x / sd;
  return std::exp(-z * z / 2) / (sd * std::sqrt(2 * std::numbers::pi));
}

double NormalBelow(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

}  // namespace flopwatch::fleet
