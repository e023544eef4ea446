// Rows that are a series: how much of a pool there is, lent and asked for. Times in the comments
// and in Shown() are minutes of the day.
#include "helpers.h"

namespace flopwatch::table {
namespace {

using ::testing::HasSubstr;

constexpr char kPoolMap[] = R"(
time_zone = "UTC"
[pool]
cluster = { value = "c" }
pool = "p"
time = "t"
capacity = "cap"
running = "run"
waiting = "wait"
)";
constexpr char kPoolHeader[] = "t,p,cap,run,wait\n";

std::string Minute(int minute, std::string_view rest) {
  return fmt::format("2026-01-01 {:02}:{:02}:00,{}\n", minute / 60, minute % 60, rest);
}

TEST(PoolRows, NeighboursThatAreEqualAreOneRecord) {
  const TableBooks b = ReadOk(kPoolMap, kPoolHeader + Minute(0, "a,8,4,0") + Minute(1, "a,8,4,2") +
                                            Minute(2, "a,8,0,2") + Minute(3, "a,16,4,0"));
  EXPECT_EQ(Shown(b.pools), "0-3:8 3-4:16");
  EXPECT_EQ(Shown(b.attempts), "0-2:4 q1-3:2 3-4:4");
  EXPECT_EQ(b.step, kMicrosPerMinute);
  EXPECT_EQ(b.counts.used, 4u);
  const jobs::NodeRecord& n = b.pools[0];
  EXPECT_EQ(n.cluster + n.node + n.partitions, "caa");
  EXPECT_EQ(n.service, jobs::Service::kInService);
  EXPECT_EQ(b.attempts[0].job, "a");
  EXPECT_EQ(b.attempts[0].partition + b.attempts[0].nodes, "aa");
  EXPECT_EQ(b.attempts[1].state, "PENDING");
  EXPECT_EQ(b.attempts[1].eligible, b.attempts[1].submit);
}

TEST(PoolRows, AGapIsInNoRecord) {
  const TableBooks b = ReadOk(kPoolMap, kPoolHeader + Minute(0, "a,8,4,0") + Minute(1, "a,8,4,0") +
                                            Minute(2, "a,8,4,0") + Minute(10, "a,8,4,0"));
  EXPECT_EQ(Shown(b.pools), "0-3:8 10-11:8");
  EXPECT_EQ(Shown(b.attempts), "0-3:4 10-11:4");
  EXPECT_EQ(Example(b.noted), "a at 2026-01-01T00:03:00Z: no row for 7m");
}

TEST(PoolRows, TheStepIsWhatMostRowsAreApart) {
  // GenTD26 prints rows 57 s apart where its source had 60: nothing is assumed.
  std::string rows;
  for (int k = 0; k < 5; ++k)
    rows += fmt::format("2026-01-01 00:{:02}:{:02},a,8,{},0\n", k * 57 / 60, k * 57 % 60, k);
  const TableBooks b = ReadOk(kPoolMap, kPoolHeader + rows);
  EXPECT_EQ(b.step, 57 * kMicrosPerSecond);
  EXPECT_EQ(b.pools[0].to - b.pools[0].from, 5 * 57 * kMicrosPerSecond);
  EXPECT_THAT(ReadError(kPoolMap, kPoolHeader + Minute(0, "a,8,4,0")), HasSubstr("step = \"1m\""));
  EXPECT_EQ(
      Shown(ReadOk("step = \"5m\"\n" + std::string(kPoolMap), kPoolHeader + Minute(0, "a,8,4,0"))
                .pools),
      "0-5:8");
}

TEST(PoolRows, WhatIsNotSaidIsNotInvented) {
  const TableBooks b = ReadOk(
      kPoolMap, kPoolHeader + Minute(0, "a,8,4,0") + Minute(1, "a,,4,0") + Minute(2, "a,8,,0"));
  EXPECT_EQ(Shown(b.pools), "0-1:8 2-3:8");
  EXPECT_EQ(Shown(b.attempts), "0-2:4");
  EXPECT_EQ(Counts(b.noted), "value_not_said 2");
}

TEST(PoolRows, RowsInAnyOrderAndSeveralPools) {
  const TableBooks b =
      ReadOk(kPoolMap, kPoolHeader + Minute(1, "b,2,1,0") + Minute(1, "a,8,4,0") +
                           Minute(0, "a,8,4,0") + Minute(2, "b,2,1,0") + Minute(0, "a,8,5,0"));
  EXPECT_EQ(Shown(b.pools), "0-2:8 1-3:2");
  EXPECT_EQ(Shown(b.attempts), "0-1:5 1-2:4 1-3:1") << "of two rows of a time the later counts";
  EXPECT_EQ(Counts(b.refused), "same_time 1");
  EXPECT_EQ(b.counts.used, 4u);
}

TEST(PoolRows, MoreThanThereIsIsKeptAndSaid) {
  const TableBooks b = ReadOk(kPoolMap, kPoolHeader + Minute(0, "a,8,9,0") + Minute(1, "a,8,9,0"));
  EXPECT_EQ(Shown(b.attempts), "0-2:9");
  EXPECT_EQ(Counts(b.noted), "more_than_there_is 2");
}

TEST(PoolRows, APartAndTheRestAddUpToTheWhole) {
  const std::string map =
      std::string(kPoolMap) + "part = { column = \"wait\", name = \"large\", rest = \"small\" }\n";
  const TableBooks b =
      ReadOk(map, kPoolHeader + Minute(0, "a,8,6,4") + Minute(1, "a,8,6,7") + Minute(2, "a,8,6,"));
  std::string seen;
  for (const jobs::AttemptRecord& a : b.attempts)
    if (a.start > 0) seen += a.workflow + " " + Shown({a}) + ", ";
  EXPECT_EQ(seen, "large 0-1:4, small 0-1:2, large 1-2:6, small 2-3:6, ");
  EXPECT_EQ(Counts(b.noted), "part_above_whole 1");
}

TEST(PoolRows, TheRepeatedHourOnceOrTwice) {
  const std::string map = std::string(R"(
time_zone = "America/Los_Angeles"
step = "30m"
[host]
pool = { value = "h" }
time = "t"
total = "n"
busy = "b"
)");
  // Clocks went back from 2:00 to 1:00 on 2017-11-05; 0:30 was 7:30 UTC.
  const std::string before = "t,n,b\n2017-11-05 00:30:00,9,1\n",
                    hour = "2017-11-05 01:00:00,9,1\n2017-11-05 01:30:00,9,1\n",
                    after = "2017-11-05 02:00:00,9,1\n";
  // Once: of the first of the two, and the second is a gap. Minutes of the day in UTC.
  EXPECT_EQ(Shown(ReadOk(map, before + hour + after).pools), "450-540:9 600-630:9");
  const TableBooks twice = ReadOk(map, before + hour + hour + after);
  EXPECT_EQ(Shown(twice.pools), "450-630:9");
  EXPECT_EQ(Counts(twice.noted), "repeated_hour 4");
}

TEST(PoolRows, FilesOfATableAreOneSeries) {
  TableReader reader(MapOf(R"(
time_zone = "+08:00"
[pool]
pool = { file_name = "earth_*_" }
time = "t"
capacity = "cap"
running = "run"
)"));
  const std::string rows = "t,cap,run\n2026-01-01 08:00:00,8,1\n2026-01-01 08:01:00,8,2\n";
  ASSERT_TRUE(reader.Add(rows, "x/earth_vc1_2020.csv").ok());
  ASSERT_TRUE(reader.Add(rows, "earth_vc2_2020.csv.gz").ok());
  EXPECT_THAT(MessageOf(reader.Add(rows, "venus.csv")), HasSubstr("does not fit"));
  const auto b = reader.Finish();
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(Shown(b->pools), "0-2:8 0-2:8");
  EXPECT_EQ(b->pools[0].node, "vc1");
  EXPECT_EQ(b->pools[1].node, "vc2");
}

}  // namespace
}  // namespace flopwatch::table
