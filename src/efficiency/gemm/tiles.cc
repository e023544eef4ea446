#include "efficiency/gemm/tiles.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace flopwatch::efficiency::gemm {
namespace {

using Wide =
    __int128;  // products of four dimensions of 40 bits do not overflow it by accident: checked
constexpr Wide kMaxResult = std::numeric_limits<int64_t>::max();

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

Status CheckSize(int64_t value, std::string_view name, int64_t most) {
  if (value <= 0) return InvalidArgument("{} is {}: it must be at least 1", name, value);
  if (value > most)
    return InvalidArgument("{} is {}: more than {} is not a matrix product", name, value, most);
  return absl::OkStatus();
}

// Multiplies where the product stays within 63 bits.
bool Multiply(Wide* product, int64_t factor) {
  if (*product > kMaxResult / factor) return false;
  *product *= factor;
  return true;
}

Status TooLarge(std::string_view what) {
  return OutOfRange("{} exceed 9.2e18: no one matrix product is that large", what);
}

struct Padded {
  int64_t size = 0, tiles = 0;
};
// Equation 4 along one axis.
Padded Pad(int64_t size, int64_t tile, int64_t cluster) {
  const int64_t tiles = CeilDiv(CeilDiv(size, tile), cluster) * cluster;
  return {tiles * tile, tiles};
}

}  // namespace

StatusOr<Execution> Execute(const Problem& problem, const Tiling& tiling) {
  FW_RETURN_IF_ERROR(CheckSize(problem.m, "M", kMaxDimension));
  FW_RETURN_IF_ERROR(CheckSize(problem.n, "N", kMaxDimension));
  FW_RETURN_IF_ERROR(CheckSize(problem.k, "K", kMaxDimension));
  FW_RETURN_IF_ERROR(CheckSize(problem.batch, "batch", kMaxDimension));
  FW_RETURN_IF_ERROR(CheckSize(tiling.tile_m, "the tile along M", kMaxTile));
  FW_RETURN_IF_ERROR(CheckSize(tiling.tile_n, "the tile along N", kMaxTile));
  if (tiling.tile_k) FW_RETURN_IF_ERROR(CheckSize(*tiling.tile_k, "the K step", kMaxTile));
  FW_RETURN_IF_ERROR(CheckSize(tiling.cluster_m, "the cluster along M", kMaxTile));
  FW_RETURN_IF_ERROR(CheckSize(tiling.cluster_n, "the cluster along N", kMaxTile));
  const int64_t slices = tiling.split_k.value_or(1);
  FW_RETURN_IF_ERROR(CheckSize(slices, "split-K", kMaxSplitK));
  if (slices > problem.k) {
    return InvalidArgument("split-K is {}, but K is only {}: a slice has at least one element",
                           slices, problem.k);
  }
  if (tiling.tile_spans_pair && tiling.cluster_m % 2 != 0 && tiling.cluster_known) {
    return InvalidArgument("a tile of two CTAs needs an even cluster along M, not {}",
                           tiling.cluster_m);
  }

  Execution out;
  const int64_t cluster_tiles_m =
      tiling.tile_spans_pair && tiling.cluster_known ? tiling.cluster_m / 2 : tiling.cluster_m;
  const Padded m = Pad(problem.m, tiling.tile_m, cluster_tiles_m);
  const Padded n = Pad(problem.n, tiling.tile_n, tiling.cluster_n);
  out.m_eff = m.size;
  out.n_eff = n.size;
  int64_t k = problem.k;
  if (tiling.tile_k) {
    // Each slice is padded for itself.
    k = slices * CeilDiv(CeilDiv(problem.k, slices), *tiling.tile_k) * *tiling.tile_k;
    out.k_eff = k;
  }

  Wide useful = 2, executed = 2, tiles = 1;
  for (const int64_t factor : {problem.m, problem.n, problem.k, problem.batch}) {
    if (!Multiply(&useful, factor)) return TooLarge("the FLOPs");
  }
  for (const int64_t factor : {out.m_eff, out.n_eff, k, problem.batch}) {
    if (!Multiply(&executed, factor)) return TooLarge("the executed FLOPs");
  }
  for (const int64_t factor : {m.tiles, n.tiles, problem.batch}) {
    if (!Multiply(&tiles, factor)) return TooLarge("the tiles");
  }
  out.useful_flops = static_cast<int64_t>(useful);
  out.executed_flops = static_cast<int64_t>(executed);
  out.overhead = static_cast<double>(executed - useful) / static_cast<double>(useful);
  out.tiles = static_cast<int64_t>(tiles);
  if (tiling.split_k) {
    Wide ctas = tiles;
    if (!Multiply(&ctas, slices) || !Multiply(&ctas, tiling.tile_spans_pair ? 2 : 1))
      return TooLarge("the CTAs");
    out.ctas = static_cast<int64_t>(ctas);
  }
  out.exact = tiling.tile_k.has_value() && tiling.split_k.has_value() && tiling.cluster_known &&
              tiling.split_known;
  return out;
}

StatusOr<Tiling> TilingOf(const KernelInfo& info) {
  if (info.axes == TileAxes::kAttention) {
    return FailedPrecondition(
        "this is an attention kernel: its tile is queries x keys, not that of a matrix product");
  }
  if (info.family == Family::kUnknown)
    return FailedPrecondition("the name is of no known family of GEMM kernels");
  if (!info.tile_m || !info.tile_n) {
    return FailedPrecondition("the name of this {} kernel shows no tile", FamilyName(info.family));
  }
  Tiling out;
  out.tile_m = *info.tile_m;
  out.tile_n = *info.tile_n;
  if (info.tile_k) out.tile_k = *info.tile_k;
  // CUTLASS 2 and older have no clusters; a family that has them must show both numbers.
  const bool clusterless = info.family == Family::kCutlass2 || info.family == Family::kCublas ||
                           info.family == Family::kCudnnConv ||
                           (info.family == Family::kXmma && info.arch && *info.arch < 90) ||
                           (info.family == Family::kCutlass3 && info.tensor_core == false);
  if (info.cluster_m && info.cluster_n) {
    out.cluster_m = *info.cluster_m;
    out.cluster_n = *info.cluster_n;
  } else {
    out.cluster_known = clusterless;
  }
  out.tile_spans_pair = info.tile_spans_pair;
  if (info.split_k.value_or(false)) out.split_k = std::nullopt;
  out.split_known = info.split_k.has_value();
  return out;
}

Problem TileProblem(const Problem& given, AxisOrder order, TileAxes axes) {
  Problem out = given;
  const bool tile_is_blas = axes == TileAxes::kBlas;
  if (tile_is_blas != (order == AxisOrder::kBlas)) std::swap(out.m, out.n);
  return out;
}

StatusOr<Execution> ExecuteKernel(const KernelInfo& info, const Problem& torch_shape,
                                  std::optional<int64_t> split_k) {
  FW_ASSIGN_OR_RETURN(Tiling tiling, TilingOf(info));
  if (split_k) {
    tiling.split_k = split_k;
    tiling.split_known = true;
  }
  return Execute(TileProblem(torch_shape, AxisOrder::kTorch, info.axes), tiling);
}

StatusOr<Waves> WavesOf(int64_t ctas, int64_t sm_count, int64_t ctas_per_sm) {
  if (ctas <= 0 || sm_count <= 0 || ctas_per_sm <= 0 || sm_count > kMaxTile || ctas_per_sm > 64) {
    return InvalidArgument("waves need CTAs, SMs and CTAs an SM of at least 1, not {}, {} and {}",
                           ctas, sm_count, ctas_per_sm);
  }
  Waves out;
  const int64_t slots = sm_count * ctas_per_sm;
  out.waves = CeilDiv(ctas, slots);
  out.efficiency =
      static_cast<double>(ctas) / (static_cast<double>(out.waves) * static_cast<double>(slots));
  return out;
}

StatusOr<double> AdjustedOfu(double ofu, double overhead) {
  if (std::isnan(ofu)) return FailedPrecondition("not computable: OFU is missing");
  if (std::isnan(overhead)) return FailedPrecondition("not computable: the overhead is missing");
  if (!std::isfinite(ofu) || ofu < 0)
    return OutOfRange("not computable: OFU {} is not a ratio", ofu);
  if (!std::isfinite(overhead) || overhead < 0) {
    return OutOfRange(
        "not computable: an overhead of {} would mean that less was executed than asked for",
        overhead);
  }
  return ofu / (1 + overhead);
}

StatusOr<GroupedExecution> ExecuteGrouped(std::span<const int64_t> tokens, int64_t n, int64_t k,
                                          int64_t tile_tokens, int64_t tile_n, int64_t tile_k) {
  FW_RETURN_IF_ERROR(CheckSize(n, "N", kMaxDimension));
  FW_RETURN_IF_ERROR(CheckSize(k, "K", kMaxDimension));
  FW_RETURN_IF_ERROR(CheckSize(tile_tokens, "the tile along tokens", kMaxTile));
  FW_RETURN_IF_ERROR(CheckSize(tile_n, "the tile along N", kMaxTile));
  FW_RETURN_IF_ERROR(CheckSize(tile_k, "the K step", kMaxTile));
  if (tokens.size() > kMaxExperts) return InvalidArgument("too many experts for one product");
  GroupedExecution out;
  for (const int64_t t : tokens) {
    if (t < 0 || t > kMaxDimension)
      return InvalidArgument("an expert has {} tokens, which is not a count", t);
    // At most 2^20 experts of 2^40 tokens (and a tile) stay within 63 bits.
    out.tokens += t;
    out.padded_tokens +=
        CeilDiv(t, tile_tokens) * tile_tokens;  // an expert without tokens runs nothing
  }
  if (out.tokens == 0) return FailedPrecondition("not computable: no expert has a token");
  Wide useful = 2, executed = 2;
  for (const int64_t factor : {out.tokens, n, k}) {
    if (!Multiply(&useful, factor)) return TooLarge("the FLOPs");
  }
  for (const int64_t factor :
       {out.padded_tokens, CeilDiv(n, tile_n) * tile_n, CeilDiv(k, tile_k) * tile_k}) {
    if (!Multiply(&executed, factor)) return TooLarge("the executed FLOPs");
  }
  out.useful_flops = static_cast<int64_t>(useful);
  out.executed_flops = static_cast<int64_t>(executed);
  out.overhead = static_cast<double>(executed - useful) / static_cast<double>(useful);
  return out;
}

StatusOr<GroupedExecution> ExecuteGroupedKernel(const KernelInfo& info,
                                                std::span<const int64_t> tokens, int64_t n,
                                                int64_t k) {
  FW_ASSIGN_OR_RETURN(const Tiling tiling, TilingOf(info));
  if (!tiling.tile_k) return FailedPrecondition("the name of this kernel shows no K step");
  const bool blas = info.axes == TileAxes::kBlas;
  return ExecuteGrouped(tokens, n, k, blas ? tiling.tile_n : tiling.tile_m,
                        blas ? tiling.tile_m : tiling.tile_n, *tiling.tile_k);
}

StatusOr<double> ExpertPadding(double tokens_per_expert, int64_t tile_tokens) {
  FW_RETURN_IF_ERROR(CheckSize(tile_tokens, "the tile along tokens", kMaxTile));
  if (std::isnan(tokens_per_expert))
    return FailedPrecondition("not computable: tokens per expert are missing");
  if (!std::isfinite(tokens_per_expert) || tokens_per_expert <= 0)
    return OutOfRange("not computable: {} tokens per expert", tokens_per_expert);
  const double tile = static_cast<double>(tile_tokens);
  return std::ceil(tokens_per_expert / tile) * tile / tokens_per_expert - 1;
}

}  // namespace flopwatch::efficiency::gemm
