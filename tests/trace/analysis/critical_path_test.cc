#include "trace/analysis/critical_path.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_read.h"
#include "data.h"
#include "trace/analysis/short_name.h"
#include "trace/builder.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

using ::testing::HasSubstr;

std::map<std::string, Nanos> Bounds(const CriticalPath& path) {
  std::map<std::string, Nanos> out;
  for (const PathStep& step : path.steps)
    out[std::string(PathBoundName(step.bound))] += step.duration;
  return out;
}

StatusOr<CriticalPath> PathOf(const TraceSet& set, AnalysisOptions options = {}) {
  const AnalysisInput input(set, std::move(options));
  return FindCriticalPath(*input.ranks().front());
}

TEST(ShortName, AsHtaShortens) {
  EXPECT_EQ(
      ShortName(
          "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<int>, "
          "at::detail::Array<char*, 3> >(int, "
          "at::native::CUDAFunctor_add<int>, at::detail::Array<char*, 3>)"),
      "at::native::vectorized_elementwise_kernel");
  EXPECT_EQ(ShortName("Memset (Device)"), "Memset (Device)");
  EXPECT_EQ(ShortName("Memcpy HtoD (Pageable -> Device)"), "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(ShortName("auto f(int)->long"), "flong");
  EXPECT_EQ(ShortName("a>b"), "b");
  EXPECT_EQ(ShortName("autograd::engine::evaluate_function: MulBackward0"),
            "autograd::engine::evaluate_function: MulBackward0");
  EXPECT_EQ(ShortName(""), "");
}

TEST(CriticalPath, OneOperatorAndTheKernelItWaitsFor) {
  TraceBuilder b;
  // 0-100 op; inside: launch 10-15, synchronise 20-90; the kernel runs 30-80.
  b.Cpu(Category::kCpuOp, "aten::mm", 0, 100);
  b.Cpu(Category::kRuntime, "cudaLaunchKernel", 10, 5, 1);
  b.Cpu(Category::kRuntime, "cudaDeviceSynchronize", 20, 70, 2);
  b.Gpu(Category::kKernel, "gemm", 30, 50, 1);
  const StatusOr<CriticalPath> path = PathOf(std::move(b).Build());
  ASSERT_TRUE(path.ok()) << path.status();
  // op 0-10, launch 10 to the kernel's start 30, kernel 50, then from the end of the call at 90 to
  // the end of the op at 100.
  EXPECT_EQ(Bounds(*path), (std::map<std::string, Nanos>{{"(dependency)", 0},
                                                         {"cpu_bound", 20},
                                                         {"gpu_compute_bound", 50},
                                                         {"gpu_kernel_launch_overhead", 20}}));
  EXPECT_EQ(path->total, 90);
  EXPECT_EQ(path->nodes, 8u);
  EXPECT_EQ(path->inferred, 1);
  EXPECT_EQ(path->dropped, 0);
  EXPECT_EQ(path->steps.front().from_start, true);
}

TEST(CriticalPath, BusyStreamIsBoundByItsKernelsNotByTheirLaunches) {
  TraceBuilder b;
  for (int i = 0; i < 5; ++i) {
    b.Cpu(Category::kCpuOp, "aten::mm", i * 10, 8);
    b.Cpu(Category::kRuntime, "cudaLaunchKernel", i * 10 + 1, 5, i + 1);
    b.Gpu(Category::kKernel, "gemm", 20 + i * 100, 90, i + 1);
  }
  const StatusOr<CriticalPath> path = PathOf(std::move(b).Build());
  ASSERT_TRUE(path.ok());
  // 1 of the first op, 19 launch delay, five kernels of 90, four gaps of 10.
  EXPECT_EQ(Bounds(*path), (std::map<std::string, Nanos>{{"cpu_bound", 1},
                                                         {"gpu_compute_bound", 450},
                                                         {"gpu_kernel_kernel_overhead", 40},
                                                         {"gpu_kernel_launch_overhead", 19}}));
}

TEST(CriticalPath, ACommunicationKernelThatWaitsForAnotherStreamFollowsIt) {
  TraceBuilder b;
  b.Cpu(Category::kCpuOp, "aten::mm", 0, 8);
  b.Cpu(Category::kRuntime, "cudaLaunchKernel", 1, 5, 1);
  b.Cpu(Category::kCpuOp, "nccl:all_reduce", 10, 8);
  b.Cpu(Category::kDriver, "cuLaunchKernelEx", 11, 5, 2);
  b.Gpu(Category::kKernel, "gemm", 20, 500, 1, 7);
  b.Gpu(Category::kKernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 523, 200, 2, 20);
  const StatusOr<CriticalPath> path = PathOf(std::move(b).Build());
  ASSERT_TRUE(path.ok());
  std::map<std::string, Nanos> bounds = Bounds(*path);
  EXPECT_EQ(bounds["gpu_compute_bound"], 500);
  EXPECT_EQ(bounds["gpu_communication_bound"], 200);
  EXPECT_EQ(bounds["gpu_kernel_kernel_overhead"], 3);
  EXPECT_EQ(path->inferred, 1);
}

TEST(CriticalPath, TheBackwardThreadContinuesTheOneThatHoldsTheSteps) {
  TraceBuilder b;
  b.Cpu(Category::kUserAnnotation, "ProfilerStep#1", 0, 1000);
  b.Cpu(Category::kCpuOp, "aten::mm", 0, 100);
  b.Cpu(Category::kCpuOp, "autograd::engine::evaluate_function: MmBackward0", 200, 300, kNoId, 2);
  b.Cpu(Category::kCpuOp, "Optimizer.step", 600, 50);
  b.Cpu(Category::kCpuOp, "another thread", 0, 120, kNoId, 3);
  const StatusOr<CriticalPath> path = PathOf(std::move(b).Build());
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path->total, 450);
}

TEST(CriticalPath, DataLoadingIsTold) {
  TraceBuilder b;
  b.Cpu(Category::kCpuOp, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 500);
  b.Cpu(Category::kCpuOp, "aten::stack", 100, 300);
  b.Cpu(Category::kCpuOp, "aten::mm", 600, 50);
  const StatusOr<CriticalPath> path = PathOf(std::move(b).Build());
  ASSERT_TRUE(path.ok());
  std::map<std::string, Nanos> bounds = Bounds(*path);
  EXPECT_EQ(bounds["data_loading"], 500);
  EXPECT_EQ(bounds["cpu_bound"], 50);
}

TEST(CriticalPath, KernelsOfAGraphLaunchAreOnIt) {
  TraceBuilder b;
  b.Cpu(Category::kRuntime, "cudaGraphLaunch", 0, 10, 1);
  for (int i = 0; i < 4; ++i) b.Gpu(Category::kKernel, "k", 20 + i * 50, 45, 1);
  const StatusOr<CriticalPath> path = PathOf(std::move(b).Build());
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(Bounds(*path)["gpu_compute_bound"], 180);
}

TEST(CriticalPath, SeveralInstancesAndNone) {
  TraceBuilder b;
  for (int i = 0; i < 3; ++i) {
    b.Cpu(Category::kUserAnnotation, "ProfilerStep#" + std::to_string(i), i * 1000, 900);
    b.Cpu(Category::kCpuOp, "aten::mm", i * 1000 + 10, 100 * (i + 1));
  }
  const TraceSet set = std::move(b).Build();
  AnalysisOptions options;
  options.annotation = "ProfilerStep";
  options.instance = 2;
  const StatusOr<CriticalPath> path = PathOf(set, options);
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path->total, 300);
  options.instance = 3;
  EXPECT_EQ(PathOf(set, options).status().code(), absl::StatusCode::kNotFound);
  options.annotation = "no such thing";
  EXPECT_THAT(PathOf(set, options).status().message(), HasSubstr("no such thing"));
  TraceBuilder empty;
  EXPECT_EQ(PathOf(std::move(empty).Build()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Rows that overlap without nesting, on threads that wait for each other: whatever the times say,
// it ends.
TEST(CriticalPath, ContradictingTimesEnd) {
  for (const bool hta : {false, true}) {
    TraceBuilder b;
    for (int i = 0; i < 200; ++i) {
      const Nanos ts = (i * 7919) % 1000;
      b.Cpu(Category::kCpuOp, "op", ts * 1000, (i * 104729) % 500'000, kNoId, i % 3);
      b.Cpu(Category::kRuntime, i % 2 == 0 ? "cudaLaunchKernel" : "cudaStreamSynchronize",
            ts * 1000, 50'000 + i, i + 1, i % 3);
      b.Gpu(Category::kKernel, "k", ((i * 31) % 900) * 1000, 20'000, i + 1,
            i % 4);  // some before their launch
    }
    AnalysisOptions options;
    options.hta = hta;
    const StatusOr<CriticalPath> path = PathOf(std::move(b).Build(), options);
    ASSERT_TRUE(path.ok());
    EXPECT_GT(path->total, 0);
    for (size_t i = 1; i < path->steps.size(); ++i) {
      EXPECT_EQ(path->steps[i].from, path->steps[i - 1].to);
      EXPECT_EQ(path->steps[i].from_start, path->steps[i - 1].to_start);
    }
  }
}

// HTA's queue lengths come from an unstable sort: where a launch and a kernel's start fall into one
// microsecond, its order is that of the day, and with it whether a kernel has one edge (launch
// delay) or two. With starts first there would be 22, 5, 2 fewer edges than HTA has; with launches
// first, as here, these more. No path depends on it.
const std::map<std::string, double> kUnstableEdges = {{"recsys_a100_rank3of8_2022.json.gz", 15},
                                                      {"ddp_a100_rank0of2_2024.json.gz", 2},
                                                      {"dlrm_v100_8ranks/rank0.json.gz", 1}};

TEST(CriticalPathOracle, TotalsSharesAndCounts) {
  FLOPWATCH_REQUIRE_DATA("traces/oracle/critical_path.hta.json");
  const std::filesystem::path data = testing_data::SharedData() / "traces";
  const StatusOr<Json> truth =
      Json::Parse(testing_data::ReadFile(data / "oracle/critical_path.hta.json"));
  ASSERT_TRUE(truth.ok()) << truth.status();
  int compared = 0;
  for (const Json& expected : truth->array()) {
    const std::string name = expected["file"].text() + " " + expected["annotation"].text();
    SCOPED_TRACE(name);
    const StatusOr<Loaded> loaded = Load({(data / expected["file"].text()).string()});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    AnalysisOptions options;
    options.hta = true;
    options.annotation = expected["annotation"].text();
    options.instance = static_cast<int>(expected["instance_id"].integer_or(0));
    const StatusOr<CriticalPath> path = PathOf(loaded->set, options);
    ASSERT_TRUE(path.ok()) << path.status();
    if (!expected["success"].boolean()) {  // HTA does not know the category names of 2021 and
                                           // stops; here it has a path
      EXPECT_THAT(expected["error"].text(), HasSubstr("Could not find runtime index"));
      EXPECT_FALSE(path->steps.empty());
      continue;
    }
    EXPECT_EQ(static_cast<double>(path->total) / 1e3, expected["total_duration_us"].number_or(-1));
    EXPECT_EQ(static_cast<double>(path->nodes), expected["nodes"].number_or(-1));
    const auto more = kUnstableEdges.find(expected["file"].text());
    EXPECT_EQ(static_cast<double>(path->edges),
              expected["edges"].number_or(-1) + (more == kUnstableEdges.end() ? 0 : more->second));
    EXPECT_EQ(static_cast<double>(path->steps.size()), expected["critical_edges"].number_or(-1));
    std::map<std::string, Nanos> bounds = Bounds(*path), types;
    std::map<std::string, int64_t> counts;
    std::map<std::string, Nanos> events;
    for (const PathStep& step : path->steps) {
      types[std::string(PathEdgeName(step.edge))] += step.duration;
      ++counts[std::string(PathEdgeName(step.edge))];
      if (step.row != kNoRow)
        events[ShortName(loaded->set.Name(loaded->set.ranks[0], step.row))] += step.duration;
    }
    for (const auto& [bound, us] : expected["duration_us_by_bound"].object()) {
      EXPECT_EQ(static_cast<double>(bounds[bound]) / 1e3, us.number_or(-1)) << bound;
      EXPECT_NEAR(100.0 * static_cast<double>(bounds[bound]) / static_cast<double>(path->total),
                  expected["pct_by_bound"][bound].number_or(-1), 0.01);
    }
    EXPECT_EQ(bounds.size(), expected["duration_us_by_bound"].object().size());
    for (const auto& [type, us] : expected["duration_us_by_edge_type"].object())
      EXPECT_EQ(static_cast<double>(types[type]) / 1e3, us.number_or(-1)) << type;
    for (const auto& [type, n] : expected["edges_by_type"].object())
      EXPECT_EQ(static_cast<double>(counts[type]), n.number_or(-1)) << type;
    for (const Json& event : expected["top_events"].array()) {
      EXPECT_EQ(static_cast<double>(events[event.array()[0].text()]) / 1e3,
                event.array()[1].number_or(-1))
          << event.array()[0].text();
    }
    ++compared;
  }
  EXPECT_EQ(compared, 11);
}

}  // namespace
}  // namespace flopwatch::trace
