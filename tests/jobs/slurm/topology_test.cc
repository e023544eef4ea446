// Blocks of scontrol show topology.
#include "jobs/slurm/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flopwatch::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Topology, BlocksHaveTheirNodes) {
  const auto blocks = ReadBlocks(
      "BlockName=b1 BlockIndex=0 Nodes=gb[01-03] BlockSize=18\r\n"
      "  BlockName=b2 BlockIndex=1 Nodes=gb04,gb07\n"
      "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=gb[01-04,07] BlockSize=36\n"
      "BlockName=empty BlockIndex=3 Nodes=(null) BlockSize=18");
  ASSERT_TRUE(blocks.ok()) << blocks.status();
  ASSERT_EQ(blocks->size(), 3u);
  EXPECT_EQ((*blocks)[0].name, "b1");
  EXPECT_THAT((*blocks)[0].nodes, ElementsAre("gb01", "gb02", "gb03"));
  EXPECT_THAT((*blocks)[1].nodes, ElementsAre("gb04", "gb07"));
  EXPECT_THAT((*blocks)[2].nodes, IsEmpty());
}

TEST(Topology, ATreeOfSwitchesHasNone) {
  const auto blocks =
      ReadBlocks("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-3]\nSwitchName=s2 Level=1\n");
  ASSERT_TRUE(blocks.ok()) << blocks.status();
  EXPECT_THAT(*blocks, IsEmpty());
  EXPECT_THAT(*ReadBlocks(""), IsEmpty());
}

TEST(Topology, WhatIsNoListOfHostsIsRefused) {
  EXPECT_THAT(std::string(ReadBlocks("BlockName=b1 Nodes=gb[1-\n").status().message()),
              HasSubstr("block b1"));
  EXPECT_FALSE(ReadBlocks("BlockName=b1 Nodes=gb[1-99999999]\n").ok());
  EXPECT_FALSE(ReadBlocks("BlockName=" + std::string(300, 'b') + " Nodes=gb1\n").ok());
}

}  // namespace
}  // namespace flopwatch::slurm
