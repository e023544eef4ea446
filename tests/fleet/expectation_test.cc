#include "fleet/divergence/expectation.h"

#include <gtest/gtest.h>

namespace flopwatch::fleet {
namespace {

TEST(Expectation, NothingKnownIsPaddingAndAttention) {
  const Expectation e = Expect({});
  EXPECT_DOUBLE_EQ(e.ofu_per_mfu.low, 1.02);
  EXPECT_DOUBLE_EQ(e.ofu_per_mfu.high, 1.05 * 1.03);
  EXPECT_EQ(e.factors.size(), 4u);
}

// The paper's hybrid runs, once counted right: OFU 18.5 to 18.7 over MFU 17.8 to 18.0.
TEST(Expectation, PaperRunsCountedRightAreInside) {
  const Expectation e = Expect({});
  EXPECT_LT(e.ofu_per_mfu.low, 18.5 / 18.0);
  EXPECT_GT(e.ofu_per_mfu.high, 18.7 / 17.8);
}

// Full recompute beside usual padding: r = 0.75 to 0.79 for it alone (1 / 1.33 and 1 / 1.27).
TEST(Expectation, DeclaredRecompute) {
  JobEvidence job;
  job.claim.recompute = Recompute::kFull;
  job.tile_overhead = 0;
  const Range r = Expect(job).ofu_per_mfu.Inverse();
  EXPECT_NEAR(r.high, 0.787, 0.001);  // 1/1.27
  EXPECT_NEAR(r.low, 0.728, 0.001);   // 3/4, less 3 % of attention
}

// Llama-3.1-8B at 32K under a full-attention convention: about 1/1.36 before the other factors. Its
// core is 32 layers x 4 x 4096 x 16384.5 keys of forward, x 3 = 25.77e9
// of 70.80e9.
TEST(Expectation, FullAttentionConvention) {
  JobEvidence job;
  job.claim.convention = "palm";
  job.model = ModelFlops{.name = "llama-3.1-8b",
                         .exact = 100,
                         .attention_core = 36.4,
                         .seq_len = 32768,
                         .counted = 136.4};
  job.tile_overhead = 0;
  const Expectation e = Expect(job);
  EXPECT_NEAR(e.factors[3].factor.low, 1 / 1.364, 1e-12);
  // 0.17 a of fused backward and half a tile of 128 keys beyond the diagonal.
  EXPECT_NEAR(e.factors[1].factor.low, 1 + 0.17 * 0.364 + 0.364 * 64 / 16384, 0.002);
}

TEST(Expectation, TileOverheadGivenReplacesTheGuess) {
  JobEvidence job;
  job.tile_overhead = 0.157;  // 4100^3 on tiles of 256x160, clusters of 2x1
  EXPECT_DOUBLE_EQ(Expect(job).factors[0].factor.low, 1.157);
  EXPECT_DOUBLE_EQ(Expect(job).factors[0].factor.high, 1.157);
}

}  // namespace
}  // namespace flopwatch::fleet
