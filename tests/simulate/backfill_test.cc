// History written into a store, read back through the product, against the truth.
#include "simulate/backfill.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "simulate/fleet.h"
#include "simulate/fleet_model.h"
#include "simulate/truth.h"
#include "store/store.h"

namespace flopwatch::simulate {
namespace {

class Backfill : public ::testing::Test {
 protected:
  Backfill() {
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 ("simulate-" + std::to_string(getpid()) +
                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  ~Backfill() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path directory_;
};

FleetOptions Small() {
  FleetOptions o;
  o.preset = Preset::kLlm;
  o.gpus = 96;
  o.duration = 3 * kMicrosPerHour;
  o.faults = Faults::kNone;
  o.seed = 5;
  return o;
}

TEST_F(Backfill, WritesEveryTickAndTheStoreAgreesWithTheTruth) {
  auto fleet = Fleet::Create(Small());
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  BackfillOptions options;
  options.directory = directory_;
  int reports = 0;
  options.progress = [&](Micros reached, uint64_t) {
    reports += reached > (*fleet)->options().start;
  };
  auto result = WriteHistory(**fleet, options);
  ASSERT_TRUE(result.ok()) << result.status();
  uint64_t scrapes = 0, rows = 0;
  for (int h = 0; h < (*fleet)->hosts(); ++h) {
    scrapes += (*fleet)->Ticks(h);
    rows += (*fleet)->Ticks(h) * (*fleet)->HostGpus(h);
  }
  EXPECT_EQ(result->scrapes, scrapes);
  EXPECT_EQ(result->rows, rows);
  EXPECT_EQ(result->refused, 0u);
  EXPECT_GT(reports, 10);

  store::Options store_options;
  store_options.directory = directory_;
  auto store = store::OpenDuckDbStore(store_options);
  ASSERT_TRUE(store.ok()) << store.status();
  auto dimensions = (*store)->LoadDimensions();
  ASSERT_TRUE(dimensions.ok());
  EXPECT_EQ(dimensions->entities.size(), 96u);
  std::map<int32_t, std::string> keys;
  for (const auto& j : dimensions->jobs) keys[j.id] = j.key;
  Truth truth = (*fleet)->TruthOf();
  std::map<std::string, const JobTruth*> jobs;
  for (const JobTruth& j : truth.jobs) jobs[j.key] = &j;
  auto usage = (*store)->UsageByJob({truth.from, truth.to});
  ASSERT_TRUE(usage.ok()) << usage.status();
  int compared = 0;
  for (const auto& u : *usage) {
    if (u.job == 0) continue;
    ASSERT_TRUE(jobs.contains(keys[u.job])) << keys[u.job];
    const JobTruth& j = *jobs[keys[u.job]];
    double gpu_seconds = static_cast<double>(j.work.allocated_us) / 1e6,
           duration = gpu_seconds / j.gpus;
    if (duration < 900) continue;
    // One sample of 10 s at each end of each GPU may be somebody else's.
    EXPECT_NEAR(u.sums.ofu.observed_s, gpu_seconds, 20.0 * j.gpus + 1) << j.key;
    double ofu =
        static_cast<double>(j.work.tensor_cycles) / static_cast<double>(j.work.peak_cycles);
    double bound =
        20 / duration * std::max(ofu, .2) + 4 * .03 * ofu / std::sqrt(gpu_seconds / 10) + 1e-3;
    ASSERT_TRUE(u.sums.ofu.Ofu().has_value()) << j.key;
    EXPECT_NEAR(*u.sums.ofu.Ofu(), ofu, bound) << j.key;
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

// Jobs on MIG instances, from exporters that list instances alone and from those that list the GPU
// too.
TEST_F(Backfill, JobsOnInstancesAgreeWithTheTruthHoweverTheyAreListed) {
  FleetOptions o;
  o.preset = Preset::kResearch;
  o.gpus = 4000;
  o.duration = 3 * kMicrosPerHour;
  o.interval = 60 * kMicrosPerSecond;
  o.faults = Faults::kNone;
  auto fleet = Fleet::Create(o);
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  const Fleet::Model& m = (*fleet)->model();
  BackfillOptions options;
  options.directory = directory_;
  auto result = WriteHistory(**fleet, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->refused, 0u);
  store::Options store_options;
  store_options.directory = directory_;
  auto store = store::OpenDuckDbStore(store_options);
  ASSERT_TRUE(store.ok()) << store.status();
  auto dimensions = (*store)->LoadDimensions();
  ASSERT_TRUE(dimensions.ok());
  std::map<int32_t, std::string> keys;
  for (const auto& j : dimensions->jobs) keys[j.id] = j.key;
  const Truth truth = (*fleet)->TruthOf();
  std::map<std::string, const JobTruth*> jobs;
  for (const JobTruth& j : truth.jobs)
    if (j.mig) jobs[j.key] = &j;
  std::map<std::string, bool> listed;  // by job: whether its exporter lists the GPU
  for (const Stint& s : m.activity->AllStints())
    if (m.activity->MigOf(s.lane) != nullptr)
      listed[m.JobKey(s.job)] = m.ListsPartitionedGpus(m.activity->HostOf(s.lane));
  auto usage = (*store)->UsageByJob({truth.from, truth.to});
  ASSERT_TRUE(usage.ok()) << usage.status();
  std::map<bool, int> compared;
  for (const auto& u : *usage) {
    const auto it = jobs.find(keys[u.job]);
    if (it == jobs.end()) continue;
    const JobTruth& j = *it->second;
    const double seconds = static_cast<double>(j.work.allocated_us) / 1e6;
    if (seconds < 1800) continue;
    const double ofu =
        static_cast<double>(j.work.tensor_cycles) / static_cast<double>(j.work.peak_cycles);
    // As above; bursts of minutes make every edge a sample of 60 s.
    const double bound =
        2 * 60 / seconds * std::max(ofu, .2) + 4 * .1 * ofu / std::sqrt(seconds / 60) + 2e-3;
    ASSERT_TRUE(u.sums.ofu.Ofu().has_value()) << j.key;
    EXPECT_NEAR(*u.sums.ofu.Ofu(), ofu, bound) << j.key << (listed[j.key] ? ", GPU listed" : "");
    ++compared[listed[j.key]];
  }
  EXPECT_GT(compared[false], 3);
  EXPECT_GT(compared[true], 3);
}

// Timestamps in local time when clocks go back: the second pass through the hour is not newer than
// the first, so the product refuses it by name, one row a GPU and scrape, and counts nothing twice.
TEST_F(Backfill, TheRepeatedHourOfALocalClockIsRefusedOnce) {
  FleetOptions o = Small();
  o.start = *ParseTime("2026-11-01T07:00:00Z", 0);
  o.duration = 4 * kMicrosPerHour;
  o.interval = 30 * kMicrosPerSecond;
  o.local_time = true;
  auto fleet = Fleet::Create(o);
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  BackfillOptions options;
  options.directory = directory_;
  auto result = WriteHistory(**fleet, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->refused, 96u * 120);  // an hour of 30 s
  store::Options store_options;
  store_options.directory = directory_;
  auto store = store::OpenDuckDbStore(store_options);
  ASSERT_TRUE(store.ok()) << store.status();
  // Four hours from midnight local time, one of them twice: it is 3 o'clock, 08:00 behind UTC.
  EXPECT_LE((*store)->stats().newest_ts, *ParseTime("2026-11-01T03:00:00Z", 0));
  EXPECT_GT((*store)->stats().newest_ts, *ParseTime("2026-11-01T02:58:00Z", 0));
}

TEST_F(Backfill, EndsWhereAskedAndRefusesADirectoryInUse) {
  auto fleet = Fleet::Create(Small());
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  BackfillOptions options;
  options.directory = directory_;
  options.until = (*fleet)->options().start + 20 * kMicrosPerMinute;
  auto result = WriteHistory(**fleet, options);
  ASSERT_TRUE(result.ok()) << result.status();
  store::Options store_options;
  store_options.directory = directory_;
  auto store = store::OpenDuckDbStore(store_options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_LE((*store)->stats().newest_ts, options.until);
  EXPECT_GT((*store)->stats().newest_ts, options.until - kMicrosPerMinute);
  EXPECT_FALSE(WriteHistory(**fleet, options).ok());  // the store is held here
}

}  // namespace
}  // namespace flopwatch::simulate
