#include "fleet/divergence/peak.h"

#include <fmt/format.h>

#include <cmath>

namespace flopwatch::fleet {
namespace {

using hardware::Accelerator;
using hardware::Precision;

bool Same(double a, double b) { return std::abs(std::log(a / b)) < std::log1p(kSamePeak); }

std::optional<double> PeakTflops(const Accelerator& gpu, Precision p) {
  const auto peak = hardware::PeakOf(gpu, p);
  return peak.ok() && peak->tflops > 0 ? std::optional<double>(peak->tflops) : std::nullopt;
}

std::string MixName(const std::vector<efficiency::PrecisionShare>& mix) {
  std::string out;
  for (const efficiency::PrecisionShare& part : mix) {
    if (!out.empty()) out += " + ";
    if (mix.size() > 1) out += fmt::format("{:.0f} % ", part.share * 100);
    out += hardware::PrecisionName(part.precision);
  }
  return out;
}

struct Look {
  enum class Kind { kOwnDense, kOwnSparse, kElse } kind = Kind::kElse;
  std::string text;
};

// What a stated peak is. Devices in the order people confuse them with.
Look LooksLike(double used, const Accelerator& gpu, const hardware::Catalog& catalog) {
  for (const Precision p :
       {Precision::kBf16, Precision::kFp16, Precision::kFp8, Precision::kFp4, Precision::kTf32}) {
    const auto dense = PeakTflops(gpu, p);
    if (!dense || !Same(used, *dense)) continue;
    Look out{Look::Kind::kOwnDense,
             fmt::format("the {} peak of {}", hardware::PrecisionName(p), gpu.model)};
    // On most parts the 2:4 sparse figure of a precision is the dense one of the next smaller.
    const auto half = TrainingPeak(gpu);
    if (half && Same(used, 2 * *half)) out.text += ", or its 2:4 sparse BF16 figure";
    return out;
  }
  for (const Precision p : {Precision::kBf16, Precision::kFp16, Precision::kFp8, Precision::kFp4}) {
    const auto dense = PeakTflops(gpu, p);
    if (dense && Same(used, 2 * *dense)) {
      return {Look::Kind::kOwnSparse,
              fmt::format("the 2:4 sparse {} figure of {}", hardware::PrecisionName(p), gpu.model)};
    }
  }
  for (const char* known : {"H100 SXM", "A100 SXM 80GB", "H100 PCIe", "B200", "V100 SXM2"}) {
    const auto other = catalog.Find(known);
    if (!other.ok() || *other == &gpu) continue;
    if (const auto peak = TrainingPeak(**other); peak && Same(used, *peak)) {
      return {Look::Kind::kElse, fmt::format("the peak of {}", (*other)->model)};
    }
  }
  return {Look::Kind::kElse, fmt::format("no peak of {}", gpu.model)};
}

}  // namespace

std::optional<double> TrainingPeak(const Accelerator& gpu) {
  if (const auto bf16 = PeakTflops(gpu, Precision::kBf16)) return bf16;
  return PeakTflops(gpu, Precision::kFp16);
}

StatusOr<PeakReview> ReviewPeak(const JobEvidence& job, const hardware::Catalog& catalog) {
  PeakReview out;
  out.used = job.claim.peak_tflops;
  std::string unknown;
  for (const std::string& name : job.gpu_models) {
    const auto found = catalog.Find(name);
    if (!found.ok()) {
      unknown = name;
      continue;
    }
    const Accelerator* gpu = *found;
    if (out.gpu == nullptr) {
      out.gpu = gpu;
      continue;
    }
    const auto a = TrainingPeak(*out.gpu), b = TrainingPeak(*gpu);
    if (!a || !b || !Same(*a, *b)) {
      return FailedPrecondition(
          "the job ran on {} and {}, whose peaks differ: one MFU cannot stand for both",
          out.gpu->model, gpu->model);
    }
  }
  if (!unknown.empty() && job.gpu_models.size() > 1) {
    return FailedPrecondition(
        "the job ran on several GPU models and '{}' is not in the hardware table", unknown);
  }
  if (out.gpu == nullptr) {
    out.right_basis = unknown.empty() ? "GPU model not known"
                                      : fmt::format("'{}' is not in the hardware table", unknown);
    return out;
  }
  if (job.claim.mix.empty()) {
    out.right_basis = "precision not stated";
    // What no dense peak of this GPU explains is wrong whatever the precision was.
    if (out.used && *out.used > 0) {
      const Look look = LooksLike(*out.used, *out.gpu, catalog);
      const auto right = TrainingPeak(*out.gpu);
      if (look.kind != Look::Kind::kOwnDense && right) {
        out.right = right;
        out.right_basis = fmt::format("{}, BF16 assumed", out.gpu->model);
        out.factor = *out.used / *right;
        out.used_looks_like = look.text;
      }
    }
    return out;
  }
  const auto right = efficiency::EffectivePeakOf(*out.gpu, job.claim.mix);
  if (!right.ok()) {
    out.right_basis = std::string(right.status().message());
    return out;
  }
  out.right = right->tflops;
  out.right_basis = fmt::format("{}, {}", out.gpu->model, MixName(job.claim.mix));
  if (out.used && *out.used > 0) {
    out.factor = *out.used / *out.right;
    if (!Same(*out.used, *out.right))
      out.used_looks_like = LooksLike(*out.used, *out.gpu, catalog).text;
  }
  return out;
}

}  // namespace flopwatch::fleet
