// MFU against OFU over a set of jobs, as the OFU paper reports it for 608 (V-B, Table III): see
// docs/divergence.md, Sets. Correlation, mean absolute error, shares, groups. Pure functions.
// e = MFU - OFU, MFU re-expressed against the right peak. Ratios 0..1; weights are counts of jobs
// or GPU-seconds, and every result says how many jobs it is of.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace flopwatch::fleet {

struct JobPair {
  double mfu = 0, ofu = 0;
  double gpu_seconds = 0;
  bool flagged = false;
};

struct MeanSd {
  double mean = 0;
  std::optional<double> sd;  // of the sample (n - 1); absent for one job
};

// With weights it is the weighted mean, and the sd whose sum of squares is divided by sum of w -
// sum of w^2 / sum of w (reliability weights), which for equal weights is the sample sd.
MeanSd MeanAndSd(std::span<const double> x, std::span<const double> weights = {});

// Pearson's r; nullopt below 3 points (two always correlate) or where one side does not vary.
std::optional<double> Pearson(std::span<const double> x, std::span<const double> y,
                              std::span<const double> weights = {});
struct Correlation {
  double r = 0;
  std::optional<double> low, high;  // Fisher's 95 % interval; absent below 4 jobs and at |r| = 1
};
// Fisher's z: atanh(r) +- 1.96 / sqrt(n - 3). `n` may be an effective number.
Correlation WithInterval(double r, double n);
// Pearson's r of the ranks, equal values sharing the mean of theirs.
std::optional<double> Spearman(std::span<const double> x, std::span<const double> y);

struct SetStatistics {
  int64_t jobs = 0;
  double gpu_seconds = 0;
  // Kish's number of equal jobs: (sum of w)^2 / sum of w^2. With job weights the number of jobs.
  double effective_jobs = 0;
  std::optional<MeanSd> mfu, ofu, abs_error;
  std::optional<double> mae;                 // OFU paper, eq. 9
  std::optional<double> mean_error;          // of MFU - OFU: which way it leans
  std::optional<double> within_10, over_20;  // shares of |e| <= 10 and > 20 points
  std::optional<Correlation> pearson;
  std::optional<double> spearman;  // over jobs, whatever the weights
};
enum class Weighting : uint8_t { kJobs, kGpuSeconds };
// `without_flagged` leaves those jobs out.
SetStatistics StatisticsOf(std::span<const JobPair> jobs, Weighting weighting,
                           bool without_flagged = false);

}  // namespace flopwatch::fleet
