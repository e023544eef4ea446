// Two clusters number their jobs alike: whose a label's and a scheduler's id is, what the jobs are
// called, and that a restart changes nothing of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "helpers.h"
#include "jobs/books.h"

namespace flopwatch::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

void Bind(JobIndex& index, int32_t entity, const std::string& node) {
  telemetry::EntityLabels labels = Slot(node, 0);
  labels.device = "nvidia0";
  index.BindEntity(entity, Gpu("GPU-" + std::to_string(entity)), labels);
}
StaticAssignment Says(std::string cluster, std::string gpu, std::string job, double from,
                      double to) {
  StaticAssignment a = Assign(std::move(gpu), std::move(job), from, to);
  a.cluster = std::move(cluster);
  return a;
}
void Restart(std::unique_ptr<JobIndex>* index) {
  std::map<int32_t, JobRecord> jobs;
  const Changes c = (*index)->TakeChanges(true);
  for (const JobRecord& j : c.jobs) jobs[j.id] = j;
  std::vector<JobRecord> records;
  for (const auto& [id, j] : jobs) records.push_back(j);
  *index = std::make_unique<JobIndex>();
  (*index)->Load(records, c.intervals, c.sets, At(100'000));
}

TEST(Clusters, OneClusterHasPlainIds) {
  JobIndex index;
  index.NameNodes("a", {{"a1"}});
  Bind(index, 1, "a1");
  Show(index, 1, 10, 10, {Slurm("7")});
  index.Schedule({{Says("a", "a1:nvidia0", "7", 0, 100)}});
  EXPECT_EQ(index.FindJob("7")->cluster, "a");
  EXPECT_EQ(index.FindJob("a:7")->id, index.FindJob("7")->id) << "the long name always works";
  EXPECT_FALSE(index.FindJob("b:7").has_value());
  EXPECT_FALSE(index.FindJobOf("b", "7").has_value());
  EXPECT_THAT(index.KeysOfId("7"), IsEmpty());
  EXPECT_THAT(GpuSecondsOf(index, 0, 1000), ElementsAre(Pair("7", 100)));
}

TEST(Clusters, EqualIdsAreTwoJobs) {
  auto index = std::make_unique<JobIndex>();
  Bind(*index, 1, "a1");
  Bind(*index, 2, "b1");
  index->Schedule({{Says("a", "a1:nvidia0", "7", 0, 100)}});
  const int32_t first = index->FindJob("7")->id;
  index->Schedule({{Says("b", "b1:nvidia0", "7", 50, 80), Says("b", "b1:nvidia0", "8", 80, 90)}});
  for (int time = 0; time < 2; ++time) {
    EXPECT_FALSE(index->FindJob("7").has_value()) << "which of them?";
    EXPECT_THAT(index->KeysOfId("7"), ElementsAre("a:7", "b:7"));
    EXPECT_EQ(index->FindJob("a:7")->id, first);
    EXPECT_EQ(index->FindJobOf("a", "7")->id, first);
    EXPECT_EQ(index->FindJobOf("b", "7")->key, "b:7");
    EXPECT_EQ(index->FindJob("8")->cluster, "b") << "it alone has that id";
    EXPECT_EQ(IdOf(*index->FindJob("b:7")), "7");
    EXPECT_THAT(GpuSecondsOf(*index, 0, 1000),
                ElementsAre(Pair("8", 10), Pair("a:7", 100), Pair("b:7", 30)));
    if (time > 0) continue;
    Restart(&index);
    Bind(*index, 1, "a1");
    Bind(*index, 2, "b1");
  }
  // Told again, nothing changes; an end ends only its own cluster's job.
  index->Schedule({{Says("a", "a1:nvidia0", "7", 0, 100), Says("b", "", "7", 50, 70)}});
  EXPECT_THAT(GpuSecondsOf(*index, 0, 1000),
              ElementsAre(Pair("8", 10), Pair("a:7", 100), Pair("b:7", 20)));
}

TEST(Clusters, TheNodeSaysWhoseALabelIs) {
  auto index = std::make_unique<JobIndex>();
  index->NameNodes("a", {{"a1"}});
  index->NameNodes("b", {{"b1"}});
  Bind(*index, 1, "a1");
  Bind(*index, 2, "b1");
  Bind(*index, 3, "c1");
  for (int t = 10; t <= 100; t += 10) {
    Show(*index, 1, t, 10, {Slurm("7")});
    Show(*index, 2, t, 10, {Slurm("7")});
  }
  EXPECT_THAT(GpuSecondsOf(*index, 0, 1000), ElementsAre(Pair("a:7", 100), Pair("b:7", 100)));
  // Each counts only while its own scheduler says that it ran.
  index->Schedule({{Says("a", "", "7", 0, 40), Says("b", "", "7", 20, 60)}});
  EXPECT_THAT(GpuSecondsOf(*index, 0, 1000), ElementsAre(Pair("a:7", 40), Pair("b:7", 40)));
  // A node that no list has: whose job that is nobody says, so it is a third one.
  Show(*index, 3, 100, 10, {Slurm("7")});
  EXPECT_THAT(GpuSecondsOf(*index, 0, 1000),
              ElementsAre(Pair("7", 10), Pair("a:7", 40), Pair("b:7", 40)));
  // The server ends and begins again; the books have the times.
  Books books;
  const auto ran = [&](const std::string& cluster, double from, double to) {
    AttemptRecord a;
    a.cluster = cluster;
    a.job = "7";
    a.start = At(from);
    a.end = At(to);
    books.Tell({{a}});
  };
  ran("a", 0, 40);
  ran("b", 20, 60);
  Restart(&index);
  RemindIndex(books, index.get());
  EXPECT_THAT(GpuSecondsOf(*index, 0, 1000),
              ElementsAre(Pair("7", 10), Pair("a:7", 40), Pair("b:7", 40)));
  index->NameNodes("b", {{"b1"}});
  Bind(*index, 2, "b1");
  EXPECT_THAT(KeysOf(*index, Show(*index, 2, 50, 10, {Slurm("7")})), ElementsAre("b:7"));
  EXPECT_THAT(KeysOf(*index, Show(*index, 2, 55, 5, {Slurm("b:7")})), ElementsAre("b:7"))
      << "a site may write the long name itself";
}

// The books of the second cluster come later than the samples of its GPUs.
TEST(Clusters, WhatLabelsSaidBeforeGoesToItsCluster) {
  JobIndex index;
  Bind(index, 1, "a1");
  Bind(index, 2, "b1");
  index.NameNodes("a", {{"a1"}});
  for (int t = 10; t <= 100; t += 10) {
    Show(index, 1, t, 10, {Slurm("7")});
    Show(index, 2, t, 10, {Slurm("7")});
  }
  EXPECT_THAT(GpuSecondsOf(index, 0, 1000), ElementsAre(Pair("7", 200))) << "who would know?";
  index.NameNodes("b", {{"b1"}});
  EXPECT_THAT(GpuSecondsOf(index, 0, 1000), ElementsAre(Pair("a:7", 100), Pair("b:7", 100)));
  EXPECT_THAT(KeysOf(index, Show(index, 2, 110, 10, {Slurm("7")})), ElementsAre("b:7"));
  EXPECT_THAT(GpuSecondsOf(index, 0, 1000), ElementsAre(Pair("a:7", 100), Pair("b:7", 110)));
}

TEST(Clusters, PodsAreOfNoScheduler) {
  JobIndex index;
  index.NameNodes("a", {{"a1"}});
  index.NameNodes("b", {{"b1"}});
  Bind(index, 1, "a1");
  Bind(index, 2, "b1");
  Show(index, 1, 10, 10, {Pod("ml", "train-0")});
  Show(index, 2, 10, 10, {Pod("ml", "train-0")});
  EXPECT_THAT(GpuSecondsOf(index, 0, 1000), ElementsAre(Pair("ml/train-0", 20)));
}

TEST(Clusters, ANodeOfTwoClustersIsOfNone) {
  JobIndex index;
  index.NameNodes("a", {{"n1"}});
  index.NameNodes("b", {{"n1"}});
  Bind(index, 1, "n1");
  Show(index, 1, 10, 10, {Slurm("7")});
  EXPECT_EQ(index.FindJob("7")->cluster, "");
}

TEST(Clusters, IdsThatLookLikeLongNames) {
  JobIndex index;
  index.Schedule({{Says("a", "", "a:7", 0, 100)}});
  EXPECT_EQ(index.FindJob("7")->cluster, "a");
  index.Schedule({{Says("b", "", "7", 0, 100), Says("b", "", "a:7", 0, 100)}});
  EXPECT_THAT(index.KeysOfId("7"), ElementsAre("a:7", "b:7"));
  EXPECT_EQ(index.FindJobOf("b", "a:7")->key, "b:a:7");
  EXPECT_EQ(index.FindJobOf("a", "7")->key, "a:7");
}

TEST(Clusters, AForgottenJobLeavesTheOtherItsName) {
  JobIndex index;
  index.Schedule({{Says("a", "", "7", 0, 100), Says("b", "", "7", 0, 100)}});
  index.TakeChanges();
  EXPECT_EQ(index.DropBefore(At(1000)), 0u);
  const Forgotten gone = index.Forget({.unnamed = At(100 * 86'400)});
  EXPECT_EQ(gone.jobs.size(), 2u);
  EXPECT_THAT(index.KeysOfId("7"), IsEmpty());
  index.Schedule({{Says("b", "", "7", 0, 100)}});
  EXPECT_EQ(index.FindJob("7")->cluster, "b");
}

// A server that starts knows the clusters of nodes from the books.
TEST(Clusters, BooksNameTheNodesThatAreThereNow) {
  Books books;
  NodeRecord a1, b1;
  a1.node = "a1";
  b1.node = "b1";
  books.TellNodes("a", At(0), {{a1}});
  books.TellNodes("b", At(0), {{a1, b1}});
  books.TellNodes("b", At(10), {{b1}});  // a1 moved to cluster a for good
  JobIndex index;
  RemindIndex(books, &index);
  Bind(index, 1, "a1");
  Bind(index, 2, "b1");
  Show(index, 1, 10, 10, {Slurm("7")});
  Show(index, 2, 10, 10, {Slurm("7")});
  EXPECT_THAT(GpuSecondsOf(index, 0, 1000), ElementsAre(Pair("a:7", 10), Pair("b:7", 10)));
}

}  // namespace
}  // namespace flopwatch::jobs
