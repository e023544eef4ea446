// Statistics of small tables, each computed by hand in the comment beside it.
#include <cmath>

#include "helpers.h"

namespace flopwatch::table {
namespace {

using ::testing::HasSubstr;

jobs::AttemptRecord Job(const char* job, const char* user, int64_t start_h, int64_t hours,
                        int64_t gpus, double duty) {
  jobs::AttemptRecord a;
  a.job = job;
  a.user = user;
  a.start = start_h * kMicrosPerHour;
  a.submit = a.start - 10 * kMicrosPerMinute;
  a.end = a.start + hours * kMicrosPerHour;
  a.gpus = gpus;
  a.duty = duty;
  return a;
}

std::vector<Statistic> Sum(const std::vector<jobs::AttemptRecord>& attempts,
                           SummaryOptions options = {}) {
  auto all = Summarise(attempts, {}, options);
  EXPECT_TRUE(all.ok()) << all.status();
  return all.ok() ? *std::move(all) : std::vector<Statistic>{};
}

TEST(AttemptSummary, AMeanOverJobsIsNotAMeanOverGpuTime) {
  // 16 GPU-h at 0.9, 1 GPU-h at 0.05, 3 GPU-h of which nobody says.
  const auto s = Sum(
      {Job("1", "a", 30, 2, 8, 0.9), Job("2", "a", 31, 1, 1, 0.05), Job("3", "b", 31, 3, 1, -1)});
  EXPECT_EQ(ValueOf(s, "jobs"), 3);
  EXPECT_EQ(ValueOf(s, "users"), 2);
  EXPECT_EQ(ValueOf(s, "gpu_hours"), 20);
  EXPECT_DOUBLE_EQ(ValueOf(s, "duty_mean_over_jobs"), (0.9 + 0.05) / 2);
  EXPECT_DOUBLE_EQ(ValueOf(s, "duty_mean_over_gpu_time"), (16 * 0.9 + 0.05) / 17);
  EXPECT_DOUBLE_EQ(ValueOf(s, "duty_coverage"), 17.0 / 20);
  EXPECT_EQ(ValueOf(s, "jobs_with_duty_below_0.1"), 1);
  EXPECT_EQ(ValueOf(s, "gpu_hours_in_jobs_with_duty_below_0.1"), 1);
  EXPECT_DOUBLE_EQ(ValueOf(s, "share_of_gpu_hours_in_jobs_of_8_gpus_or_more"), 0.8);
  EXPECT_DOUBLE_EQ(ValueOf(s, "share_of_jobs_of_1_gpu"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(ValueOf(s, "gpus_mean_over_jobs"), 10.0 / 3);
  EXPECT_EQ(ValueOf(s, "duration_median_over_jobs"), 7200);
  // Of 1, 2 and 3 h: a fifth of the way from 2 h to 3 h is at 0.6 of the ranks 0, 1, 2.
  EXPECT_DOUBLE_EQ(ValueOf(s, "duration_p90_over_jobs"), 7200 + 0.8 * 3600);
  EXPECT_EQ(ValueOf(s, "wait_median_over_jobs"), 600);
  EXPECT_TRUE(std::isnan(ValueOf(s, "accounts"))) << "nobody names one";
}

TEST(AttemptSummary, WeightsAreSaid) {
  for (const Statistic& s : Sum({Job("1", "a", 30, 2, 8, 0.9)})) {
    if (s.name == "duty_mean_over_jobs") EXPECT_EQ(s.weight, "each job once");
    if (s.name == "duty_mean_over_gpu_time") EXPECT_EQ(s.weight, "GPU time");
    if (s.name.find("mean") != std::string::npos) EXPECT_NE(s.weight, "") << s.name;
  }
}

TEST(AttemptSummary, DividesByWhatIsAsked) {
  SummaryOptions options;
  options.by = {"user", "size", "hour"};
  const auto s = Sum(
      {Job("1", "a", 30, 2, 8, 0.5), Job("2", "", 31, 1, 3, 0.05), Job("3", "", 31, 1, 1, 0.05)},
      options);
  EXPECT_EQ(ValueOf(s, "gpu_hours", "user", "a"), 16);
  EXPECT_EQ(ValueOf(s, "jobs", "user", "(unknown)"), 2);
  EXPECT_DOUBLE_EQ(ValueOf(s, "share_of_gpu_hours", "user", "(unknown)"), 0.2);
  EXPECT_EQ(ValueOf(s, "jobs", "size", "1"), 1);
  EXPECT_EQ(ValueOf(s, "jobs", "size", "3-4"), 1);
  EXPECT_EQ(ValueOf(s, "jobs", "size", "5-8"), 1);
  // Submitted ten minutes before 6:00, 7:00 and 7:00: one and two of three, over 3/24.
  EXPECT_EQ(ValueOf(s, "arrivals_over_mean_hour", "hour", "05"), 8);
  EXPECT_EQ(ValueOf(s, "arrivals_over_mean_hour", "hour", "06"), 16);
  options.by = {"colour"};
  EXPECT_THAT(MessageOf(Summarise({}, {}, options).status()), HasSubstr("by user, account"));
}

TEST(AttemptSummary, NothingIsMadeOfNothing) {
  const auto s = Sum({});
  EXPECT_EQ(ValueOf(s, "jobs"), 0);
  EXPECT_EQ(ValueOf(s, "gpu_hours"), 0);
  for (const char* name : {"duty_mean_over_jobs", "duty_mean_over_gpu_time", "gpus_of_largest_job",
                           "duration_mean_over_jobs", "share_of_jobs_with_gpus", "users"})
    EXPECT_TRUE(std::isnan(ValueOf(s, name))) << name;
}

TEST(AttemptSummary, WhatRunsCountsUntilTheTableWasWritten) {
  jobs::AttemptRecord runs = Job("1", "a", 30, 2, 4, -1);
  runs.end = jobs::kOpenEnd;
  EXPECT_EQ(ValueOf(Sum({runs}), "gpu_hours"), 0);
  SummaryOptions options;
  options.as_of = 33 * kMicrosPerHour;
  EXPECT_EQ(ValueOf(Sum({runs}, options), "gpu_hours"), 12);
  EXPECT_TRUE(std::isnan(ValueOf(Sum({runs}, options), "duration_mean_over_jobs")));
}

constexpr char kPools[] = R"(
time_zone = "+08:00"
step = "30m"
[pool]
pool = "p"
time = "t"
capacity = "cap"
running = "run"
waiting = "wait"
)";
// Two pools over two hours of a local night; nothing runs from 23:30 to 0:30.
constexpr char kNight[] =
    "t,p,cap,run,wait\n"
    "2026-01-01 23:00:00,a,8,4,2\n2026-01-01 23:30:00,a,8,0,0\n"
    "2026-01-02 00:00:00,a,8,0,4\n2026-01-02 00:30:00,a,8,8,4\n"
    "2026-01-01 23:00:00,b,2,2,2\n2026-01-01 23:30:00,b,2,0,0\n"
    "2026-01-02 00:00:00,b,2,0,0\n2026-01-02 00:30:00,b,2,1,0\n";

TEST(PoolSummary, AllocationQueuesAndOutages) {
  const TableBooks b = ReadOk(kPools, kNight);
  SummaryOptions options;
  options.rows = RowKind::kPools;
  const TimeZone zone = *TimeZone::Load("+08:00");
  options.zone = &zone;
  options.by = {"pool", "hour", "day"};
  const auto all = Summarise(b.attempts, b.pools, options);
  ASSERT_TRUE(all.ok()) << all.status();
  const auto& s = *all;
  EXPECT_EQ(ValueOf(s, "pools"), 2);
  EXPECT_EQ(ValueOf(s, "minutes"), 120);
  EXPECT_EQ(ValueOf(s, "capacity_gpus_mean_over_time"), 10);
  EXPECT_EQ(ValueOf(s, "gpu_hours_allocated"), 7.5);  // (4+2+8+1)/2
  EXPECT_EQ(ValueOf(s, "gpu_hours_waited_for"), 6);   // (2+4+4+2)/2
  EXPECT_DOUBLE_EQ(ValueOf(s, "allocation"), 15.0 / 40);
  EXPECT_DOUBLE_EQ(ValueOf(s, "allocation_max"), 0.9);
  EXPECT_EQ(ValueOf(s, "allocation_min"), 0);
  // .6, 0, 0, .9: mean .375, squares .0506, .1406, .1406, .2756.
  EXPECT_NEAR(ValueOf(s, "allocation_deviation_over_time"), std::sqrt(0.6075 / 4), 1e-12);
  // Of the eight half hours of pools, a queue stood beside idle GPUs in a's first and third.
  EXPECT_DOUBLE_EQ(ValueOf(s, "share_of_time_with_queue_beside_idle_gpus"), 2.0 / 8);
  EXPECT_DOUBLE_EQ(ValueOf(s, "share_of_time_with_queue_beside_idle_gpus", "pool", "b"), 0);
  EXPECT_DOUBLE_EQ(ValueOf(s, "allocation", "pool", "a"), 12.0 / 32);
  EXPECT_EQ(ValueOf(s, "minutes_with_nothing_running"), 60);
  EXPECT_EQ(ValueOf(s, "longest_minutes_with_nothing_running"), 60);
  EXPECT_EQ(ValueOf(s, "longest_with_nothing_running_begins"), 1'767'281'400);  // 15:30 UTC
  EXPECT_DOUBLE_EQ(ValueOf(s, "allocation_mean_over_time", "day", "2026-01-01"), 0.3);
  EXPECT_DOUBLE_EQ(ValueOf(s, "allocation_mean_over_time", "hour", "00"), 0.45);
}

TEST(PoolSummary, HostsAreCountedAsHosts) {
  const TableBooks b = ReadOk(
      "time_zone = \"UTC\"\n[host]\npool = {value='h'}\ntime = 't'\ntotal = 'n'\nbusy = 'b'\n",
      "t,n,b\n2026-01-01 00:00:00,4,1\n2026-01-01 00:01:00,4,3\n2026-01-01 00:02:00,12,12\n");
  SummaryOptions options;
  options.rows = RowKind::kHosts;
  const auto s = *Summarise(b.attempts, b.pools, options);
  EXPECT_EQ(ValueOf(s, "minutes"), 3);
  // Each minute alike, and each host alike: two numbers.
  EXPECT_DOUBLE_EQ(ValueOf(s, "host_utilisation_mean_over_time"), (0.25 + 0.75 + 1) / 3);
  EXPECT_DOUBLE_EQ(ValueOf(s, "host_utilisation"), 16.0 / 20);
  EXPECT_EQ(ValueOf(s, "hosts_max"), 12);
  EXPECT_TRUE(std::isnan(ValueOf(s, "allocation"))) << "hosts are no GPUs";
}

}  // namespace
}  // namespace flopwatch::table
