#include "fleet/divergence/expectation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace flopwatch::fleet {

double Range::Center() const { return std::sqrt(low * high); }
double Range::HalfLog() const { return 0.5 * std::log(high / low); }

namespace {

ExpectedFactor Padding(const JobEvidence& job) {
  if (!job.tile_overhead)
    return {"padding", kUsualPadding, "usual padding of GEMM tiles, 2 to 5 %"};
  const double f = 1 + *job.tile_overhead;
  return {
      "padding", {f, f}, fmt::format("tile overhead given: {:.1f} %", *job.tile_overhead * 100)};
}

ExpectedFactor Attention(const JobEvidence& job) {
  if (!job.model || job.model->exact <= 0) {
    return {"attention", kUsualAttention, "fused attention backward, model not known"};
  }
  const double a = std::clamp(job.model->attention_core / job.model->exact, 0.0, 1.0);
  double f = 1 + a / 6;
  if (job.model->seq_len > 0) {
    f += a * kDiagonalTile /
         std::max<double>(static_cast<double>(job.model->seq_len), kDiagonalTile);
  }
  return {"attention",
          {f, f},
          fmt::format("fused attention backward, core {:.1f} % of the FLOPs", a * 100)};
}

ExpectedFactor OfuRecomputed(const JobEvidence& job, bool assumed) {
  if (assumed) return {"recompute", kFullRecompute, "full recompute, assumed"};
  switch (job.claim.recompute) {
    case Recompute::kFull:
      return {"recompute", kFullRecompute, "full recompute, declared"};
    case Recompute::kNone:
      return {"recompute", {1, 1}, "no recompute, declared"};
    case Recompute::kSelective: {
      // Korthikanti et al.: the attention core runs forward once more, 1 of its 3 counted parts; a
      // fused kernel recomputes it anyway, so that nothing may be added.
      double a = 0.15;
      if (job.model && job.model->exact > 0) a = job.model->attention_core / job.model->exact;
      return {"recompute", {1, 1 + std::clamp(a, 0.0, 1.0) / 3}, "selective recompute, declared"};
    }
    case Recompute::kUnknown:
      break;
  }
  return {"recompute", {1, 1}, "recompute not declared: none assumed"};
}

ExpectedFactor Counted(const JobEvidence& job) {
  if (!job.model || !job.model->counted || *job.model->counted <= 0 || job.model->exact <= 0) {
    return {"counting",
            {1, 1},
            job.model ? "convention not known: taken as exact" : "model not known: taken as exact"};
  }
  const double f = job.model->exact / *job.model->counted;
  return {
      "counting", {f, f}, fmt::format("executed FLOPs over those {} counts", job.claim.convention)};
}

}  // namespace

Expectation Expect(const JobEvidence& job, bool full_recompute_assumed) {
  Expectation out;
  out.factors = {Padding(job), Attention(job), OfuRecomputed(job, full_recompute_assumed),
                 Counted(job)};
  for (const ExpectedFactor& f : out.factors) out.ofu_per_mfu = out.ofu_per_mfu * f.factor;
  return out;
}

// The names are in the order of Recompute.
constexpr std::string_view kRecomputeNames[] = {"unknown", "none", "selective", "full"};

StatusOr<Recompute> ParseRecompute(std::string_view name) {
  if (name.empty()) return Recompute::kUnknown;
  for (size_t i = 0; i < std::size(kRecomputeNames); ++i) {
    if (name == kRecomputeNames[i]) return static_cast<Recompute>(i);
  }
  return InvalidArgument("recompute '{}' is not one of full, selective, none, unknown", name);
}

std::string_view RecomputeName(Recompute r) { return kRecomputeNames[static_cast<size_t>(r)]; }

}  // namespace flopwatch::fleet
