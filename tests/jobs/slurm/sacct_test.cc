// sacct's text and JSON, by hand: the traps that the captured files do not have.
#include <gmock/gmock.h>

#include "helpers.h"

namespace flopwatch::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kHeader =
    "JobIDRaw|JobID|State|Submit|Start|End|ElapsedRaw|AllocTRES|NodeList|JobName\n";

TEST(SacctText, AnyOrderOfFieldsAndStepsLeftOut) {
  const Books books = ReadOk(
      "End|NodeList|JobID|State|JobIDRaw|Start|AllocTRES|Unheard\n"
      "200|n[1-2]|2_5|COMPLETED|10|100|gres/gpu=4|x\n"
      "200|n1|2_5.batch|COMPLETED|10.batch|100|gres/gpu=2|x\n"
      "Unknown|n1|11|RUNNING|11|150|gres/gpu:a100=1|\n");
  EXPECT_EQ(books.kind, "sacct text");
  ASSERT_THAT(books.jobs, SizeIs(2));
  EXPECT_EQ(books.steps_left_out, 1u);
  EXPECT_EQ(Counts(books.refused), "");
  const JobRecord& job = books.jobs[0];
  EXPECT_EQ(job.raw_id, 10);
  EXPECT_EQ(job.id, "2_5");
  EXPECT_THAT(job.nodes, ElementsAre("n1", "n2"));
  EXPECT_EQ(Seconds(job.start), 100);
  EXPECT_EQ(Seconds(job.end), 200);
  EXPECT_EQ(job.submit, std::nullopt);
  EXPECT_EQ(job.place, "line 2");
  EXPECT_EQ(books.jobs[1].end, std::nullopt);
  EXPECT_EQ(books.jobs[1].allocated.gpus, 1);
}

TEST(SacctText, DelimiterAndNewlinesInTheLastName) {
  const Books books = ReadOk(std::string(kHeader) +
                             "1|1|COMPLETED|1|2|3|1|gres/gpu=1|n1|a|b||c\n"
                             "2|2|COMPLETED|1|2|3|1|gres/gpu=1|n1|first\n"
                             "second line\n"
                             "\n"
                             "3\n"
                             "fourth|with|bars\n"
                             "4|4|COMPLETED|1|2|3|1|gres/gpu=1|n1|plain\n"
                             "\n");
  EXPECT_EQ(Counts(books.refused), "");
  ASSERT_THAT(books.jobs, SizeIs(3));
  EXPECT_EQ(books.jobs[0].name, "a|b||c");
  EXPECT_EQ(books.jobs[1].name, "first\nsecond line\n\n3\nfourth|with|bars");
  EXPECT_EQ(books.jobs[2].name, "plain");
  EXPECT_EQ(books.jobs[2].place, "line 8");
}

TEST(SacctText, NewlineAndDelimiterInANameInTheMiddle) {
  const std::string header = "JobID|JobName|State|Start|End\n";
  const Books books = ReadOk(header +
                             "1|two\nlines|COMPLETED|2|3\n"
                             "2|with|bar|COMPLETED|2|3\n"
                             "3|plain|COMPLETED|2|3\n");
  EXPECT_EQ(Counts(books.refused), "");
  ASSERT_THAT(books.jobs, SizeIs(3));
  EXPECT_EQ(books.jobs[0].name, "two\nlines");
  EXPECT_EQ(books.jobs[1].name, "with|bar");
  // With two free texts nothing says whose the bar is.
  const Books two = ReadOk("JobID|JobName|Comment|State|Start|End\n1|a|b|c|COMPLETED|2|3\n");
  EXPECT_EQ(Counts(two.refused), "delimiter_in_value 1");
  EXPECT_THAT(two.refused.at("delimiter_in_value").examples[0], HasSubstr("put JobName last"));
}

TEST(SacctText, ACutFileLosesItsLastLine) {
  const Books books = ReadOk("JobID|State|Start|End|NodeList\n1|COMPLETED|2|3|n1\n2|COMPL");
  EXPECT_THAT(books.jobs, SizeIs(1));
  EXPECT_EQ(Counts(books.refused), "short_record 1");
  EXPECT_THAT(books.refused.at("short_record").examples,
              ElementsAre("line 3: 2 fields where the header has 5"));
}

TEST(SacctText, WithoutAHeader) {
  EXPECT_THAT(ErrorOf("1|1|COMPLETED|2|3\n"), HasSubstr("sacct -P without its header"));
  ReadOptions options = InUtc();
  options.fields = {"JobIDRaw", "JobID", "State%20", "Start", "End"};
  EXPECT_THAT(ReadOk("1|1|COMPLETED|2|3\n", options).jobs, SizeIs(1));
  // --parsable ends lines with the delimiter.
  EXPECT_THAT(ReadOk("1\u26031\u2603COMPLETED\u26032\u26033\u2603\n", options).jobs, SizeIs(1));
  EXPECT_THAT(ErrorOf("1|1|COMPLETED\n", options), HasSubstr("no delimiter divides"));
  EXPECT_THAT(ErrorOf("JobID    JobName  Partition\n-------- ----\n1  a  b\n"),
              HasSubstr("export with sacct -P"));
  EXPECT_THAT(ErrorOf("JobID|User\n1|a\n"), HasSubstr("no column State"));
  EXPECT_THAT(ErrorOf("JobID|JobID|State\n"), HasSubstr("not recognised"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("it is empty"));
}

TEST(SacctText, OtherDelimiters) {
  ReadOptions options = InUtc();
  EXPECT_EQ(ReadOk("JobID^^State^^Start^^End\n7^^FAILED^^2^^3\n").jobs.at(0).state,
            JobState::kFailed);
  EXPECT_EQ(ReadOk("JobID\tState\tStart\tEnd\t\n7\tFAILED\t2\t3\t\n").jobs.at(0).id, "7");
  options.delimiter = "XX";
  EXPECT_EQ(ReadOk("JobIDXXStateXXStartXXEnd\n7XXFAILEDXX2XX3\n", options).jobs.at(0).id, "7");
}

TEST(SacctText, EachFaultIsCountedAndTheRestGoesOn) {
  const std::string good = "9|9|COMPLETED|1|2|3|1|gres/gpu=1|n1|ok\n";
  const Books books = ReadOk(std::string(kHeader) + good +
                             "x|x|COMPLETED|1|2|3|1||n1|a\n"
                             "1|1|COMPLETED|1|yesterday|3|1||n1|b\n"
                             "2|2|COMPLETED|1|2|3|soon||n1|c\n"
                             "3|3|COMPLETED|1|2|3|1|gres/gpu=many|n1|d\n"
                             "4|4|COMPLETED|1|2|3|1||n[1-|e\n"
                             "5|5|COMPLETED|1|2|3|1||n[0-999999999]|f\n"
                             "6|6|COMPLETED|1|20|3|1||n1|g\n"
                             "7|7||1|2|3|1||n1|h\n"
                             "8|8|HIBERNATING|1|2|3|1||n1|i\n" +
                             good);
  EXPECT_EQ(Counts(books.refused),
            "bad_duration 1, bad_hostlist 1, bad_job_id 1, bad_time 1, bad_tres 1, "
            "end_before_start 1, no_state 1, too_many_hosts 1");
  EXPECT_EQ(Counts(books.noted), "unknown_state 1");
  EXPECT_THAT(books.refused.at("bad_time").examples[0], HasSubstr("line 4: 'yesterday'"));
  EXPECT_THAT(books.jobs, SizeIs(3));
}

TEST(SacctText, LimitsAreCounted) {
  ReadOptions options = InUtc();
  options.limits.max_records = 2;
  std::string text = "JobID|State|Start|End|NodeList\n";
  for (int k = 1; k <= 5; ++k) text += fmt::format("{}|COMPLETED|2|3|n[0-9]\n", k);
  EXPECT_EQ(Counts(ReadOk(text, options).refused), "too_many_records 3");
  options = InUtc();
  options.limits.max_hosts_total = 25;
  EXPECT_EQ(Counts(ReadOk(text, options).refused), "too_many_hosts 3");
  options = InUtc();
  options.limits.max_record_bytes = 100;
  const Books books = ReadOk("JobID|State|Start|End|JobName\n1|COMPLETED|2|3|" +
                                 std::string(200, 'x') + "\n2|COMPLETED|2|3|y\n",
                             options);
  EXPECT_EQ(Counts(books.refused), "record_too_long 1");
  EXPECT_THAT(books.jobs, SizeIs(1));
  const std::string delimiters(1000, '|');
  EXPECT_EQ(
      Counts(ReadOk("JobID|State|Start|End\n" + delimiters + "\n1|FAILED|2|3\n", options).refused),
      "record_too_long 1");
  options.limits.max_json_values = 100;
  EXPECT_THAT(ErrorOf("{\"jobs\":[" + std::string(200, ',') + "]}", options),
              HasSubstr("at most 100 are read"));
  options.limits.max_bytes = 10;
  EXPECT_THAT(ErrorOf(text, options), HasSubstr("at most 10 are read"));
}

TEST(SacctText, LocalTimesNeedAZone) {
  const std::string text = "JobID|State|Start|End\n1|COMPLETED|2026-11-21T02:41:03|Unknown\n";
  EXPECT_THAT(ErrorOf(text, ReadOptions{}),
              HasSubstr("line 2: '2026-11-21T02:41:03' is local time without a zone"));
  EXPECT_EQ(Seconds(ReadOk(text).jobs.at(0).start), 1795228863);
}

// The length of the attempt says which of the two 02:30 is meant; 2026-10-25T00:30Z = 1792888200.
TEST(SacctText, RepeatedHour) {
  if (!TimeZone::Load("Europe/Berlin").ok()) GTEST_SKIP() << "this machine has no zone database";
  ReadOptions options;
  options.time_zone = Zone("Europe/Berlin");
  const std::string header = "JobID|State|Start|End|ElapsedRaw\n";
  const Books books = ReadOk(header +
                                 // starts in it, 03:30 is 02:30Z: 7200 s before is the first 02:30
                                 "1|COMPLETED|2026-10-25T02:30:00|2026-10-25T03:30:00|7200\n"
                                 "2|COMPLETED|2026-10-25T02:30:00|2026-10-25T03:30:00|3600\n"
                                 "3|COMPLETED|2026-10-25T01:30:00|2026-10-25T02:30:00|3600\n"
                                 // both in it: the earlier and the later pair are as long
                                 "4|COMPLETED|2026-10-25T02:10:00|2026-10-25T02:30:00|1200\n"
                                 // from the first into the second: only one pair fits
                                 "5|COMPLETED|2026-10-25T02:40:00|2026-10-25T02:10:00|1800\n",
                             options);
  EXPECT_EQ(Counts(books.refused), "");
  ASSERT_THAT(books.jobs, SizeIs(5));
  EXPECT_EQ(Seconds(books.jobs[0].start), 1792888200);
  EXPECT_EQ(Seconds(books.jobs[1].start), 1792888200 + 3600);
  EXPECT_EQ(Seconds(books.jobs[2].end), 1792888200);
  EXPECT_EQ(Seconds(books.jobs[3].end), 1792888200);
  EXPECT_TRUE(books.jobs[3].ambiguous_time);
  EXPECT_EQ(Seconds(books.jobs[4].end) - Seconds(books.jobs[4].start), 1800);
  EXPECT_FALSE(books.jobs[4].ambiguous_time);
  EXPECT_EQ(Counts(books.noted), "ambiguous_time 1");
}

// A 60 s time limit ran 75 s: the books' own end counts. Suspended time is what elapsed leaves out.
TEST(SacctText, SuspendedIsWhatElapsedLeavesOut) {
  const Books books = ReadOk(
      "JobID|State|Start|End|ElapsedRaw\n1|TIMEOUT|100|175|75\n"
      "2|COMPLETED|100|400|120\n");
  EXPECT_EQ(books.jobs.at(0).suspended_s, 0);
  EXPECT_EQ(books.jobs.at(1).suspended_s, 180);
}

TEST(SacctText, WckeyAndComment) {
  const Books books = ReadOk("JobID|State|Start|End|WCKey|Comment\n1|FAILED|1|2|*llm|a=b;c=d\n");
  EXPECT_EQ(books.jobs.at(0).wckey, "llm");
  EXPECT_EQ(books.jobs.at(0).comment, "a=b;c=d");
}

TEST(SacctText, FieldsThatAreNoTextAreRepaired) {
  const Books books = ReadOk("JobID|State|Start|End|JobName\n1|FAILED|1|2|a\xff\x1b[31m\n");
  EXPECT_EQ(books.jobs.at(0).name, "a\uFFFD\uFFFD[31m");
}

// A job in the JSON of 22.05, of 23.02 and later, and with a list as state.
TEST(SacctJson, EveryRelease) {
  const auto job = [](std::string_view time, std::string_view state) {
    return fmt::format(
        R"j({{"jobs":[{{"job_id":7,"name":"a","user":"u","cluster":"c","nodes":"n[1-2]",)j"
        R"j("state":{{"current":{}}},"time":{},"exit_code":{{"status":["FAILED"],)j"
        R"j("return_code":{{"set":true,"infinite":false,"number":3}},)j"
        R"j("signal":{{"id":{{"set":true,)j"
        R"j("infinite":false,"number":9}}}}}},"tres":{{"allocated":[{{"type":"gres","name":"gpu",)j"
        R"j("count":4}},{{"type":"gres","name":"gpu:h100","count":4}},{{"type":"mem","name":"",)j"
        R"j("count":100}}]}}}}]}})j",
        state, time);
  };
  const std::string plain =
      R"j({"start":100,"end":300,"elapsed":150,"suspended":50,"submission":0})j";
  const std::string wrapped =
      R"j({"start":{"set":true,"infinite":false,"number":100},"end":{"set":true,"infinite":false,)j"
      R"j("number":300},"elapsed":{"set":true,"infinite":false,"number":150},)j"
      R"j("suspended":{"set":true,"infinite":false,"number":50}})j";
  for (const std::string& text :
       {job(plain, "\"FAILED\""), job(wrapped, "[\"FAILED\"]"), job(plain, "[\"FAILED\"]")}) {
    const Books books = ReadOk(text, ReadOptions{});
    EXPECT_EQ(books.kind, "sacct JSON");
    ASSERT_THAT(books.jobs, SizeIs(1)) << Counts(books.refused);
    const JobRecord& j = books.jobs[0];
    EXPECT_EQ(Seconds(j.start), 100);
    EXPECT_EQ(Seconds(j.end), 300);
    EXPECT_EQ(j.submit, std::nullopt);  // 0 is none
    EXPECT_EQ(j.elapsed_s, 150);
    EXPECT_EQ(j.suspended_s, 50);
    EXPECT_EQ(j.state, JobState::kFailed);
    EXPECT_EQ(j.exit_code, 3);
    EXPECT_EQ(j.exit_signal, 9);
    EXPECT_EQ(j.allocated.gpus, 4);
    EXPECT_EQ(j.allocated.memory_bytes, int64_t{100} << 20);
  }
}

TEST(SacctJson, BrokenMembersAreCounted) {
  const Books books =
      ReadOk(R"j({"jobs":[{"job_id":1,"state":{"current":"RUNNING"},"time":{"start":5}},)j"
             R"j(7,null,{"job_id":"x","time":{}},{"job_id":2,"time":{}},{"job_id":3,)j"
             R"j("state":{"current":"RUNNING"},"nodes":"n[1-"}]})j",
             ReadOptions{});
  EXPECT_THAT(books.jobs, SizeIs(1));
  EXPECT_EQ(Counts(books.refused), "bad_hostlist 1, bad_json 2, no_job_id 1, no_state 1");
  EXPECT_THAT(ErrorOf("{\"jobs\": [", ReadOptions{}), HasSubstr("cannot read it as JSON"));
  EXPECT_THAT(ErrorOf(std::string(100, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(ErrorOf("{\"shares\": {}}"), HasSubstr("JSON without a list jobs, nodes or sinfo"));
}

// squeue keeps pre_sus_time: of 1,000 s until the last resume it ran 400.
TEST(SqueueJson, SuspendedAndLastUpdate) {
  const Books books =
      ReadOk(R"j({"last_update":{"set":true,"infinite":false,"number":5000},"jobs":[)j"
             R"j({"job_id":1,"job_state":["RUNNING"],"start_time":{"set":true,"infinite":false,)j"
             R"j("number":1000},"suspend_time":{"set":true,"infinite":false,"number":2000},)j"
             R"j("pre_sus_time":{"set":true,"infinite":false,"number":400},"nodes":"n1",)j"
             R"j("gres_detail":["gpu:h100:2(IDX:1,3)"],"tres_alloc_str":"gres/gpu=2"},)j"
             R"j({"job_id":2,"job_state":["SUSPENDED"],"start_time":1000,"suspend_time":2000,)j"
             R"j("pre_sus_time":1000,"nodes":"n[1-2]","gres_detail":["gpu:1(IDX:0)"]}]})j",
             ReadOptions{});
  ASSERT_THAT(books.jobs, SizeIs(2));
  EXPECT_EQ(books.jobs[0].suspended_s, 600);
  EXPECT_EQ(Seconds(books.jobs[0].as_of), 5000);
  EXPECT_EQ(books.jobs[0].node_gpus, (std::vector<NodeGpus>{{"n1", {1, 3}, 2}}));
  EXPECT_EQ(books.jobs[1].suspended_s, 3000);
  EXPECT_THAT(books.jobs[1].node_gpus, IsEmpty());
  EXPECT_EQ(Counts(books.noted), "gres_detail_without_nodes 1");
}

}  // namespace
}  // namespace flopwatch::slurm
