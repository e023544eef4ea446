// Expected counts: the captures' README and operator-mfu.md 4.1 (SQL over the databases), and the fixture's own arithmetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "data.h"
#include "trace/import/nsight_text.h"
#include "trace/load.h"

namespace flopwatch::trace {
namespace {

using testing_data::SharedData;

TEST(NvtxText, OperatorsOfPyTorch) {
  const NvtxOp op = ParseNvtxOp("aten::addmm, seq = 45339, op_id = 990761, sizes = [[8192], [8192, 4096], []], input_op_ids = [(1,0)]");
  EXPECT_TRUE(op.is_op);
  EXPECT_EQ(op.name, "aten::addmm");
  EXPECT_EQ(op.sequence, 45339);
  EXPECT_EQ(op.sizes, "[[8192], [8192, 4096], []]");
  EXPECT_EQ(ParseNvtxOp("aten::mm, op_id = 3").sequence, kUnknown);
  EXPECT_EQ(ParseNvtxOp("aten::mm, op_id = 3, sizes = [[1, 2").sizes, "");  // cut
  EXPECT_FALSE(ParseNvtxOp("forward pass").is_op);
  EXPECT_FALSE(ParseNvtxOp("").is_op);
  EXPECT_EQ(ApiName("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(ApiName("cudaStreamGetCaptureInfo_v2_v11030"), "cudaStreamGetCaptureInfo_v2");
  EXPECT_EQ(ApiName("cuMemcpyDtoH_v2"), "cuMemcpyDtoH_v2");
}

TEST(NsightImport, KernelsAreLinkedWithinTheirProcess) {
  FLOPWATCH_REQUIRE_DATA("nsys/h100_2gpu_fsdp_before.sqlite");
  const auto loaded = Load({(SharedData() / "nsys/h100_2gpu_fsdp_before.sqlite").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 2u);
  int kernels = 0, linked = 0, copies = 0, on_op = 0, products = 0;
  for (const RankTrace& rank : loaded->set.ranks) {
    for (Row r = 0; r < rank.events.size(); ++r) {
      copies += rank.events.category[r] == Category::kGpuMemcpy;
      if (rank.events.category[r] != Category::kKernel) continue;
      ++kernels;
      if (rank.events.launch[r] == kNoRow) continue;
      ++linked;
      const std::string_view name = loaded->set.Name(rank, r);
      if (name.find("nvjet") == std::string_view::npos && name.find("flash_fwd") == std::string_view::npos) continue;
      ++products;
      const std::string_view op = rank.events.op[r] == kNoRow ? "" : loaded->set.Name(rank, rank.events.op[r]);
      on_op += op == "aten::linear" || op == "aten::addmm" || op == "flash_attn::_flash_attn_forward";
    }
  }
  EXPECT_EQ(kernels, 4010);
  EXPECT_EQ(linked, 3986);
  EXPECT_EQ(copies, 1020);
  EXPECT_EQ(products, 401);  // "401 of 401 GEMM and attention kernels"
  EXPECT_EQ(on_op, 401);
}

TEST(NsightImport, FixtureOfTwoProcessesWithSwappedGpus) {
  FLOPWATCH_REQUIRE_DATA("nsys/fixture/nsys_fixture.sqlite");
  const auto loaded = Load({(SharedData() / "nsys/fixture/nsys_fixture.sqlite").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 2u);
  const RankTrace& first = loaded->set.ranks[0];
  EXPECT_TRUE(first.wall_clock);
  EXPECT_EQ(first.begin, 1'760'000'000'000'000'000 + 1'000'000'000);
  EXPECT_FALSE(first.losses.empty());  // the range without an end
  // The counters of CUDA device 0 stand under PerfWorks id 1: 60 % at 1600 MHz while its kernel runs.
  double tensor = 0, clock = 0;
  for (const CounterSample& c : first.counters) {
    EXPECT_EQ(c.device, 0);
    if (loaded->set.names.Text(c.counter).starts_with("Tensor")) tensor = std::max(tensor, c.value);
    if (loaded->set.names.Text(c.counter).starts_with("GPC")) clock = clock == 0 ? c.value : std::min(clock, c.value);
  }
  EXPECT_EQ(tensor, 60);
  EXPECT_EQ(clock, 1600);
  std::map<std::string, std::string> op_of;
  for (const RankTrace& rank : loaded->set.ranks) {
    for (Row r = 0; r < rank.events.size(); ++r) {
      if (rank.events.category[r] != Category::kKernel) continue;
      op_of[std::string(loaded->set.Name(rank, r))] = rank.events.op[r] == kNoRow ? "" : loaded->set.Name(rank, rank.events.op[r]);
    }
  }
  EXPECT_EQ(op_of["void nvjet_gemm<bf16>()"], "aten::addmm");
  EXPECT_EQ(op_of["void nvjet_splitk<bf16>()"], "aten::mm");
  EXPECT_EQ(op_of["void batched_gemm<bf16>()"], "aten::bmm");
  EXPECT_EQ(op_of["void orphan_kernel<bf16>()"], "");
}

TEST(NsightImport, OneGpuWithItsName) {
  FLOPWATCH_REQUIRE_DATA("nsys/rtx3080_two_kernels.sqlite");
  const auto loaded = Load({(SharedData() / "nsys/rtx3080_two_kernels.sqlite").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->set.ranks.size(), 1u);
  ASSERT_EQ(loaded->set.ranks[0].devices.size(), 1u);
  EXPECT_EQ(loaded->set.ranks[0].devices[0].name, "NVIDIA GeForce RTX 3080");
  EXPECT_EQ(loaded->set.ranks[0].devices[0].sm_count, 68);
}

}  // namespace
}  // namespace flopwatch::trace
