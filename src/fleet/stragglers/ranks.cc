#include "fleet/stragglers/ranks.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "fleet/stragglers/robust.h"

namespace flopwatch::fleet {
namespace {

// Steps of the clock generator: a mean of readings is known no better than a part of one.
constexpr double kClockStepMhz = 15;
// A rank that did less than this part of the median rank's work is not one of those that step
// together: a GPU that the job holds and does not use.
constexpr double kUsed = 0.5;
// Hosts are scraped at different moments, so each sees another part of a pause's edges. Beside n
// readings that moves the mean of a host's GPUs together by up to about this over n.
constexpr double kEdgeReadings = 0.15;
// Ranks are independent where activity x clock scatters by more than the first of these, and more
// than the second of what clocks do: in a synchronous job activity makes up for the clock.
constexpr double kEven = 0.005, kMadeUp = 0.6;
constexpr int64_t kFewDegrees = 3;  // of freedom: fewer say nothing of a scatter
// Beyond so many sd a rank is an outlier, and no part of a scatter.
constexpr double kOutlier = 3.5;

// Variance without outliers; a robust one is too rough for the few ranks of a small job.
double TrimmedVariance(std::span<const double> x, double least_sd) {
  if (x.size() < 2) return 0;
  const double median = MedianOf({x.begin(), x.end()});
  const double reach = kOutlier * std::max(RobustSd(x), least_sd);
  double sum = 0, squares = 0, n = 0;
  for (const double v : x) {
    if (std::abs(v - median) > reach) continue;
    sum += v - median;
    squares += (v - median) * (v - median);
    ++n;
  }
  return n < 2 ? 0 : std::max(0.0, (squares - sum * sum / n) / (n - 1));
}

// The lower bound of a variance that was estimated from n values, 95 % one-sided.
double AtLeast(double variance, size_t n) {
  return n < 2 ? 0 : variance / (1 + 1.64 * std::sqrt(2.0 / static_cast<double>(n - 1)));
}

class RankEstimator {
 public:
  RankEstimator(const StragglerJob& job, const StragglerLimits& limits)
      : job_(job), limits_(limits) {}

  JobEstimate Estimate() && {
    if (!Choose()) return std::move(out_);
    Read();
    CompareHosts();
    if (Independent()) {
      out_.verdict.reason = NotJudged::kIndependent;
      out_.ranks.clear();
      return std::move(out_);
    }
    Combine();
    return std::move(out_);
  }

 private:
  // Which ranks step together.
  bool Choose() {
    StragglerVerdict& verdict = out_.verdict;
    std::vector<double> work;
    for (const StragglerRank& r : job_.ranks) work.push_back(r.work->work_s());
    std::erase_if(work, [](double s) { return !(s > 0); });
    if (work.size() < 2) {
      verdict.unused = static_cast<int64_t>(job_.ranks.size() - work.size());
      verdict.gpus = static_cast<int64_t>(work.size());
      verdict.reason = NotJudged::kFewGpus;
      return false;
    }
    verdict.work_s = MedianOf(work);
    int64_t with_clock = 0;
    for (size_t i = 0; i < job_.ranks.size(); ++i) {
      const GpuWork& w = *job_.ranks[i].work;
      if (!(w.work_s() > kUsed * verdict.work_s)) {
        ++verdict.unused;
        continue;
      }
      ++verdict.gpus;
      if (!(w.Clock().value_or(0) > 0)) continue;
      ++with_clock;
      if (w.work_s() < limits_.min_work_s || w.Readings() < limits_.min_readings) continue;
      RankEstimate& e = out_.ranks.emplace_back();
      e.rank = i;
      e.has_tensor = w.Tensor().value_or(0) > 0;
      tensors_ += e.has_tensor ? 1 : 0;
    }
    if (out_.ranks.size() >= 2 && tensors_ >= 2) return true;
    verdict.reason = verdict.gpus < 2                      ? NotJudged::kFewGpus
                     : with_clock < 2                      ? NotJudged::kNoCounters
                     : verdict.work_s < limits_.min_work_s ? NotJudged::kShortWork
                     : out_.ranks.size() < 2               ? NotJudged::kShortWork
                                                           : NotJudged::kNoCounters;
    out_.ranks.clear();
    return false;
  }

  const GpuWork& WorkOf(const RankEstimate& e) const { return *job_.ranks[e.rank].work; }

  void Read() {
    std::vector<double> noise;  // variance of one reading over the square of the clock
    for (const RankEstimate& e : out_.ranks) {
      const double clock = *WorkOf(e).Clock();
      noise.push_back(WorkOf(e).ClockVariance() / (clock * clock));
    }
    const double of_reading = MedianOf(std::move(noise));
    std::vector<double> clocks;
    for (RankEstimate& e : out_.ranks) {
      const GpuWork& w = WorkOf(e);
      const double clock = *w.Clock(), n = std::max(1.0, w.Readings());
      const double step = kClockStepMhz / clock;
      e.clock_sd = std::sqrt((of_reading + step * step / 12) / n);
      e.power = std::log(w.Mean(kWorkPower).value_or(NAN));
      log_clock_.push_back(std::log(clock));
      log_tensor_.push_back(e.has_tensor ? std::log(*w.Tensor()) : NAN);
    }
  }

  // Activity x clock of a host beside that of the job: what is left of it after the noise of clock
  // readings is how its scrapes fell on the edges of pauses, or another stage of a pipeline, and no
  // matter of its clocks.
  void CompareHosts() {
    std::map<int32_t, std::vector<double>> products;
    std::map<int32_t, double> clock_variance;
    double readings = 0;
    for (size_t i = 0; i < out_.ranks.size(); ++i) {
      const RankEstimate& e = out_.ranks[i];
      if (!e.has_tensor) continue;
      const int32_t host = job_.ranks[e.rank].host;
      products[host].push_back(log_tensor_[i] + log_clock_[i]);
      clock_variance[host] += e.clock_sd * e.clock_sd;
      readings += WorkOf(e).Readings();
    }
    const double edge = kEdgeReadings / (readings / static_cast<double>(tensors_));
    std::vector<double> middle, noise;
    for (const auto& [host, of] : products) {
      const double n = static_cast<double>(of.size());
      host_[host].product = MedianOf(of);
      // The median of n, of which each has the mean variance.
      host_[host].variance = (n > 2 ? 1.57 : 1.0) * clock_variance[host] / n / n + edge * edge;
      middle.push_back(host_[host].product);
      noise.push_back(host_[host].variance);
    }
    const double origin = MedianOf(middle);
    double spread = 0;
    if (host_.size() > 1) {
      spread = TrimmedVariance(middle, std::sqrt(MedianOf(noise))) - MedianOf(noise);
      spread = std::max(spread, edge * edge);
    }
    for (auto& [host, of] : host_) {
      const double part = spread > 0 ? spread / (spread + of.variance) : 0;
      of.shift = part * (of.product - origin);
      of.shift_variance = part * of.variance;
    }
    origin_ = origin;
    edge_variance_ = host_.size() > 1 ? edge * edge : 0;
  }

  bool Independent() {
    // Within hosts, where scrapes fall alike; where hosts have hardly more than a rank each, among
    // all. The middle of a host was taken from its own ranks.
    const int64_t free = tensors_ - static_cast<int64_t>(host_.size());
    const bool within = free >= kFewDegrees;
    std::vector<double> products, noises;
    for (size_t i = 0; i < out_.ranks.size(); ++i) {
      const RankEstimate& e = out_.ranks[i];
      if (!e.has_tensor) continue;
      products.push_back(log_tensor_[i] + log_clock_[i] -
                         (within ? host_[job_.ranks[e.rank].host].product : origin_));
      noises.push_back(e.clock_sd * e.clock_sd + (within ? 0 : edge_variance_));
    }
    const double scale = within ? static_cast<double>(tensors_) / static_cast<double>(free) : 1.0;
    const double noise = MedianOf(noises), noise_sd = std::sqrt(noise);
    const double scatter = TrimmedVariance(products, noise_sd) * scale;
    const double clocks = std::max(0.0, TrimmedVariance(log_clock_, noise_sd) - noise);
    out_.verdict.uneven = std::sqrt(std::max(0.0, scatter - noise));
    uneven_variance_ = std::max(0.0, AtLeast(scatter, products.size()) - noise);
    const double at_least = std::sqrt(uneven_variance_);
    return at_least > kEven && at_least > kMadeUp * std::sqrt(clocks);
  }

  // Activity and clock are two measurements of one thing.
  void Combine() {
    for (size_t i = 0; i < out_.ranks.size(); ++i) {
      RankEstimate& e = out_.ranks[i];
      const double clock = e.clock_sd * e.clock_sd;
      if (!e.has_tensor) {
        e.slower = e.by_activity = origin_ - log_clock_[i];
        e.sd = e.clock_sd;
        continue;
      }
      const HostOffset& host = host_[job_.ranks[e.rank].host];
      const double product = log_tensor_[i] + log_clock_[i];
      const double part = uneven_variance_ > 0 ? uneven_variance_ / (uneven_variance_ + clock) : 0;
      e.by_activity = log_tensor_[i] - host.shift;
      e.slower = e.by_activity - part * (product - host.product);
      e.sd = std::sqrt(part * clock + host.shift_variance);
      e.disagreement = product - origin_ - host.shift;
      e.disagreement_sd =
          std::sqrt(clock + uneven_variance_ + host.shift_variance + edge_variance_);
    }
  }

  struct HostOffset {
    double product = 0, variance = 0, shift = 0, shift_variance = 0;
  };
  const StragglerJob& job_;
  const StragglerLimits& limits_;
  JobEstimate out_;
  int64_t tensors_ = 0;                         // ranks with tensor activity
  std::vector<double> log_clock_, log_tensor_;  // by rank that is estimated
  std::map<int32_t, HostOffset> host_;
  double origin_ = 0;  // log of the job's activity x clock
  double edge_variance_ = 0;
  double uneven_variance_ = 0;
};

}  // namespace

JobEstimate EstimateRanks(const StragglerJob& job, const StragglerLimits& limits) {
  return RankEstimator(job, limits).Estimate();
}

}  // namespace flopwatch::fleet
