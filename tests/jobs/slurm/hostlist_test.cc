// Host lists against what `scontrol show hostnames`, `show hostlist` and `show hostlistsorted` of
// 22.05.8 printed, and the bombs they must not set off.
#include "jobs/hostlist.h"

#include <gmock/gmock.h>

#include <fstream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "helpers.h"

namespace flopwatch::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Expanded(std::string_view list) {
  const auto hosts = jobs::ExpandHostlist(list);
  return hosts.ok() ? fmt::format("{}", fmt::join(*hosts, " "))
                    : "refused: " + std::string(hosts.status().message());
}
std::string WhyNot(std::string_view list, size_t max_hosts = jobs::kMaxHosts) {
  return std::string(jobs::ExpandHostlist(list, max_hosts).status().message());
}

std::vector<std::vector<std::string>> Rows(const std::filesystem::path& path) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) rows.push_back(absl::StrSplit(line, '\t'));
  return rows;
}

TEST(Hostlist, ExpandsAsSlurmDoes) {
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/hostlist_cases.tsv");
  // 22.05 refused these three (text after the last bracket); what newer releases make of them, by
  // hand: every bracket multiplies, the later one fastest.
  const std::map<std::string, std::string> accepted = {
      {"a[1-2]b[3-4]c", "a1b3c a1b4c a2b3c a2b4c"},
      {"x1000c[0-1]s0b[0-1]n0", "x1000c0s0b0n0 x1000c0s0b1n0 x1000c1s0b0n0 x1000c1s0b1n0"},
      {"host1-ib,host[3-4]-ib", "host1-ib host3-ib host4-ib"}};
  size_t refused_by_22_05 = 0;
  const auto rows = Rows(SlurmData("live-22.05/hostlist_cases.tsv"));
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 2u);
    if (row[1].empty()) {
      ++refused_by_22_05;
      ASSERT_TRUE(accepted.contains(row[0])) << row[0];
      EXPECT_EQ(Expanded(row[0]), accepted.at(row[0]));
    } else {
      EXPECT_EQ(Expanded(row[0]), row[1]);
    }
  }
  EXPECT_EQ(rows.size(), 20u);
  EXPECT_EQ(refused_by_22_05, 3u);
}

TEST(Hostlist, CompressesAsSlurmDoes) {
  FLOPWATCH_REQUIRE_DATA("slurm/live-22.05/hostlist_compress_cases.tsv");
  const auto rows = Rows(SlurmData("live-22.05/hostlist_compress_cases.tsv"));
  EXPECT_EQ(rows.size(), 6u);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 3u);
    const std::vector<std::string> hosts = absl::StrSplit(row[0], ',');
    EXPECT_EQ(jobs::CompressHostlist(hosts), row[1]);
    EXPECT_EQ(jobs::CompressHostlistSorted(hosts), row[2]);
  }
}

TEST(Hostlist, ThereAndBack) {
  for (const std::string list :
       {"node[001-004,007]", "gpu[099-101]", "a,b2,b[4-6],c", "n[9-11]", "n[09-11]", "login"}) {
    const auto hosts = jobs::ExpandHostlist(list);
    ASSERT_TRUE(hosts.ok()) << hosts.status();
    const std::string compressed = jobs::CompressHostlist(*hosts);
    const auto again = jobs::ExpandHostlist(compressed);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *hosts) << compressed;
  }
  EXPECT_EQ(jobs::CompressHostlist({}), "");
  // Sorted over the width: unpadded numbers join, padded and unpadded ones do not.
  const std::vector<std::string> mixed = {"n10", "n9", "n010", "n11"};
  EXPECT_EQ(jobs::CompressHostlistSorted(mixed), "n[9-11,010]");
}

TEST(Hostlist, NoHosts) {
  for (const char* none : {"", "(null)", "None assigned", "None", " ", ",", "\n"})
    EXPECT_THAT(Expanded(none), IsEmpty()) << none;
}

TEST(Hostlist, KeepsPaddingAndDuplicates) {
  EXPECT_EQ(Expanded("node[001-003,7]"), "node001 node002 node003 node7");
  EXPECT_EQ(Expanded("n[1,1-2]"), "n1 n1 n2");
  EXPECT_EQ(Expanded("n[098-101]"), "n098 n099 n100 n101");
}

TEST(Hostlist, RefusesBombsBeforeMemory) {
  EXPECT_THAT(WhyNot("n[0-999999999]"), HasSubstr("names more than 65536 hosts"));
  EXPECT_THAT(WhyNot("n[0-65536]"), HasSubstr("names more than 65536 hosts"));
  EXPECT_TRUE(jobs::ExpandHostlist("n[0-65535]").ok());
  EXPECT_THAT(WhyNot("a[0-99999]b[0-99999]c[0-99999]d[0-99999]"), HasSubstr("names more than"));
  EXPECT_THAT(WhyNot("n[0-999999999999999999,0-999999999999999999]"), HasSubstr("names more"));
  EXPECT_THAT(WhyNot("a[0-3],b[0-3],c", 8), HasSubstr("names more than 8 hosts"));
  EXPECT_TRUE(jobs::ExpandHostlist("a[0-3],b[0-3]", 8).ok());
  std::string many;
  for (int k = 0; k < 40; ++k) many += "[0-1]";
  EXPECT_THAT(WhyNot(many), HasSubstr("too many brackets"));
  EXPECT_THAT(WhyNot(std::string(jobs::kMaxHostlistBytes + 1, 'n')), HasSubstr("bytes"));
}

TEST(Hostlist, SaysWhatIsWrong) {
  EXPECT_THAT(WhyNot("n[1-2"), HasSubstr("'[' without ']'"));
  EXPECT_THAT(WhyNot("n1]"), HasSubstr("']' without '['"));
  EXPECT_THAT(WhyNot("n[]"), HasSubstr("a bracket holds numbers"));
  EXPECT_THAT(WhyNot("n[[1-2]]"), HasSubstr("a bracket holds numbers"));
  EXPECT_THAT(WhyNot("n[2-1]"), HasSubstr("backwards"));
  EXPECT_THAT(WhyNot("n[1-]"), HasSubstr("no number at its end"));
  EXPECT_THAT(WhyNot("n[1-2-3]"), HasSubstr("no number at its end"));
  EXPECT_THAT(WhyNot("n[99999999999999999999]"), HasSubstr("a bracket holds numbers"));
  EXPECT_THAT(WhyNot("(Resources)"), HasSubstr("no such character"));
  EXPECT_THAT(WhyNot("n\xff"), HasSubstr("not UTF-8"));
  EXPECT_THAT(WhyNot("n\x1b[1-2]"), HasSubstr("control characters"));
}

}  // namespace
}  // namespace flopwatch::slurm
