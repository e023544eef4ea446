#include "fleet/divergence/set.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace flopwatch::fleet {
namespace {

constexpr double kZ975 = 1.959963984540054;

double WeightAt(std::span<const double> weights, size_t i) {
  return weights.empty() ? 1.0 : weights[i];
}

// Mean ranks from 1.
std::vector<double> Ranks(std::span<const double> x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] < x[b]; });
  std::vector<double> ranks(x.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && x[order[end]] == x[order[i]]) ++end;
    const double rank = 0.5 * static_cast<double>(i + 1 + end);  // mean of i+1 .. end
    for (; i < end; ++i) ranks[order[i]] = rank;
  }
  return ranks;
}

}  // namespace

MeanSd MeanAndSd(std::span<const double> x, std::span<const double> weights) {
  double sum = 0, squares = 0, total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double w = WeightAt(weights, i);
    sum += w;
    squares += w * w;
    total += w * x[i];
  }
  MeanSd out;
  out.mean = total / sum;
  double variation = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    variation += WeightAt(weights, i) * (x[i] - out.mean) * (x[i] - out.mean);
  }
  const double degrees = sum - squares / sum;
  // One job, or one that has all the weight: nothing to spread.
  if (x.size() > 1 && degrees > 1e-12 * sum) out.sd = std::sqrt(variation / degrees);
  return out;
}

std::optional<double> Pearson(std::span<const double> x, std::span<const double> y,
                              std::span<const double> weights) {
  if (x.size() != y.size() || x.size() < 3) return std::nullopt;
  double sum = 0, mx = 0, my = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double w = WeightAt(weights, i);
    sum += w;
    mx += w * x[i];
    my += w * y[i];
  }
  if (!(sum > 0)) return std::nullopt;
  mx /= sum;
  my /= sum;
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double w = WeightAt(weights, i), dx = x[i] - mx, dy = y[i] - my;
    xx += w * dx * dx;
    yy += w * dy * dy;
    xy += w * dx * dy;
  }
  // Rounding of a constant series is no variation.
  if (!(xx > 1e-24 * sum * mx * mx) || !(yy > 1e-24 * sum * my * my)) return std::nullopt;
  const double r = xy / std::sqrt(xx) / std::sqrt(yy);
  if (!std::isfinite(r)) return std::nullopt;
  return std::clamp(r, -1.0, 1.0);
}

Correlation WithInterval(double r, double n) {
  Correlation out{.r = r, .low = {}, .high = {}};
  if (n > 3 + 1e-9 && std::abs(r) < 1) {
    const double z = std::atanh(r), half = kZ975 / std::sqrt(n - 3);
    out.low = std::tanh(z - half);
    out.high = std::tanh(z + half);
  }
  return out;
}

std::optional<double> Spearman(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size()) return std::nullopt;
  const std::vector<double> rx = Ranks(x), ry = Ranks(y);
  return Pearson(rx, ry);
}

SetStatistics StatisticsOf(std::span<const JobPair> jobs, Weighting weighting,
                           bool without_flagged) {
  std::vector<double> mfu, ofu, error, weights;
  SetStatistics out;
  double weight = 0, squares = 0, within = 0, over = 0, lean = 0;
  for (const JobPair& j : jobs) {
    if (without_flagged && j.flagged) continue;
    const double w = weighting == Weighting::kJobs ? 1.0 : j.gpu_seconds;
    ++out.jobs;
    out.gpu_seconds += j.gpu_seconds;
    if (!(w > 0)) continue;  // a job without GPU time has no weight
    const double e = j.mfu - j.ofu;
    mfu.push_back(j.mfu);
    ofu.push_back(j.ofu);
    error.push_back(std::abs(e));
    weights.push_back(w);
    weight += w;
    squares += w * w;
    lean += w * e;
    // Half a unit in the last place of a difference of two ratios must not decide.
    within += std::abs(e) <= 0.10 + 1e-12 ? w : 0;
    over += std::abs(e) > 0.20 + 1e-12 ? w : 0;
  }
  if (!(weight > 0)) return out;
  out.effective_jobs = weight * weight / squares;
  out.mfu = MeanAndSd(mfu, weights);
  out.ofu = MeanAndSd(ofu, weights);
  out.abs_error = MeanAndSd(error, weights);
  out.mae = out.abs_error->mean;
  out.mean_error = lean / weight;
  out.within_10 = within / weight;
  out.over_20 = over / weight;
  if (const auto r = Pearson(mfu, ofu, weights)) out.pearson = WithInterval(*r, out.effective_jobs);
  out.spearman = Spearman(mfu, ofu);
  return out;
}

}  // namespace flopwatch::fleet
