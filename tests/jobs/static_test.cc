// The static source: files, precedence over labels, late binding, slots that change hands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "helpers.h"

namespace flopwatch::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

StatusOr<std::vector<StaticAssignment>> Parse(std::string_view text,
                                              std::string_view name = "jobs.csv") {
  return ParseStaticFile(text, name, At(7200));
}
std::string ErrorOf(std::string_view text, std::string_view name = "jobs.csv") {
  return std::string(Parse(text, name).status().message());
}

TEST(StaticFile, Csv) {
  const auto parsed = Parse(
      "\xEF\xBB\xBF# written by the prolog\r\n"
      "gpu,from,to,job,rank,user,workflow,name\r\n"
      "GPU-1,2026-11-01T00:00:00Z,2026-11-01T01:00:00Z,100,0,alice,pretrain,\"7B, run 2\"\r\n"
      "\r\n"
      "gpu001:3,2026-11-01T01:00:00+01:00,,101,,,,\r\n"
      "GPU-2/5,1793491200.5,-1h,102,,,,");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 3u);
  EXPECT_EQ((*parsed)[0].gpu, "GPU-1");
  EXPECT_EQ((*parsed)[0].from, At(0));
  EXPECT_EQ((*parsed)[0].to, At(3600));
  EXPECT_EQ((*parsed)[0].rank, 0);
  EXPECT_EQ((*parsed)[0].user, "alice");
  EXPECT_EQ((*parsed)[0].workflow, "pretrain");
  EXPECT_EQ((*parsed)[0].name, "7B, run 2");
  EXPECT_EQ((*parsed)[1].from, At(0));
  EXPECT_EQ((*parsed)[1].to, kOpenEnd);
  EXPECT_EQ((*parsed)[1].rank, -1);
  EXPECT_EQ((*parsed)[2].from, At(0.5));
  EXPECT_EQ((*parsed)[2].to, At(3600));
}

TEST(StaticFile, Toml) {
  const auto parsed = Parse(
      "[[assignment]]\n"
      "gpu = \"GPU-1\"\n"
      "job = 100\n"
      "from = 2026-11-01T00:00:00Z\n"
      "to = \"2026-11-01T01:00:00Z\"\n"
      "rank = 7\n"
      "[[assignment]]\n"
      "gpu = \"n:0\"\n"
      "job = \"ns/pod\"\n"
      "from = 1793491260\n",
      "jobs.toml");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ((*parsed)[0].job, "100");
  EXPECT_EQ((*parsed)[0].from, At(0));
  EXPECT_EQ((*parsed)[0].to, At(3600));
  EXPECT_EQ((*parsed)[0].rank, 7);
  EXPECT_EQ((*parsed)[1].from, At(60));
  EXPECT_EQ((*parsed)[1].to, kOpenEnd);
}

TEST(StaticFile, ErrorsNameLineAndField) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("jobs.csv: empty"));
  EXPECT_THAT(ErrorOf("gpu,form,to,job\n"),
              HasSubstr("jobs.csv:1: unknown field 'form' (did you mean 'from'?)"));
  EXPECT_THAT(ErrorOf("gpu,from,to\n"), HasSubstr("no column 'job'"));
  EXPECT_THAT(ErrorOf("gpu,from,gpu,job\n"), HasSubstr("'gpu' appears twice"));
  const std::string header = "gpu,from,to,job,rank\n";
  EXPECT_THAT(ErrorOf(header + "G,2026-11-01,,7\n"),
              HasSubstr("jobs.csv:2: 4 fields where the header has 5"));
  EXPECT_THAT(ErrorOf(header + "G,yesterday,,7,\n"), HasSubstr("jobs.csv:2: from: "));
  EXPECT_THAT(ErrorOf(header + "G,,,7,\n"), HasSubstr("from: empty"));
  EXPECT_THAT(ErrorOf(header + "\n# x\nG,2026-11-02,2026-11-01,7,\n"),
              HasSubstr("jobs.csv:4: to: "));
  EXPECT_THAT(ErrorOf(header + "G,2026-11-01,,,\n"), HasSubstr("job: empty"));
  EXPECT_THAT(ErrorOf(header + ",2026-11-01,,7,\n"), HasSubstr("gpu: empty"));
  EXPECT_THAT(ErrorOf(header + "G,2026-11-01,,7,first\n"), HasSubstr("rank: 'first'"));
  EXPECT_THAT(ErrorOf(header + "\"G,2026-11-01,,7,\n"), HasSubstr("quote is not closed"));
  EXPECT_THAT(ErrorOf(header + std::string(600, 'g') + ",2026-11-01,,7,\n"),
              HasSubstr("gpu: 600 bytes"));
  EXPECT_THAT(ErrorOf(header + "G\xff,2026-11-01,,7,\n"), HasSubstr("gpu: 'G\\xff' is not UTF-8"));
  EXPECT_THAT(ErrorOf(header + "G,2026-11-01,,7\x1b,\n"),
              HasSubstr("job: '7\\x1b' has control characters"));
  EXPECT_THAT(
      ErrorOf("[[assignment]]\ngpu = 'a'\njob = 1\nfrom = 2026-11-01\nuser = []\n", "j.toml"),
      HasSubstr("j.toml:5: user: must be"));
  EXPECT_THAT(ErrorOf("[[assignment]]\ngpu = 'a\n", "j.toml"), HasSubstr("j.toml:2: "));
  EXPECT_THAT(ErrorOf("[[assignments]]\ngpu = 'a'\n", "j.toml"),
              HasSubstr("'assignments' is not known"));
}

TEST(Static, WaitsUntilTheGpuIsKnown) {
  JobIndex index;
  index.SetStatic({Assign("GPU-1", "100", 0, 3600, 4), Assign("gpu001:3", "101", 0, -1),
                   Assign("GPU-M/5", "102", 10, 20)});
  EXPECT_EQ(index.stats().static_waiting, 3u);
  EXPECT_THAT(Lines(index), IsEmpty());
  index.BindEntity(1, Gpu("GPU-1"), Slot("gpu009", 0));
  index.BindEntity(2, Gpu("GPU-2"), Slot("gpu001", 3));
  index.BindEntity(3, Gpu("GPU-M", 5), Slot("gpu001", 4));
  index.BindEntity(4, Gpu("GPU-M", 6), Slot("gpu001", 4));
  EXPECT_THAT(Lines(index), ElementsAre("1 100 0-3600 rank 4", "2 101 0-…", "3 102 10-20"));
  EXPECT_EQ(index.stats().static_waiting, 0u);
  EXPECT_THAT(GpuSecondsOf(index, 0, 7200),
              UnorderedElementsAre(Pair("100", 3600), Pair("101", 7200), Pair("102", 10)));
}

TEST(Static, CoversLabelsWhereItSpeaks) {
  JobIndex index;
  index.BindEntity(1, Gpu("GPU-1"), {});
  index.SetStatic({Assign("GPU-1", "static", 100, 200)});
  for (int t = 10; t <= 300; t += 10) {
    const int32_t set = Show(index, 1, t, 10, {Slurm("label")});
    EXPECT_THAT(KeysOf(index, set), ElementsAre(t > 100 && t <= 200 ? "static" : "label")) << t;
    EXPECT_EQ(index.Lookup(1, At(t)), set) << t;
  }
  EXPECT_THAT(Lines(index), ElementsAre("1 label 0-100", "1 static 100-200", "1 label 200-300"));
  EXPECT_THAT(GpuSecondsOf(index, 0, 1000),
              UnorderedElementsAre(Pair("label", 200), Pair("static", 100)));
}

// A crashed epilog leaves the job's id in the mapping file: the scheduler's end wins.
TEST(Static, StaleLabelOfAnEndedJobIsIgnored) {
  JobIndex index;
  index.BindEntity(1, Gpu("GPU-1"), {});
  for (int t = 10; t <= 100; t += 10) Show(index, 1, t, 10, {Slurm("7")});
  index.SetStatic({Assign("GPU-1", "7", 0, 105)});
  EXPECT_THAT(KeysOf(index, Show(index, 1, 105, 5, {Slurm("7")})), ElementsAre("7"));
  EXPECT_EQ(Show(index, 1, 110, 10, {Slurm("7")}), 0);
  // On another GPU too, and beside a job that does run.
  EXPECT_EQ(Show(index, 2, 110, 10, {Slurm("7")}), 0);
  EXPECT_THAT(KeysOf(index, Show(index, 3, 110, 10, {Slurm("7"), Slurm("8")})), ElementsAre("8"));
  EXPECT_THAT(GpuSecondsOf(index, 0, 1000),
              UnorderedElementsAre(Pair("7", 105 + 5 + 2.5), Pair("8", 5 + 2.5)));
}

// A sample just after the start stands for time before it: the static start wins, so GPU-seconds
// are exact.
TEST(Static, LabelsDoNotReachBackBeforeTheStart) {
  JobIndex index;
  index.BindEntity(1, Gpu("GPU-1"), {});
  index.SetStatic({Assign("GPU-1", "7", 20, 80)});
  for (int t = 30; t <= 90; t += 30) Show(index, 1, t, 30, {Slurm("7")});
  EXPECT_THAT(GpuSecondsOf(index, 0, 1000), UnorderedElementsAre(Pair("7", 60)));
}

TEST(Static, EndKnownLaterChangesTheStamp) {
  JobIndex index;
  index.BindEntity(1, Gpu("GPU-1"), {});
  index.SetStatic({Assign("GPU-1", "7", 0, -1)});
  EXPECT_THAT(KeysOf(index, Show(index, 1, 10, 10, {})), ElementsAre("7"));
  EXPECT_THAT(KeysOf(index, Show(index, 1, 20, 10, {})), ElementsAre("7"));
  index.SetStatic({Assign("GPU-1", "7", 0, 25)});
  EXPECT_EQ(Show(index, 1, 30, 10, {}), 0);
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-25"));
}

TEST(Static, BoundaryInsideARunOfEqualLabels) {
  JobIndex index;
  index.BindEntity(1, Gpu("GPU-1"), {});
  index.SetStatic({Assign("GPU-1", "7", 35, 55)});
  std::vector<int32_t> sets;
  for (int t = 10; t <= 80; t += 10) sets.push_back(Show(index, 1, t, 10, {}) != 0);
  EXPECT_THAT(sets, ElementsAre(0, 0, 0, 1, 1, 0, 0, 0));  // samples at 40 and 50 lie in (35, 55]
}

TEST(Static, ReplacingRetractsAndKeepsIds) {
  JobIndex index;
  index.BindEntity(1, Gpu("GPU-1"), {});
  index.SetStatic({Assign("GPU-1", "7", 0, -1, 2), Assign("GPU-1", "8", 50, 60)});
  const Changes first = index.TakeChanges();
  ASSERT_EQ(first.intervals.size(), 2u);
  index.SetStatic({Assign("GPU-1", "7", 0, 100, 2)});
  const Changes second = index.TakeChanges();
  ASSERT_EQ(second.intervals.size(), 2u);
  for (const IntervalRecord& r : second.intervals) {
    if (index.job(r.job)->key == "7") {
      EXPECT_EQ(r.to, At(100));
      EXPECT_EQ(r.rank, 2);
      EXPECT_TRUE(r.id == first.intervals[0].id || r.id == first.intervals[1].id);
    } else {
      EXPECT_EQ(r.to, r.from);  // withdrawn
    }
  }
  index.SetStatic({Assign("GPU-1", "7", 0, 100, 2)});
  EXPECT_TRUE(index.TakeChanges().empty());
}

TEST(Static, RestartReadsTheFileAgainWithoutChange) {
  JobIndex first;
  first.BindEntity(1, Gpu("GPU-1"), Slot("n", 0));
  first.SetStatic({Assign("GPU-1", "7", 0, 100), Assign("n:0", "8", 200, -1)});
  const Changes stored = first.TakeChanges(true);
  JobIndex second;
  second.Load(stored.jobs, stored.intervals, stored.sets);
  second.SetStatic({Assign("GPU-1", "7", 0, 100), Assign("n:0", "8", 200, -1)});
  EXPECT_THAT(Lines(second),
              ElementsAre("1 7 0-100", "1 8 200-…"));  // not withdrawn while its GPU is unnamed
  second.BindEntity(1, Gpu("GPU-1"), Slot("n", 0));
  EXPECT_THAT(Lines(second), ElementsAre("1 7 0-100", "1 8 200-…"));
  EXPECT_TRUE(second.TakeChanges().empty());
  // A label naming an ended job is stale after a restart as well.
  EXPECT_EQ(Show(second, 9, 150, 10, {Slurm("7")}), 0);
}

// GPU identity is not the slot: a board swapped at t=500 keeps its past. (On Titan 18,688 slots saw
// 30,207 GPUs.)
TEST(Static, SlotChangesHands) {
  JobIndex index;
  index.SetStatic({Assign("n:0", "7", 0, 400), Assign("n:0", "8", 450, 1000)});
  index.BindEntity(1, Gpu("GPU-old"), Slot("n", 0));
  for (int t = 10; t <= 500; t += 10) Show(index, 1, t, 10, {});
  index.BindEntity(2, Gpu("GPU-new"), Slot("n", 0));
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-400", "1 8 450-500", "2 8 500-1000"));
  const Changes stored = index.TakeChanges(true);
  JobIndex again;
  again.Load(stored.jobs, stored.intervals, stored.sets, At(500));
  again.SetStatic({Assign("n:0", "7", 0, 400), Assign("n:0", "8", 450, 1000)});
  again.BindEntity(1, Gpu("GPU-old"), Slot("n", 0));
  again.BindEntity(2, Gpu("GPU-new"), Slot("n", 0));
  EXPECT_THAT(Lines(again), ElementsAre("1 7 0-400", "1 8 450-500", "2 8 500-1000"));
}

// Schedulers count devices by minor number: an exporter that sees two of four boards gives them
// indices of its own.
TEST(Static, DevicesHaveTheirMinorNumberAsAName) {
  JobIndex index;
  telemetry::EntityLabels labels = Slot("n", 0);
  labels.device = "nvidia2";
  index.BindEntity(1, Gpu("GPU-1"), labels);
  index.SetStatic({Assign("n:nvidia2", "7", 0, 100), Assign("n:nvidia0", "8", 0, 100)});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-100"));
}

TEST(Static, SameJobTwiceOnAGpuIsOneOwner) {
  JobIndex index;
  index.BindEntity(1, Gpu("GPU-1"), {});
  index.SetStatic({Assign("GPU-1", "7", 0, 100, 0), Assign("GPU-1", "7", 0, 100, 1),
                   Assign("GPU-1", "8", 0, 100)});
  EXPECT_THAT(GpuSecondsOf(index, 0, 100), UnorderedElementsAre(Pair("7", 50), Pair("8", 50)));
}

TEST(Static, NamesAndUsersOfTheFileWin) {
  JobIndex index;
  Show(index, 1, 10, 10, {Slurm("7", "from-label")});
  StaticAssignment a = Assign("GPU-1", "7", 0, 100);
  a.user = "alice";
  a.workflow = "pretrain";
  index.SetStatic({a});
  const auto job = index.FindJob("7");
  EXPECT_EQ(job->user, "alice");
  EXPECT_EQ(job->workflow, "pretrain");
  EXPECT_EQ(job->source, Source::kStaticFile);
}

// A GPU that is forgotten leaves its names to others, and its time in a slot to nobody.
TEST(Static, AForgottenGpuOwnsNoName) {
  JobIndex index;
  index.SetStatic({});
  index.BindEntity(1, Gpu("GPU-1"), Slot("n", 0));
  Show(index, 1, 100, 10, {});
  index.BindEntity(2, Gpu("GPU-2"), Slot("n", 0));
  Show(index, 2, 200, 10, {});
  index.BindEntity(3, Gpu("GPU-3"), Slot("n", 0));
  index.UnbindEntities(std::vector<int32_t>{2, 77});
  index.SetStatic({Assign("n:0", "7", 0, 1000), Assign("GPU-2", "8", 0, 1000)});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-100", "3 7 200-1000"));
  EXPECT_EQ(index.stats().static_waiting, 1u);
  // Whose turn it was before, too.
  index.UnbindEntities(std::vector<int32_t>{1});
  EXPECT_THAT(Lines(index), ElementsAre("3 7 200-1000"));
  EXPECT_FALSE(index.HasIntervals(1));
  EXPECT_TRUE(index.HasIntervals(3));
  // What has the name now gets what waits for it.
  index.BindEntity(4, Gpu("GPU-2"), {});
  EXPECT_THAT(Lines(index), ElementsAre("3 7 200-1000", "4 8 0-1000"));
  index.UnbindEntities(std::vector<int32_t>{3});
  index.BindEntity(5, Gpu("GPU-5"), Slot("n", 0));
  EXPECT_THAT(Lines(index), ElementsAre("4 8 0-1000", "5 7 0-1000"));
  // What the store has of them is withdrawn there.
  index.TakeChanges();
  index.UnbindEntities(std::vector<int32_t>{4, 5});
  const Changes changes = index.TakeChanges();
  ASSERT_EQ(changes.intervals.size(), 2u);
  for (const IntervalRecord& i : changes.intervals) EXPECT_EQ(i.from, i.to);
  EXPECT_EQ(index.stats().static_waiting, 2u);
}

}  // namespace
}  // namespace flopwatch::jobs
