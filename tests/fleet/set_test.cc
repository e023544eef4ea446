// Statistics over jobs. Expected values: python 3.11's statistics module on the columns of the
// OFU paper's Table III, and figures that were computed from that table elsewhere.
#include "fleet/divergence/set.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <vector>

#include "data.h"

namespace flopwatch::fleet {
namespace {

// Table III of the paper: GPUs, jobs, MFU mean and sd, |error| mean and sd, per cent.
struct Row {
  int gpus, jobs;
  double mfu, mfu_sd, error, error_sd;
};
const std::vector<Row> kSetTable3 = {
    {8, 6, 28.7, 6.9, 7.5, 3.9},     {16, 48, 23.8, 3.3, 12.2, 2.0},
    {64, 52, 23.6, 2.5, 2.2, 2.4},   {128, 48, 24.3, 8.7, 4.5, 2.9},
    {256, 76, 20.1, 12.6, 9.1, 4.9}, {288, 65, 40.1, 16.3, 18.0, 14.4},
    {512, 144, 23.9, 5.6, 3.6, 2.2}, {736, 11, 24.2, 0.4, 3.6, 0.1},
    {768, 57, 16.9, 4.1, 1.2, 0.7},  {1024, 49, 35.0, 9.1, 4.1, 0.7},
    {1536, 10, 12.4, 2.3, 0.3, 0.2}, {2944, 33, 24.0, 3.7, 2.6, 0.3},
    {5888, 9, 13.6, 0.1, 1.5, 0.2}};

std::vector<double> Column(double Row::*field) {
  std::vector<double> out;
  for (const Row& r : kSetTable3) out.push_back(r.*field);
  return out;
}

TEST(Set, TheTableHereIsTheTableInTheData) {
  FLOPWATCH_REQUIRE_DATA("ofu_paper_table3.csv");
  std::ifstream in(testing_data::SharedData() / "ofu_paper_table3.csv");
  std::string line;
  std::getline(in, line);
  for (const Row& r : kSetTable3) {
    ASSERT_TRUE(std::getline(in, line));
    Row read{};
    ASSERT_EQ(std::sscanf(line.c_str(), "%d,%d,%lf,%lf,%lf,%lf", &read.gpus, &read.jobs, &read.mfu,
                          &read.mfu_sd, &read.error, &read.error_sd),
              6);
    EXPECT_EQ(std::tie(read.gpus, read.jobs, read.mfu, read.mfu_sd, read.error, read.error_sd),
              std::tie(r.gpus, r.jobs, r.mfu, r.mfu_sd, r.error, r.error_sd));
  }
}

TEST(Set, CorrelationsAsPythonComputesThem) {
  const std::vector<double> mfu = Column(&Row::mfu), error = Column(&Row::error);
  // statistics.correlation(mfu, error)
  EXPECT_NEAR(*Pearson(mfu, error), 0.6679044306335076, 1e-12);
  // statistics.correlation of mean ranks; two errors of 3.6 share rank 6.5
  EXPECT_NEAR(*Spearman(mfu, error), 0.6657502859356826, 1e-12);
  // tanh(atanh(r) -+ NormalDist().inv_cdf(.975) / sqrt(13 - 3))
  const Correlation c = WithInterval(*Pearson(mfu, error), 13);
  EXPECT_NEAR(*c.low, 0.1850002383175045, 1e-12);
  EXPECT_NEAR(*c.high, 0.8909976684246665, 1e-12);
  // The paper's r = 0.78 over 608 jobs.
  const Correlation paper = WithInterval(0.78, 608);
  EXPECT_NEAR(*paper.low, 0.7468027047978695, 1e-12);
  EXPECT_NEAR(*paper.high, 0.8093198445524257, 1e-12);
  // statistics.mean, statistics.stdev
  const MeanSd m = MeanAndSd(mfu);
  EXPECT_NEAR(m.mean, 23.892307692307693, 1e-12);
  EXPECT_NEAR(*m.sd, 7.696477715862577, 1e-12);
  // Weighted by jobs: statistics.correlation of the 608 repeated values.
  std::vector<double> jobs;
  for (const Row& r : kSetTable3) jobs.push_back(r.jobs);
  EXPECT_NEAR(*Pearson(mfu, error, jobs), 0.6350791206768229, 1e-12);
  EXPECT_NEAR(MeanAndSd(mfu, jobs).mean, 25.10986842105263, 1e-12);
}

TEST(Set, NothingIsMadeOfTooLittle) {
  const std::vector<double> one = {1}, two = {1, 2}, flat = {3, 3, 3}, rising = {1, 2, 3};
  EXPECT_EQ(Pearson(one, one), std::nullopt);
  EXPECT_EQ(Pearson(flat, rising), std::nullopt);
  EXPECT_EQ(Spearman(flat, rising), std::nullopt);
  EXPECT_EQ(MeanAndSd(one).sd, std::nullopt);
  EXPECT_EQ(Pearson(two, two), std::nullopt);
  EXPECT_EQ(WithInterval(0.5, 3).low, std::nullopt);
  EXPECT_EQ(WithInterval(1, 9).low, std::nullopt);
  const SetStatistics none = StatisticsOf({}, Weighting::kJobs);
  EXPECT_EQ(none.jobs, 0);
  EXPECT_EQ(none.mae, std::nullopt);
}

// n values with exactly this mean and sample sd.
std::vector<double> Spread(int n, double mean, double sd) {
  std::vector<double> z;
  for (int i = 0; i < n; ++i) z.push_back(i - (n - 1) / 2.0);
  double squares = 0;
  for (const double v : z) squares += v * v;
  for (double& v : z) v = mean + sd * v / std::sqrt(squares / (n - 1));
  return z;
}

// Computed from Table III elsewhere: over all 608 jobs MFU 25.1 (sd 10.9), |e| 6.2 (sd 7.4);
// without the 288-GPU group 23.3 and 4.8. Any jobs with the table's group means and sds must give
// these.
TEST(Set, TableThreeAddsUpToItsTotals) {
  std::vector<JobPair> jobs;
  for (const Row& r : kSetTable3) {
    const auto mfu = Spread(r.jobs, r.mfu, r.mfu_sd), error = Spread(r.jobs, r.error, r.error_sd);
    for (int i = 0; i < r.jobs; ++i) {
      const auto k = static_cast<size_t>(i);
      jobs.push_back({.mfu = mfu[k] / 100,
                      .ofu = (mfu[k] - error[k]) / 100,
                      .gpu_seconds = 3600.0 * r.gpus,
                      .flagged = r.gpus == 288});
    }
  }
  // |e| of a group with a large sd reaches below zero and folds over; MFU does not.
  const SetStatistics all = StatisticsOf(jobs, Weighting::kJobs);
  EXPECT_EQ(all.jobs, 608);
  EXPECT_NEAR(all.effective_jobs, 608, 1e-6);
  EXPECT_NEAR(all.mfu->mean, 0.251, 0.0005);
  EXPECT_NEAR(*all.mfu->sd, 0.109, 0.0005);
  EXPECT_NEAR(*all.mean_error, 0.062, 0.0005);  // all errors are upward here
  const SetStatistics clean = StatisticsOf(jobs, Weighting::kJobs, /*without_flagged=*/true);
  EXPECT_EQ(clean.jobs, 543);
  EXPECT_NEAR(clean.mfu->mean, 0.233, 0.0005);
  EXPECT_NEAR(*clean.mean_error, 0.048, 0.0005);
  // Weighted by GPUs, Table III has 23.3 %.
  EXPECT_NEAR(StatisticsOf(jobs, Weighting::kGpuSeconds).mfu->mean, 0.233, 0.0005);
}

TEST(Set, SharesAndErrorsByHand) {
  // |e| of 0, 10, 10.1, 20, 21 points; weights 1, 1, 1, 1, 6.
  const std::vector<JobPair> jobs = {{0.30, 0.30, 10, false},
                                     {0.40, 0.30, 10, false},
                                     {0.30, 0.401, 10, false},
                                     {0.50, 0.30, 10, false},
                                     {0.51, 0.30, 60, true}};
  const SetStatistics by_job = StatisticsOf(jobs, Weighting::kJobs);
  EXPECT_DOUBLE_EQ(*by_job.within_10, 2.0 / 5);
  EXPECT_DOUBLE_EQ(*by_job.over_20, 1.0 / 5);
  EXPECT_NEAR(*by_job.mae, 0.611 / 5, 1e-12);
  const SetStatistics by_time = StatisticsOf(jobs, Weighting::kGpuSeconds);
  EXPECT_EQ(by_time.jobs, 5);
  EXPECT_DOUBLE_EQ(*by_time.within_10, 0.2);
  EXPECT_DOUBLE_EQ(*by_time.over_20, 0.6);
  EXPECT_DOUBLE_EQ(by_time.effective_jobs, 100.0 * 100 / 4000);
  EXPECT_EQ(by_time.pearson->low, std::nullopt);  // 2.5 jobs have no interval
  EXPECT_EQ(StatisticsOf(jobs, Weighting::kJobs, true).jobs, 4);
}

// A job given twice is a job of double weight.
TEST(Set, WeightsMergeAsRepetition) {
  rc::check([](const std::vector<std::pair<uint16_t, uint16_t>>& raw) {
    std::vector<JobPair> twice, weighted;
    for (const auto& [a, b] : raw) {
      const JobPair j{a / 65536.0, b / 65536.0, 100, false};
      twice.push_back(j);
      twice.push_back(j);
      weighted.push_back({j.mfu, j.ofu, 200, false});
    }
    const SetStatistics a = StatisticsOf(twice, Weighting::kGpuSeconds);
    const SetStatistics b = StatisticsOf(weighted, Weighting::kGpuSeconds);
    RC_ASSERT(a.mae.has_value() == b.mae.has_value());
    if (!a.mae) return;
    RC_ASSERT(std::abs(*a.mae - *b.mae) < 1e-12);
    RC_ASSERT(std::abs(a.mfu->mean - b.mfu->mean) < 1e-12);
    RC_ASSERT(std::abs(*a.within_10 - *b.within_10) < 1e-12);
    if (a.pearson && b.pearson) RC_ASSERT(std::abs(a.pearson->r - b.pearson->r) < 1e-9);
  });
}

TEST(Set, CorrelationDoesNotDependOnOrderOrScale) {
  rc::check([](std::vector<std::pair<uint8_t, uint8_t>> raw) {
    std::vector<double> x, y, x2, y2;
    for (const auto& [a, b] : raw) {
      x.push_back(a);
      y.push_back(b);
    }
    for (size_t i = raw.size(); i-- > 0;) {
      x2.push_back(3 * x[i] + 7);
      y2.push_back(y[i] / 255);
    }
    const auto a = Pearson(x, y), b = Pearson(x2, y2);
    RC_ASSERT(a.has_value() == b.has_value());
    if (a) RC_ASSERT(std::abs(*a - *b) < 1e-9);
    const auto s = Spearman(x, y), t = Spearman(x2, y2);
    RC_ASSERT(s.has_value() == t.has_value());
    if (s) RC_ASSERT(std::abs(*s - *t) < 1e-9);
  });
}

}  // namespace
}  // namespace flopwatch::fleet
