// What a job whose numbers are all right would show. OFU sees what the hardware executes, MFU what
// a formula counts, so OFU / MFU of a healthy job is not 1 (docs/divergence.md):
//
//   OFU / MFU = (1 + tile overhead) x recompute x (1 + a/6) x (executed FLOPs / counted FLOPs)
//
// with a the attention core's share of the FLOPs: a fused backward runs 5 matmuls to the forward's
// 2, so the core costs 3.5 where 3 are counted. Each factor is a range; the ranges multiply.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fleet/divergence/evidence.h"

namespace flopwatch::fleet {

// A positive factor known to lie between two values.
struct Range {
  double low = 1, high = 1;
  double Center() const;   // geometric mean
  double HalfLog() const;  // half of log(high / low)
  Range operator*(const Range& o) const { return {low * o.low, high * o.high}; }
  Range Inverse() const { return {1 / high, 1 / low}; }
};

// Padding of ordinary training GEMMs where it is not known: 2 to 5 % (the OFU paper's hybrid jobs,
// once counted right, show OFU / MFU of 1.03 to 1.05).
inline constexpr Range kUsualPadding{1.02, 1.05};
// Attention where the model is not known: a between 0 and 0.18 (Llama-3.1-8B at 8K has 0.125).
inline constexpr Range kUsualAttention{1.0, 1.03};
// Full activation recompute: the whole forward again (4/3), less what lies outside the checkpointed
// region: 1.27 to 1.33 is usual (the OFU paper, VI-C: 33/26 = 1.27).
inline constexpr Range kFullRecompute{1.27, 4.0 / 3};
// Keys a causal kernel runs beyond the diagonal: half a tile of this many, as it skips whole tiles.
inline constexpr double kDiagonalTile = 128;

struct ExpectedFactor {
  std::string_view name;  // "padding", "recompute", "attention", "counting"
  Range factor;
  std::string basis;  // where it comes from, for a person
};

struct Expectation {
  Range ofu_per_mfu;  // all factors
  std::vector<ExpectedFactor> factors;
};

// `full_recompute_assumed`: as if full recompute had been declared.
Expectation Expect(const JobEvidence& job, bool full_recompute_assumed = false);

}  // namespace flopwatch::fleet
