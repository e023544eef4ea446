// The site's own list of hosts.
#include "jobs/slurm/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace flopwatch::slurm {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const auto parsed = ParseInventory(text, "hosts.csv");
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(Inventory, HostsWithTheirGpusAndTimes) {
  const auto hosts = ParseInventory(
      "\xEF\xBB\xBF# racks\r\nnode,gpus,cluster,partitions,from,to\r\n"
      "gpu[001-003],8,alpha,\"batch,debug\",2026-01-01,\r\nold7,4,,,,2026-06-30T12:00:00Z\n",
      "hosts.csv");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_EQ(hosts->size(), 4u);
  EXPECT_EQ((*hosts)[2].node, "gpu003");
  EXPECT_EQ((*hosts)[2].gpus, 8);
  EXPECT_EQ((*hosts)[2].cluster, "alpha");
  EXPECT_EQ((*hosts)[2].partitions, "batch,debug");
  EXPECT_EQ((*hosts)[2].from, 1'767'225'600 * kMicrosPerSecond);
  EXPECT_EQ((*hosts)[2].to, jobs::kOpenEnd);
  EXPECT_EQ((*hosts)[3].from, 0);
  EXPECT_EQ((*hosts)[3].to, 1'782'820'800 * kMicrosPerSecond);
  EXPECT_EQ((*hosts)[3].service, jobs::Service::kInService);
}

TEST(Inventory, ErrorsNameLineAndField) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("hosts.csv: empty"));
  EXPECT_THAT(ErrorOf("node,gpu\n"), HasSubstr("hosts.csv:1: unknown column 'gpu'"));
  EXPECT_THAT(ErrorOf("node,cluster\n"), HasSubstr("no column 'gpus'"));
  EXPECT_THAT(ErrorOf("node,gpus,node\n"), HasSubstr("twice"));
  EXPECT_THAT(ErrorOf("node,gpus\nn1,eight\n"), HasSubstr("hosts.csv:2: gpus: 'eight'"));
  EXPECT_THAT(ErrorOf("node,gpus\nn1,-1\n"), HasSubstr("gpus"));
  EXPECT_THAT(ErrorOf("node,gpus\nn[1-,8\n"), HasSubstr("node: "));
  EXPECT_THAT(ErrorOf("node,gpus\nn[1-60000][1-60000],8\n"), HasSubstr("node: "));
  EXPECT_THAT(ErrorOf("node,gpus\n,8\n"), HasSubstr("names no host"));
  EXPECT_THAT(ErrorOf("node,gpus,from,to\nn1,8,2026-02-01,2026-01-01\n"), HasSubstr("to: "));
  EXPECT_THAT(ErrorOf("node,gpus,from\nn1,8,tomorrow\n"), HasSubstr("from: 'tomorrow'"));
  EXPECT_THAT(ErrorOf("node,gpus\nn1\n"), HasSubstr("1 fields where the header has 2"));
}

}  // namespace
}  // namespace flopwatch::slurm
