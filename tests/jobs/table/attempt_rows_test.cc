// Rows that are attempts of jobs.
#include "helpers.h"

namespace flopwatch::table {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kAttemptMap[] = R"(
null = "NULL"
[attempt]
cluster = { value = "c" }
job = "id"
user = "user"
state = { column = "state", words = { "3" = "COMPLETED" } }
submit = { column = "sub", unit = "s" }
start = { column = "start", unit = "s" }
end = { column = "end", unit = "s" }
gpus = "gpus"
utilisation = { column = "util", unit = "percent" }
)";
constexpr char kAttemptHeader[] = "id,user,state,sub,start,end,gpus,util\n";
std::string Table(std::string_view rows) { return kAttemptHeader + std::string(rows); }

TEST(AttemptRows, EveryFieldComesThrough) {
  const TableBooks b = ReadOk(kAttemptMap, Table("7,alice,3,50,100,3700,4,45.5\n"));
  ASSERT_THAT(b.attempts, SizeIs(1));
  jobs::AttemptRecord want;
  want.cluster = "c";
  want.job = "7";
  want.user = "alice";
  want.state = "COMPLETED";
  want.submit = 50'000'000;
  want.start = 100'000'000;
  want.end = 3'700'000'000;
  want.gpus = 4;
  want.duty = 0.455;
  EXPECT_EQ(b.attempts[0], want);
  EXPECT_EQ(Counts(b.refused) + Counts(b.noted), "");
}

TEST(AttemptRows, MissingIsNeverZero) {
  const TableBooks b = ReadOk(kAttemptMap, Table("7,NULL,,,100,NULL,NULL,NULL\n"
                                                 "8,bob,0,50,,,2,\n"
                                                 "9,bob,4,50,0,60,2,\n"));
  ASSERT_THAT(b.attempts, SizeIs(3));
  EXPECT_EQ(b.attempts[0].user, "");
  EXPECT_EQ(b.attempts[0].gpus, -1);
  EXPECT_LT(b.attempts[0].duty, 0);
  EXPECT_EQ(b.attempts[0].end, jobs::kOpenEnd);
  EXPECT_EQ(b.attempts[1].start, 0) << "it waits";
  EXPECT_EQ(b.attempts[1].submit, 50'000'000);
  EXPECT_EQ(b.attempts[2].start, 0) << "it left the queue";
  EXPECT_EQ(b.attempts[2].end, 60'000'000);
  EXPECT_EQ(Counts(b.noted), "gpus_not_said 1, no_end 1, waits 1");
}

TEST(AttemptRows, WhatIsRefusedAndWhatIsLeftOutIsCounted) {
  const TableBooks b = ReadOk(kAttemptMap, Table("1,a,3,50,100,200,0,\n"      // no GPU
                                                 ",a,3,50,100,200,1,\n"       // no job
                                                 "2,a,3,50,soon,200,1,\n"     // no time
                                                 "3,a,3,50,300,200,1,\n"      // backwards
                                                 "4,a,3,50,100,200,0.5,\n"    // a part of a GPU
                                                 "5,a,3,,,,1,\n"              // never
                                                 "6,a,3,50,100,200,many,\n"   // no count
                                                 "7,a,3,50,100,200,1,250\n"   // no utilisation
                                                 "7,a,3,50,100,300,1,\n"      // the same again
                                                 "8,a,3,500,100,200,1,\n"));  // submitted later
  EXPECT_EQ(Counts(b.refused),
            "bad_count 1, bad_time 1, ends_before_start 1, no_job 1, no_start 1, "
            "part_of_a_gpu 1, same_attempt 1");
  EXPECT_EQ(Counts(b.noted), "bad_utilisation 1, submitted_after_start 1");
  EXPECT_EQ(Example(b.refused), "t.csv:8: 'many' is no count");
  EXPECT_EQ(b.counts.rows, 10u);
  EXPECT_EQ(b.counts.without_gpus, 1u);
  EXPECT_EQ(b.counts.refused, 7u);
  EXPECT_EQ(b.counts.used, 2u);
}

TEST(AttemptRows, AStartTellsAttemptsOfAJobApart) {
  EXPECT_THAT(ReadOk(kAttemptMap, Table("7,a,3,50,100,200,1,\n7,a,3,50,300,400,1,\n")).attempts,
              SizeIs(2));
}

TEST(AttemptRows, FiltersAndNamesThatComeFromElsewhere) {
  constexpr char kOther[] = R"(
delimiter = ";"
[where]
kind = ["gpu", "mixed"]
queue = { not = ["debug", ""] }
[attempt]
job = { row = true }
partition = { file_name = "jobs_*." }
qos = "queue"
start = { column = "start", unit = "s" }
duration = { column = "took", unit = "min" }
gpus = "n"
)";
  const TableBooks b = ReadOk(kOther,
                              "kind;queue;start;took;n\ngpu;long;60;2;1\ncpu;long;60;2;1\n"
                              "mixed;debug;60;2;1\nmixed;;60;2;1\nmixed;x;60;2;3\n",
                              "some/folder/jobs_a100.csv.gz");
  ASSERT_THAT(b.attempts, SizeIs(2));
  EXPECT_EQ(b.attempts[0].job, "jobs_a100:1");
  EXPECT_EQ(b.attempts[1].job, "jobs_a100:5");
  EXPECT_EQ(b.attempts[1].partition, "a100");
  EXPECT_EQ(b.attempts[1].end, 180'000'000);
  EXPECT_EQ(b.counts.left_out, 3u);
  EXPECT_THAT(ReadError(kOther, "kind;queue;start;took;n\n", "other.csv"),
              HasSubstr("does not fit \"jobs_*.\""));
}

TEST(AttemptRows, GpusByNameArePlaced) {
  constexpr char kPlaced[] = R"(
[attempt]
job = "id"
start = { column = "start", unit = "s" }
end = { column = "end", unit = "s" }
gpus = "n"
gpu_list = "gpus"
)";
  const TableBooks b = ReadOk(kPlaced,
                              "id,start,end,n,gpus\n1,60,120,2,\"n1=0,1\"\n"
                              "2,60,120,2,n1=2\n3,60,120,1,n1=00000000:81:00.0\n"
                              "4,60,,,GPU-7\n");
  EXPECT_TRUE(b.attempts[0].placed);
  EXPECT_FALSE(b.attempts[1].placed || b.attempts[2].placed);
  EXPECT_EQ(b.attempts[3].gpus, 1) << "as many as are named";
  ASSERT_THAT(b.assignments, SizeIs(3));
  EXPECT_EQ(b.assignments[1].gpu, "n1:1");
  EXPECT_EQ(b.assignments[1].to, 120'000'000);
  EXPECT_EQ(b.assignments[2].to, jobs::kOpenEnd);
  EXPECT_EQ(Counts(b.noted),
            "gpus_by_other_name 1, gpus_not_as_counted 1, gpus_not_said 1, no_end 1");
}

TEST(AttemptRows, LocalTimeNeedsAZoneAndARepeatedHourIsSaid) {
  constexpr std::string_view kLocal = R"(
[attempt]
job = "id"
start = "start"
end = "end"
gpus = "n"
)";
  // Berlin's clocks went back from 3:00 to 2:00 on 2026-10-25: 2:30 was at 0:30 and at 1:30 UTC.
  constexpr char kRows[] =
      "id,start,end,n\n1,2026-10-25 01:00:00,2026-10-25 02:30:00,1\n"
      "2,2026-10-25 02:45:00,2026-10-25 02:30:00,1\n";
  EXPECT_THAT(ReadError(kLocal, kRows), HasSubstr("t.csv: '2026-10-25 01:00:00' is local time"));
  const TableBooks b = ReadOk("time_zone = \"Europe/Berlin\"\n" + std::string(kLocal), kRows);
  ASSERT_THAT(b.attempts, SizeIs(2));
  EXPECT_EQ(FormatTime(b.attempts[0].end), "2026-10-25T00:30:00Z");
  // It cannot have ended before it started: the end is of the second 2:30.
  EXPECT_EQ(FormatTime(b.attempts[1].start), "2026-10-25T00:45:00Z");
  EXPECT_EQ(FormatTime(b.attempts[1].end), "2026-10-25T01:30:00Z");
  EXPECT_EQ(Counts(b.noted), "repeated_hour 3");
}

TEST(AttemptRows, TextsOfOthersCannotActOnATerminal) {
  const TableBooks b = ReadOk(kAttemptMap, Table("7,\x1b[2Jevil,3,50,100,200,1,\n"));
  ASSERT_THAT(b.attempts, SizeIs(1));
  EXPECT_EQ(b.attempts[0].user, "\\x1b[2Jevil");
}

TEST(AttemptRows, RowsAreBounded) {
  RowLimits limits;
  limits.max_rows = 2;
  const auto b = ReadTable(kAttemptMap, Table("1,a,3,1,2,3,1,\n2,a,3,1,2,3,1,\n3,a,3,1,2,3,1,\n"),
                           "t.csv", limits);
  ASSERT_TRUE(b.ok());
  EXPECT_THAT(b->attempts, SizeIs(2));
  EXPECT_EQ(Counts(b->refused), "too_many_rows 1");
}

}  // namespace
}  // namespace flopwatch::table
