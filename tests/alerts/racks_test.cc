// Racks: who says them, who is asked, and alerts that are of a rack.
#include "alerts/racks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "helpers.h"
#include "live_fleet.h"

namespace flopwatch::alerts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

net::ScrapeTarget TargetIn(std::string node, std::string rack) {
  return {.url = "http://" + node + ":9400/metrics", .node = node, .labels = {{"rack", rack}}};
}

TEST(Racks, NamesWithAndWithoutTheirDomain) {
  const Racks racks(std::vector<net::ScrapeTarget>{
      TargetIn("n1.example.org", "r1"),
      TargetIn("n2", "r 2"),
      TargetIn("10.0.0.7", "r3"),
      {.url = "http://n4:9400", .node = "n4", .labels = {{"room", "1"}}},
      TargetIn("n5", ""),
      TargetIn("n6", "r\n6")});
  EXPECT_EQ(racks.Of("n1"), "r1");
  EXPECT_EQ(racks.Of("n1.example.org"), "r1");
  EXPECT_EQ(racks.Of("n2.example.org"), "r 2");
  EXPECT_EQ(racks.Of("10.0.0.7"), "r3");
  for (const char* none : {"10.0.0.8", "10", "n4", "n5", "n6", "n", ""})
    EXPECT_EQ(racks.Of(none), "") << none;
}

TEST(Racks, WhereTwoDisagreeNobodyKnows) {
  const Racks racks(std::vector<net::ScrapeTarget>{TargetIn("n1.east", "r1"),
                                                   TargetIn("n1.west", "r2"), TargetIn("n2", "r1"),
                                                   TargetIn("n2", "r1")});
  EXPECT_EQ(racks.Of("n1"), "");
  EXPECT_EQ(racks.Of("n1.east"), "r1");
  EXPECT_EQ(racks.Of("n1.west"), "r2");
  EXPECT_EQ(racks.Of("n2"), "r1") << "two exporters of one node";
}

TEST(Racks, OfARackInsteadOfItsNodes) {
  constexpr char kRule[] =
      "[rules.away]\nscope = \"node\"\nwhen = \"silence_s > 120\"\ngroup = \"rack\"\n"
      "keep_firing = \"0s\"\nsummary = \"{node} of {rack}\"\n";
  LiveFleet fleet(4, 2, RulesOf(kRule));
  fleet.look().SetRacks(std::make_shared<const Racks>(std::vector<net::ScrapeTarget>{
      TargetIn("n0", "r1"), TargetIn("n1", "r1"), TargetIn("n2", "r2")}));
  fleet.Go(60);
  for (const int gpu : {0, 1, 2, 3, 4, 5, 6, 7}) fleet[gpu].silent = true;
  fleet.Go(150);
  EXPECT_THAT(fleet.Firing(),
              ::testing::UnorderedElementsAre("away: 2 nodes of r1", "away: n2 of r2",
                                              "away: n3 of not known"));
  for (const Alert* alert : fleet.engine().Alerts(false)) {
    if (alert->summary != "2 nodes of r1") continue;
    EXPECT_THAT(alert->subject.racks, ElementsAre("r1"));
    EXPECT_THAT(alert->subject.nodes, ElementsAre("n0", "n1"));
  }
  for (const int gpu : {2, 3}) fleet[gpu].silent = false;
  fleet.Go(60);
  EXPECT_THAT(fleet.Firing(), SizeIs(3)) << "n0 is silent still";
  fleet[0].silent = fleet[1].silent = false;
  fleet.Go(60);
  EXPECT_THAT(fleet.Firing(), SizeIs(2));
}

TEST(Racks, ARuleAboutJobsHasNone) {
  std::vector<Rule> rules;
  const Status status = AddRules(
      "[rules.x]\nscope = \"job\"\nwhen = \"ofu < 1\"\ngroup = \"rack\"\nsummary = \"x\"\n",
      "own.toml", &rules);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("\"rack\" for those about nodes"));
}

// A node without a job: what the scheduler says of it.
TEST(Labels, ClusterAndPartitionOfANodeAreTheSchedulers) {
  constexpr char kRule[] =
      "[rules.hot]\nscope = \"gpu\"\nwhen = \"gpu_temp_c > 90\"\ngroup = \"node\"\n"
      "summary = \"{node}\"\n";
  LiveFleet fleet(3, 1, RulesOf(kRule));
  for (const int gpu : {0, 1, 2}) fleet[gpu].job.clear();
  fleet.Go(60);
  const jobs::NodeRecord one{{.gpus = 1}, "east", "n0", "IDLE", "", "train"};
  const jobs::NodeRecord two{{.gpus = 1}, "east", "n1", "IDLE", "", "train,debug"};
  fleet.books().TellNodes("east", fleet.now(), {{one, two}});
  for (const int gpu : {0, 1, 2}) fleet[gpu].temperature = 95;
  fleet.Go(15);
  std::map<std::string, std::string> said;
  for (const Alert* alert : fleet.engine().Alerts(false)) {
    EXPECT_THAT(alert->subject.racks, IsEmpty());
    said[alert->subject.nodes[0]] = alert->subject.cluster + "/" + alert->subject.partition;
  }
  EXPECT_THAT(said, ElementsAre(::testing::Pair("n0", "east/train"), ::testing::Pair("n1", "east/"),
                                ::testing::Pair("n2", "/")));
}

}  // namespace
}  // namespace flopwatch::alerts
