// Time breakdowns on traces small enough to work out by hand, in both modes. The real traces are in
// oracle_test.cc.
#include "trace/analysis/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/analysis/hta.h"
#include "trace/analysis/run_analysis.h"
#include "trace/builder.h"

namespace flopwatch::trace {
namespace {

using ::testing::HasSubstr;

// Compute 0-10, an all-reduce 5-20 (5 hidden), a copy 18-25 (5 alone), nothing 25-30, compute
// 30-40.
TraceSet Mixed() {
  TraceBuilder b;
  b.Gpu(Category::kKernel, "gemm", 0, 10 * kUs, 1);
  b.Gpu(Category::kKernel,
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 5 * kUs,
        15 * kUs, 2, 20);
  b.Gpu(Category::kGpuMemcpy, "Memcpy HtoD (Pinned -> Device)", 18 * kUs, 7 * kUs, 3, 8);
  b.Gpu(Category::kKernel, "relu", 30 * kUs, 10 * kUs, 4);
  return std::move(b).Build();
}

TEST(TemporalBreakdown, SharesOutTheSpan) {
  const TraceSet set = Mixed();
  const auto tables = RunNamed(set, "temporal_breakdown");
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Table& t = PartOf(*tables, "");
  EXPECT_DOUBLE_EQ(NumberAt(t, "span_us"), 40);
  EXPECT_DOUBLE_EQ(NumberAt(t, "idle_us"), 5);
  EXPECT_DOUBLE_EQ(NumberAt(t, "compute_us"), 20);
  EXPECT_DOUBLE_EQ(NumberAt(t, "communication_us"), 15);
  EXPECT_DOUBLE_EQ(NumberAt(t, "exposed_communication_us"), 10);
  EXPECT_DOUBLE_EQ(NumberAt(t, "memory_us"), 5);
  EXPECT_DOUBLE_EQ(NumberAt(t, "idle_share"), 0.125);
  const auto hta = RunNamed(set, "temporal_breakdown", Hta());
  ASSERT_TRUE(hta.ok()) << hta.status();
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "non_compute_time(us)"), 15);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "idle_time_pctg"), 12.5);
}

TEST(TemporalBreakdown, WithoutGpuWorkIsNotComputable) {
  TraceBuilder b;
  b.Cpu(Category::kCpuOp, "aten::add", 0, 10);
  const TraceSet set = std::move(b).Build();
  for (const bool hta : {false, true}) {
    const auto tables = RunNamed(set, "temporal_breakdown", {.hta = hta});
    EXPECT_EQ(tables.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(tables.status().message()), HasSubstr("not computable"));
  }
}

// Triton's operators carry the stream they launch on: no GPU work; HTA counts them.
TEST(TemporalBreakdown, OperatorsAndSyncRowsWithAStreamAreNoGpuWork) {
  TraceBuilder b;
  b.Gpu(Category::kCpuOp, "triton_poi_fused_0", 0, 90 * kUs);
  b.Gpu(Category::kSync, "Stream Sync", 95 * kUs, 30 * kUs);
  b.Gpu(Category::kKernel, "triton_poi_fused_0", 100 * kUs, 2 * kUs, 1);
  const TraceSet set = std::move(b).Build();
  const auto right = RunNamed(set, "temporal_breakdown");
  ASSERT_TRUE(right.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*right, ""), "compute_us"), 2);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*right, ""), "span_us"), 2);
  const auto hta = RunNamed(set, "temporal_breakdown", Hta());
  ASSERT_TRUE(hta.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "compute_time(us)"), 92);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "kernel_time(us)"), 125);
}

TEST(CommCompOverlap, CountsWhatComputeHides) {
  const TraceSet set = Mixed();
  const auto tables = RunNamed(set, "comm_comp_overlap");
  ASSERT_TRUE(tables.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*tables, ""), "overlapped_us"), 5);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*tables, ""), "overlap_share"), 1.0 / 3);
}

// HTA takes DeepEP's kernels for compute and finds no communication at all.
TEST(CommCompOverlap, DeepEpIsCommunication) {
  TraceBuilder b;
  b.Gpu(Category::kKernel,
        "void deep_ep::internode_ll::dispatch<false, 3, 7168>(void*, float*, int*)", 0, 10 * kUs,
        1);
  b.Gpu(Category::kKernel, "gemm", 8 * kUs, 10 * kUs, 2, 9);
  const TraceSet set = std::move(b).Build();
  const auto right = RunNamed(set, "comm_comp_overlap");
  ASSERT_TRUE(right.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*right, ""), "communication_us"), 10);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*right, ""), "exposed_us"), 8);
  const auto hta = RunNamed(set, "comm_comp_overlap", Hta());
  ASSERT_TRUE(hta.ok());
  EXPECT_EQ(CellAt(PartOf(*hta, ""), "comp_comm_overlap_pctg"), Cell{});
}

TEST(KernelBreakdown, TypesThatRunTogether) {
  const TraceSet set = Mixed();
  const auto tables = RunNamed(set, "gpu_kernel_breakdown");
  ASSERT_TRUE(tables.ok());
  const Table& t = PartOf(*tables, "kernel_type");
  const auto sum = [&](std::string_view type) {
    return NumberAt(t, "sum_us", {{"kernel_type", Text(type)}});
  };
  EXPECT_DOUBLE_EQ(sum("COMPUTATION"), 15);
  EXPECT_DOUBLE_EQ(sum("COMPUTATION overlapping COMMUNICATION"), 5);
  EXPECT_DOUBLE_EQ(sum("COMMUNICATION"), 8);
  EXPECT_DOUBLE_EQ(sum("COMMUNICATION overlapping MEMORY"), 2);
  EXPECT_DOUBLE_EQ(sum("MEMORY"), 5);
  EXPECT_EQ(t.rows.size(), 5u);
}

// Names beyond the tenth become one line; its statistics are over kernels, HTA's over sums by name.
TEST(KernelBreakdown, OthersDescribeKernels) {
  TraceBuilder b;
  Nanos at = 0;
  const auto kernel = [&](const std::string& name, Nanos dur) {
    b.Gpu(Category::kKernel, name, at, dur * kUs);
    at += dur * kUs;
  };
  for (int i = 0; i < 10; ++i) kernel("big" + std::to_string(i), 100);
  for (int i = 0; i < 3; ++i) kernel("small", 10);
  kernel("tiny", 1);
  const TraceSet set = std::move(b).Build();
  const auto right = RunNamed(set, "gpu_kernel_breakdown");
  ASSERT_TRUE(right.ok());
  const Table& kernels = PartOf(*right, "kernels");
  ASSERT_EQ(kernels.rows.size(), 11u);
  const Where others = {{"name", Text("others (2 names)")}};
  EXPECT_DOUBLE_EQ(NumberAt(kernels, "count", others), 4);
  EXPECT_DOUBLE_EQ(NumberAt(kernels, "sum_us", others), 31);
  EXPECT_DOUBLE_EQ(NumberAt(kernels, "max_us", others), 10);
  EXPECT_DOUBLE_EQ(NumberAt(kernels, "mean_us", others), 7.75);
  const auto hta = RunNamed(set, "gpu_kernel_breakdown", Hta());
  ASSERT_TRUE(hta.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, "kernels"), "max (us)", {{"name", Text("others")}}), 100);
  const auto all = RunNamed(set, "gpu_kernel_breakdown_all", Hta());
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(PartOf(*all, "kernels").rows.size(), 12u);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*all, "kernels"), "sum (us)", {{"name", Text("small")}}), 30);
}

TEST(HtaRows, TheLastStepIsDropped) {
  TraceBuilder b;
  for (int i = 0; i < 2; ++i) {
    const Nanos at = i * 100 * kUs;
    b.Cpu(Category::kUserAnnotation, "ProfilerStep#" + std::to_string(i), at, 90 * kUs);
    b.Cpu(Category::kRuntime, "cudaLaunchKernel", at + 5 * kUs, kUs, i + 1);
    b.Gpu(Category::kKernel, "k", at + 50 * kUs, 10 * kUs, i + 1);
  }
  const TraceSet set = std::move(b).Build();
  EXPECT_EQ(SelectHtaRows(set, set.ranks[0]).gpu.size(), 1u);
  const auto right = RunNamed(set, "temporal_breakdown");
  ASSERT_TRUE(right.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*right, ""), "compute_us"), 20);
  const auto hta = RunNamed(set, "temporal_breakdown", Hta());
  ASSERT_TRUE(hta.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "compute_time(us)"), 10);
}

TEST(Analyses, AWrongNameGetsTheNearest) {
  EXPECT_THAT(std::string(FindAnalysis("temporal_brekdown").status().message()),
              HasSubstr("did you mean 'temporal_breakdown'"));
  ASSERT_TRUE(FindAnalysis("gpu_kernel_breakdown:argument").ok());
}

TEST(Analyses, RunTogetherInTheOrderAsked) {
  const TraceSet set = Mixed();
  const AnalysisInput input(set, {.threads = 3});
  std::vector<const Analysis*> all;
  for (const Analysis& a : Analyses()) all.push_back(&a);
  const std::vector<AnalysisRun> runs = RunAnalyses(input, all);
  ASSERT_EQ(runs.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(runs[i].analysis, all[i]);
    EXPECT_TRUE(runs[i].result.ok() ||
                runs[i].result.status().code() == absl::StatusCode::kFailedPrecondition)
        << all[i]->name << ": " << runs[i].result.status();
  }
}

// Linear interpolation between order statistics: R's quantile type 7, checked there:
// quantile(c(1,2,3,10), c(.25,.5,.75,.9)).
TEST(Statistics, PercentilesInterpolate) {
  const double quantiles[] = {0.25, 0.5, 0.75, 0.9};
  const Summary s = Describe({10, 1, 3, 2}, quantiles);
  EXPECT_THAT(s.percentiles,
              ::testing::ElementsAre(::testing::DoubleEq(1.75), ::testing::DoubleEq(2.5),
                                     ::testing::DoubleEq(4.75), ::testing::DoubleEq(7.9)));
  EXPECT_DOUBLE_EQ(s.mean, 4);
  EXPECT_DOUBLE_EQ(s.std, std::sqrt(50.0 / 3));
  EXPECT_TRUE(std::isnan(Describe({}, quantiles).percentiles[0]));
}

}  // namespace
}  // namespace flopwatch::trace
