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

// A kernel of 1 µs every 100 µs, each after its launch call: most of the step is lost, and people
// are told how much of that findings explain in every document.
TEST(Report, DocumentsSayWhatWasLostAndWhatIsExplained) {
  TraceBuilder b;
  b.Cpu(Category::kUserAnnotation, "ProfilerStep#1", 0, 100'000'000);
  for (int64_t i = 0; i < 1000; ++i) {
    b.Cpu(Category::kCpuOp, "aten::add", i * 100'000, 90'000);
    b.Cpu(Category::kRuntime, "cudaLaunchKernel", i * 100'000 + 50'000, 10'000, i + 1);
    b.Gpu(Category::kKernel, "add", i * 100'000 + 62'000, 1'000, i + 1);
  }
  const TraceSet set = std::move(b).Build();
  const TraceReport r = MakeTraceReport(AnalysisInput(set, {}), {});
  const Table t = LedgerTable(r);
  ASSERT_EQ(t.rows.size(), 1u);
  const auto at = [&](std::string_view column) {
    for (size_t i = 0; i < t.columns.size(); ++i)
      if (t.columns[i].name == column) return std::get<double>(t.rows[0][i]);
    return -1.0;
  };
  // Of 100 ms the GPU worked 1 ms; 62 µs before the first kernel and 37 µs after the last are
  // outside.
  EXPECT_NEAR(at("outside_share"), 0.00099, 1e-9);
  EXPECT_NEAR(at("idle_share"), 0.99 - 0.00099, 1e-9);
  EXPECT_NEAR(at("lost_share"), at("idle_share") + at("outside_share") + at("inside_kernels_share"),
              1e-9);
  EXPECT_GT(at("claimed_share"), 0.5);
  EXPECT_NEAR(at("claimed_share") + at("unexplained_share"), at("lost_share"), 1e-9);
  for (const std::string& text : {ReportHtml(r), ReportMarkdown(r)}) {
    EXPECT_THAT(text, HasSubstr("What was lost, and how much of it findings explain"));
    EXPECT_THAT(text, HasSubstr("unexplained"));
  }
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

std::string VerdictText(const TraceReport& r) {
  std::string out;
  for (const std::string& sentence : r.verdict) out += sentence + "\n";
  return out;
}

TEST(Report, GuessedKernelsAreNamed) {
  const auto verdict = [](Nanos guessed) {
    TraceBuilder b;
    b.Gpu(Category::kKernel, "gemm", 0, 9000, 1);
    b.Gpu(Category::kKernel, "void acme::ring_all_gather<8>(float*)", 9000, guessed, 2);
    const TraceSet set = std::move(b).Build();
    return VerdictText(MakeTraceReport(AnalysisInput(set, {}), {}));
  };
  EXPECT_THAT(verdict(2000), HasSubstr("acme::ring_all_gather (taken for communication)"));
  EXPECT_THAT(verdict(500), ::testing::Not(HasSubstr("guess")));
}

TEST(Report, FusedKernelsArePartOfComputeAndSaid) {
  TraceBuilder b;
  b.Gpu(Category::kKernel, "gemm", 0, 500, 1);
  b.Gpu(Category::kKernel, "kernel_gemm_rs_producer_persistent", 500, 300, 2);
  b.Gpu(Category::kKernel, "ncclDevKernel_AllReduce", 700, 300, 3, 20);
  const TraceSet set = std::move(b).Build();
  const TraceReport r = MakeTraceReport(AnalysisInput(set, {}), {});
  EXPECT_EQ(r.total.compute, 800);
  EXPECT_EQ(r.total.fused, 300);
  EXPECT_EQ(r.total.exposed_communication, 200);  // the fused kernel hides 100 of it
  EXPECT_THAT(VerdictText(r), HasSubstr("compute and communicate in one"));
}

TEST(Report, WhatIsCutOrThinnedIsSaid) {
  TraceBuilder b(2);
  b.Gpu(Category::kKernel, "gemm", 0, 1000, 1);
  b.rank().world_size = 8;
  b.rank().AddLoss("cut_tail", "the file ends early");
  const TraceSet set = std::move(b).Build();
  const std::string text = VerdictText(MakeTraceReport(AnalysisInput(set, {}), {}));
  EXPECT_THAT(text, HasSubstr("The file of rank 2 is cut"));
  EXPECT_THAT(text, HasSubstr("1 of the 8 ranks of the job is here"));
  EXPECT_THAT(text, HasSubstr("100.0 % of GPU work has no launch call"));
}

// Spans lie over each other by chance; only collectives whose ends agree show one clock.
TEST(Report, OneClockNeedsEndsThatAgree) {
  const auto aligned = [](Nanos shift, bool collectives) {
    JobBuilder job;
    for (int32_t rank = 0; rank < 2; ++rank) {
      job.Rank(rank, [&](TraceBuilder& b) {
        const Nanos at = rank * shift;
        b.Gpu(Category::kKernel, "gemm", at, 20'000'000, 100);
        for (int i = 0; collectives && i < 6; ++i)
          b.Gpu(Category::kKernel, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
                at + (i + 1) * 1'000'000, 200'000, 200 + i, 20);
      });
    }
    const TraceSet set = std::move(job).Build();
    return MakeTraceReport(AnalysisInput(set, {}), {}).aligned;
  };
  EXPECT_TRUE(aligned(0, true));
  EXPECT_FALSE(aligned(500'000, true));
  EXPECT_FALSE(aligned(0, false));
}

}  // namespace
}  // namespace flopwatch::trace
