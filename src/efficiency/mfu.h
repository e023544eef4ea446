// What an application claims: Model FLOPs Utilisation (MFU), with recomputation HFU, and the peak
// they are measured against when precisions are mixed.
//
//   MFU   = model FLOPs / (seconds x GPUs x peak)                      OFU paper, eq. 10
//   P_eff = sum_p F_p / sum_p (F_p / P_p)                              OFU paper, eq. 12
//   HFU   = MFU x (FLOPs executed with recomputation / model FLOPs)
//
// Ratios are 0..1, rates FLOP/s, times seconds. What cannot be computed is an error that says why,
// never 0: NaN stands for missing (FailedPrecondition), zero, negative and infinite inputs are
// refused (OutOfRange). Results above 1 are returned as they are: BandOf() and the divergence rules
// say what they mean. Pure functions, any thread. docs/mfu.md has the formulas and the bands.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hardware/accelerator.h"

namespace flopwatch::efficiency {

// Model FLOP/s of all GPUs together: training (or forward) FLOPs per token x tokens per second of
// the whole job.
StatusOr<double> AchievedFlops(double flops_per_token, double tokens_per_s);

// MFU from a rate: achieved FLOP/s of the job / (GPUs x dense peak of one GPU in FLOP/s).
StatusOr<double> Mfu(double achieved_flops, double gpus, double peak_flops);
// MFU from totals (eq. 10): model FLOPs of the loop, its seconds, GPUs, peak FLOP/s of one GPU.
StatusOr<double> MfuOfRun(double model_flops, double seconds, double gpus, double peak_flops);

// HFU from an MFU: hardware FLOPs / model FLOPs, at least 1 (full activation checkpointing of a
// training step: 4/3; docs/mfu.md). Tile padding is not part of it.
StatusOr<double> Hfu(double mfu, double hardware_over_model);

// The same work against another peak: mfu x reported peak / right peak. Both in the same unit.
StatusOr<double> AgainstPeak(double mfu, double reported_peak, double right_peak);

// A share of the FLOPs and the dense peak it ran against; unit of the peak free, but one.
struct PrecisionWork {
  double flops = 0;
  double peak = 0;
};
// Equation 12: total work over ideal time, the harmonic mean weighted by FLOPs. Half the FLOPs at
// 2500 and half at 10000 give 4000, not 6250.
StatusOr<double> EffectivePeak(std::span<const PrecisionWork> work);
// The mean a spreadsheet would take, sum F_p P_p / sum F_p; only to show how wrong it is.
StatusOr<double> ArithmeticPeak(std::span<const PrecisionWork> work);

struct PrecisionShare {
  hardware::Precision precision{};
  double share = 0;  // of the FLOPs, 0..1
};
inline constexpr size_t kMaxMixParts = 8;
inline constexpr double kMixTolerance = 0.005;
// "bf16=0.3,fp8=0.7" or in per cent "bf16=30,fp8=70": shares of FLOPs that must add up to the whole
// (within kMixTolerance) and name each precision once. InvalidArgument names the part that is
// wrong.
StatusOr<std::vector<PrecisionShare>> ParsePrecisionMix(std::string_view text);

// The effective dense peak of a device for a mix, in TFLOP/s.
struct MixedPeak {
  double tflops = 0;
  double arithmetic_tflops = 0;     // what the wrong mean would say
  std::vector<double> part_tflops;  // in the order of the mix
  std::string source;
};
StatusOr<MixedPeak> EffectivePeakOf(const hardware::Accelerator& device,
                                    std::span<const PrecisionShare> mix);

// What a wrong peak does to an MFU. MFU = achieved / peak: a peak that is too small OVERSTATES it,
// one that is too large understates it. (The KempnerForge document says it the other way round.)
struct PeakMismatch {
  double factor = 1;  // reported MFU / true MFU = right peak / reported peak
  std::string text;   // one sentence; empty where the two agree within kPeakTolerance
};
inline constexpr double kPeakTolerance = 0.02;
StatusOr<PeakMismatch> ComparePeaks(double reported_peak, double right_peak,
                                    std::string_view reported_name, std::string_view right_name);
// The caveat for one device and two precisions, "" where the device does not tell them apart: what
// happens to the MFU of `work` measured against the peak of `measured_against`.
std::string PrecisionCaveat(const hardware::Accelerator& device, hardware::Precision work,
                            hardware::Precision measured_against);

// -------------------------------------------------------------------------------------------------
// Whether an MFU is plausible, by class of model: one set of limits does not fit all (docs/mfu.md).

enum class ModelClass { kDense, kMoe, kMoeFine, kHybrid };
std::string_view ModelClassName(ModelClass c);  // "dense", "moe", "moe_fine", "hybrid"
StatusOr<ModelClass> ParseModelClass(std::string_view name);

enum class BandLevel { kLow, kUsual, kTuned, kSuspect, kImpossible };
std::string_view BandLevelName(
    BandLevel level);  // "low", "usual", "tuned", "suspect", "impossible"

// Limits of a class: below `usual` something is wrong, `usual`..`tuned` is common,
// `tuned`..`suspect` well tuned, above `suspect` look for FLOPs counted twice, above 1 impossible.
// They are for training on NVIDIA data-centre GPUs against the dense peak of the precision in use.
struct Band {
  ModelClass model_class{};
  double usual = 0, tuned = 0, suspect = 0;
  std::string_view source;  // whose limits, or which published runs they were drawn around
};
const Band& BandOf(ModelClass c);

struct BandVerdict {
  BandLevel level = BandLevel::kUsual;
  std::string text;  // "42.0 % is well tuned for a dense model (40 to 55 %)", and what to look at
};
StatusOr<BandVerdict> JudgeMfu(double mfu, ModelClass c);

}  // namespace flopwatch::efficiency
