// Operators, patterns, annotations, steps, counters and exposed communication on traces small
// enough to work out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/analysis/run_analysis.h"
#include "trace/builder.h"

namespace flopwatch::trace {
namespace {

using ::testing::HasSubstr;

// aten::linear 0-100 { aten::t 5-15, aten::addmm 20-90 { launch 30-40, launch 50-55 } }, its
// kernels 100-110 and 120-150; then aten::linear 200-300 with one kernel of its own.
TraceSet Linear() {
  TraceBuilder b;
  b.Cpu(Category::kCpuOp, "aten::linear", 0, 100 * kUs);
  b.Cpu(Category::kCpuOp, "aten::t", 5 * kUs, 10 * kUs);
  b.Cpu(Category::kCpuOp, "aten::addmm", 20 * kUs, 70 * kUs);
  b.Cpu(Category::kRuntime, "cudaLaunchKernel", 30 * kUs, 10 * kUs, 1);
  b.Cpu(Category::kRuntime, "cudaLaunchKernel", 50 * kUs, 5 * kUs, 2);
  b.Gpu(Category::kKernel, "gemm", 100 * kUs, 10 * kUs, 1);
  b.Gpu(Category::kKernel, "reduce", 120 * kUs, 30 * kUs, 2);
  b.Cpu(Category::kCpuOp, "aten::linear", 200 * kUs, 100 * kUs);
  b.Cpu(Category::kRuntime, "cudaLaunchKernel", 210 * kUs, 10 * kUs, 3);
  b.Gpu(Category::kKernel, "gemm", 230 * kUs, 20 * kUs, 3);
  return std::move(b).Build();
}

TEST(TopOperators, SelfAndTotal) {
  const TraceSet set = Linear();
  const auto tables = RunNamed(set, "top_operators");
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Table& t = PartOf(*tables, "");
  const auto at = [&](std::string_view op, std::string_view column) {
    return NumberAt(t, column, {{"operator", Text(op)}});
  };
  EXPECT_DOUBLE_EQ(at("aten::linear", "calls"), 2);
  EXPECT_DOUBLE_EQ(at("aten::linear", "cpu_total_us"), 200);
  EXPECT_DOUBLE_EQ(at("aten::linear", "cpu_self_us"), 120);
  EXPECT_DOUBLE_EQ(at("aten::linear", "gpu_total_us"), 60);
  EXPECT_DOUBLE_EQ(at("aten::linear", "gpu_self_us"), 20);
  EXPECT_DOUBLE_EQ(at("aten::linear", "cuda_api_us"), 10);
  EXPECT_DOUBLE_EQ(at("aten::addmm", "cpu_self_us"), 70);
  EXPECT_DOUBLE_EQ(at("aten::addmm", "cuda_api_us"), 15);
  EXPECT_DOUBLE_EQ(at("aten::addmm", "gpu_self_us"), 40);
  EXPECT_DOUBLE_EQ(at("aten::addmm", "kernels"), 2);
}

// f 0-100 { f 10-60 { launch } }: the inner call is part of the outer one's total, once.
TEST(TopOperators, RecursionCountsOnce) {
  TraceBuilder b;
  b.Cpu(Category::kCpuOp, "f", 0, 100 * kUs);
  b.Cpu(Category::kPythonFunction, "g", 5 * kUs, 80 * kUs);
  b.Cpu(Category::kCpuOp, "f", 10 * kUs, 50 * kUs);
  b.Cpu(Category::kRuntime, "cudaLaunchKernel", 20 * kUs, 10 * kUs, 1);
  b.Gpu(Category::kKernel, "k", 40 * kUs, 8 * kUs, 1);
  b.Cpu(Category::kCpuOp, "f", 0, 30 * kUs, kNoId, 2);  // of another thread
  const TraceSet set = std::move(b).Build();
  const auto tables = RunNamed(set, "top_operators");
  ASSERT_TRUE(tables.ok());
  const Table& t = PartOf(*tables, "");
  EXPECT_DOUBLE_EQ(NumberAt(t, "calls"), 3);
  EXPECT_DOUBLE_EQ(NumberAt(t, "cpu_total_us"), 130);
  EXPECT_DOUBLE_EQ(NumberAt(t, "cpu_self_us"), 50 + 50 + 30);
  EXPECT_DOUBLE_EQ(NumberAt(t, "gpu_total_us"), 8);
}

TEST(TopOperators, WithoutAGpuTheirGpuTimeIsAbsent) {
  TraceBuilder b;
  b.Cpu(Category::kCpuOp, "f", 0, 100 * kUs);
  const TraceSet set = std::move(b).Build();
  const auto tables = RunNamed(set, "top_operators");
  ASSERT_TRUE(tables.ok());
  EXPECT_EQ(CellAt(PartOf(*tables, ""), "gpu_self_us"), Cell{});
  EXPECT_EQ(CellAt(PartOf(*tables, ""), "gpu_self_share"), Cell{});
}

TEST(OpLaunchDelay, FromTheOperatorToTheGpu) {
  const TraceSet set = Linear();
  const auto tables = RunNamed(set, "op_launch_delay");
  ASSERT_TRUE(tables.ok());
  const Table& t = PartOf(*tables, "");
  EXPECT_DOUBLE_EQ(NumberAt(t, "op_to_launch_mean_us", {{"operator", Text("aten::addmm")}}), 10);
  EXPECT_DOUBLE_EQ(NumberAt(t, "launch_to_start_mean_us", {{"operator", Text("aten::addmm")}}), 70);
  EXPECT_DOUBLE_EQ(NumberAt(t, "kernels", {{"operator", Text("aten::addmm")}}), 2);
  EXPECT_DOUBLE_EQ(NumberAt(t, "op_to_launch_mean_us", {{"operator", Text("aten::linear")}}), 10);
}

TEST(FrequentPatterns, KernelsBelowTheOperator) {
  const TraceSet set = Linear();
  const auto tables = RunNamed(set, "frequent_patterns");
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Table& t = PartOf(*tables, "");
  ASSERT_EQ(t.rows.size(), 1u);  // the other instance has one kernel
  EXPECT_EQ(CellAt(t, "pattern"), Text("aten::linear | gemm | reduce"));
  EXPECT_DOUBLE_EQ(NumberAt(t, "gpu_us"), 40);
  EXPECT_DOUBLE_EQ(NumberAt(t, "cpu_us"), 100);
  AnalysisOptions options;
  options.operator_name = "aten::conv";
  EXPECT_THAT(std::string(RunNamed(set, "frequent_patterns", options).status().message()),
              HasSubstr("aten::conv"));
}

// An operator that lies deeper elsewhere is one too; HTA looks at the least depth only.
TEST(FrequentPatterns, AtAnyDepth) {
  TraceBuilder b;
  for (const Nanos at : {0 * kUs, 1000 * kUs}) {
    if (at > 0) b.Cpu(Category::kUserAnnotation, "block", at, 200 * kUs);
    b.Cpu(Category::kCpuOp, "aten::linear", at + kUs, 100 * kUs);
    for (int i = 0; i < 2; ++i) {
      const int64_t id = at + i + 1;
      b.Cpu(Category::kRuntime, "cudaLaunchKernel", at + (10 + 10 * i) * kUs, kUs, id);
      b.Gpu(Category::kKernel, "k", at + (50 + 10 * i) * kUs, 5 * kUs, id);
    }
  }
  const TraceSet set = std::move(b).Build();
  const auto right = RunNamed(set, "frequent_patterns");
  ASSERT_TRUE(right.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*right, ""), "count"), 2);
  const auto hta = RunNamed(set, "frequent_patterns", Hta());
  ASSERT_TRUE(hta.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "count"), 1);
  EXPECT_EQ(CellAt(PartOf(*hta, ""), "pattern"), Text("aten::linear|k|k"));
}

TEST(Annotations, OnBothSides) {
  TraceBuilder b;
  b.Cpu(Category::kUserAnnotation, "forward", 0, 10 * kUs);
  b.Cpu(Category::kUserAnnotation, "forward", 20 * kUs, 20 * kUs);
  b.Gpu(Category::kGpuUserAnnotation, "forward", 5 * kUs, 100 * kUs, kNoId, kNoStream);
  const TraceSet set = std::move(b).Build();
  const auto cpu = RunNamed(set, "user_annotation_breakdown_cpu");
  ASSERT_TRUE(cpu.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*cpu, ""), "sum_us"), 30);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*cpu, ""), "std_us"), std::sqrt(50.0));
  const auto gpu = RunNamed(set, "gpu_user_annotation_breakdown");
  ASSERT_TRUE(gpu.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*gpu, ""), "sum_us"), 100);
  EXPECT_EQ(CellAt(PartOf(*gpu, ""), "std_us"),
            Cell{});  // one value has no deviation; HTA writes 0
  const auto hta = RunNamed(set, "gpu_user_annotation_breakdown", Hta());
  ASSERT_TRUE(hta.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*hta, ""), "stddev"), 0);
}

// layer 0-100 { attention 10-50 }: the kernel at 20 is attention's, those at 0 and 60 are the
// layer's, the one at 120 nobody's; on another stream nothing is. The launches: two below
// "forward", one below "loss" in it.
TEST(Annotations, GpuWorkBelongsToTheInnermost) {
  TraceBuilder b;
  b.Gpu(Category::kKernel, "k", 0, 5 * kUs, 1);
  b.Gpu(Category::kGpuUserAnnotation, "layer", 0, 100 * kUs, kNoId);
  b.Gpu(Category::kGpuUserAnnotation, "attention", 10 * kUs, 40 * kUs, kNoId);
  b.Gpu(Category::kKernel, "k", 20 * kUs, 7 * kUs, 2);
  b.Gpu(Category::kKernel, "k", 20 * kUs, 9 * kUs, 3, 8);
  b.Gpu(Category::kKernel, "k", 60 * kUs, 11 * kUs);
  b.Gpu(Category::kKernel, "k", 120 * kUs, 13 * kUs);
  b.Cpu(Category::kUserAnnotation, "forward", 0, 50 * kUs);
  b.Cpu(Category::kUserAnnotation, "loss", 30 * kUs, 10 * kUs);
  for (const int64_t id : {1, 2, 3})
    b.Cpu(Category::kRuntime, "cudaLaunchKernel", (10 * id + 5) * kUs, kUs, id);
  const TraceSet set = std::move(b).Build();
  const auto gpu = RunNamed(set, "gpu_user_annotation_breakdown");
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*gpu, ""), "gpu_work_us", {{"name", Text("layer")}}), 16);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*gpu, ""), "gpu_rows", {{"name", Text("layer")}}), 2);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*gpu, ""), "gpu_work_us", {{"name", Text("attention")}}), 7);
  const auto cpu = RunNamed(set, "user_annotation_breakdown_cpu");
  ASSERT_TRUE(cpu.ok());
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*cpu, ""), "gpu_work_us", {{"name", Text("forward")}}), 12);
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*cpu, ""), "gpu_work_us", {{"name", Text("loss")}}), 9);
}

// Two steps; the second has a tenth of the GPU work and was cut. HTA drops it without a word.
TraceSet TwoSteps() {
  TraceBuilder b;
  int64_t id = 1;
  for (int step = 0; step < 2; ++step) {
    const Nanos at = step * 1000 * kUs;
    b.Cpu(Category::kUserAnnotation, "ProfilerStep#" + std::to_string(5 + step), at, 900 * kUs);
    for (int i = 0; i < (step == 0 ? 10 : 1); ++i) {
      b.Cpu(Category::kRuntime, "cudaLaunchKernel", at + i * kUs, 0, id);
      b.Gpu(Category::kKernel, i == 0 ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL" : "k",
            at + (100 + 50 * i) * kUs, 40 * kUs, id++);
    }
  }
  return std::move(b).Build();
}

TEST(Steps, AllAreShownWithWhetherTheyAreComplete) {
  const TraceSet set = TwoSteps();
  const auto tables = RunNamed(set, "step_summary");
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Table& t = PartOf(*tables, "");
  ASSERT_EQ(t.rows.size(), 2u);
  const Where five = {{"step", int64_t{5}}}, six = {{"step", int64_t{6}}};
  EXPECT_EQ(CellAt(t, "complete", five), Cell{true});
  EXPECT_EQ(CellAt(t, "complete", six), Cell{false});
  EXPECT_DOUBLE_EQ(NumberAt(t, "duration_us", five), 900);
  EXPECT_DOUBLE_EQ(NumberAt(t, "compute_us", five), 360);
  EXPECT_DOUBLE_EQ(NumberAt(t, "exposed_communication_us", five), 40);
  EXPECT_DOUBLE_EQ(NumberAt(t, "idle_us", five), 500);
  EXPECT_DOUBLE_EQ(NumberAt(t, "gpu_rows", five), 10);
  EXPECT_EQ(PartOf(*RunNamed(set, "profiler_steps"), "").rows.size(), 2u);
  const auto hta = RunNamed(set, "profiler_steps", Hta());
  ASSERT_TRUE(hta.ok());
  EXPECT_EQ(PartOf(*hta, "").rows, (std::vector<std::vector<Cell>>{{int64_t{5}}}));
}

// Two collectives at once, 0-30 and 20-50, compute 10-25: exposed 0-10 and 25-30 of the first,
// 30-50 of the second.
TEST(ExposedCommunication, LinesAddUpToTheRank) {
  TraceBuilder b;
  b.Gpu(Category::kKernel,
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 0, 30 * kUs,
        kNoId, 20);
  b.Gpu(Category::kKernel, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 20 * kUs,
        30 * kUs, kNoId, 21);
  b.rank().events.detail.back() = 0;
  b.rank().kernels.push_back({.collective = 0});
  b.rank().collectives.push_back({.collective = b.names().Intern("all_to_allv"),
                                  .dtype = b.names().Intern("Float"),
                                  .group_description = b.names().Intern("tp"),
                                  .in_elements = 1000,
                                  .out_elements = 10});
  b.Gpu(Category::kKernel, "gemm", 10 * kUs, 15 * kUs);
  const TraceSet set = std::move(b).Build();
  const auto tables = RunNamed(set, "exposed_communication");
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Table& t = PartOf(*tables, "");
  const Where reduce = {{"collective", Text("ncclDevKernel_AllReduce_Sum_f32_RING_LL")}},
              exchange = {{"collective", Text("all_to_allv")}};
  EXPECT_DOUBLE_EQ(NumberAt(t, "exposed_us", reduce), 15);
  EXPECT_EQ(CellAt(t, "bytes", reduce), Cell{});
  EXPECT_DOUBLE_EQ(NumberAt(t, "exposed_us", exchange), 20);
  EXPECT_DOUBLE_EQ(NumberAt(t, "bytes", exchange), 4000);
  EXPECT_EQ(CellAt(t, "group", exchange), Text("tp"));
  const auto whole = RunNamed(set, "temporal_breakdown");
  EXPECT_DOUBLE_EQ(NumberAt(PartOf(*whole, ""), "exposed_communication_us"), 35);
}

TraceSet Measured(int launches) {
  TraceBuilder b;
  b.Cpu(Category::kCpuOp, "aten::linear", 0, 50 * kUs);
  b.Cpu(Category::kCpuOp, "aten::addmm", kUs, 40 * kUs);
  for (int i = 0; i < launches; ++i)
    b.Cpu(Category::kRuntime, "cudaLaunchKernel", (5 + 5 * i) * kUs, kUs);
  b.Cpu(Category::kProfilerRange, "gemm", 20 * kUs, 10 * kUs, kNoId, 9);
  b.rank().range_metrics.push_back(
      {static_cast<Row>(b.rank().events.size() - 1), b.names().Intern("smsp__inst.sum"), 42});
  return std::move(b).Build();
}

TEST(CuptiCounters, RangesWithTheirOperators) {
  const TraceSet set = Measured(1);
  const auto tables = RunNamed(set, "cupti_counters");
  ASSERT_TRUE(tables.ok()) << tables.status();
  const Table& t = PartOf(*tables, "");
  EXPECT_DOUBLE_EQ(NumberAt(t, "smsp__inst.sum"), 42);
  EXPECT_EQ(CellAt(t, "top_level_op"), Text("aten::linear"));
  EXPECT_EQ(CellAt(t, "bottom_level_op"), Text("aten::addmm"));
  EXPECT_EQ(CellAt(t, "op_stack"), Text("aten::linear > aten::addmm"));
}

TEST(CuptiCounters, OtherCountsAreRefused) {
  const TraceSet set = Measured(2);
  EXPECT_THAT(std::string(RunNamed(set, "cupti_counters").status().message()),
              HasSubstr("1 measured ranges and 2 kernel launches"));
}

}  // namespace
}  // namespace flopwatch::trace
