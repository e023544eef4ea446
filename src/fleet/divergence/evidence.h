// What a divergence is judged from: the claim an application makes (MFU), the measurement of the
// hardware (OFU) over exactly the same time, and what is known of the model and the run. Plain
// values; what is not known is absent and stays so. Ratios are 0..1, peaks TFLOP/s of one GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "efficiency/mfu.h"

namespace flopwatch::fleet {

enum class Recompute : uint8_t { kUnknown, kNone, kSelective, kFull };
// "full", "selective", "none", "unknown" (or ""); the error lists them.
StatusOr<Recompute> ParseRecompute(std::string_view name);
std::string_view RecomputeName(Recompute r);

struct MfuClaim {
  std::optional<double> mfu;  // as claimed; may be above 1: then it is impossible, not absent
  std::optional<double> half_width;   // 95 %, of the mean; absent: kTimingUncertainty of the MFU
  std::string convention, version;    // "" = not said
  std::optional<double> peak_tflops;  // the peak it was divided by
  std::vector<efficiency::PrecisionShare> mix;  // shares of the FLOPs; empty = not said
  Recompute recompute = Recompute::kUnknown;
  std::optional<bool> frozen_base;      // LoRA or other frozen weights
  std::optional<bool> packed;           // sequences packed into one
  std::optional<int> virtual_pipeline;  // stages a rank
  std::optional<int> accumulation_steps;
  std::optional<int64_t> gpus;  // that it counts, where it says so
};

struct OfuMeasurement {
  std::optional<double> ofu;
  std::string reason;              // why there is none
  std::optional<double> ci95;      // half-width; absent: table I of the paper, by window length
  std::optional<double> coverage;  // GPU-seconds with a known OFU / all; absent = not counted
  std::optional<double> window_s;
  std::optional<double> tensor_active;  // mean activity of the tensor pipes
  // It is of so many GPUs alone: those that the claim counts, where the job's others did no work.
  // Absent: of all that the job held.
  std::optional<int64_t> gpus;
};

// One way to count the FLOPs of this job's model: a convention or a known error.
struct Counting {
  std::string id, title;    // "megatron", "latent_moe_full_width"
  double flops = 0;         // training FLOPs a token, as this way counts them
  bool error = false;       // false: a convention people mean
  bool fits_claim = false;  // the claim's own convention or framework is known to have counted so
  std::string source{}, advice{};
};

struct ModelFlops {
  std::string name;
  double exact = 0;           // training FLOPs a token, every matmul once, causal half, windows
  double attention_core = 0;  // of them, scores and values (forward and backward)
  int64_t seq_len = 0;
  // The count under the convention the claim names; absent: not said, or not for this model.
  std::optional<double> counted{};
  std::vector<Counting> others{};
};

// MFU / OFU early and late in the job's life, each third over the time that its own samples stand
// for.
struct RatioTrend {
  double early = 0, late = 0;          // mean ratio of the first and the last third of the window
  double early_mfu = 0, late_mfu = 0;  // the claims alone
  double early_uptime_s = 0, late_uptime_s = 0;  // mean time since the job's start in each
};

struct JobEvidence {
  std::string job, user, workflow;
  std::optional<int64_t> gpus;
  double gpu_seconds = 0;
  std::vector<std::string> gpu_models;  // as reported, each once; empty = not known
  MfuClaim claim;
  OfuMeasurement ofu;
  std::optional<ModelFlops> model;
  std::optional<double> tile_overhead;  // executed over useful FLOPs of the GEMMs, minus 1
  std::optional<RatioTrend> trend;
};

}  // namespace flopwatch::fleet
