// What a scheduler says of GPUs: precedence, late binding, ends that become known, restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "helpers.h"

namespace flopwatch::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

void Bind(JobIndex& index, int32_t entity, std::string node, std::string device) {
  telemetry::EntityKey key;
  key.uuid = "GPU-" + std::to_string(entity);
  telemetry::EntityLabels labels;
  labels.node = std::move(node);
  labels.device = std::move(device);
  index.BindEntity(entity, key, labels);
}
StaticAssignment Says(std::string gpu, std::string job, double from, double to) {
  StaticAssignment a;
  a.gpu = std::move(gpu);
  a.job = std::move(job);
  a.from = At(from);
  a.to = to == 0 ? kOpenEnd : At(to);
  return a;
}

TEST(Scheduled, StandsBetweenLabelsAndTheStaticFile) {
  JobIndex index;
  Bind(index, 1, "n", "nvidia0");
  index.Schedule({{Says("n:nvidia0", "7", 100, 0)}});
  const int32_t set = Show(index, 1, 130, 30, {Slurm("6")});
  EXPECT_THAT(KeysOf(index, set), ElementsAre("7"));
  index.SetStatic({Says("n:nvidia0", "8", 130, 200)});
  EXPECT_THAT(KeysOf(index, Show(index, 1, 160, 30, {Slurm("6")})), ElementsAre("8"));
  EXPECT_THAT(GpuSecondsOf(index, 100, 300), ElementsAre(Pair("7", 130), Pair("8", 70)));
}

TEST(Scheduled, WhatIsNotListedAgainStays) {
  JobIndex index;
  Bind(index, 1, "n", "nvidia0");
  index.Schedule({{Says("n:nvidia0", "7", 0, 50)}});
  index.Schedule({{Says("n:nvidia0", "8", 60, 0)}});
  index.Schedule({{Says("n:nvidia0", "8", 60, 90)}});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-50", "1 8 60-90"));
}

TEST(Scheduled, WaitsForItsGpu) {
  JobIndex index;
  index.Schedule({{Says("n:nvidia0", "7", 0, 50), Says("n:nvidia1", "7", 0, 50)}});
  index.Schedule({{Says("n:nvidia0", "7", 0, 40)}});
  EXPECT_THAT(Lines(index), IsEmpty());
  Bind(index, 1, "n", "nvidia0");
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-40"));
}

TEST(Scheduled, LabelsOfAJobCountOnlyWhileItRan) {
  JobIndex index;
  Bind(index, 1, "n", "nvidia0");
  index.Schedule({{Says("", "7", 0, 100)}});  // nobody says on which GPUs
  EXPECT_THAT(KeysOf(index, Show(index, 1, 50, 30, {Slurm("7")})), ElementsAre("7"));
  EXPECT_THAT(KeysOf(index, Show(index, 1, 150, 30, {Slurm("7")})), IsEmpty()) << "a stale map";
}

// A scheduler says which GPUs only while a job runs; its end comes without them.
TEST(Scheduled, AnEndWithoutGpusEndsWhatTheJobHolds) {
  JobIndex index;
  Bind(index, 1, "n", "nvidia0");
  index.Schedule({{Says("n:nvidia0", "7", 0, 50)}});
  index.Schedule({{Says("n:nvidia0", "7", 100, 0), Says("n:nvidia9", "7", 100, 0)}});
  index.Schedule({{Says("", "7", 100, 0)}});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-50", "1 7 100-…"));
  index.Schedule({{Says("", "7", 100, 130)}});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-50", "1 7 100-130"));
  index.Schedule({{Says("", "7", 100, 140)}});  // accounting knows it better
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-50", "1 7 100-140"));
  index.Schedule({{Says("", "7", 0, 40)}});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-40", "1 7 100-140"));
  Bind(index, 2, "n", "nvidia9");
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-40", "1 7 100-140", "2 7 100-140"));
}

TEST(Scheduled, AnEndLeavesABoardThatWentBeforeAsItIs) {
  JobIndex index;
  Bind(index, 1, "n", "nvidia0");
  Show(index, 1, 100, 30, {});
  Bind(index, 2, "n", "nvidia0");  // from 100 on
  index.Schedule({{Says("n:nvidia0", "7", 0, 0)}});
  index.Schedule({{Says("", "7", 0, 200)}});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-100", "2 7 100-200"));
}

TEST(Scheduled, AJobThatStartsAgainHasTwoTimes) {
  JobIndex index;
  Bind(index, 1, "n", "nvidia0");
  index.Schedule({{Says("n:nvidia0", "7", 0, 50)}});
  index.Schedule({{Says("n:nvidia0", "7", 200, 0)}});
  index.Schedule({{Says("n:nvidia0", "7", 0, 50)}});  // accounting tells of the first again
  EXPECT_THAT(GpuSecondsOf(index, 0, 300), ElementsAre(Pair("7", 150)));
  EXPECT_THAT(KeysOf(index, Show(index, 1, 290, 30, {Slurm("7")})), ElementsAre("7"));
}

TEST(Scheduled, AStaticFileThatIsReadAgainTakesNothingFromTheScheduler) {
  JobIndex index;
  Bind(index, 1, "n", "nvidia0");
  index.Schedule({{Says("n:nvidia0", "7", 0, 50)}});
  index.SetStatic({Says("n:nvidia0", "8", 60, 70)});
  index.SetStatic({});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-50"));
}

TEST(Scheduled, ASwappedBoardKeepsItsPast) {
  JobIndex index;
  Bind(index, 1, "n", "nvidia0");
  Show(index, 1, 100, 30, {});
  Bind(index, 2, "n", "nvidia0");  // from 100 on
  index.Schedule({{Says("n:nvidia0", "7", 0, 200)}});
  index.Schedule({{Says("n:nvidia0", "7", 0, 200)}});
  EXPECT_THAT(Lines(index), ElementsAre("1 7 0-100", "2 7 100-200"));
}

TEST(Scheduled, ARestartKnowsItAgain) {
  JobIndex before;
  Bind(before, 1, "n", "nvidia0");
  before.Schedule({{Says("n:nvidia0", "7", 0, 50), Says("n:nvidia0", "8", 60, 0)}});
  const Changes stored = before.TakeChanges();
  JobIndex after;
  after.Load(stored.jobs, stored.intervals, stored.sets, At(100));
  Bind(after, 1, "n", "nvidia0");
  EXPECT_TRUE(after.TakeChanges().empty());
  after.Schedule({{Says("n:nvidia0", "8", 60, 0)}});
  EXPECT_TRUE(after.TakeChanges().empty()) << "nothing is new";
  EXPECT_THAT(KeysOf(after, Show(after, 1, 130, 30, {Slurm("7")})), ElementsAre("8"));
  after.Schedule({{Says("n:nvidia0", "8", 60, 140)}});
  EXPECT_THAT(Lines(after), ElementsAre("1 7 0-50", "1 8 60-140"));
  after.DropBefore(At(150));
  EXPECT_THAT(Lines(after), ElementsAre("1 8 60-140")) << "its end is not stored yet";
}

}  // namespace
}  // namespace flopwatch::jobs
