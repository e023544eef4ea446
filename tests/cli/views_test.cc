// The views on canned answers of the API, at two widths, as golden text; and their arithmetic
// against sums done by hand.
#include "cli/views/lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/golden.h"
#include "cli/views/job_card.h"
#include "cli/views/report.h"
#include "cli/views/style.h"

namespace flopwatch::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string At(const Table& table, int width, OutputFormat format = OutputFormat::kTable) {
  WriteOptions options;
  options.format = format;
  options.width = width;
  return Render(table, options);
}

TEST(Lists, AtBothWidths) {
  for (const int width : {80, 120}) {
    const std::string at = "_" + std::to_string(width) + ".txt";
    ExpectGolden("jobs" + at, At(JobsTable(Canned("jobs.json")), width));
    ExpectGolden("gpus" + at, At(GpusTable(Canned("gpus.json")), width));
    ExpectGolden("targets" + at, At(TargetsTable(Canned("targets.json")), width));
    ExpectGolden("job_gpus" + at, At(JobGpusTable(Canned("job.json")), width));
    ExpectGolden("sql" + at, At(SqlTable(Canned("sql.json")), width));
  }
}

TEST(Lists, ForMachines) {
  ExpectGolden("jobs.tsv", At(JobsTable(Canned("jobs.json")), 0, OutputFormat::kTsv));
  ExpectGolden("jobs_out.json", At(JobsTable(Canned("jobs.json")), 0, OutputFormat::kJson));
  ExpectGolden("gpus.csv", At(GpusTable(Canned("gpus.json")), 0, OutputFormat::kCsv));
  ExpectGolden("targets.md", At(TargetsTable(Canned("targets.json")), 0, OutputFormat::kMarkdown));
  ExpectGolden("sql.jsonl", At(SqlTable(Canned("sql.json")), 0, OutputFormat::kJsonl));
}

TEST(Lists, HostileNamesNeverReachTheTerminalRaw) {
  EXPECT_THAT(At(JobsTable(Canned("jobs.json")), 0), Not(HasSubstr("\x1b")));
  EXPECT_THAT(At(JobsTable(Canned("jobs.json")), 0, OutputFormat::kTsv), Not(HasSubstr("\x1b")));
  EXPECT_THAT(At(SqlTable(Canned("sql.json")), 0), Not(HasSubstr("\x1b")));
  EXPECT_THAT(ReportHtml(MakeReport(Canned("fleet.json"), Canned("jobs.json"), {},
                                    Canned("targets.json"), 10)),
              Not(HasSubstr("\x1b")));
}

TEST(Lists, AnAnswerOfAnotherShapeShowsNothingRatherThanFails) {
  for (const char* text :
       {"{}", "[]", "null", "{\"jobs\":3}",
        "{\"jobs\":[null,{\"usage\":[]}],\"gpus\":[{}],\"targets\":[7],\"rows\":[[]]}"}) {
    const auto json = Json::Parse(text);
    ASSERT_TRUE(json.ok()) << text;
    JobsTable(*json);
    GpusTable(*json);
    TargetsTable(*json);
    SqlTable(*json);
    JobGpusTable(*json);
    JobCard(*json, {});
    ReportText(MakeReport(*json, *json, {}, *json, 5), {});
  }
}

TEST(JobCard, AtBothWidths) {
  for (const int width : {80, 120}) {
    JobCardOptions options;
    options.view.width = width;
    const std::string at = "_" + std::to_string(width) + ".txt";
    ExpectGolden("job_card" + at, JobCard(Canned("job.json"), options));
    ExpectGolden("job_card_unknown" + at, JobCard(Canned("job_unknown.json"), options));
  }
  JobCardOptions ascii;
  ascii.view.ascii = true;
  ascii.max_gpus = 3;
  ExpectGolden("job_card_ascii.txt", JobCard(Canned("job.json"), ascii));
  JobCardOptions color;
  color.view.color = true;
  ExpectGolden("job_card_color.txt", JobCard(Canned("job.json"), color));
}

std::vector<std::string> Findings(const Json& answer) {
  std::vector<std::string> out;
  for (const Advice& a : AdviceFor(answer)) out.push_back(a.finding);
  return out;
}

TEST(JobAdvice, NamesTheIdleGpuTheSlowOneAndTheStandstill) {
  // job.json: gpu 2 of node-b has duty 0 for its hour (1.0 GPU-h); gpu 3 of node-b has OFU 12 %
  // where the median is 40 %; OFU is 0 from 02:00 to 02:10 (10 minutes x 8 GPUs = 80 GPU-minutes
  // = 1.3 GPU-h); OFU 0.315 / tensor 0.38 = 83 %.
  EXPECT_THAT(
      Findings(Canned("job.json")),
      testing::UnorderedElementsAre(
          "1 of 8 GPUs did nothing in this window (1.0 GPU-h): node-b gpu 2.",
          "1 of 8 GPUs is far below the median OFU of 40.0 %: node-b gpu 3 (12.0 %).",
          "From 2026-11-21 02:00 to 02:10 UTC the job did next to nothing (10m, 1.3 GPU-h).",
          "While the tensor cores work the SM clock is 83 % of their maximum (1617 MHz on "
          "average)."));
}

Json WithUsage(const std::string& usage) {
  auto json = Json::Parse("{\"job\":{\"usage\":" + usage + "},\"gpus\":[],\"series\":{}}");
  EXPECT_TRUE(json.ok());
  return *json;
}

TEST(JobAdvice, DutyCycleThatMisleads) {
  const Json busy =
      WithUsage(R"({"ofu":0.08,"gpu_util":1.0,"gpu_seconds":3600,"observed_gpu_seconds":3600,)"
                R"("computable_gpu_seconds":3600,"coverage":1})");
  EXPECT_THAT(Findings(busy), testing::ElementsAre("The duty cycle is 100 % but OFU only 8.0 %: "
                                                   "the GPUs look busy and do little arithmetic."));
  const Json waiting =
      WithUsage(R"({"ofu":0.2,"gpu_util":0.4,"gpu_seconds":3600,"observed_gpu_seconds":3600,)"
                R"("computable_gpu_seconds":3600,"coverage":1})");
  EXPECT_THAT(Findings(waiting),
              testing::ElementsAre("The GPUs run no kernel 60 % of the time (duty cycle 40 %)."));
  const Json fine =
      WithUsage(R"({"ofu":0.45,"gpu_util":0.98,"tensor_active":0.5,"gpu_seconds":3600,)"
                R"("observed_gpu_seconds":3600,"computable_gpu_seconds":3600,"coverage":1})");
  EXPECT_THAT(Findings(fine), testing::IsEmpty());
}

TEST(JobAdvice, ClockCoverageAndCounters) {
  // OFU 0.35 with tensor activity 0.5: the clock stood at 70 % of its maximum while tensor cores
  // worked.
  const Json slow =
      WithUsage(R"({"ofu":0.35,"gpu_util":0.98,"tensor_active":0.5,"sm_clock_mhz":1281,)"
                R"("gpu_seconds":3600,"observed_gpu_seconds":3600,"computable_gpu_seconds":3600,)"
                R"("coverage":1})");
  EXPECT_THAT(Findings(slow), testing::ElementsAre("While the tensor cores work the SM clock is 70 "
                                                   "% of their maximum (1281 MHz on average)."));
  // 7200 GPU-seconds allocated, 3600 observed, of which 1800 had a dead counter: 0.5 GPU-h, half of
  // what was observed.
  const Json dead =
      WithUsage(R"({"ofu":0.3,"gpu_util":0.98,"gpu_seconds":7200,"observed_gpu_seconds":3600,)"
                R"("computable_gpu_seconds":1800,"coverage":0.25,"lost_s":{"dead_counter":1800}})");
  EXPECT_THAT(
      Findings(dead),
      testing::ElementsAre("1.0 GPU-h (50 %) were not observed at all.",
                           "OFU is not computable for 0.5 GPU-h (50 %): dead tensor counter."));
}

TEST(JobAdvice, WhatExplainsTheMostComesFirst) {
  // 72 of 3,600 s without a tensor counter; of the 3,528 others 92 % busy and not computing.
  const std::string usage =
      R"({"ofu":0.08,"gpu_util":1.0,"gpu_seconds":3600,"observed_gpu_seconds":3600,)"
      R"("computable_gpu_seconds":3528,"coverage":0.98,"lost_s":{"tensor_missing":72}})";
  EXPECT_THAT(Findings(WithUsage(usage)),
              testing::ElementsAre(HasSubstr("The duty cycle is 100 % but OFU only 8.0 %"),
                                   HasSubstr("tensor activity missing")));
  const auto json = Json::Parse(usage);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(JobNote(UsageView::From(*json)), "busy, not computing, tensor activity missing 2 %");
}

TEST(JobAdvice, AnMfuAlarmIsANoteInItsPlace) {
  const auto answer = Json::Parse(
      R"({"job":{"job":"7","usage":{"ofu":0.25,"gpu_util":0.4,"gpu_seconds":3600,)"
      R"("observed_gpu_seconds":3600,"computable_gpu_seconds":3600,"coverage":1}},"gpus":[],)"
      R"("series":{},"mfu_alarm":{"verdict":"alarm","headline":"MFU is 2.94 times too high",)"
      R"("corrected_mfu":0.18,"gpu_seconds":1000}})");
  ASSERT_TRUE(answer.ok());
  // 2,160 GPU-seconds without a kernel are more than 1,000 claimed too many.
  EXPECT_THAT(Findings(*answer),
              testing::ElementsAre(HasSubstr("run no kernel"),
                                   "MFU against OFU, alarm: MFU is 2.94 times too high."));
}

Report CannedReport() {
  UserSums users;
  users.Add(Canned("jobs.json"));
  Report report = MakeReport(Canned("fleet.json"), Canned("jobs.json"), users,
                             Canned("targets.json"), 10, Canned("divergence_set.json"));
  report.source = "http://127.0.0.1:9530";
  report.written = "2026-11-21T03:00:10Z";
  return report;
}

TEST(Report, InEveryForm) {
  for (const int width : {80, 120}) {
    ViewOptions view;
    view.width = width;
    ExpectGolden("report_" + std::to_string(width) + ".txt", ReportText(CannedReport(), view));
  }
  ExpectGolden("report.md", ReportMarkdown(CannedReport()));
  ExpectGolden("report.html", ReportHtml(CannedReport()));
  ExpectGolden("report_out.json", ReportJson(CannedReport()));
}

TEST(Report, OfAnEmptyFleetSaysWhy) {
  const Report report = MakeReport(Canned("fleet_empty.json"), Json(), {}, Json(), 10);
  EXPECT_THAT(ReportText(report, {}), HasSubstr("OFU not computable: no samples in the window"));
  EXPECT_THAT(ReportHtml(report), HasSubstr("not computable: no samples in the window"));
  EXPECT_THAT(ReportJson(report), HasSubstr("\"ofu\":null"));
}

TEST(Report, UsersAreWeightedByGpuSecondsNotByJobs) {
  // 100 GPU-h at 50 % and 300 GPU-h at 10 %: (50 + 30) / 400 = 20 %, not the 30 % of a mean over
  // jobs. A third job without a known OFU adds its hours and nothing else.
  const auto jobs = Json::Parse(R"({"jobs":[
    {"job":"1","user":"alice","usage":{"ofu":0.5,"gpu_seconds":360000,
    "computable_gpu_seconds":360000}},
    {"job":"2","user":"alice","usage":{"ofu":0.1,"gpu_seconds":1080000,
    "computable_gpu_seconds":1080000}},
    {"job":"3","user":"alice","usage":{"ofu":null,"gpu_seconds":36000,
    "computable_gpu_seconds":0}}]})");
  ASSERT_TRUE(jobs.ok());
  UserSums sums;
  sums.Add(*jobs);
  size_t left_out = 9;
  const auto users = sums.Worst(10, &left_out);
  ASSERT_EQ(users.size(), 1u);
  EXPECT_EQ(left_out, 0u);
  EXPECT_EQ(users[0].jobs, 3);
  EXPECT_NEAR(*users[0].ofu(), 0.20, 1e-12);
  EXPECT_NEAR(users[0].gpu_seconds, 1476000, 1e-6);  // 410 GPU-h
  EXPECT_NEAR(users[0].lost_s, 1152000, 1e-6);       // 50 + 270 = 320 GPU-h
}

TEST(Report, HtmlLoadsNothingFromElsewhere) {
  const std::string html = ReportHtml(CannedReport());
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, Not(HasSubstr("@import")));
  EXPECT_THAT(html, Not(HasSubstr("url(")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
}

TEST(Style, BarsAndSparklines) {
  ViewOptions v;
  EXPECT_EQ(Bar(v, 0.5, 4), "██░░");
  EXPECT_EQ(Bar(v, 0.0, 4), "░░░░");
  EXPECT_EQ(Bar(v, 0.001, 4), "▏░░░");  // a little is not nothing
  EXPECT_EQ(Bar(v, std::nullopt, 4), "····");
  EXPECT_EQ(Bar(v, 7.0, 4), "████");
  v.ascii = true;
  EXPECT_EQ(Bar(v, 0.5, 4), "##--");
  EXPECT_EQ(Bar(v, std::nullopt, 4), "....");
  v.ascii = false;
  EXPECT_EQ(Sparkline(v, {0.0, 0.5, 1.0, std::nullopt, 1.0}, 5), "▁▅█ █");
  EXPECT_EQ(Sparkline(v, {1.0, 3.0, 2.0, 2.0}, 2), "██");  // means of pairs: 2 and 2
  EXPECT_EQ(Sparkline(v, {}, 5), "");
  EXPECT_EQ(DisplayWidth(Bar(v, 0.37, 33)), 33);
}

TEST(Style, NumbersAPersonReads) {
  EXPECT_EQ(Energy(3.6e9), "1.00 MWh");
  EXPECT_EQ(Energy(3600), "1.00 Wh");
  EXPECT_EQ(Energy(std::nullopt), "-");
  EXPECT_EQ(GpuHours(4336200), "1,204.5");
  EXPECT_EQ(Ago(4.4), "4s");
  EXPECT_EQ(Ago(7200), "2h");
  EXPECT_EQ(Minute(1'700'000'000'000'000), "2023-11-14 22:13");
}

}  // namespace
}  // namespace flopwatch::cli
