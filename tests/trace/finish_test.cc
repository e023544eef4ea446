#include "trace/finish.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/builder.h"

namespace flopwatch::trace {
namespace {

Row FinishedRowOf(const TraceSet& set, std::string_view name) {
  for (Row r = 0; r < set.ranks[0].events.size(); ++r) {
    if (set.Name(set.ranks[0], r) == name) return r;
  }
  return kNoRow;
}

TEST(Finish, LinksOperatorLaunchAndKernel) {
  TraceBuilder b;
  b.Gpu(Category::kKernel, "gemm", 500, 100, 7);
  b.Cpu(Category::kRuntime, "cudaLaunchKernel", 120, 10, 7);
  b.Cpu(Category::kCpuOp, "aten::addmm", 110, 50);
  b.Cpu(Category::kCpuOp, "aten::linear", 100, 80);
  b.Cpu(Category::kCpuOp, "aten::after", 180, 20);
  const TraceSet set = std::move(b).Build();
  const EventTable& e = set.ranks[0].events;
  const Row gemm = FinishedRowOf(set, "gemm"), launch = FinishedRowOf(set, "cudaLaunchKernel"),
            addmm = FinishedRowOf(set, "aten::addmm");
  EXPECT_EQ(e.launch[gemm], launch);
  EXPECT_EQ(e.launch[launch], gemm);
  EXPECT_EQ(e.op[gemm], addmm);
  EXPECT_EQ(e.op[launch], addmm);
  EXPECT_EQ(e.parent[launch], addmm);
  EXPECT_EQ(e.parent[addmm], FinishedRowOf(set, "aten::linear"));
  EXPECT_EQ(e.parent[FinishedRowOf(set, "aten::after")], kNoRow);  // it begins where the other ends
}

TEST(Finish, RowsThatOnlyOverlapAreNotInsideEachOther) {
  TraceBuilder b;
  b.Cpu(Category::kUserAnnotation, "a", 0, 100);
  b.Cpu(Category::kUserAnnotation, "b", 50, 100);
  b.Cpu(Category::kCpuOp, "in both", 60, 10);
  b.Cpu(Category::kCpuOp, "in b", 110, 10);
  const TraceSet set = std::move(b).Build();
  const EventTable& e = set.ranks[0].events;
  EXPECT_EQ(e.parent[FinishedRowOf(set, "b")], kNoRow);
  EXPECT_EQ(e.parent[FinishedRowOf(set, "in both")], FinishedRowOf(set, "b"));
  EXPECT_EQ(e.parent[FinishedRowOf(set, "in b")], FinishedRowOf(set, "b"));
}

TEST(Finish, StepsEndWithTheirLastKernelAndTheTailMayBeCut) {
  TraceBuilder b;
  const auto step = [&](std::string_view name, Nanos ts, int kernels, Nanos last_end) {
    b.Cpu(Category::kUserAnnotation, name, ts, 1000);
    for (int i = 0; i < kernels; ++i) {
      b.Cpu(Category::kRuntime, "cudaLaunchKernel", ts + 10 + i, 1, ts + i);
      b.Gpu(Category::kKernel, "k", last_end - 50, 50, ts + i);
    }
  };
  step("ProfilerStep#4", 1000, 10, 2500);  // ends 500 after its annotation
  step("ProfilerStep#5", 2000, 10, 2900);
  step("ProfilerStep#6", 3000, 3, 3500);
  const TraceSet set = std::move(b).Build();
  const std::vector<Step>& steps = set.ranks[0].steps;
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].number, 4);
  EXPECT_EQ(steps[0].end, 2500);
  EXPECT_EQ(steps[1].begin, 2500);
  EXPECT_EQ(steps[1].end, 3000);
  EXPECT_TRUE(steps[0].complete);
  EXPECT_TRUE(steps[1].complete);
  EXPECT_FALSE(steps[2].complete);
}

}  // namespace
}  // namespace flopwatch::trace
