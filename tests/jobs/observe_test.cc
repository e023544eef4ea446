// Label intervals: opened, extended, closed, shared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "helpers.h"

namespace flopwatch::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(Observe, SampleStandsForTheTimeBeforeIt) {
  JobIndex index;
  const int32_t set = Show(index, 1, 10, 10, {Slurm("7")});
  EXPECT_THAT(KeysOf(index, set), ElementsAre("7"));
  Show(index, 1, 20, 10, {Slurm("7")});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-20"));
  EXPECT_THAT(GpuSecondsOf(index, 0, 100), ElementsAre(Pair("7", 20)));
  EXPECT_THAT(GpuSecondsOf(index, 5, 15), ElementsAre(Pair("7", 10)));
  EXPECT_THAT(GpuSecondsOf(index, 20, 100), IsEmpty());
}

TEST(Observe, UnknownSpanMarksAnInstant) {
  JobIndex index;
  EXPECT_NE(Show(index, 1, 10, 0, {Slurm("7")}), 0);
  EXPECT_THAT(GpuSecondsOf(index, 0, 100), IsEmpty());
  Show(index, 1, 20, 10, {Slurm("7")});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 10-20"));
}

TEST(Observe, EndsAtTheLastSampleThatShowedIt) {
  JobIndex index;
  for (int t = 10; t <= 100; t += 10) Show(index, 1, t, 10, {Slurm("7")});
  for (int t = 110; t <= 200; t += 10) EXPECT_EQ(Show(index, 1, t, 10, {}), 0);
  for (int t = 210; t <= 300; t += 10) Show(index, 1, t, 10, {Slurm("8")});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-100", "1 8 200-300"));
}

TEST(Observe, SameSetForSameJobs) {
  JobIndex index;
  const int32_t a = Show(index, 1, 10, 10, {Slurm("7"), Slurm("8")});
  const int32_t b = Show(index, 2, 10, 10, {Slurm("8"), Slurm("7"), Slurm("8")});
  EXPECT_EQ(a, b);
  EXPECT_NE(Show(index, 3, 10, 10, {Slurm("7")}), a);
  EXPECT_THAT(KeysOf(index, a), UnorderedElementsAre("7", "8"));
  EXPECT_THAT(index.SetMembers(0), IsEmpty());
  EXPECT_THAT(index.SetMembers(12345), IsEmpty());
}

// Two lines in dcgm-exporter's mapping file: every series of the GPU appears twice, its time counts
// once.
TEST(Observe, SharedGpuIsDividedEqually) {
  JobIndex index;
  Show(index, 1, 60, 60, {Slurm("A")});
  Show(index, 1, 120, 60, {Slurm("A"), Slurm("B")});
  Show(index, 1, 180, 60, {Slurm("A"), Slurm("B"), Slurm("C")});
  Show(index, 1, 240, 60, {Slurm("B")});
  // A: 60 + 60/2 + 60/3 = 110; B: 60/2 + 60/3 + 60 = 110; C: 60/3 = 20; together the 240 s the GPU
  // ran.
  EXPECT_THAT(GpuSecondsOf(index, 0, 1000),
              UnorderedElementsAre(Pair("A", 110), Pair("B", 110), Pair("C", 20)));
  EXPECT_THAT(Lines(index), ElementsAre("1 A 0-180", "1 B 60-240", "1 C 120-180"));
}

TEST(Observe, ShortGapDoesNotSplit) {
  JobIndex index;
  Show(index, 1, 10, 10, {Slurm("7")});
  Show(index, 1, 20, 10, {});  // labels missing at random
  Show(index, 1, 30, 10, {Slurm("7")});
  Show(index, 1, 180, 0, {Slurm("7")});  // exactly kMaxGap = 150 s without a sample
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-180"));
  Show(index, 1, 331, 0, {Slurm("7")});  // 151 s: two runs
  Show(index, 1, 341, 10, {Slurm("7")});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-180", "1 7 331-341"));
}

TEST(Observe, LateSampleJoinsTwoRuns) {
  JobIndex index;
  Show(index, 1, 10, 10, {Slurm("7")});
  Show(index, 1, 310, 10, {Slurm("7")});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-10", "1 7 300-310"));
  const int32_t late =
      Show(index, 1, 155, 10, {Slurm("7")});  // 10..145 and 155..300: both within 150 s
  EXPECT_THAT(KeysOf(index, late), ElementsAre("7"));
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-310"));
  Show(index, 1, 320, 10, {Slurm("7")});  // and it still grows
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-320"));
}

TEST(Observe, LateSampleOfAnEarlierJobLeavesTheNewestAlone) {
  JobIndex index;
  Show(index, 1, 1000, 10, {Slurm("new")});
  Show(index, 1, 510, 10, {Slurm("old")});
  Show(index, 1, 1010, 10, {Slurm("new")});
  EXPECT_THAT(Lines(index), ElementsAre("1 old 500-510", "1 new 990-1010"));
}

TEST(Observe, LookupAgreesWithTheStamp) {
  JobIndex index;
  std::vector<std::pair<int, int32_t>> stamps;
  for (int t = 10; t <= 100; t += 10)
    stamps.emplace_back(t, Show(index, 1, t, 10, {Slurm(t <= 50 ? "7" : "8")}));
  for (const auto& [t, set] : stamps) EXPECT_EQ(index.Lookup(1, At(t)), set) << t;
  EXPECT_EQ(index.Lookup(1, At(0)), 0);  // (0, 10] is the first sample's
  EXPECT_EQ(index.Lookup(1, At(101)), 0);
  EXPECT_EQ(index.Lookup(2, At(10)), 0);
  EXPECT_EQ(index.Lookup(-1, At(10)), 0);
}

TEST(Observe, UserAndPodNameAreKept) {
  JobIndex index;
  Show(index, 1, 10, 10, {Slurm("7")});
  Show(index, 2, 10, 10, {Slurm("7", "alice")});  // another node's relabelling knows the user
  Show(index, 3, 10, 10, {Pod("ns", "p-0")});
  EXPECT_EQ(index.FindJob("7")->user, "alice");
  EXPECT_EQ(index.FindJob("ns/p-0")->name, "p-0");
  EXPECT_FALSE(index.FindJob("9").has_value());
  EXPECT_FALSE(index.job(0).has_value());
  EXPECT_EQ(index.AllJobs().size(), 2u);
}

TEST(Observe, NonsenseTimesAndEntitiesAreIgnored) {
  JobIndex index;
  const telemetry::OwnerLabels owner = Slurm("7");
  const telemetry::OwnerLabels* const owners[] = {&owner};
  constexpr Micros kMax = std::numeric_limits<Micros>::max();
  EXPECT_EQ(index.Observe(0, At(10), Sec(10), owners), 0);
  EXPECT_EQ(index.Observe(-5, At(10), Sec(10), owners), 0);
  EXPECT_EQ(index.Observe(std::numeric_limits<int32_t>::max(), At(10), Sec(10), owners), 0);
  EXPECT_EQ(index.Observe(1, kMax, Sec(10), owners), 0);
  EXPECT_EQ(index.Observe(1, 0, Sec(10), owners), 0);
  EXPECT_EQ(index.Observe(1, -kMax, Sec(10), owners), 0);
  EXPECT_NE(index.Observe(1, At(10), -kMax, owners), 0);  // a negative span is an unknown one
  EXPECT_NE(index.Observe(1, At(20), kMax, owners), 0);  // and no sample stands for more than a day
  EXPECT_THAT(index.GpuSecondsByJob(0, kOpenEnd),
              ElementsAre(::testing::Field(&GpuSeconds::gpu_seconds, 86'400)));
}

TEST(Observe, LimitsRefuseAndCount) {
  Limits limits;
  limits.max_key_bytes = 16;
  limits.max_owners = 2;
  limits.new_jobs_per_entity = 3;
  JobIndex index(limits);
  EXPECT_EQ(Show(index, 1, 10, 10, {Slurm(std::string(17, 'x'))}), 0);
  EXPECT_EQ(index.stats().refused_labels, 1u);
  EXPECT_THAT(KeysOf(index, Show(index, 2, 10, 10, {Slurm("1"), Slurm("2"), Slurm("3")})),
              UnorderedElementsAre("1", "2"));
  EXPECT_EQ(index.stats().refused_labels, 2u);
  // Entity 3 invents a job per sample: three at once, then one for every four samples.
  int granted = 0;
  for (int k = 1; k <= 43; ++k)
    granted += Show(index, 3, 1000 * k, 10, {Slurm("e3-" + std::to_string(k))}) != 0 ? 1 : 0;
  EXPECT_EQ(granted, 3 + 10);
  EXPECT_EQ(index.stats().refused_jobs, 30u);
  // Others are not harmed.
  EXPECT_NE(Show(index, 4, 10, 10, {Slurm("mine")}), 0);

  limits.max_intervals = 2;
  JobIndex small(limits);
  Show(small, 1, 10, 10, {Slurm("1")});
  Show(small, 2, 10, 10, {Slurm("1")});
  Show(small, 3, 10, 10, {Slurm("1")});
  EXPECT_EQ(small.stats().intervals, 2u);
  EXPECT_EQ(small.stats().refused_intervals, 1u);
}

TEST(Observe, RefusedJobIsAskedAgain) {
  Limits limits;
  limits.new_jobs_per_entity = 1;
  JobIndex index(limits);
  Show(index, 1, 10, 10, {Slurm("a")});
  std::vector<int32_t> sets;
  for (int t = 20; t <= 80; t += 10) sets.push_back(Show(index, 1, t, 10, {Slurm("b")}));
  EXPECT_EQ(sets.front(), 0);
  EXPECT_NE(sets.back(), 0);  // after four more samples
}

TEST(Observe, DropBeforeForgets) {
  JobIndex index;
  Show(index, 1, 10, 10, {Slurm("1")});
  Show(index, 1, 1000, 10, {Slurm("2")});
  Show(index, 1, 1010, 10, {Slurm("2")});
  index.TakeChanges();
  index.DropBefore(At(500));
  EXPECT_THAT(Lines(index), ElementsAre("1 2 990-1010"));
  EXPECT_EQ(index.stats().intervals, 1u);
  EXPECT_EQ(index.stats().job_gpus, 1u);
  EXPECT_TRUE(index.Intervals(At(0), At(1e6), index.FindJob("1")->id).empty());
  EXPECT_TRUE(index.FindJob("1").has_value());  // stored rows still name it
}

// Sixteen GPUs take sixty-four jobs in turn, an interval each time. What ended an hour ago is
// dropped every ten minutes.
TEST(Observe, DropBeforeBoundsMemory) {
  JobIndex index;
  const auto run = [&](int from_minute, int to_minute) {
    for (int m = from_minute; m < to_minute; ++m) {
      for (int gpu = 1; gpu <= 16; ++gpu) {
        // One minute of a job, then four of nobody: longer than kMaxGap, so the next time is
        // another interval.
        const std::vector<telemetry::OwnerLabels> owners =
            m % 5 == 0 ? std::vector{Slurm(std::to_string(100 + (m / 5 * 7 + gpu) % 64))}
                       : std::vector<telemetry::OwnerLabels>{};
        Show(index, gpu, m * 60, 60, owners);
      }
      if (m % 10 == 0) {
        index.TakeChanges();
        index.DropBefore(At((m - 60) * 60));
      }
    }
  };
  run(0, 240);
  const IndexStats before = index.stats();
  const auto heap = [] { return mallinfo2().uordblks; };
  const size_t heap_before = heap();
  run(240, 2400);
  const IndexStats after = index.stats();
  EXPECT_EQ(after.jobs, 64u);
  // Twelve intervals an hour and GPU, and what came since the last drop.
  EXPECT_LE(before.intervals, 16u * 15);
  EXPECT_EQ(after.intervals, before.intervals);
  EXPECT_LE(after.job_gpus, after.intervals);
  // 6,912 more intervals came and went; the allocator's own count says that they are gone (some
  // slack for lists that grew).
  EXPECT_LE(heap(), heap_before + 32 * 1024);
}

TEST(Observe, AJobThatComesAndGoesIsLookedForOncePerGpu) {
  JobIndex index;
  for (int t = 0; t < 1000; ++t) Show(index, 1 + t % 2, t * 300, 60, {Slurm("1")});
  EXPECT_EQ(index.stats().intervals, 1000u);
  EXPECT_LE(index.stats().job_gpus, 64u);
  EXPECT_EQ(index.Intervals(At(-1000), At(1e6), index.FindJob("1")->id).size(), 1000u);
}

}  // namespace
}  // namespace flopwatch::jobs
