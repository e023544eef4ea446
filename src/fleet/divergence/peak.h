// The peak an MFU should be divided by, and what the claim used instead.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fleet/divergence/evidence.h"
#include "hardware/accelerator.h"

namespace flopwatch::fleet {

// Peaks closer than this are the same figure rounded (989 and 989.4, 2500 and 2478).
inline constexpr double kSamePeak = 0.02;

struct PeakReview {
  const hardware::Accelerator* gpu = nullptr;  // of the job; null = not known
  std::optional<double> used;                  // by the claim
  // The peak of the job's GPU and its precision mix (OFU paper, eq. 12: FLOPs-weighted harmonic
  // mean). Absent where the GPU or the precision is not known.
  std::optional<double> right;
  std::string right_basis;  // "H100 SXM, BF16", or why there is none
  // MFU as claimed x used / right where both are known, else 1.
  double factor = 1;
  // What `used` is where it is not right: "the 2:4 sparse figure", "the FP8 peak"; "" = right or
  // not known.
  std::string used_looks_like;
  bool wrong() const { return !used_looks_like.empty(); }
};

// FailedPrecondition where the job's GPUs have different peaks, so that no one MFU stands for them.
StatusOr<PeakReview> ReviewPeak(const JobEvidence& job, const hardware::Catalog& catalog);

// Dense BF16 (FP16 where the part has no BF16) tensor peak in TFLOP/s.
std::optional<double> TrainingPeak(const hardware::Accelerator& gpu);

}  // namespace flopwatch::fleet
