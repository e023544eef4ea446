// flopwatch trace: whole commands on small traces that this file writes, with expected numbers
// worked out by hand beside them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json_read.h"
#include "base/text.h"
#include "cli/golden.h"
#include "cli/views/trace_report.h"
#include "command_line.h"
#include "data.h"
#include "trace/analysis/analysis.h"

namespace flopwatch::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// One rank of two, times in µs after `shift`:
//   step 1   0 .. 100   compute 10..40, NCCL 30..60 (10 hidden, 20 exposed), copy 70..75
//   step 2 100 .. 200   compute 110..140, NCCL 130..160, copy 170..175
// GPU span 10..175 = 165: compute 60, exposed communication 40, exposed copies 10, idle 55.
std::string RankJson(int rank, double shift) {
  std::string events;
  const auto event = [&](std::string_view cat, std::string_view name, double ts, double dur,
                         int pid, int tid, std::string_view args) {
    events += fmt::format(
        "{}{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},"
        "\"dur\":{:.3f},\"args\":{{{}}}}}",
        events.empty() ? "" : ",\n", cat, name, pid, tid, ts + shift, dur, args);
  };
  for (int step = 1; step <= 2; ++step) {
    const double t = (step - 1) * 100;
    event("user_annotation", fmt::format("ProfilerStep#{}", step), t, 100, 100, 100,
          "\"External id\":1");
    for (const auto& [k, name, ts, dur] :
         {std::tuple(1, "sgemm", 10.0, 30.0),
          std::tuple(2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                     30.0, 30.0)}) {
      const int id = step * 10 + k;
      event("cpu_op", k == 1 ? "aten::mm" : "record_param_comms", t + k, 3, 100, 100,
            fmt::format("\"External id\":{}", id));
      event("cuda_runtime", "cudaLaunchKernel", t + k + 0.5, 1, 100, 100,
            fmt::format("\"correlation\":{},\"External id\":{}", id, id));
      event("kernel", name, t + ts, dur, 0, k == 1 ? 7 : 20,
            fmt::format("\"device\":0,\"stream\":{},\"correlation\":{},\"External "
                        "id\":{},\"grid\":[128,1,1],\"block\":[256,1,1]",
                        k == 1 ? 7 : 20, id, id));
    }
    const int id = step * 10 + 3;
    event("cuda_runtime", "cudaMemcpyAsync", t + 5, 1, 100, 100,
          fmt::format("\"correlation\":{}", id));
    event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", t + 70, 5, 0, 7,
          fmt::format("\"device\":0,\"stream\":7,\"correlation\":{},\"bytes\":1048576,\"memory "
                      "bandwidth (GB/s)\":209.7",
                      id));
  }
  return fmt::format(
      "{{\"schemaVersion\":1,\"deviceProperties\":[{{\"id\":0,\"name\":\"NVIDIA H100 80GB "
      "HBM3\",\"numSms\":132,\"computeMajor\":9,\"computeMinor\":0}}],"
      "\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\": {},\"world_size\": "
      "2}},\n\"traceEvents\":[\n{}\n]}}\n",
      rank, events);
}

class TraceCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              fmt::format("flopwatch_trace_{}_{}", ::getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    Write("rank0.json", RankJson(0, 1000));
    Write("rank1.json", RankJson(1, 1000));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string Path(const std::string& name = "") const {
    return name.empty() ? folder_.string() : (folder_ / name).string();
  }
  Outcome Run(std::vector<std::string> args, const Surroundings& around = {}) const {
    args.insert(args.begin(), "trace");
    return RunCommand(args, around);
  }
  Json RunJson(std::vector<std::string> args, int code = 0) const {
    args.insert(args.end(), {"-o", "json"});
    const Outcome o = Run(std::move(args));
    EXPECT_EQ(o.code, code) << o.err;
    auto json = Json::Parse(o.out);
    EXPECT_TRUE(json.ok()) << json.status() << o.out.substr(0, 500);
    return json.ok() ? *std::move(json) : Json();
  }

  std::filesystem::path folder_;
};

TEST_F(TraceCommand, TheReportSplitsTimeWithoutRest) {
  const Json r = RunJson({"report", Path()});
  ASSERT_EQ(r["ranks"].array().size(), 2u);
  for (const Json& rank : r["ranks"].array()) {
    const Json& t = rank["time"];
    EXPECT_EQ(t["window_us"].number_or(-1), 165);
    EXPECT_EQ(t["compute_us"].number_or(-1), 60);
    EXPECT_EQ(t["exposed_communication_us"].number_or(-1), 40);
    EXPECT_EQ(t["exposed_memory_us"].number_or(-1), 10);
    EXPECT_EQ(t["idle_us"].number_or(-1), 55);
    EXPECT_EQ(t["communication_us"].number_or(-1), 60);
    EXPECT_EQ(rank["device"].text(), "NVIDIA H100 80GB HBM3");
  }
  EXPECT_EQ(r["total"]["window_us"].number_or(-1), 330);
  ASSERT_EQ(r["steps"].array().size(), 4u);
  const Json& step = r["steps"].array()[0];
  EXPECT_EQ(step["step"].integer_or(-1), 1);
  EXPECT_EQ(step["time"]["window_us"].number_or(-1), 100);
  EXPECT_EQ(step["time"]["compute_us"].number_or(-1), 30);
  EXPECT_EQ(step["time"]["exposed_communication_us"].number_or(-1), 20);
  EXPECT_EQ(step["time"]["exposed_memory_us"].number_or(-1), 5);
  EXPECT_EQ(step["time"]["idle_us"].number_or(-1), 45);
  EXPECT_EQ(r["losses"]["dropped"].integer_or(-1), 0);
  EXPECT_THAT(r["verdict"].array().at(0).text(), HasSubstr("36.4 % was compute"));  // 60 of 165
  EXPECT_THAT(r["headline"].text(), HasSubstr("2 ranks on NVIDIA H100 80GB HBM3, 2 steps"));
}

TEST_F(TraceCommand, APathAloneIsTheReport) {
  const Outcome alone = Run({Path(), "-o", "table"}),
                named = Run({"report", Path(), "-o", "table"});
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(alone.out, named.out);
  EXPECT_THAT(alone.out, HasSubstr("Where the time went"));
  EXPECT_THAT(alone.out, HasSubstr("36.4 %"));
  EXPECT_THAT(alone.out, Not(HasSubstr("\x1b")));
  const Outcome colored = Run({Path(), "-o", "table"}, {.environment = {{"CLICOLOR_FORCE", "1"}}});
  EXPECT_THAT(colored.out, HasSubstr("\x1b["));
  const Outcome ascii = Run({Path(), "-o", "table", "--ascii"});
  for (const char c : ascii.out) ASSERT_LT(static_cast<unsigned char>(c), 0x80) << ascii.out;
}

TEST_F(TraceCommand, HtmlIsOneDocumentThatLoadsNothing) {
  const Outcome o = Run({Path(), "--write", Path("report.html")});
  EXPECT_EQ(o.code, 0) << o.err;
  const std::string html = ReadText(Path("report.html"));
  EXPECT_THAT(html, testing::StartsWith("<!doctype html>"));
  for (const char* loads : {"<script", " src=", "href=", "@import", "http:", "https:"})
    EXPECT_THAT(html, Not(HasSubstr(loads))) << loads;
  EXPECT_THAT(html, HasSubstr("<svg"));
  EXPECT_THAT(html, HasSubstr("rank 1"));
  const Outcome md = Run({Path(), "-o", "md"});
  EXPECT_THAT(md.out, HasSubstr("# Trace report"));
  EXPECT_EQ(Run({Path(), "-o", "csv"}).code, 2);
}

TEST_F(TraceCommand, NamesOfAHostileTraceStayText) {
  std::string text = RankJson(0, 0);
  for (size_t at; (at = text.find("sgemm")) != std::string::npos;)
    text.replace(at, 5, "<img onerror=x>|\\u001b[31m");
  Write("evil.json", text);
  for (const char* format : {"html", "md", "table"}) {
    const Outcome o = Run({Path("evil.json"), "-o", format});
    EXPECT_EQ(o.code, 0) << o.err;
    // Markdown takes a sign literally behind a backslash.
    std::string out = o.out;
    for (size_t at; (at = out.find("\\<")) != std::string::npos;) out.erase(at, 2);
    if (format != std::string("table")) {
      EXPECT_THAT(out, Not(HasSubstr("<img"))) << format;
    }
    EXPECT_THAT(o.out, Not(HasSubstr("\x1b[31m"))) << format;
  }
}

TEST_F(TraceCommand, AnalyzePrintsColumnsAndRows) {
  const Json r =
      RunJson({"analyze", Path(), "--analysis",
               "temporal_breakdown,gpu_kernel_breakdown,comm_comp_overlap", "--compat", "hta"});
  const Json& t = r["analyses"]["temporal_breakdown"];
  ASSERT_EQ(t["rows"].array().size(), 2u);
  EXPECT_EQ(t["columns"].array()[1].text(), "idle_time(us)");
  const Json& parts = r["analyses"]["gpu_kernel_breakdown"];
  EXPECT_TRUE(parts["kernel_type"]["columns"].is_array());
  EXPECT_TRUE(parts["kernels"]["rows"].is_array());
  EXPECT_TRUE(parts["columns"].is_array());
  // An analysis that this trace cannot answer says so, and the others stand.
  const Json all = RunJson({"analyze", Path(), "--analysis", "all"});
  size_t tables = 0;
  for (const auto& [name, analysis] : all["analyses"].object()) {
    const std::string error = analysis["error"].text();
    if (!error.empty()) {
      EXPECT_THAT(error, testing::StartsWith("not computable: ")) << name;
    } else {
      EXPECT_TRUE(analysis["columns"].is_array() && analysis["rows"].is_array()) << name;
      ++tables;
    }
  }
  EXPECT_EQ(all["analyses"].object().size(), trace::Analyses().size());
  EXPECT_GE(tables, 4u);
  const Outcome unknown = Run({"analyze", Path(), "--analysis", "temporal_brakdown"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("temporal_breakdown"));
  const Outcome csv = Run({"analyze", Path(), "--analysis", "comm_comp_overlap", "-o", "csv"});
  EXPECT_EQ(csv.code, 0) << csv.err;
  EXPECT_THAT(csv.out, testing::StartsWith("rank,"));
}

TEST_F(TraceCommand, FindingsHaveTheirShape) {
  const Json r = RunJson({"findings", Path()});
  EXPECT_TRUE(r["findings"].is_array());
  EXPECT_TRUE(r["not_checked"].is_array());
  EXPECT_TRUE(r["losses"].is_object());
  for (const Json& f : r["findings"].array()) {
    EXPECT_FALSE(f["id"].text().empty());
    EXPECT_FALSE(f["advice"].text().empty());
    EXPECT_TRUE(f["gain_pct"].number().has_value());
    EXPECT_TRUE(f["ranks"].is_array());
    EXPECT_TRUE(f["evidence"].is_array());
  }
  const Outcome list = Run({"findings", "--list", "-o", "csv"});
  EXPECT_EQ(list.code, 0);
}

TEST_F(TraceCommand, SqlReadsTheEventTables) {
  const Json kernels = RunJson({"sql", Path(),
                                "SELECT rank, name, count(*) AS n, sum(dur_us) AS us FROM kernels "
                                "WHERE class = 'COMPUTATION' GROUP BY ALL ORDER BY rank"});
  ASSERT_EQ(kernels.array().size(), 2u);
  EXPECT_EQ(kernels.array()[1]["rank"].integer_or(-1), 1);
  EXPECT_EQ(kernels.array()[1]["n"].integer_or(-1), 2);
  EXPECT_EQ(kernels.array()[1]["us"].number_or(-1), 60);
  // Joins by rank and row; the copy has no operator.
  const Json joined = RunJson({"sql", Path("rank0.json"),
                               "SELECT o.name AS op, sum(k.dur_us) AS us FROM kernels k JOIN ops o "
                               "ON o.rank = k.rank AND o.row = k.op_row GROUP BY ALL ORDER BY op"});
  ASSERT_EQ(joined.array().size(), 2u);
  EXPECT_EQ(joined.array()[0]["op"].text(), "aten::mm");
  EXPECT_EQ(joined.array()[0]["us"].number_or(-1), 60);
  const Json steps = RunJson(
      {"sql", Path("rank0.json"), "SELECT step, dur_us, complete FROM steps ORDER BY step"});
  ASSERT_EQ(steps.array().size(), 2u);
  EXPECT_EQ(steps.array()[0]["dur_us"].number_or(-1), 100);
  const Json counts = RunJson({"sql", Path("rank0.json"),
                               "SELECT (SELECT count(*) FROM events) e, (SELECT count(*) FROM "
                               "launches) l, (SELECT sum(bytes) FROM copies) b"});
  EXPECT_EQ(counts.array()[0]["e"].integer_or(-1), 18);
  EXPECT_EQ(counts.array()[0]["l"].integer_or(-1), 6);
  EXPECT_EQ(counts.array()[0]["b"].integer_or(-1), 2097152);
  EXPECT_EQ(RunJson({"sql", Path(), "SELECT row FROM events", "--max-rows", "3"}, 7).array().size(),
            3u);
}

TEST_F(TraceCommand, SqlOnlyReads) {
  for (const char* query :
       {"CREATE TABLE x (a INT)", "COPY (SELECT 1) TO '/tmp/flopwatch_never.csv'",
        "DROP VIEW events", "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'",
        "SELECT 1; SELECT 2", "INSERT INTO events SELECT * FROM events", "SET memory_limit = '9GB'",
        "ATTACH '/tmp/x.db' AS x"}) {
    const Outcome o = Run({"sql", Path("rank0.json"), query});
    EXPECT_NE(o.code, 0) << query;
    EXPECT_EQ(o.out, "") << query;
  }
  const Outcome typo = Run({"sql", Path("rank0.json"), "SELECT * FROM kernel"});
  EXPECT_NE(typo.code, 0);
  EXPECT_THAT(typo.err, HasSubstr("kernels"));
  const Outcome none = Run({"sql", Path("rank0.json")});
  EXPECT_EQ(none.code, 2);
  const Outcome schema = Run({"sql", "--schema", "-o", "csv"});
  EXPECT_EQ(schema.code, 0);
  for (const char* table : {"events,", "kernels,", "ops,", "launches,", "steps,", "collectives,",
                            "counters,", "findings,"})
    EXPECT_THAT(schema.out, HasSubstr(std::string("\n") + table));
}

TEST_F(TraceCommand, LossesAreSaidAndMakeTheAnswerAPart) {
  // Cut in the middle of an event: what came before is kept.
  const std::string text = RankJson(0, 0);
  Write("cut.json", text.substr(0, text.size() - 200));
  const Outcome o = Run({"info", Path("cut.json"), "-o", "json"});
  EXPECT_EQ(o.code, 7) << o.err;
  const auto json = Json::Parse(o.out);
  ASSERT_TRUE(json.ok());
  EXPECT_GT((*json)["losses"]["dropped"].integer_or(0), 0);
  EXPECT_GT((*json)["ranks"].array().at(0)["events"].integer_or(0), 10);
  // One file of two is no trace: the other answers.
  Write("none.json", "this is no trace");
  const Outcome some = Run({"info", Path("rank0.json"), Path("none.json"), "-o", "json"});
  EXPECT_EQ(some.code, 7) << some.err;
  EXPECT_THAT(some.out, HasSubstr("failed_files\":[{"));
}

TEST_F(TraceCommand, ACutStepReadsBackAndMergedRanksStayApart) {
  const Outcome cut = Run({"cut", Path("rank0.json"), "--step", "2", "-O", Path("step2.json")});
  ASSERT_EQ(cut.code, 0) << cut.err;
  const Json steps = RunJson({"sql", Path("step2.json"), "SELECT step, dur_us FROM steps"});
  ASSERT_EQ(steps.array().size(), 1u);
  EXPECT_EQ(steps.array()[0]["step"].integer_or(-1), 2);
  const Json kernels =
      RunJson({"sql", Path("step2.json"), "SELECT count(*) n, sum(dur_us) us FROM kernels"});
  EXPECT_EQ(kernels.array()[0]["n"].integer_or(-1), 2);
  EXPECT_EQ(kernels.array()[0]["us"].number_or(-1), 60);
  const Outcome merged = Run({"merge", Path(), "-O", Path("all.json")});
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_TRUE(Json::Parse(ReadText(Path("all.json"))).ok());
  // A name that ends in .gz is one of gzip, and holds the same.
  const std::string plain = ReadText(Path("all.json"));
  std::filesystem::remove(Path("all.json"));  // it would be one of the files that are merged
  ASSERT_EQ(Run({"merge", Path(), "-O", Path("all.json.gz")}).code, 0);
  const std::string packed = ReadText(Path("all.json.gz"));
  EXPECT_EQ(packed.substr(0, 2), "\x1f\x8b");
  std::string unpacked;
  FILE* gunzip = popen(("gzip -dc " + Path("all.json.gz")).c_str(), "r");
  for (char c[4096]; const size_t n = std::fread(c, 1, sizeof c, gunzip);) unpacked.append(c, n);
  EXPECT_EQ(pclose(gunzip), 0);
  EXPECT_EQ(unpacked, plain);
  std::filesystem::remove(Path("all.json.gz"));
  EXPECT_EQ(Run({"cut", Path("rank0.json"), "--step", "99", "-O", Path("none.json")}).code, 5);
  EXPECT_FALSE(std::filesystem::exists(Path("none.json")));
  EXPECT_EQ(Run({"cut", Path("rank0.json")}).code, 2);
}

TEST_F(TraceCommand, DiffNamesWhatChanged) {
  // The second run computes 10 µs longer in each step, and its NCCL starts as before: 20 more
  // hidden, 10 less exposed.
  std::string slower = RankJson(0, 0);
  for (size_t at = 0; (at = slower.find("\"sgemm\"", at)) != std::string::npos; ++at) {
    const size_t dur = slower.find("\"dur\":30.000", at);
    ASSERT_NE(dur, std::string::npos);
    slower.replace(dur, 12, "\"dur\":40.000");
  }
  std::filesystem::create_directories(folder_ / "slower");
  Write("slower/rank0.json", slower);
  const Json same = RunJson({"diff", Path("rank0.json"), Path("rank1.json")});
  EXPECT_EQ(same["a"]["step_us"].number_or(-1), same["b"]["step_us"].number_or(-2));
  const Json diff = RunJson({"diff", Path("rank0.json"), Path("slower")});
  const Json& columns = diff["kernels"]["columns"];
  ASSERT_TRUE(columns.is_array());
  ASSERT_FALSE(diff["kernels"]["rows"].array().empty());
  EXPECT_EQ(diff["kernels"]["rows"].array()[0].array()[0].text(), "sgemm");
  EXPECT_NE(diff["verdict"].text(), "");
  const Outcome text = Run({"diff", Path("rank0.json"), Path("slower"), "-o", "table"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("sgemm"));
  const Json hta = RunJson({"diff", Path("rank0.json"), Path("slower"), "--compat", "hta"});
  for (const char* device : {"CPU", "GPU", "ALL"})
    EXPECT_TRUE(hta[device]["columns"].is_array()) << device;
}

TEST_F(TraceCommand, ErrorsSuggest) {
  const Outcome missing = Run({Path("nothing.json")});
  EXPECT_EQ(missing.code, 5);
  const Outcome typo = Run({"finding", Path("rank0.json")});
  EXPECT_EQ(typo.code, 2);
  EXPECT_THAT(typo.err, HasSubstr("trace findings"));
  EXPECT_EQ(Run({}).code, 2);
  const Outcome one = Run({"stragglers", Path("rank0.json")});
  EXPECT_NE(one.code, 0);
  EXPECT_THAT(one.err, HasSubstr("not computable"));
  for (const char* sub : {"report", "info", "analyze", "findings", "ops", "diff", "stragglers",
                          "sql", "cut", "merge", "upload", "list"}) {
    const Outcome help = Run({sub, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, HasSubstr("Examples")) << sub;
  }
}

TEST_F(TraceCommand, ProgressIsForTerminalsAlone) {
  const Outcome pipe = Run({"info", Path(), "-o", "json"});
  EXPECT_THAT(pipe.err, Not(HasSubstr("reading")));
  const Outcome quiet = Run({"info", Path(), "-o", "json", "-q"}, {.terminal = true});
  EXPECT_EQ(quiet.err, "");
}

// --- the view, on a report made by hand ---

trace::TraceReport SmallReport() {
  trace::TraceReport r;
  for (int rank = 0; rank < 2; ++rank) {
    trace::ReportRank k;
    k.rank = rank;
    k.rank_known = true;
    k.device = "NVIDIA H100 80GB HBM3";
    k.events = 1000;
    k.steps = k.complete_steps = 2;
    k.time = trace::TimeSplit{
        1'000'000, 600'000, 250'000 - 100'000 * rank, 50'000, 100'000 + 100'000 * rank, 300'000};
    r.ranks.push_back(k);
    for (int step = 7; step < 9; ++step)
      r.steps.push_back({rank, step, step == 7, 0,
                         trace::TimeSplit{500'000, 300'000, 100'000, 25'000, 75'000, 150'000}});
  }
  r.total = trace::TimeSplit{2'000'000, 1'200'000, 400'000, 100'000, 300'000, 600'000};
  r.verdict = {
      "Of 2.00 ms of GPU time on 2 ranks, 60.0 % was compute, 20.0 % communication that no compute "
      "hid.",
      "Rank 1 is the straggler."};
  trace::Finding f;
  f.id = "comm-dominated";
  f.title = "A fifth of the step is communication that nothing hides";
  f.severity = trace::Severity::kWarning;
  f.gain = f.claimed = 0.2;
  f.gain_basis = "exposed communication over the step";
  f.ranks = {0, 1};
  f.evidence = {
      {"exposed_us", 400.0, ColumnFormat::kPlain, "exposed communication 400 µs of 2.00 ms"}};
  f.top = {"ncclDevKernel_AllReduce_Sum_f32_RING_LL"};
  f.rank = 0;
  f.step = 7;
  f.window = {100'000, 200'000};
  f.advice = "Overlap it: larger buckets, prefetch, a stream of its own.";
  r.findings.findings = {f};
  r.findings.not_checked = {{"memory-limit", "no memory events"}};
  r.losses.lines = {{0, {"event_without_time", "events without a time", 3, false}}};
  r.losses.dropped = 3;
  return r;
}

TEST(TraceView, ReportAsText) {
  ViewOptions view;
  view.width = 90;
  ExpectGolden("trace_report.txt", TraceReportText(SmallReport(), view));
  view.ascii = true;
  ExpectGolden("trace_report_ascii.txt", TraceReportText(SmallReport(), view));
}

TEST(TraceView, BarsFillTheirWidthAndKeepTheirOrder) {
  ViewOptions view;
  view.ascii = true;
  EXPECT_EQ(SplitBar({100, 50, 25, 15, 10, 0}, 20, view), "##########=====+++..");
  EXPECT_EQ(SplitBar({100, 0, 0, 0, 100, 0}, 4, view), "....");
  EXPECT_EQ(SplitBar({}, 4, view), "    ");
  for (int width = 0; width < 50; ++width)
    EXPECT_EQ(SplitBar({7, 1, 2, 3, 1, 0}, width, view).size(), static_cast<size_t>(width));
}

// --- real traces ---

TEST(TraceReal, EveryKeyOfTheOracleIsAnswered) {
  FLOPWATCH_REQUIRE_DATA("traces/oracle");
  const auto data = testing_data::SharedData() / "traces";
  const Outcome o = RunCommand({"trace", "analyze", (data / "dlrm_v100_8ranks").string(),
                                "--analysis", "all", "--compat", "hta", "-o", "json"});
  ASSERT_TRUE(o.code == 0 || o.code == 7) << o.err;
  const auto answer = Json::Parse(o.out);
  const auto oracle = Json::Parse(ReadText(data / "oracle" / "dlrm_v100_8ranks.hta.json"));
  ASSERT_TRUE(answer.ok() && oracle.ok());
  for (const auto& [name, expected] : (*oracle)["results"].object()) {
    const Json& got = (*answer)["analyses"][name];
    EXPECT_TRUE(got.is_object()) << name;
    if (!got["error"].is_null()) {
      EXPECT_TRUE(expected.is_null() || expected["rows"].array().empty())
          << name << ": " << got["error"].text();
    }
    if (expected["columns"].is_array() && got["error"].is_null()) {
      std::vector<std::string> want, have;
      for (const Json& c : expected["columns"].array()) want.push_back(c.text());
      for (const Json& c : got["columns"].array()) have.push_back(c.text());
      EXPECT_EQ(have, want) << name;
    }
  }
}

}  // namespace
}  // namespace flopwatch::cli
