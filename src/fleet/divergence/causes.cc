#include "fleet/divergence/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace flopwatch::fleet {
namespace {

struct Facts {
  const JobEvidence& job;
  const PeakReview& peak;
  bool model_known() const { return job.model.has_value() && job.model->exact > 0; }
  // The stated peak was checked: no cause is to be sought there.
  bool peak_checked() const { return peak.used.has_value() && peak.right.has_value(); }
};

struct Row {
  std::string_view id, title, advice, source;
  CauseGroup group;
  bool error;
  void (*add)(const Facts& facts, const Row& row, std::vector<Cause>* out);
};

Cause& Add(const Row& row, Standing standing, Range mfu_factor, std::vector<Cause>* out) {
  return out->emplace_back(Cause{.id = std::string(row.id),
                                 .title = std::string(row.title),
                                 .advice = std::string(row.advice),
                                 .source = std::string(row.source),
                                 .group = row.group,
                                 .standing = standing,
                                 .mfu_factor = mfu_factor,
                                 .ofu_factor = {},
                                 .error = row.error});
}

constexpr Range Exactly(double f) { return {f, f}; }

constexpr double kLeastGrowth = 1.25;  // of a ratio and a claim that are said to rise
constexpr double kOfUptime = 0.7;      // of the rise of the uptime, in logarithms

// --- signatures of published cases: for jobs whose model is not known ---

// 54.27 / 18.45: reported over corrected MFU (OFU paper, V-C).
void LatentMoe(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (!f.model_known()) Add(row, Standing::kPossible, Exactly(54.27 / 18.45), out);
}

// The paper gives MFU 24.51 beside OFU 15.56, and for runs of a similar model counted right
// OFU / MFU between 18.5/18.0 and 18.7/17.8: the FLOPs were 1.62 to 1.65 times too many.
void HybridAsDense(const Facts& f, const Row& row, std::vector<Cause>* out) {
  constexpr double kRatio = 24.51 / 15.56;
  if (!f.model_known()) {
    Add(row, Standing::kPossible, {kRatio * 18.5 / 18.0, kRatio * 18.7 / 17.8}, out);
  }
}

void AllExperts(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (f.model_known()) return;
  Add(row, Standing::kRemote, Exactly(3.6), out).title += ", as for Mixtral 8x7B";
  Add(row, Standing::kRemote, Exactly(5.13), out).title += ", as for Qwen3-30B-A3B";
}

void OldMegatronMoe(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (!f.model_known()) Add(row, Standing::kRemote, Exactly(0.57), out);
}

// Llama-3.1-8B under a full-attention convention, over the exact count: 1.035 at 2K, 1.125 at 8K,
// 1.364 at 32K, 1.696 at 128K tokens.
void CausalHalf(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (!f.model_known()) Add(row, Standing::kOpen, {1.035, 1.70}, out);
}

void VisionLength(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (!f.model_known()) Add(row, Standing::kOpen, {3, 10}, out);
}

void PackedAsOne(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (f.job.claim.packed == false) return;
  Cause& c = Add(row, Standing::kOpen, {1.05, 4}, out);
  if (f.job.claim.packed == true) c.title += " (packing is declared)";
}

void PartMissing(const Facts& f, const Row& row, std::vector<Cause>* out) {
  Add(row, Standing::kOpen, {0.5, 0.95}, out);
}

void Profiler(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (absl::StrContains(absl::AsciiStrToLower(f.job.claim.convention), "deepspeed")) {
    Add(row, Standing::kLikely, Exactly(13.4 / 125.2), out);
  }
}

// --- the training setup ---

// Trained fully it is 6N, with a frozen base 4N, and 6n for adapters of up to 2 % of N.
void FrozenAsFull(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (f.job.claim.frozen_base == false) return;
  Add(row, f.job.claim.frozen_base == true ? Standing::kLikely : Standing::kPossible,
      {6 / 4.12, 1.5}, out);
}

void VirtualPipeline(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (const auto stages = f.job.claim.virtual_pipeline) {
    if (*stages > 1) Add(row, Standing::kLikely, Exactly(*stages), out);
    return;
  }
  for (const int n : {2, 3, 4}) {
    Add(row, Standing::kRemote, Exactly(n), out).title += fmt::format(", {} of them", n);
  }
}

void Accumulation(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (const auto steps = f.job.claim.accumulation_steps) {
    if (*steps > 1) Add(row, Standing::kLikely, Exactly(1.0 / *steps), out);
    return;
  }
  for (const int n : {2, 4, 8}) {
    Add(row, Standing::kRemote, Exactly(1.0 / n), out).title += fmt::format(", {} steps", n);
  }
}

// A sum that is never reset, divided by the time of one step, grows in proportion to the uptime:
// the claim itself rises, and the ratio by most of what the uptime does. An OFU that falls
// late (a pause, a part that was not scraped) is no such thing.
void Accumulator(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (!f.job.trend) return;
  const RatioTrend& t = *f.job.trend;
  if (!(t.early > 0 && t.late > kLeastGrowth * t.early && t.early_mfu > 0 &&
        t.late_mfu > kLeastGrowth * t.early_mfu && t.early_uptime_s > 0 &&
        t.late_uptime_s > t.early_uptime_s)) {
    return;
  }
  const double expected = std::log(t.late_uptime_s / t.early_uptime_s);
  if (std::log(t.late / t.early) < kOfUptime * expected) return;
  // What it would be at the start is not in the two means; the mean over the job is what it is.
  Add(row, Standing::kSeen, {t.early, t.late}, out).title +=
      fmt::format(": MFU/OFU rose from {:.2f} to {:.2f}", t.early, t.late);
}

void Recomputed(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (f.job.claim.recompute != Recompute::kUnknown) return;
  Add(row, Standing::kLikely, {}, out).ofu_factor = kFullRecompute;
}

// Where recompute is declared, a claim that agrees with the OFU as it is has counted it.
void HfuAsMfu(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (f.job.claim.recompute == Recompute::kFull) Add(row, Standing::kLikely, kFullRecompute, out);
}

// --- peaks ---

void SeenPeak(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (!f.peak.wrong()) return;
  Cause& c = Add(row, Standing::kSeen, Exactly(1 / f.peak.factor), out);
  c.title = fmt::format("divided by {:.6g} TFLOP/s, {}; right is {:.6g} ({})", *f.peak.used,
                        f.peak.used_looks_like, *f.peak.right, f.peak.right_basis);
}

void PeakDoubled(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (!f.peak_checked()) Add(row, Standing::kPossible, Exactly(0.5), out);
}

bool HasFp8(const Facts& f) {
  return f.peak.gpu == nullptr || hardware::PeakOf(*f.peak.gpu, hardware::Precision::kFp8).ok();
}

void Fp8AgainstBf16(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (!f.peak_checked() && HasFp8(f)) Add(row, Standing::kPossible, Exactly(2), out);
}

bool IsDualDie(std::string_view model) {
  for (const std::string_view part : {"B200", "B300", "B100", "MI250"}) {
    if (model.find(part) != std::string_view::npos) return true;
  }
  return false;
}

void DualDie(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (f.peak.gpu == nullptr || !IsDualDie(f.peak.gpu->model) || f.peak_checked()) return;
  Add(row, Standing::kPossible, Exactly(2), out);
  Add(row, Standing::kPossible, Exactly(0.5), out).title += ", the other way round";
}

// Peaks people leave in the code for every GPU, TFLOP/s dense BF16 (docs/mfu.md, A wrong peak).
void OtherGpu(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (f.peak.used.has_value()) return;
  struct Known {
    const char* name;
    double tflops;
  };
  static constexpr Known kKnown[] = {
      {"H100 SXM", 989.4}, {"A100", 311.9}, {"H100 PCIe", 756.4}, {"B200", 2500}};
  const auto add = [&](double right, const Known& used, std::string_view of, Standing standing) {
    const double factor = right / used.tflops;
    if (std::abs(std::log(factor)) < std::log1p(kSamePeak)) return;
    Cause& c = Add(row, standing, Exactly(factor), out);
    c.title = fmt::format("the peak of {} ({:.0f}) used for {} ({:.0f})", used.name, used.tflops,
                          of, right);
  };
  if (f.peak.gpu != nullptr) {
    const auto right = TrainingPeak(*f.peak.gpu);
    if (!right) return;
    // KempnerForge takes the first key found in the device's name, and 989 for anything newer.
    const bool known = f.job.claim.convention == "kempnerforge";
    for (const Known& k : kKnown) {
      add(*right, k, f.peak.gpu->model,
          known && k.tflops == 989.4 ? Standing::kLikely : Standing::kPossible);
    }
    return;
  }
  for (const Known& right : kKnown) {
    for (const Known& used : kKnown) add(right.tflops, used, right.name, Standing::kRemote);
  }
}

// --- the counter ---

void Bypassed(const Facts& f, const Row& row, std::vector<Cause>* out) {
  if (f.job.ofu.tensor_active && *f.job.ofu.tensor_active < 0.005 && f.job.claim.mfu > 0.05) {
    Add(row, Standing::kSeen, {1, 1e9}, out);
  }
}

void Doubled(const Facts& f, const Row& row, std::vector<Cause>* out) {
  Add(row, Standing::kPossible, Exactly(2), out);
}
void Halved(const Facts& f, const Row& row, std::vector<Cause>* out) {
  Add(row, Standing::kPossible, Exactly(0.5), out);
}

constexpr std::string_view kConfigAdvice =
    "give the model's configuration: then its own FLOPs decide instead of a published ratio";

using enum CauseGroup;
constexpr Row kRows[] = {
    {kWrongPeak, "wrong peak", "divide by the dense peak of this GPU and precision",
     "Megatron-LM #1276, #1565; autoresearch #5", kPeak, true, SeenPeak},
    {"tensor_cores_bypassed",
     "the tensor pipes stand still: arithmetic runs elsewhere, or the "
     "counter is missing",
     "check the data type of the matmuls (FP32 without TF32, INT8 outside the tensor path), then "
     "the profiling counters",
     "docs/divergence.md, What a ratio suggests", kHardware, true, Bypassed},
    {"accumulator_not_reset", "a FLOPs sum that is never reset",
     "divide the FLOPs of one interval by its own time", "Megatron-LM #1755", kFactor, true,
     Accumulator},
    {"latent_moe_full_width", "latent MoE counted at full width", kConfigAdvice,
     "OFU paper, V-C; Megatron-LM #2296, #2977", kFlops, true, LatentMoe},
    {"hybrid_as_dense", "hybrid model counted as attention and MLP in every layer", kConfigAdvice,
     "OFU paper, V-C; Megatron-LM #2198", kFlops, true, HybridAsDense},
    {"recompute_not_counted", "full activation recompute, which MFU leaves out",
     "nothing is wrong with the MFU: show HFU beside it, and declare the recompute mode",
     "OFU paper, VI-C; DeepSpeed #3362", kHardware, false, Recomputed},
    {"hfu_as_mfu", "recomputed FLOPs counted in the MFU",
     "report it as HFU: MFU leaves recompute out", "docs/mfu.md; arXiv 2204.02311, appendix B",
     kFactor, true, HfuAsMfu},
    {"frozen_as_full", "LoRA or frozen weights counted as full training",
     "count 4N for frozen weights (no weight gradient), 6N for trained ones",
     "Megatron-Bridge #2409, #2416, #2571; Automodel #786", kFactor, true, FrozenAsFull},
    {"fp8_against_bf16_peak", "FP8 run against the BF16 peak",
     "state the precision mix: its effective peak is the harmonic mean (OFU paper, eq. 12)",
     "KempnerForge FP8 caveat, put right in docs/mfu.md", kPeak, true, Fp8AgainstBf16},
    {"peak_doubled", "a peak twice the right one: the 2:4 sparse figure, or FP8 for a BF16 run",
     "divide by the dense peak of the precision that ran", "Megatron-LM #1276, #1565; miles #2353",
     kPeak, true, PeakDoubled},
    {"dual_die", "dies and packages mixed up: the peak of one times the number of the other",
     "count GPUs as the peak does", "docs/divergence.md, What a ratio suggests", kPeak, true,
     DualDie},
    {"peak_of_other_gpu", "peak of another GPU", "look the peak up by the whole device name",
     "autoresearch #5; docs/mfu.md", kPeak, true, OtherGpu},
    {"counted_twice", "FLOPs counted twice",
     "a multiply-add is 2 FLOPs, once: look for a second "
     "factor 2",
     "PyTorch #134804; transformers #15006", kFactor, true, Doubled},
    {"mac_as_flop", "multiply-adds reported as FLOPs", "a multiply-add is 2 FLOPs",
     "fvcore convention; transformers #15006", kFactor, true, Halved},
    {"virtual_pipeline", "every virtual pipeline stage adds the FLOPs of the whole model",
     "count the model once a rank", "Megatron-Bridge #4750", kFactor, true, VirtualPipeline},
    {"accumulation_forgotten", "gradient accumulation left out",
     "multiply by the accumulation steps", "bionemo-recipes #1548", kFactor, true, Accumulation},
    {"all_experts", "all experts of a MoE counted", kConfigAdvice,
     "MaxText #678; prime-rl #778; torchtitan #4300", kFlops, true, AllExperts},
    {"moe_left_out", "MoE counted by a dense formula of F = 4D", kConfigAdvice,
     "Megatron-LM 2748e7c7 for Mixtral; Megatron-DeepSpeed #398", kFlops, true, OldMegatronMoe},
    {"profiler_blind", "the profiler saw no fused attention or compiled operator",
     "count from the model's configuration", "DeepSpeed #2565, #4593, #4723", kFlops, true,
     Profiler},
    {"causal_half", "attention counted in full although it is causal, or a window ignored",
     kConfigAdvice, "MaxText #1972; verl #4959; Megatron-LM #1725", kFlops, true, CausalHalf},
    {"vision_length", "vision-language model: configured instead of real length", kConfigAdvice,
     "Megatron-Bridge #3498, #3529", kFlops, true, VisionLength},
    {"packed_as_one", "packed sequences counted as one long one",
     "count attention from the sum of squared lengths",
     "Megatron-Bridge #3839, #4366; Megatron-LM #4103", kFlops, true, PackedAsOne},
    {"part_missing", "a part of the model is not counted (vision tower, MTP, indexer, teacher)",
     kConfigAdvice, "docs/divergence.md, What a ratio suggests", kFlops, true, PartMissing},
};

constexpr double kSameFlops = 0.01;

// Conventions and known errors on this job's own model.
void AddCountings(const Facts& f, std::vector<Cause>* out) {
  if (!f.model_known()) return;
  const ModelFlops& m = *f.job.model;
  // The expectation already has exact / counted in it where the convention is known.
  const double base = m.counted.value_or(m.exact);
  if (!(base > 0)) return;
  for (const Counting& c : m.others) {
    if (!(c.flops > 0) || !std::isfinite(c.flops)) continue;
    const double factor = c.flops / base;
    // Indistinguishable from what is assumed anyway.
    if (std::abs(std::log(factor)) < std::log1p(kSameFlops)) continue;
    // A claim that names its convention meant that one; another one is then a mistake.
    const bool named = m.counted.has_value();
    const Standing standing = c.fits_claim ? Standing::kLikely
                              : c.error    ? Standing::kPossible
                              : named      ? Standing::kRemote
                                           : Standing::kLikely;
    // Ways that come to the same number are one cause: no ratio can tell them apart.
    const auto same = std::find_if(out->begin(), out->end(), [&](const Cause& k) {
      return k.standing == standing && k.error == c.error &&
             std::abs(std::log(k.mfu_factor.low / factor)) < std::log1p(kSameFlops / 4);
    });
    if (same != out->end()) {
      same->title += (c.error ? "; or " : ", ") + c.title;
      if (same->source != c.source) same->source += "; " + c.source;
      continue;
    }
    out->push_back({.id = c.id,
                    .title = c.error ? c.title : "counted by another convention: " + c.title,
                    .advice = c.advice,
                    .source = c.source,
                    .group = CauseGroup::kFlops,
                    .standing = standing,
                    .mfu_factor = Exactly(factor),
                    .ofu_factor = {},
                    .error = c.error,
                    .from_model = true});
  }
}

}  // namespace

std::string_view StandingName(Standing s) {
  // The table is in the order of Standing.
  static constexpr std::string_view kNames[] = {"seen", "likely", "possible", "remote", "open"};
  return kNames[static_cast<size_t>(s)];
}

int CostOf(Standing s) {
  // The table is in the order of Standing.
  static constexpr int kValues[] = {0, 1, 2, 4, 6};
  return kValues[static_cast<size_t>(s)];
}

std::vector<Cause> CausesFor(const JobEvidence& job, const PeakReview& peak) {
  const Facts facts{job, peak};
  std::vector<Cause> out;
  AddCountings(facts, &out);
  for (const Row& row : kRows) row.add(facts, row, &out);
  return out;
}

}  // namespace flopwatch::fleet
