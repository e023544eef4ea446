// What goes to the store and comes back: TakeChanges and Load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "helpers.h"

namespace flopwatch::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// The tables of a store: later records replace earlier ones.
struct Tables {
  std::map<int32_t, JobRecord> jobs;
  std::map<int64_t, IntervalRecord> intervals;
  std::map<int32_t, JobSetRecord> sets;

  void Apply(const Changes& c) {
    for (const auto& r : c.jobs) jobs[r.id] = r;
    for (const auto& r : c.intervals) intervals[r.id] = r;
    for (const auto& r : c.sets) sets[r.id] = r;
  }
  void LoadInto(JobIndex& index, Micros seen_until) const {
    std::vector<JobRecord> j;
    std::vector<IntervalRecord> i;
    std::vector<JobSetRecord> s;
    for (const auto& [id, r] : jobs) j.push_back(r);
    for (const auto& [id, r] : intervals) i.push_back(r);
    for (const auto& [id, r] : sets) s.push_back(r);
    index.Load(j, i, s, seen_until);
  }
};

TEST(Changes, OpenOnceAndAgainWhenItEnds) {
  JobIndex index;
  Show(index, 1, 10, 10, {Slurm("7")});
  Changes c = index.TakeChanges();
  ASSERT_THAT(c.jobs, SizeIs(1));
  ASSERT_THAT(c.sets, SizeIs(1));
  ASSERT_THAT(c.intervals, SizeIs(1));
  EXPECT_EQ(c.intervals[0].from, At(0));
  EXPECT_EQ(c.intervals[0].to, kOpenEnd);
  EXPECT_EQ(c.intervals[0].job, c.jobs[0].id);
  for (int t = 20; t <= 100; t += 10) Show(index, 1, t, 10, {Slurm("7")});
  EXPECT_TRUE(index.TakeChanges().empty());
  Show(index, 1, 110, 10, {});
  c = index.TakeChanges();
  EXPECT_THAT(c.jobs, IsEmpty());
  ASSERT_THAT(c.intervals, SizeIs(1));
  EXPECT_EQ(c.intervals[0].to, At(100));
}

TEST(Changes, MergedIntervalIsWithdrawnFromTheStore) {
  JobIndex index;
  Tables tables;
  Show(index, 1, 10, 10, {Slurm("7")});
  Show(index, 1, 310, 10, {Slurm("7")});
  tables.Apply(index.TakeChanges());
  Show(index, 1, 155, 10, {Slurm("7")});
  tables.Apply(index.TakeChanges(true));
  JobIndex again;
  tables.LoadInto(again, 0);
  EXPECT_THAT(Lines(again), ElementsAre("1 7 0-310"));
}

TEST(Changes, CrashContinuesFromTheNewestStoredSample) {
  Tables tables;
  {
    JobIndex index;
    Show(index, 1, 10, 10, {Slurm("7")});
    Show(index, 2, 10, 10, {Slurm("7")});
    tables.Apply(index.TakeChanges());
    for (int t = 20; t <= 3600; t += 10) Show(index, 1, t, 10, {Slurm("7")});
    for (int t = 20; t <= 3600; t += 10) Show(index, 2, t, 10, {Slurm("7")});
  }  // killed: the hour was never written as ended
  JobIndex index;
  tables.LoadInto(index, At(3600));
  EXPECT_THAT(GpuSecondsOf(index, 0, 10'000), ElementsAre(Pair("7", 7200)));
  Show(index, 1, 3660, 0, {Slurm("7")});  // still there a minute later: the same run
  Show(index, 2, 3660, 0, {Slurm("8")});  // the other GPU went to another job meanwhile
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-3660", "2 7 0-3600"));
  tables.Apply(index.TakeChanges(true));
  JobIndex third;
  tables.LoadInto(third, 0);
  EXPECT_THAT(Lines(third), ElementsAre("1 7 0-3660", "2 7 0-3600"));
}

// Beside what is live, whose newest sample is days after what history was killed in.
TEST(Changes, CrashInHistoryEndsWhereHistoryWas) {
  Tables tables;
  JobIndex index;
  for (int t = 10; t <= 100; t += 10) Show(index, 1, t, 10, {Slurm("7")}, true);
  tables.Apply(index.TakeChanges());
  for (int t = 110; t <= 200; t += 10) Show(index, 1, t, 10, {Slurm("7")}, true);
  Show(index, 2, 90'000, 10, {Slurm("8")});
  tables.Apply(index.TakeChanges());
  EXPECT_TRUE(index.TakeChanges().empty());
  {
    JobIndex again;
    tables.LoadInto(again, At(90'010));
    EXPECT_THAT(Lines(again), ElementsAre("1 7 0-200", "2 8 89990-90010"));
    Show(again, 1, 210, 10, {Slurm("7")}, true);  // and goes on there
    EXPECT_THAT(Lines(again), ElementsAre("1 7 0-210", "2 8 89990-90010"));
  }
  // It goes over into what is live, which is open again.
  Show(index, 1, 210, 10, {Slurm("7")});
  tables.Apply(index.TakeChanges());
  JobIndex live;
  tables.LoadInto(live, At(90'010));
  EXPECT_THAT(Lines(live), ElementsAre("1 7 0-90010", "2 8 89990-90010"));
}

TEST(Changes, CleanShutdownIsExact) {
  Tables tables;
  JobIndex index;
  for (int t = 10; t <= 3600; t += 10) Show(index, 1, t, 10, {Slurm("7")});
  tables.Apply(index.TakeChanges());
  Show(index, 1, 3610, 10, {Slurm("7")});
  tables.Apply(index.TakeChanges(/*shutdown=*/true));
  JobIndex again;
  tables.LoadInto(again, At(9999));
  EXPECT_THAT(Lines(again), ElementsAre("1 7 0-3610"));
  EXPECT_EQ(again.FindJob("7")->id, index.FindJob("7")->id);
  EXPECT_EQ(again.Lookup(1, At(500)), index.Lookup(1, At(500)));
  // New ids do not collide with stored ones.
  Show(again, 2, 10'000, 10, {Slurm("8")});
  const Changes c = again.TakeChanges();
  ASSERT_THAT(c.intervals, SizeIs(1));
  EXPECT_EQ(tables.intervals.count(c.intervals[0].id), 0u);
  EXPECT_EQ(tables.jobs.count(c.jobs[0].id), 0u);
  EXPECT_EQ(tables.sets.count(c.sets[0].id), 0u);
}

Micros g_clock = 0;
TEST(Changes, SilentGpuIsWrittenAsEnded) {
  g_clock = 0;
  JobIndex index(Limits{}, [] { return g_clock; });
  Show(index, 1, 100, 10, {Slurm("7")});
  Show(index, 2, 100, 10, {Slurm("7")});
  index.TakeChanges();
  std::vector<IntervalRecord> ended;
  for (int minute = 1; minute <= 10; ++minute) {
    g_clock = minute * kMicrosPerMinute;
    Show(index, 2, 100 + 60 * minute, 60, {Slurm("7")});
    for (const IntervalRecord& r : index.TakeChanges().intervals) ended.push_back(r);
  }
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].entity, 1);
  EXPECT_EQ(ended[0].to, At(100));
}

TEST(Load, HostileRecordsAreHarmless) {
  JobIndex index;
  JobRecord jobs[3];
  jobs[0].id = -1;
  jobs[1].id = 2'000'000'000;
  jobs[2].id = 3;
  jobs[2].key = "c";
  const IntervalRecord intervals[] = {
      {.id = 1, .entity = -4, .job = 3, .from = At(0), .to = At(10)},
      {.id = 2, .entity = 5, .job = 3, .from = At(10), .to = At(0)},
      {.id = 3, .entity = 5, .job = 3, .from = At(0), .to = At(10)},
  };
  const JobSetRecord sets[] = {
      {.id = -1, .jobs = {3}}, {.id = 4, .jobs = {}}, {.id = 5, .jobs = {3}}};
  index.Load(jobs, intervals, sets);
  EXPECT_THAT(Lines(index), ElementsAre("5 c 0-10"));
  EXPECT_EQ(index.Lookup(5, At(5)), 5);
  EXPECT_THAT(index.AllJobs(), SizeIs(1));
}

}  // namespace
}  // namespace flopwatch::jobs
