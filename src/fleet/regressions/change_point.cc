#include "fleet/regressions/change_point.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace flopwatch::fleet {
namespace {

// Lengths of what follows a place that are tried; the last is all of it, up to kLongestSide.
constexpr std::array<size_t, 4> kLengths = {3, 6, 12, kLongestSide};
// Median absolute deviation to standard deviation, of normal values.
constexpr double kMadToSd = 1.4826;
constexpr double kWinsorAt = 3;      // robust standard deviations
constexpr size_t kLeastSeries = 10;  // for a prior
constexpr double kMostDegrees = 30;  // that a prior counts for, however alike the series are

// The continued fraction of the incomplete beta function (Lentz's method; DLMF 8.17.22).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto not_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m <= 300; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / not_zero(1 + even * d);
    c = not_zero(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / not_zero(1 + odd * d);
    c = not_zero(1 + odd / c);
    const double step = d * c;
    h *= step;
    if (std::abs(step - 1) < 1e-12) break;
  }
  return h;
}

double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * BetaFraction(a, b, x) / a
                                   : 1 - front * BetaFraction(b, a, 1 - x) / b;
}

double Digamma(double x) {
  double shift = 0;
  for (; x < 8; ++x) shift -= 1 / x;
  const double y = 1 / (x * x);
  return shift + std::log(x) - .5 / x - y * (1. / 12 - y * (1. / 120 - y / 252));
}

double Trigamma(double x) {
  double shift = 0;
  for (; x < 8; ++x) shift += 1 / (x * x);
  const double y = 1 / x, z = y * y;
  return shift + y + z / 2 + y * z * (1. / 6 - z * (1. / 30 - z / 42));
}

// The x above zero with Trigamma(x) = y; it falls from infinity to 0.
double TrigammaInverse(double y) {
  double lo = 1e-6, hi = 1e6;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(lo * hi);
    (Trigamma(middle) > y ? lo : hi) = middle;
  }
  return std::sqrt(lo * hi);
}

double MedianInPlace(std::vector<double>* v) {
  if (v->empty()) return 0;
  const auto middle = v->begin() + static_cast<std::ptrdiff_t>(v->size() / 2);
  std::nth_element(v->begin(), middle, v->end());
  if (v->size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(v->begin(), middle)) / 2;
}

// The two sides of a place.
class Sides {
 public:
  explicit Sides(const ChangeOptions& options) : options_(options) {}

  // p is that of this place alone, in either direction.
  LevelChange Test(absl::Span<const double> values, size_t begin, size_t at, size_t end) {
    const auto before = values.subspan(begin, at - begin), after = values.subspan(at, end - at);
    const double of_before = Center(before), of_after = Center(after);
    residuals_.clear();
    for (const double v : before) residuals_.push_back(std::abs(v - of_before));
    for (const double v : after) residuals_.push_back(std::abs(v - of_after));
    const double floor = std::max(options_.least_scatter, std::sqrt(options_.prior.variance) / 2);
    const double most = kWinsorAt * std::max(kMadToSd * MedianInPlace(&residuals_), floor);
    double squares = 0;
    const auto level = [&](absl::Span<const double> side, double center) {
      double sum = 0, sum2 = 0;
      for (const double v : side) {
        const double r = most > 0 ? std::clamp(v - center, -most, most) : 0;
        sum += r;
        sum2 += r * r;
      }
      const auto n = static_cast<double>(side.size());
      squares += sum2 - sum * sum / n;
      return center + sum / n;
    };
    LevelChange c;
    c.at = at;
    c.before_n = before.size();
    c.after_n = after.size();
    c.before = level(before, of_before);
    c.after = level(after, of_after);
    const double own = static_cast<double>(before.size() + after.size()) - 2;
    Judge(std::sqrt(squares / std::max(1.0, own)), own, &c);
    if (options_.prior.degrees > 0) {
      const double degrees = own + options_.prior.degrees;
      LevelChange moderated = c;
      Judge(std::sqrt((squares + options_.prior.degrees * options_.prior.variance) / degrees),
            degrees, &moderated);
      if (moderated.p < c.p) c = moderated;
    }
    return c;
  }

 private:
  // By Student's t.
  void Judge(double scatter, double degrees, LevelChange* c) const {
    c->scatter = std::max(scatter, options_.least_scatter);
    if (!(c->scatter > 0)) {
      // Not a digit of scatter: any difference is one.
      c->p = c->before == c->after ? 1 : 0;
      return;
    }
    const double t = std::abs(c->before - c->after) /
                     (c->scatter * std::sqrt(1 / static_cast<double>(c->before_n) +
                                             1 / static_cast<double>(c->after_n)));
    c->p = 2 * StudentTail(t, std::max(1.0, degrees));
  }

  double Center(absl::Span<const double> side) {
    scratch_.assign(side.begin(), side.end());
    return MedianInPlace(&scratch_);
  }

  const ChangeOptions& options_;
  std::vector<double> residuals_, scratch_;
};

// The clearest change within [from, to), p corrected for the places that were looked at.
std::optional<LevelChange> Clearest(absl::Span<const double> values, size_t from, size_t to,
                                    const ChangeOptions& options, Sides* sides) {
  std::optional<LevelChange> best;
  double looked = 0;
  for (size_t at = from + options.min_before; at + options.min_after <= to; ++at) {
    const size_t begin = at - std::min(at - from, kLongestSide);
    size_t last = 0;
    for (const size_t length : kLengths) {
      const size_t end = at + std::min(to - at, std::max(length, options.min_after));
      if (end == last) break;
      last = end;
      ++looked;
      const LevelChange c = sides->Test(values, begin, at, end);
      // Where p is too small for a double the larger step is the clearer one.
      const auto clearer = [&] {
        if (c.p != best->p) return c.p < best->p;
        return std::abs(c.before - c.after) > std::abs(best->before - best->after);
      };
      if (!best || clearer()) best = c;
    }
  }
  if (best) best->p = std::min(1.0, best->p * looked);
  return best;
}

// The split of [from, to) near `c` that leaves the least about both levels; beyond kWinsorAt
// standard deviations a value counts by its distance, not by the square of it.
size_t BestSplit(absl::Span<const double> values, size_t from, size_t to, const LevelChange& c,
                 const ChangeOptions& options) {
  const double most = kWinsorAt * c.scatter;
  const auto cost = [&](double v, double level) {
    const double d = std::abs(v - level);
    return d < most ? d * d : most * (2 * d - most);  // Huber's
  };
  const size_t begin = std::max(from + options.min_before, c.at - std::min<size_t>(c.at, 6));
  const size_t end = std::min(c.at + 6, to - std::min(to, options.min_after));
  size_t best = c.at;
  double least = 0, sum = 0;
  // Relative to a split at `begin`: a value that goes to the other side changes its cost.
  bool first = true;
  for (size_t at = begin; at <= end && at < to; ++at) {
    if (first || sum < least) {
      least = sum;
      best = at;
      first = false;
    }
    sum += cost(values[at], c.before) - cost(values[at], c.after);
  }
  return best;
}

void FindWithin(absl::Span<const double> values, size_t from, size_t to,
                const ChangeOptions& options, Sides* sides, std::vector<LevelChange>* out) {
  if (out->size() >= kMostChanges) return;
  std::optional<LevelChange> c = Clearest(values, from, to, options, sides);
  if (!c || c->p > options.alpha) return;
  // With the levels of the better split there may be one that is better still.
  for (int tries = 0; tries < 3; ++tries) {
    const size_t at = BestSplit(values, from, to, *c, options);
    if (at == c->at) break;
    const size_t begin = at - std::min(at - from, kLongestSide);
    const size_t end = std::min(to, at + std::max(c->after_n, options.min_after));
    const double p = c->p;
    c = sides->Test(values, begin, at, end);
    c->p = p;
  }
  out->push_back(*c);
  FindWithin(values, from, c->at, options, sides, out);
  FindWithin(values, c->at, to, options, sides, out);
}

}  // namespace

double StudentTail(double t, double degrees) {
  if (!(degrees > 0)) return .5;
  const double tail = IncompleteBeta(degrees / 2, .5, degrees / (degrees + t * t)) / 2;
  return t >= 0 ? tail : 1 - tail;
}

double MedianValue(std::vector<double> values) { return MedianInPlace(&values); }

SeriesVariance VarianceOf(absl::Span<const double> values) {
  if (values.size() < 4) return {};
  // Differences of neighbours: a change of level is in one of them alone.
  std::vector<double> steps;
  for (size_t i = 1; i < values.size(); ++i) steps.push_back(std::abs(values[i] - values[i - 1]));
  const double sd = kMadToSd * MedianValue(std::move(steps)) / std::sqrt(2.0);
  // The median of n dependent differences tells about .37 n values' worth (its efficiency).
  return {sd * sd, std::max(1.0, .37 * (static_cast<double>(values.size()) - 1))};
}

ScatterPrior PriorOf(absl::Span<const SeriesVariance> series) {
  // log s2 of d degrees is spread about log v by trigamma(d / 2), shifted by digamma(d / 2) -
  // log(d / 2); what it is spread beyond that is how the series differ.
  double n = 0, sum = 0, sum2 = 0, own = 0;
  for (const SeriesVariance& s : series) {
    if (!(s.variance > 0) || !(s.degrees > 0)) continue;
    const double e = std::log(s.variance) - Digamma(s.degrees / 2) + std::log(s.degrees / 2);
    ++n;
    sum += e;
    sum2 += e * e;
    own += Trigamma(s.degrees / 2);
  }
  if (n < kLeastSeries) return {};
  const double mean = sum / n;
  const double excess = (sum2 - sum * sum / n) / (n - 1) - own / n;
  ScatterPrior prior;
  prior.degrees = excess > 0 ? std::min(kMostDegrees, 2 * TrigammaInverse(excess)) : kMostDegrees;
  prior.variance = std::exp(mean + Digamma(prior.degrees / 2) - std::log(prior.degrees / 2));
  return prior;
}

std::vector<LevelChange> FindChanges(absl::Span<const double> values,
                                     const ChangeOptions& options) {
  std::vector<LevelChange> out;
  Sides sides(options);
  FindWithin(values, 0, values.size(), options, &sides, &out);
  std::ranges::sort(out, {}, &LevelChange::at);
  return out;
}

}  // namespace flopwatch::fleet
