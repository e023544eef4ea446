// What a tiled matrix product executes: equations 3 and 4 of the OFU paper (arXiv 2605.20799,
// IV-A), its overhead (2), the adjusted OFU (8), CTAs and waves.
//
//   M_eff    = ceil(ceil(M / tile_m) / cluster_m) * cluster_m * tile_m        (N alike)
//   K_eff    = slices * ceil(ceil(K / slices) / tile_k) * tile_k              (no cluster along K)
//   executed = 2 * M_eff * N_eff * K_eff * batch
//   overhead = (executed - 2*M*N*K*batch) / (2*M*N*K*batch)
//
// Axes: every size here is along the axes of the tile. A tile read from a kernel of cuBLAS runs
// along BLAS m and n, which are PyTorch's N and M: TileProblem() turns a PyTorch shape round.
// Waves are kept apart on purpose: a last wave that fills few SMs adds no FLOPs, lowers tensor
// activity and MFU alike, and so is no part of the overhead (docs/gemm.md, Formulas).
// 128-bit arithmetic inside, results refused where they leave 63 bits. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "efficiency/gemm/kernel_name.h"

namespace flopwatch::efficiency::gemm {

// C[M,N] = A[M,K] B[K,N], `batch` times.
struct Problem {
  int64_t m = 0, n = 0, k = 0, batch = 1;
};
enum class AxisOrder : uint8_t {
  kTorch,  // row-major: M rows (tokens), N output features
  kBlas,   // column-major as cuBLAS sees the same product: m = PyTorch's N, n = PyTorch's M
};

// Largest size of one dimension, tile or batch that is taken for one.
inline constexpr int64_t kMaxDimension = int64_t{1} << 40;
inline constexpr int64_t kMaxTile = 1 << 16;
inline constexpr int64_t kMaxSplitK = 1 << 16;

struct Tiling {
  int64_t tile_m = 0, tile_n = 0;
  std::optional<int64_t> tile_k;  // nullopt: the K step is not known, K is not padded
  int64_t cluster_m = 1, cluster_n = 1;
  // Slices K is cut into, each padded to the K step; nullopt: cut, but the count is not known.
  std::optional<int64_t> split_k = 1;
  // The tile is that of a pair of CTAs along m (CUTLASS 3, 2sm): a cluster of cluster_m CTAs holds
  // cluster_m / 2 of them.
  bool tile_spans_pair = false;
  bool cluster_known = true;  // false: the name shows no cluster, none was counted
  bool split_known =
      true;  // false: the name does not tell whether K is split, no split was counted
};

struct Execution {
  int64_t m_eff = 0, n_eff = 0;
  std::optional<int64_t> k_eff;  // nullopt: the K step is not known
  int64_t useful_flops = 0;      // 2*M*N*K*batch
  int64_t executed_flops = 0;
  double overhead = 0;          // executed / useful - 1
  int64_t tiles = 0;            // M_eff/tile_m * N_eff/tile_n * batch
  std::optional<int64_t> ctas;  // tiles * slices of K; nullopt: slices not known
  // False where something that may add padding was not visible: executed is at least this.
  bool exact = true;
};
// InvalidArgument names the size that is not a positive number or too large to be one;
// OutOfRange where a result does not fit.
StatusOr<Execution> Execute(const Problem& problem, const Tiling& tiling);

// The tiling a kernel's name shows. FailedPrecondition says what is not visible: no tile, an
// attention kernel, CUDA cores' unrolling.
StatusOr<Tiling> TilingOf(const KernelInfo& info);

// `given` in the axes of the tile: swapped where the tile runs along the other order. kUnknown axes
// are read as row-major.
Problem TileProblem(const Problem& given, AxisOrder order, TileAxes axes);

// The same product by a named kernel, for traces: shape as PyTorch has it.
StatusOr<Execution> ExecuteKernel(const KernelInfo& info, const Problem& torch_shape,
                                  std::optional<int64_t> split_k = std::nullopt);

struct Waves {
  int64_t waves = 0;
  double efficiency = 0;  // CTAs / (waves * SMs * CTAs an SM)
};
StatusOr<Waves> WavesOf(int64_t ctas, int64_t sm_count, int64_t ctas_per_sm = 1);

// Equation 8: OFU / (1 + overhead). The share of the peak that went into useful FLOPs.
StatusOr<double> AdjustedOfu(double ofu, double overhead);

// A grouped product over experts: each expert's tokens are padded to whole tiles of their own.
// `tokens` along the tile's token axis (`tile_tokens`); n and k as in each expert's product.
struct GroupedExecution {
  int64_t tokens = 0, padded_tokens = 0;
  int64_t useful_flops = 0, executed_flops = 0;
  double overhead = 0;
};
inline constexpr size_t kMaxExperts = 1 << 20;
StatusOr<GroupedExecution> ExecuteGrouped(std::span<const int64_t> tokens, int64_t n, int64_t k,
                                          int64_t tile_tokens, int64_t tile_n, int64_t tile_k);
// The same by a named kernel: `tokens` rows an expert as PyTorch has them, n output features.
// Clusters are not counted: how a grouped kernel deals tiles out to them is not in its name.
StatusOr<GroupedExecution> ExecuteGroupedKernel(const KernelInfo& info,
                                                std::span<const int64_t> tokens, int64_t n,
                                                int64_t k);
// Expected padding of t tokens an expert: ceil(t/tile)*tile/t - 1, large where t is small.
StatusOr<double> ExpertPadding(double tokens_per_expert, int64_t tile_tokens);

}  // namespace flopwatch::efficiency::gemm
