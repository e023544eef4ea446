// Confidence interval of the mean of a correlated series. Two jobs' OFUs are compared with it, so
// it must not promise more than the data hold: a minute series of a training job has far fewer
// independent points than minutes.
//
// Geyer, "Practical Markov Chain Monte Carlo", Statistical Science 7 (1992), section 3.3:
// autocovariances are summed in pairs (lag 2j and 2j+1) while the pair sums stay positive and
// falling.
#include <algorithm>
#include <cmath>
#include <vector>

#include "efficiency/ofu.h"

namespace flopwatch::efficiency {
namespace {

// 97.5 % quantile of Student's t, by its expansion in 1/degrees around the normal quantile
// (Abramowitz and Stegun 26.7.5): 0.1 % off at 3 degrees of freedom, 11 % at 1.
double StudentT975(double degrees) {
  constexpr double z = 1.959963984540054, z2 = z * z;
  constexpr double g1 = z * (z2 + 1) / 4;
  constexpr double g2 = z * ((5 * z2 + 16) * z2 + 3) / 96;
  constexpr double g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  constexpr double g4 = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
  const double d = degrees;
  return z + (g1 + (g2 + (g3 + g4 / d) / d) / d) / d;
}

}  // namespace

std::optional<Interval> MeanInterval95(std::span<const double> series,
                                       std::span<const double> weights) {
  const size_t n = series.size();
  if (!weights.empty() && weights.size() != n) return std::nullopt;
  const auto weight = [&](size_t i) {
    const double w = weights.empty() ? 1.0 : weights[i];
    return std::isfinite(series[i]) && std::isfinite(w) && w > 0 ? w : 0.0;
  };

  double weight_sum = 0, weight_squares = 0, weighted_sum = 0;
  size_t points = 0;
  for (size_t i = 0; i < n; ++i) {
    const double w = weight(i);
    if (w == 0) continue;
    weight_sum += w;
    weight_squares += w * w;
    weighted_sum += w * series[i];
    ++points;
  }
  if (points < kMinIntervalPoints) return std::nullopt;
  Interval out;
  out.mean = weighted_sum / weight_sum;
  const double kish_points = weight_sum * weight_sum / weight_squares;

  // Weighted residuals, a gap being 0; adjacent ones are added up so that a long series stays
  // cheap. Sums of blocks have the same total variance as their points, which is all that is asked
  // of them.
  const size_t block = (n + kMaxIntervalBlocks - 1) / kMaxIntervalBlocks;
  std::vector<double> residuals((n + block - 1) / block, 0.0);
  double independent = 0;  // variance of the sum, were the points independent
  for (size_t i = 0; i < n; ++i) {
    const double w = weight(i);
    if (w == 0) continue;
    const double r = w * (series[i] - out.mean);
    residuals[i / block] += r;
    independent += r * r;
  }
  if (independent <= 1e-24 * weighted_sum * weighted_sum) {  // a constant series, but for rounding
    out.effective_samples = kish_points;
    return out;
  }

  const auto autocovariance = [&](size_t lag) {
    double sum = 0;
    for (size_t i = 0; i + lag < residuals.size(); ++i) sum += residuals[i] * residuals[i + lag];
    return sum;
  };
  double correlated = 0;
  double last_pair = INFINITY;
  for (size_t lag = 0; lag + 1 < residuals.size(); lag += 2) {
    const double even = autocovariance(lag);
    const double pair = std::min(last_pair, even + autocovariance(lag + 1));
    if (lag == 0) correlated = -even;  // lag 0 counts once, all others twice
    if (pair <= 0) break;
    correlated += 2 * pair;
    last_pair = pair;
  }
  correlated = std::max(correlated, independent);

  out.effective_samples = kish_points * independent / correlated;
  const double degrees = std::max(1.0, out.effective_samples - 1);
  const double variance_of_mean =
      correlated / (weight_sum * weight_sum) * out.effective_samples / degrees;
  out.half_width = StudentT975(degrees) * std::sqrt(variance_of_mean);
  return out;
}

}  // namespace flopwatch::efficiency
