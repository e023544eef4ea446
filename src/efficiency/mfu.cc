#include "efficiency/mfu.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace flopwatch::efficiency {
namespace {

using hardware::Accelerator;
using hardware::Precision;

// The answer is "not computable", with the name of what is missing or cannot be.
Status Check(double value, std::string_view name) {
  if (std::isnan(value))
    return FailedPrecondition("not computable: {} is missing (not a number)", name);
  if (!std::isfinite(value) || value <= 0) {
    return OutOfRange("not computable: {} is {}, which is not a positive number", name, value);
  }
  return absl::OkStatus();
}

// Products and quotients of huge and tiny finite inputs may still leave the numbers.
StatusOr<double> Finite(double value, std::string_view what) {
  if (!std::isfinite(value) || value <= 0)
    return OutOfRange("not computable: {} is outside the range of numbers", what);
  return value;
}

Status CheckWork(std::span<const PrecisionWork> work) {
  if (work.empty()) return FailedPrecondition("not computable: there is no work");
  for (const PrecisionWork& part : work) {
    FW_RETURN_IF_ERROR(Check(part.flops, "the FLOPs of a precision"));
    FW_RETURN_IF_ERROR(Check(part.peak, "the peak of a precision"));
  }
  return absl::OkStatus();
}

constexpr Band kBands[] = {
    {ModelClass::kDense, 0.25, 0.40, 0.55,
     "KempnerForge MFU document (H100, dense): under 25 % wrong, 25 to 40 % typical, 40 to 55 % "
     "well tuned, above 55 % counted twice"},
    {ModelClass::kMoe, 0.20, 0.35, 0.55,
     "flopwatch's own, around published runs: Mixtral 8x22B 49.3 % at best (H100, arXiv "
     "2504.14960)"},
    {ModelClass::kMoeFine, 0.10, 0.25, 0.45,
     "flopwatch's own, around published runs: 12 to 25 % in most groups of OFU paper Table III, "
     "DeepSeek-V3 39 % of the BF16 peak over its pre-training (H800, derived), Qwen2-57B-A14B "
     "39.0 % at best (H100, arXiv 2504.14960)"},
    {ModelClass::kHybrid, 0.10, 0.25, 0.45,
     "flopwatch's own, around one published job: 15.56 % corrected for the hybrid of OFU paper, "
     "V-C"},
};

std::string_view ClassPhrase(ModelClass c) {
  // `kNames` is in the order of ModelClass.
  static constexpr std::string_view kNames[] = {"a dense model", "a mixture of few wide experts",
                                                "a mixture of many narrow experts",
                                                "a hybrid of attention and state-space layers"};
  return kNames[static_cast<size_t>(c)];
}

}  // namespace

StatusOr<double> AchievedFlops(double flops_per_token, double tokens_per_s) {
  FW_RETURN_IF_ERROR(Check(flops_per_token, "FLOPs per token"));
  FW_RETURN_IF_ERROR(Check(tokens_per_s, "tokens per second"));
  return Finite(flops_per_token * tokens_per_s, "FLOPs per token x tokens per second");
}

StatusOr<double> Mfu(double achieved_flops, double gpus, double peak_flops) {
  FW_RETURN_IF_ERROR(Check(achieved_flops, "achieved FLOP/s"));
  FW_RETURN_IF_ERROR(Check(gpus, "the number of GPUs"));
  FW_RETURN_IF_ERROR(Check(peak_flops, "the peak"));
  return Finite(achieved_flops / gpus / peak_flops, "achieved FLOP/s / (GPUs x peak)");
}

StatusOr<double> MfuOfRun(double model_flops, double seconds, double gpus, double peak_flops) {
  FW_RETURN_IF_ERROR(Check(model_flops, "model FLOPs"));
  FW_RETURN_IF_ERROR(Check(seconds, "the time of the loop"));
  FW_ASSIGN_OR_RETURN(const double achieved,
                      Finite(model_flops / seconds, "model FLOPs / seconds"));
  return Mfu(achieved, gpus, peak_flops);
}

StatusOr<double> Hfu(double mfu, double hardware_over_model) {
  FW_RETURN_IF_ERROR(Check(mfu, "MFU"));
  FW_RETURN_IF_ERROR(Check(hardware_over_model, "hardware FLOPs / model FLOPs"));
  if (hardware_over_model < 1) {
    return OutOfRange(
        "not computable: hardware FLOPs / model FLOPs is {}, but the hardware executes at least "
        "the model's FLOPs",
        hardware_over_model);
  }
  return Finite(mfu * hardware_over_model, "HFU");
}

StatusOr<double> AgainstPeak(double mfu, double reported_peak, double right_peak) {
  FW_RETURN_IF_ERROR(Check(mfu, "MFU"));
  FW_RETURN_IF_ERROR(Check(reported_peak, "the reported peak"));
  FW_RETURN_IF_ERROR(Check(right_peak, "the right peak"));
  return Finite(mfu * (reported_peak / right_peak), "MFU against the other peak");
}

StatusOr<double> EffectivePeak(std::span<const PrecisionWork> work) {
  FW_RETURN_IF_ERROR(CheckWork(work));
  double flops = 0, ideal_time = 0;
  for (const PrecisionWork& part : work) {
    flops += part.flops;
    ideal_time += part.flops / part.peak;
  }
  return Finite(flops / ideal_time, "the effective peak");
}

StatusOr<double> ArithmeticPeak(std::span<const PrecisionWork> work) {
  FW_RETURN_IF_ERROR(CheckWork(work));
  double flops = 0, weighted = 0;
  for (const PrecisionWork& part : work) {
    flops += part.flops;
    weighted += part.flops * part.peak;
  }
  return Finite(weighted / flops, "the arithmetic mean of peaks");
}

StatusOr<std::vector<PrecisionShare>> ParsePrecisionMix(std::string_view text) {
  const auto bad = [](std::string_view part, std::string_view why) {
    return InvalidArgument("precision mix \"{}\": {}; write bf16=0.3,fp8=0.7", Printable(part, 60),
                           why);
  };
  std::vector<PrecisionShare> mix;
  double sum = 0;
  for (size_t at = 0; at <= text.size();) {
    size_t end = text.find(',', at);
    if (end == std::string_view::npos) end = text.size();
    std::string_view part = text.substr(at, end - at);
    at = end + 1;
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) return bad(part, "a part is PRECISION=SHARE");
    if (mix.size() == kMaxMixParts) return bad(text, "too many parts");
    PrecisionShare share;
    const auto precision = hardware::ParsePrecision(part.substr(0, equals));
    if (!precision.ok()) return precision.status();
    share.precision = *precision;
    const std::string_view number = part.substr(equals + 1);
    const auto [end_of, error] =
        std::from_chars(number.data(), number.data() + number.size(), share.share);
    if (error != std::errc() || end_of != number.data() + number.size() ||
        !std::isfinite(share.share)) {
      return bad(part, "the share is not a number");
    }
    if (share.share <= 0) return bad(part, "a share is more than 0");
    for (const PrecisionShare& other : mix) {
      if (other.precision == share.precision) return bad(part, "named twice");
    }
    sum += share.share;
    mix.push_back(share);
  }
  const double whole = sum > 2 ? 100 : 1;  // per cent
  if (std::abs(sum / whole - 1) > kMixTolerance)
    return bad(text, fmt::format("the shares add up to {:g}, not to 1 (or 100)", sum));
  for (PrecisionShare& share : mix) share.share /= sum;
  return mix;
}

StatusOr<MixedPeak> EffectivePeakOf(const Accelerator& device,
                                    std::span<const PrecisionShare> mix) {
  MixedPeak out;
  std::vector<PrecisionWork> work;
  for (const PrecisionShare& share : mix) {
    FW_ASSIGN_OR_RETURN(const hardware::Peak peak, hardware::PeakOf(device, share.precision));
    work.push_back({share.share, peak.tflops});
    out.part_tflops.push_back(peak.tflops);
    out.source +=
        fmt::format("{}{:g} {} at {:g} TFLOP/s", out.source.empty() ? "" : " + ", share.share,
                    hardware::PrecisionName(share.precision), std::round(peak.tflops * 10) / 10);
  }
  FW_ASSIGN_OR_RETURN(out.tflops, EffectivePeak(work));
  FW_ASSIGN_OR_RETURN(out.arithmetic_tflops, ArithmeticPeak(work));
  out.source = fmt::format("{}: {} (OFU paper, eq. 12)", device.model, out.source);
  return out;
}

StatusOr<PeakMismatch> ComparePeaks(double reported_peak, double right_peak,
                                    std::string_view reported_name, std::string_view right_name) {
  FW_RETURN_IF_ERROR(Check(reported_peak, "the reported peak"));
  FW_RETURN_IF_ERROR(Check(right_peak, "the right peak"));
  PeakMismatch out;
  FW_ASSIGN_OR_RETURN(out.factor, Finite(right_peak / reported_peak, "the ratio of the peaks"));
  if (std::abs(out.factor - 1) <= kPeakTolerance) return out;
  out.text = out.factor > 1 ? fmt::format(
                                  "{} work measured against {} overstates MFU {:.3g} times: MFU = "
                                  "achieved / peak, and that peak is too small",
                                  right_name, reported_name, out.factor)
                            : fmt::format(
                                  "{} work measured against {} understates MFU {:.3g} times: MFU = "
                                  "achieved / peak, and that peak is too large",
                                  right_name, reported_name, 1 / out.factor);
  return out;
}

std::string PrecisionCaveat(const Accelerator& device, Precision work, Precision measured_against) {
  const auto right = hardware::PeakOf(device, work);
  const auto reported = hardware::PeakOf(device, measured_against);
  if (!right.ok() || !reported.ok()) return "";
  const auto mismatch = ComparePeaks(
      reported->tflops, right->tflops,
      fmt::format("the {} peak of {}", hardware::PrecisionName(measured_against), device.model),
      hardware::PrecisionName(work));
  return mismatch.ok() ? mismatch->text : "";
}

std::string_view ModelClassName(ModelClass c) {
  // `kNames` is in the order of ModelClass.
  static constexpr std::string_view kNames[] = {"dense", "moe", "moe_fine", "hybrid"};
  return kNames[static_cast<size_t>(c)];
}

StatusOr<ModelClass> ParseModelClass(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Band& band : kBands) {
    if (ModelClassName(band.model_class) == name) return band.model_class;
    names.push_back(ModelClassName(band.model_class));
  }
  const std::string_view nearest = Nearest(name, names);
  return InvalidArgument("unknown model class \"{}\"; {}", Printable(name, 60),
                         nearest.empty() ? std::string("use one of dense, moe, moe_fine, hybrid")
                                         : fmt::format("did you mean \"{}\"?", nearest));
}

std::string_view BandLevelName(BandLevel level) {
  // `kNames` is in the order of BandLevel.
  static constexpr std::string_view kNames[] = {"low", "usual", "tuned", "suspect", "impossible"};
  return kNames[static_cast<size_t>(level)];
}

const Band& BandOf(ModelClass c) { return kBands[static_cast<size_t>(c)]; }

StatusOr<BandVerdict> JudgeMfu(double mfu, ModelClass c) {
  FW_RETURN_IF_ERROR(Check(mfu, "MFU"));
  const Band& band = BandOf(c);
  const std::string_view model = ClassPhrase(c);
  const double pct = mfu * 100;
  BandVerdict out;
  if (mfu > 1) {
    out.level = BandLevel::kImpossible;
    out.text = fmt::format(
        "{:.1f} % is impossible: the peak, the FLOPs convention or the time is wrong", pct);
  } else if (mfu > band.suspect) {
    out.level = BandLevel::kSuspect;
    out.text = fmt::format(
        "{:.1f} % is suspiciously high for {} (above {:g} %): look for FLOPs "
        "counted twice, or a peak that is too small",
        pct, model, band.suspect * 100);
  } else if (mfu >= band.tuned) {
    out.level = BandLevel::kTuned;
    out.text = fmt::format("{:.1f} % is well tuned for {} ({:g} to {:g} %)", pct, model,
                           band.tuned * 100, band.suspect * 100);
  } else if (mfu >= band.usual) {
    out.level = BandLevel::kUsual;
    out.text = fmt::format("{:.1f} % is usual for {} ({:g} to {:g} %)", pct, model,
                           band.usual * 100, band.tuned * 100);
  } else {
    out.level = BandLevel::kLow;
    out.text = fmt::format(
        "{:.1f} % is low for {} (under {:g} %): look for communication, stalls "
        "and small batches, or FLOPs left out",
        pct, model, band.usual * 100);
  }
  return out;
}

}  // namespace flopwatch::efficiency
