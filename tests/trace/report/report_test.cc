// The report's structure: parts that add up, ranks without GPU work, what is said of losses.
#include "trace/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/json_read.h"
#include "trace/analysis/run.h"
#include "trace/builder.h"

namespace flopwatch::trace {
namespace {

using ::testing::HasSubstr;

TEST(Report, PartsOfRandomTracesAddUpToTheWhole) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const auto number = [&](int n) {
      return static_cast<Nanos>(random() % static_cast<uint32_t>(n));
    };
    TraceBuilder b;
    // By brute force beside it: what runs at each nanosecond.
    constexpr int kSpan = 600;
    std::vector<int> runs(kSpan, 0);  // bits: 1 compute, 2 communication, 4 memory
    Nanos first = kSpan, last = 0;
    for (int i = 0; i < 25; ++i) {
      const Nanos ts = number(kSpan - 60), dur = number(60);
      const int kind = static_cast<int>(number(3));
      if (kind == 2) {
        b.Gpu(Category::kGpuMemcpy, "Memcpy DtoD", ts, dur, kNoId, 9);
      } else {
        b.Gpu(Category::kKernel, kind == 0 ? "gemm" : "ncclDevKernel_AllReduce", ts, dur, kNoId,
              kind == 0 ? 7 : 20);
      }
      for (Nanos t = ts; t < ts + dur; ++t) runs[static_cast<size_t>(t)] |= 1 << kind;
      first = std::min(first, ts);
      last = std::max(last, ts + dur);
    }
    const TraceSet set = std::move(b).Build();
    const AnalysisInput input(set, {});
    for (int i = 0; i < 20; ++i) {
      const Nanos begin = number(kSpan / 2), end = begin + number(kSpan / 2);
      const TimeSplit s = SplitOf(*input.ranks()[0], begin, end);
      TimeSplit expected;
      expected.window = end - begin;
      for (Nanos t = begin; t < end; ++t) {
        const int at = runs[static_cast<size_t>(t)];
        ++((at & 1)   ? expected.compute
           : (at & 2) ? expected.exposed_communication
           : (at & 4) ? expected.exposed_memory
                      : expected.idle);
        if (at & 2) ++expected.communication;
      }
      ASSERT_EQ(s.compute, expected.compute) << "seed " << seed;
      ASSERT_EQ(s.exposed_communication, expected.exposed_communication);
      ASSERT_EQ(s.exposed_memory, expected.exposed_memory);
      ASSERT_EQ(s.idle, expected.idle);
      ASSERT_EQ(s.communication, expected.communication);
      ASSERT_EQ(s.compute + s.exposed_communication + s.exposed_memory + s.idle, s.window);
    }
    const TraceReport r = MakeTraceReport(input, {});
    ASSERT_TRUE(r.ranks[0].time.has_value());
    EXPECT_EQ(r.ranks[0].time->window, last - first);
    // The cells of the picture are the same time.
    double cells = 0;
    for (const auto& cell : r.ranks[0].timeline) cells += cell[0];
    EXPECT_NEAR(cells / kTimelineCells,
                static_cast<double>(r.ranks[0].time->compute) / static_cast<double>(last - first),
                0.01);
  }
}

TEST(Report, ATraceWithoutGpuWorkSaysSo) {
  TraceBuilder b;
  b.Cpu(Category::kCpuOp, "aten::add", 0, 10);
  const TraceSet set = std::move(b).Build();
  const AnalysisInput input(set, {});
  const TraceReport r = MakeTraceReport(input, {});
  EXPECT_FALSE(r.ranks[0].time.has_value());
  EXPECT_THAT(r.verdict.at(0), HasSubstr("no GPU work"));
  const auto json = Json::Parse(ReportJson(r));
  ASSERT_TRUE(json.ok());
  EXPECT_TRUE((*json)["total"].is_null());
  EXPECT_TRUE((*json)["ranks"].array()[0]["time"].is_null());
  EXPECT_THAT(ReportHtml(r), HasSubstr("no GPU work"));
  EXPECT_THAT(ReportMarkdown(r), HasSubstr("no GPU work"));

  const TraceSet nothing;
  const AnalysisInput none(nothing, {});
  EXPECT_THAT(MakeTraceReport(none, {}).verdict.at(0), HasSubstr("no events"));
}

// A page has names as short as they can be told by, the whole one where the pointer rests, and
// three digits of what was measured.
TEST(Report, HtmlHasShortNamesAndThreeDigits) {
  const std::string kernel =
      "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, "
      "at::detail::Array<char*, 3> >(int, at::native::AddFunctor<float>)";
  const std::string plain =
      "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1";
  TraceReport r;
  r.uncounted.table.columns = {{"kernel_name"}, {"reason"}};
  r.uncounted.table.rows = {{kernel, std::string("a<b>(c)")}, {plain, Cell()}};
  r.operators.table.columns = {{"op_name"}, {"tflops"}, {"peak_tflops"}, {"time_ns"}};
  r.operators.table.rows = {{std::string("aten::mm"), 0.4415056842, 2250.244096, int64_t{152'345}}};
  Finding f;
  f.top = {kernel + " (5 times, 9.39 ms)", "rank 7 (last 5 times, others wait 35.6 ms)"};
  r.findings.findings = {f};
  const std::string html = ReportHtml(r);
  EXPECT_THAT(html, HasSubstr("at::detail::Array&lt;char*, 3&gt; &gt;(int, at::native::AddFunctor"
                              "&lt;float&gt;)\">at::native::vectorized_elementwise_kernel</span>"));
  EXPECT_THAT(html, HasSubstr("vectorized_elementwise_kernel</span> (5 times, 9.39 ms)</li>"));
  EXPECT_THAT(html, HasSubstr("rank 7</span> (last 5 times, others wait 35.6 ms)</li>"));
  EXPECT_THAT(html, HasSubstr("title=\"" + plain + "\">" + plain.substr(0, 47) + "…</span>"));
  EXPECT_THAT(html, HasSubstr("<td>a&lt;b&gt;(c)</td>"));  // no kernel's name
  EXPECT_THAT(html, HasSubstr("<td>aten::mm</td><td>0.442</td><td>2250</td>"));
  EXPECT_THAT(html, HasSubstr("152 µs"));
}

TEST(Report, WhatIsMissingIsInTheVerdict) {
  TraceBuilder b;
  b.Gpu(Category::kKernel, "gemm", 0, 10);
  b.rank().AddLoss("event_without_time", "events without a time", 3);
  b.rank().AddLoss("bad_utf8", "names with broken bytes", 2, true);
  const TraceSet set = std::move(b).Build();
  const AnalysisInput input(set, {});
  const std::vector<LoadFailure> failures = {{"x.json", absl::DataLossError("not JSON")}};
  const TraceReport r = MakeTraceReport(input, failures);
  EXPECT_EQ(r.losses.dropped, 3);
  EXPECT_TRUE(r.losses.partial());
  EXPECT_THAT(r.verdict.back(), HasSubstr("x.json"));
  EXPECT_THAT(r.verdict.back(), HasSubstr("3 event_without_time"));
  const auto json = Json::Parse(ReportJson(r));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["losses"]["by_reason"]["bad_utf8"].integer_or(0), 2);
  EXPECT_EQ((*json)["losses"]["failed_files"].array().size(), 1u);
}

TEST(AnalysesByName, ListsAndArgumentsAreRead) {
  const auto all = ParseAnalyses("all", {});
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), Analyses().size());
  AnalysisOptions hta;
  hta.hta = true;
  const auto named = ParseAnalyses("all", hta);
  ASSERT_TRUE(named.ok());
  EXPECT_TRUE(std::any_of(named->begin(), named->end(), [](const AnalysisRequest& r) {
    return r.key == "frequent_patterns:aten::linear";
  }));
  const auto two =
      ParseAnalyses(" temporal_breakdown, frequent_patterns:aten::mm ,temporal_breakdown", {});
  ASSERT_TRUE(two.ok());
  ASSERT_EQ(two->size(), 2u);
  EXPECT_EQ((*two)[1].argument, "aten::mm");
  EXPECT_EQ(ParseAnalyses("", {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseAnalyses("temporal_breakdown:x", {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseAnalyses("frequent_patterns:", {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseAnalyses("none_such", {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AnalysesByName, JsonHasTheShapeOfTheOracle) {
  AnalysisTables tables;
  Table a, b;
  a.columns = {{"rank", ""}, {"x", ""}};
  a.rows = {{int64_t{0}, 1.5}, {int64_t{1}, Cell{}}};
  b.columns = {{"name", ""}};
  b.rows = {{std::string("q\"")}};
  tables.parts = {{"first", a}, {"second", b}};
  const std::vector<AnalysisAnswer> answers = {
      {"two", "", tables}, {"none", "", absl::FailedPreconditionError("not computable: no steps")}};
  EXPECT_EQ(
      AnalysesJson(answers),
      R"({"analyses":{"two":{"columns":["rank","x"],"rows":[[0,1.5],[1,null]],)"
      R"("first":{"columns":["rank","x"],"rows":[[0,1.5],[1,null]]},)"
      R"("second":{"columns":["name"],"rows":[["q\""]]}},"none":{"error":"not computable: no )"
      R"(steps"}}})"
      "\n");
}

}  // namespace
}  // namespace flopwatch::trace
