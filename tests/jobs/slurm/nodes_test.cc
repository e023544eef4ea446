// Nodes and their events, by hand.
#include <gmock/gmock.h>

#include "helpers.h"

namespace flopwatch::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ScontrolNode, ParagraphsAndOneLine) {
  const Books books = ReadOk(
      "NodeName=a Arch=x86_64 CoresPerSocket=32 \n"
      "   Gres=gpu:h100:4,shard:16\n"
      "   GresUsed=gpu:h100:1(IDX:3),shard:0\n"
      "   OS=Linux 6.1 State=FAKE #1 SMP\n"
      "   State=MIXED*+DRAIN ThreadsPerCore=1\n"
      "   Partitions=batch,long \n"
      "   CfgTRES=cpu=64,gres/gpu=4\n"
      "   AllocTRES=cpu=8,gres/gpu=1\n"
      "   Reason=xid 79 [slot 3] [root@2026-11-21T02:41:03]\n"
      "\n"
      "NodeName=b OS=Linux 6.1 #1 SMP RealMemory=5 State=IDLE ThreadsPerCore=1 Gres=(null) "
      "CfgTRES=cpu=64,gres/gpu=8 AllocTRES= Reason=bad fan [root@yesterday]\n"
      "NodeName=c CfgTRES=cpu=2\n");
  EXPECT_EQ(Counts(books.refused), "");
  EXPECT_EQ(Counts(books.noted), "unknown_node_state 1");
  ASSERT_THAT(books.nodes, SizeIs(3));
  const NodeRecord& a = books.nodes[0];
  EXPECT_EQ(a.gpus, 4);
  EXPECT_EQ(a.allocated_gpus, 1);
  EXPECT_THAT(GpuIndices(a.gres_used), ElementsAre(3));
  EXPECT_EQ(a.state.schedulable, Schedulable::kNo);
  EXPECT_EQ(a.state.why, "NOT_RESPONDING, DRAIN");
  EXPECT_EQ(a.reason, "xid 79 [slot 3]");
  EXPECT_EQ(Seconds(a.reason_since), 1795228863);
  EXPECT_THAT(a.partitions, ElementsAre("batch", "long"));
  // Gres is (null) where only accounting knows of the GPUs.
  EXPECT_EQ(books.nodes[1].gpus, 8);
  EXPECT_EQ(books.nodes[1].state.schedulable, Schedulable::kYes);
  EXPECT_EQ(books.nodes[1].reason, "bad fan [root@yesterday]");
  EXPECT_EQ(books.nodes[2].gpus, std::nullopt);
}

TEST(NodeJson, StateWordAndFlagsOrOneList) {
  const Books books = ReadOk(
      R"j({"nodes":[{"name":"a","state":"idle","state_flags":["DRAIN"],"gres":"gpu:8"},)j"
      R"j({"name":"b","state":["MIXED","PLANNED"],"gres":"gpu:h100:8(S:0-1)",)j"
      R"j("gres_used":"gpu:h100:3(IDX:3-5)","reason_changed_at":{"set":true,"infinite":false,)j"
      R"j("number":77}},{"name":"c","state":[]},{"state":"idle"},"x"]})j",
      ReadOptions{});
  ASSERT_THAT(books.nodes, SizeIs(3));
  EXPECT_EQ(books.nodes[0].state.schedulable, Schedulable::kNo);
  EXPECT_EQ(books.nodes[0].state.base, "IDLE");
  EXPECT_EQ(books.nodes[1].state.schedulable, Schedulable::kYes);
  EXPECT_EQ(books.nodes[1].gpus, 8);
  EXPECT_EQ(books.nodes[1].allocated_gpus, 3);
  EXPECT_EQ(Seconds(books.nodes[1].reason_since), 77);
  EXPECT_EQ(books.nodes[2].state.schedulable, Schedulable::kUnknown);
  EXPECT_EQ(Counts(books.refused), "bad_json 1, no_node_name 1");
}

TEST(NodeJson, SinfoOfNewerReleases) {
  const Books books = ReadOk(
      R"j({"sinfo":[{"node":{"state":["IDLE","DRAIN"]},"nodes":{"nodes":["a","b"]},)j"
      R"j("gres":{"total":"gpu:h100:8","used":"gpu:h100:0"},"cluster":"c",)j"
      R"j("reason":{"description":"xid79","time":{"set":true,"infinite":false,"number":9}}},)j"
      R"j({"node":{"state":["IDLE","DRAIN"]},"nodes":{"nodes":["b"]}},{"nodes":{}}]})j",
      ReadOptions{});
  ASSERT_THAT(books.nodes, SizeIs(2));  // b is in two partitions
  EXPECT_EQ(books.nodes[1].name, "b");
  EXPECT_EQ(books.nodes[1].gpus, 8);
  EXPECT_EQ(books.nodes[1].state.schedulable, Schedulable::kNo);
  EXPECT_EQ(books.nodes[1].reason, "xid79");
  EXPECT_EQ(Counts(books.refused), "no_node_name 1");
}

TEST(SacctmgrEvents, NodesAndTheCluster) {
  const Books books = ReadOk(
      "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User|\n"
      "ofu|gpu004|2026-11-21T02:41:03|2026-11-21T03:41:03|DRAIN|xid79 | fell off|root(0)|\n"
      "ofu||2026-11-21T02:00:00|Unknown||Cluster Registered TRES||\n"
      "ofu|gpu001|Unknown|Unknown|DOWN*|x|root|\n"
      "ofu|gpu002|2026-11-21T02:41:03|2026-11-21T02:41:03|DOWN*|Not responding|slurm(64030)|\n");
  EXPECT_EQ(books.kind, "sacctmgr events");
  EXPECT_EQ(Counts(books.refused), "no_start 1");
  ASSERT_THAT(books.events, SizeIs(3));
  EXPECT_EQ(books.events[0].node, "gpu004");
  EXPECT_EQ(books.events[0].reason, "xid79 | fell off");
  EXPECT_EQ(Seconds(books.events[0].end) - Seconds(books.events[0].start), 3600);
  EXPECT_EQ(books.events[0].state.schedulable, Schedulable::kNo);
  EXPECT_EQ(books.events[1].node, "");
  EXPECT_EQ(books.events[1].end, std::nullopt);
  // A DOWN set by an administrator can last 0 s.
  EXPECT_EQ(books.events[2].end, books.events[2].start);
}

}  // namespace
}  // namespace flopwatch::slurm
