// Generated and hand-written kernels of inference and compiler stacks.
//   TensorRT-LLM:
//   bmm_<D>_<A><B>_<acc>_[..]t<M>x<N>x<K>[u2]_s<stages>_et.._m<MMA>[_c<cluster>]_..[_transOut]
//     and gemm_<same>; fmhaSm100aKernel_Qkv<A>O<D>H<head>...Q<tile>Kv<tile>...
//     With transOut the product is computed transposed: tile M runs along the weights' outputs.
//   Inductor: triton_tem_fused_*mm* (a GEMM template), triton_tem_*flex_attention*, triton_poi_,
//     triton_red_, triton_per_, triton_for_ (pointwise and reductions)
//   DeepGEMM: deep_gemm::fp8_gemm_kernel<N, K, BLOCK_M, BLOCK_N, BLOCK_K, ...>,
//   smNN_fp8_gemm_1d2d_impl Marlin<...>, fused_moe_kernel: tensor cores, tile not visible
#include "efficiency/gemm/families.h"

namespace flopwatch::efficiency::gemm {
namespace {

// "Bfloat16_E4m3E4m3_Fp32": output, operands, accumulator.
bool ReadTrtllmTypes(Tokens* tokens, KernelInfo* info) {
  const std::string_view begin = tokens->rest();
  std::string_view d = tokens->Next(), ab = tokens->Next();
  const std::string_view acc = tokens->Next();
  if (tokens->touches_cut()) return false;
  info->signature = begin.substr(0, d.size() + ab.size() + acc.size() + 2);
  info->output = TypeOfWord(d);
  info->a = TakeType(&ab);
  info->b = ab.empty() ? info->a : TakeType(&ab);
  info->accumulate = TypeOfWord(acc);
  if (!ab.empty()) info->a = info->b = NumberType::kUnknown;
  info->math = info->a == info->b ? info->a : NumberType::kUnknown;
  // FP4 by FP8 runs as the mixed 8-bit instruction, at its rate.
  const bool mixed = (info->a == NumberType::kFp4 && info->b == NumberType::kE4m3) ||
                     (info->a == NumberType::kE4m3 && info->b == NumberType::kFp4);
  if (mixed) info->math = NumberType::kE4m3;
  return info->a != NumberType::kUnknown && info->accumulate != NumberType::kUnknown;
}

bool ReadTrtllmGemm(std::string_view text, const NameParts& name, KernelInfo* info) {
  const bool batched = TakePrefix(&text, "bmm_");
  if (!batched && !TakePrefix(&text, "gemm_")) return false;
  // Only what begins with TensorRT-LLM's capitalised types is its own: "gemm_kernel" is anybody's.
  std::string_view probe = text;
  if (text.empty() || text.front() < 'A' || text.front() > 'Z' ||
      TakeType(&probe) == NumberType::kUnknown)
    return false;
  info->family = Family::kTrtllmGemm;
  info->operation = batched ? Operation::kBatchedGemm : Operation::kGemm;
  info->tensor_core = true;
  Tokens tokens(text, name.cut);
  info->confidence = NameConfidence::kLow;
  if (!ReadTrtllmTypes(&tokens, info)) return true;
  info->confidence = NameConfidence::kMedium;
  while (!tokens.done()) {
    std::string_view token = tokens.Next();
    const bool cut = tokens.touches_cut();
    if (token.size() > 1 && token[0] == 't' && token[1] >= '0' && token[1] <= '9' &&
        !info->tile_m) {
      const size_t unroll = token.find('u');  // "128u2": K step, unrolled twice
      const Dims tile =
          ReadDims(token.substr(1, unroll == std::string_view::npos ? unroll : unroll - 1),
                   cut && unroll == std::string_view::npos);
      SetTile(tile, info);
    } else if (cut) {
      if (token == "transOut") info->axes = TileAxes::kBlas;
      break;
    } else if (token.starts_with("s") && !info->stages && WholeNumber(token.substr(1))) {
      info->stages = WholeNumber(token.substr(1));
    } else if (token.starts_with("c") && !info->cluster_m) {
      const Dims cluster = ReadDims(token.substr(token.starts_with("cga") ? 3 : 1));
      if (cluster.valid && cluster.count == 3) {
        info->cluster_m = cluster.value[0];
        info->cluster_n = cluster.value[1];
      }
    } else if (IsLayout(token, "TN", 2, 2)) {
      info->layout = token;
    } else if (token == "transOut") {
      info->axes = TileAxes::kBlas;
    } else if (token.starts_with("sm")) {
      info->arch = WholeNumber(token.substr(2, token.find_first_not_of("0123456789", 2) - 2));
    }
  }
  return true;
}

// Number behind `key` where a digit follows it at once, as in "...VarSeqQ128Kv128Persistent".
std::optional<int32_t> NumberAfter(std::string_view text, std::string_view key, bool may_be_cut) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const size_t from = at + key.size();
    size_t end = from;
    while (end < text.size() && end - from <= kMaxDigits && text[end] >= '0' && text[end] <= '9')
      ++end;
    if (end == from) continue;
    if (end == text.size() && may_be_cut) return std::nullopt;
    return WholeNumber(text.substr(from, end - from));
  }
  return std::nullopt;
}

}  // namespace

bool ReadTrtllm(const NameParts& name, KernelInfo* info) {
  std::string_view text = name.function;
  if (text.starts_with("bmm_") || text.starts_with("gemm_"))
    return ReadTrtllmGemm(text, name, info);
  if (text.starts_with("fmha_v2_")) {
    info->family = Family::kTrtllmFmha;
    info->operation = Operation::kAttentionForward;
    info->confidence = NameConfidence::kLow;
    info->tensor_core = true;
    return true;
  }
  if (!TakePrefix(&text, "fmhaSm")) return false;
  info->family = Family::kTrtllmFmha;
  info->operation = Operation::kAttentionForward;
  info->axes = TileAxes::kAttention;
  info->tensor_core = true;
  info->confidence = NameConfidence::kMedium;
  size_t digits = 0;
  while (digits < text.size() && digits < kMaxDigits && text[digits] >= '0' && text[digits] <= '9')
    ++digits;
  info->arch = WholeNumber(text.substr(0, digits));
  const size_t at = text.find("Kernel_");
  if (at == std::string_view::npos) return true;
  text.remove_prefix(at + 7);
  std::string_view types = text;
  if (TakePrefix(&types, "Qkv")) {
    info->a = info->b = TakeType(&types);
  } else if (TakePrefix(&types, "Q")) {
    info->a = TakeType(&types);
    if (TakePrefix(&types, "Kv")) info->b = TakeType(&types);
  }
  if (TakePrefix(&types, "O")) info->output = TakeType(&types);
  info->signature = text.substr(0, text.size() - types.size());
  // The product runs at the operands' rate where they agree; FP4 keys are widened to the queries'
  // type.
  info->math = info->a == info->b ? info->a : NumberType::kUnknown;
  info->head_dim = NumberAfter(types, "H", name.cut);
  if (!info->head_dim) info->head_dim = NumberAfter(types, "HQk", name.cut);
  info->tile_k = info->head_dim;
  // The last Q and Kv of the name are the tile; earlier ones are types and head sizes.
  info->tile_n = NumberAfter(types, "Kv", name.cut);
  info->tile_m = NumberAfter(types, "Q", name.cut);
  return true;
}

bool ReadTriton(const NameParts& name, KernelInfo* info) {
  std::string_view text = name.function;
  if (!TakePrefix(&text, "triton_")) return false;
  if (text.starts_with("tem_")) {
    const bool flex = Contains(text, "flex_attention") || Contains(text, "flex_decoding");
    info->family = flex ? Family::kTritonAttention : Family::kTritonGemm;
    info->operation = flex && Contains(text, "backward") ? Operation::kAttentionBackward
                      : flex                             ? Operation::kAttentionForward
                      : Contains(text, "bmm")            ? Operation::kBatchedGemm
                      : Contains(text, "convolution")    ? Operation::kUnknown
                                                         : Operation::kGemm;
    info->tensor_core = true;
    info->confidence = NameConfidence::kLow;  // FP32 without TF32 would not use them
    return true;
  }
  for (const std::string_view kind : {"poi_", "red_", "per_", "for_", "spl_"}) {
    if (!text.starts_with(kind)) continue;
    info->family = Family::kTritonPointwise;
    info->operation = Operation::kPointwise;
    info->tensor_core = false;
    info->confidence = NameConfidence::kMedium;
    return true;
  }
  return false;
}

bool ReadQuantised(const NameParts& name, KernelInfo* info) {
  const std::string_view f = name.function;
  if (f == "fused_moe_kernel" || f.starts_with("fused_moe_kernel_gptq_awq")) {
    info->family = Family::kFusedMoe;
    info->operation = Operation::kGroupedGemm;
    info->tensor_core = true;
    info->confidence = NameConfidence::kLow;
    return true;
  }
  if (f == "Marlin" || f == "Marlin_24" || f == "MarlinMoE" || f == "MarlinMoESingle") {
    info->family = Family::kMarlin;
    info->operation = f.starts_with("MarlinMoE") || Contains(name.scope, "moe")
                          ? Operation::kGroupedGemm
                          : Operation::kGemm;
    info->tensor_core = true;
    info->confidence = NameConfidence::kLow;
    // Weights are widened to the activations' type, which older builds name first.
    const NumberType type = FindElementType(name.arguments.substr(0, 48));
    if (type == NumberType::kBf16 || type == NumberType::kFp16) info->a = info->math = type;
    return true;
  }
  const bool scoped = Contains(name.scope, "deep_gemm");
  const bool impl = f.starts_with("sm") && f.ends_with("_impl") && Contains(f, "_gemm_");
  const bool fp8 = f.starts_with("fp8_gemm_kernel") || f.starts_with("fp8_m_grouped_gemm") ||
                   f.starts_with("fp8_wgrad_gemm_kernel");
  const bool gemm = Contains(f, "gemm");
  if (!(scoped && gemm) && !impl && !fp8) return false;
  info->family = Family::kDeepGemm;
  info->operation = Operation::kGemm;
  info->tensor_core = true;
  info->confidence = NameConfidence::kLow;
  if (impl) info->arch = WholeNumber(f.substr(2, f.find('_') - 2));
  if (Contains(f, "grouped")) info->operation = Operation::kGroupedGemm;
  if (Contains(f, "fp8")) {
    info->a = info->b = info->math = NumberType::kFp8;
  } else if (Contains(f, "bf16")) {
    info->a = info->b = info->math = NumberType::kBf16;
  }
  // The first five parameters have kept their meaning over the versions of fp8_gemm_kernel; those
  // behind them have not, nor those of *_impl.
  if (f != "fp8_gemm_kernel") return true;
  Arguments args(name.arguments);
  int32_t value[5] = {};
  for (int i = 0; i < 5; ++i) {
    if (i > 0 && !args.Comma()) return true;
    const auto number = args.Number();
    if (!number) return true;
    value[i] = *number;
  }
  // BLOCK_M 64 or 128, BLOCK_N a multiple of 8 up to 256, BLOCK_K 128: anything else is another
  // version.
  if ((value[2] != 64 && value[2] != 128) || value[3] % 8 != 0 || value[3] > 256 || value[3] == 0 ||
      value[4] != 128)
    return true;
  info->tile_m = value[2];
  info->tile_n = value[3];
  info->tile_k = value[4];
  info->axes = TileAxes::kRowMajor;
  info->confidence = NameConfidence::kMedium;
  return true;
}

}  // namespace flopwatch::efficiency::gemm
