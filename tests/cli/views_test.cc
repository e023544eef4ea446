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
    const auto below = [&](const Table& table, std::span<const BelowText> texts) {
      return RenderBelow(table, {.width = width}, texts);
    };
    ExpectGolden("jobs" + at, below(JobsTable(Canned("jobs.json")), kWhyNoOfu));
    ExpectGolden("gpus" + at, below(GpusTable(Canned("gpus.json")), kWhyNoOfu));
    ExpectGolden("targets" + at, below(TargetsTable(Canned("targets.json")), kOfTargets));
    ExpectGolden("job_gpus" + at, below(JobGpusTable(Canned("job.json")), kWhyNoOfu));
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

// The words themselves are of tests/query/notes_test.cc.
TEST(JobAdvice, IsWhatTheAnswerSaysInItsOrder) {
  const auto answer = Json::Parse(
      R"({"notes":[{"finding":"One.","action":"Do it.","serious":true,"gpu_seconds":7200},)"
      R"({"finding":"Two.","action":null,"serious":false,"gpu_seconds":60}]})");
  ASSERT_TRUE(answer.ok());
  const std::vector<query::Note> notes = AdviceFor(*answer);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].finding, "One.");
  EXPECT_EQ(notes[0].action, "Do it.");
  EXPECT_TRUE(notes[0].serious);
  EXPECT_EQ(notes[1].action, "");
  EXPECT_EQ(notes[1].gpu_seconds, 60);
}

TEST(JobNote, SaysWhyThereIsNoOfuWhereNothingElseIsKnown) {
  const auto usage = Json::Parse(R"({"ofu":null,"ofu_reason":"no samples in the window"})");
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(JobNote(UsageView::From(*usage)), "no samples in the window");
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
