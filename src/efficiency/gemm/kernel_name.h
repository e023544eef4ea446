// What the name of a GPU kernel says about the matrix product it runs: family, operand types, tile,
// pipeline stages, cluster, layouts, and whether it uses tensor cores.
//
// The rule everywhere: a field is present only where the name shows it. Nothing is filled in from
// habit, no family has a default tile, and where a name was cut by the tool that printed it
// ("...", an open template), what touches the cut is left out. Grammar of each family and its
// evidence: docs/gemm.md (from the public kernel names themselves; most are undocumented).
//
// One pass over at most kMaxKernelNameBytes, no allocation, no backtracking, well under a
// microsecond, so a trace of millions of events needs no cache; group by name and decode once
// anyway. KernelInfo points into the name it was decoded from. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "hardware/accelerator.h"

namespace flopwatch::efficiency::gemm {

enum class Family : uint8_t {
  kUnknown,
  kNvjet,
  kXmma,
  kCutlass2,
  kCutlass3,
  kCublas,  // volta_, turing_, ampere_ *gemm_ and the small sgemm of cuBLAS
  kGemv,
  kSmallGemm,  // gemmk1, gemmSN
  kDot,
  kSplitKReduce,
  kFlashAttention,  // version not visible
  kFlashAttention2,
  kFlashAttention3,
  kCudnnSdpa,
  kCudnnConv,
  kFmhaCutlass,
  kTrtllmGemm,
  kTrtllmFmha,
  kTritonGemm,
  kTritonAttention,
  kTritonPointwise,
  kDeepGemm,
  kMarlin,
  kFusedMoe,
  kMagma,
};
std::string_view FamilyName(Family f);  // "nvjet", "cutlass2", ...; "unknown"

enum class Operation : uint8_t {
  kUnknown,
  kGemm,
  kBatchedGemm,
  kGroupedGemm,
  kConvForward,     // fprop
  kConvDataGrad,    // dgrad
  kConvWeightGrad,  // wgrad
  kGemv,
  kDot,
  kAttentionForward,
  kAttentionBackward,
  kHelper,  // converts, reduces or prepares for a kernel of the family; no product of its own
  kPointwise,
};
std::string_view OperationName(Operation op);

enum class NumberType : uint8_t {
  kUnknown,
  kFp64,
  kFp32,
  kTf32,
  kFp16,
  kBf16,
  kFp8,  // E4M3 or E5M2, not said which
  kE4m3,
  kE5m2,
  kFp6,
  kFp4,  // E2M1
  kInt8,
  kInt4,
  kInt32,
  kComplex64,
  kComplex128,
};
std::string_view NumberTypeName(NumberType t);  // "bf16", "e4m3", ...; "" for kUnknown

// How far to trust the reading. kHigh: the whole grammar was read and its meaning is confirmed
// against launches or documentation. kMedium: a part is cut, unconfirmed or not understood. kLow:
// the family alone. kNone: not a known family.
enum class NameConfidence : uint8_t { kNone, kLow, kMedium, kHigh };
std::string_view NameConfidenceName(NameConfidence c);  // "none", "low", "medium", "high"

// Along which axes of the operation tile_m and tile_n run. kBlas: BLAS m and n (column-major), so
// tile_m runs along PyTorch's N (output features) and tile_n along its M (rows, tokens); all
// kernels cuBLAS picks. kRowMajor: along M and N of the row-major operation. kAttention: tile_m
// queries, tile_n keys, tile_k head dimension.
enum class TileAxes : uint8_t { kUnknown, kBlas, kRowMajor, kAttention };
std::string_view TileAxesName(TileAxes a);

struct KernelInfo {
  Family family = Family::kUnknown;
  Operation operation = Operation::kUnknown;
  NameConfidence confidence = NameConfidence::kNone;
  TileAxes axes = TileAxes::kUnknown;
  NumberType a = NumberType::kUnknown, b = NumberType::kUnknown;  // operands
  NumberType accumulate = NumberType::kUnknown;
  NumberType output = NumberType::kUnknown;
  NumberType math = NumberType::kUnknown;  // what the pipe multiplies: TF32 for FP32 operands
  std::optional<bool> tensor_core;
  std::optional<int32_t> arch;                    // 90 of sm90
  std::optional<int32_t> tile_m, tile_n, tile_k;  // tile_k: K of one pipeline stage
  std::optional<int32_t> stages;
  std::optional<int32_t> cluster_m, cluster_n;  // in tiles, same axes as the tile
  // Whether K is cut over CTAs. true says nothing of the count, which no name shows: it is the
  // grid's (or grid z / batch). Most families never say.
  std::optional<bool> split_k;
  std::optional<int32_t> sliced_k;  // warps of one CTA that share K (ampere *_sliced1x2)
  std::optional<int32_t> head_dim;  // attention
  // Blackwell: two CTAs of a cluster work on one product. tile_spans_pair: the tile of the name is
  // that of the pair, not of one CTA (CUTLASS 3 2sm; nvJet's 2cta names the tile of one CTA).
  bool two_cta = false, tile_spans_pair = false;
  bool bias = false;           // a fused bias, where the name says so
  bool cut = false;            // the name was cut by whoever printed it
  std::string_view signature;  // raw type signature: "qqtst", "bf16bf16_bf16f32_f32"
  std::string_view layout;     // as in the name: "TNT", "tn_n", "nhwckrsc_nhwc"
  std::string_view scaling;    // block scaling: "32UE8M0", "16UE4M3", "vs16"
};

inline constexpr size_t kMaxKernelNameBytes = 4096;

KernelInfo DecodeKernelName(std::string_view name);

// The precision by which the product is paid for ("bf16", "tf32", "fp8", "fp32", ...), "" where not
// visible: `math`, with E4M3 and E5M2 as fp8, E2M1 as fp4 and complex numbers by their parts.
std::string_view PrecisionOf(const KernelInfo& info);
// The same as the hardware room's tensor precision; nullopt where there is no such tensor peak
// (fp32, fp6, int4) or nothing is visible.
std::optional<hardware::Precision> TensorPrecisionOf(const KernelInfo& info);

// All families, for documents and tests.
std::span<const Family> AllFamilies();

}  // namespace flopwatch::efficiency::gemm
