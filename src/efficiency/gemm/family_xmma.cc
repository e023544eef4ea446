// XMMA, NVIDIA's template kernels of cuBLAS, cuDNN and TensorRT (docs/gemm.md, Families):
//   smNN_xmma_gemm_<A><D>_<B><acc>_<compute>_<tn>_<n>_tilesizeMxNxK[_cgasizeAxBxC][_stageS]
//        [_warpsize..|_warpgroupsize..][_tensorMxNxK|_ffma...]..._kernel[__5x_cublas|_cudnn|_trt]
//   smNN_xmma_<fprop|dgrad|wgrad>_implicit_gemm[_indexed]_<types>_<layouts>_tilesize...
// and the template form xmma_new::gemm::kernel<xmma_new::implicit_gemm::fprop::Kernel_traits<...,
// xmma_new::Cta_tile<xmma_new::Ampere, 128, 128, 16, 2, 2, 1, 1, 1>>>.
#include "efficiency/gemm/families.h"

namespace flopwatch::efficiency::gemm {
namespace {

Operation ConvOf(std::string_view word) {
  if (word == "fprop") return Operation::kConvForward;
  if (word == "dgrad") return Operation::kConvDataGrad;
  if (word == "wgrad") return Operation::kConvWeightGrad;
  return Operation::kUnknown;
}

// "e4m3bf16": two types in one token.
bool TwoTypes(std::string_view token, NumberType* first, NumberType* second) {
  *first = TakeType(&token);
  *second = TakeType(&token);
  return token.empty() && *first != NumberType::kUnknown && *second != NumberType::kUnknown;
}

bool ReadTemplate(const NameParts& name, KernelInfo* info) {
  if (!name.scope.starts_with("xmma_new::") && !name.scope.starts_with("xmma::")) return false;
  info->family = Family::kXmma;
  info->confidence = NameConfidence::kMedium;
  info->axes = TileAxes::kBlas;
  info->operation = Operation::kGemm;
  for (const std::string_view conv : {"fprop", "dgrad", "wgrad"}) {
    if (Contains(name.arguments.substr(0, 80), conv)) {
      info->operation = ConvOf(conv);
      info->axes = TileAxes::kUnknown;
    }
  }
  if (Contains(name.arguments, "hmma_tf32_traits")) {
    info->a = info->b = info->math = NumberType::kTf32;
    info->tensor_core = true;
  } else if (Contains(name.arguments, "hmma_") || Contains(name.arguments, "gmma_")) {
    info->tensor_core = true;
  }
  const size_t tile = name.arguments.find("Cta_tile<");
  if (tile == std::string_view::npos) return true;
  Arguments args(name.arguments.substr(tile + 9));
  if (!args.SkipArgument()) return true;  // the architecture
  for (std::optional<int32_t>* field : {&info->tile_m, &info->tile_n, &info->tile_k}) {
    if (!args.Comma()) break;
    *field = args.Number();
    if (!*field) break;
  }
  return true;
}

// Reads the three groups of types, "<A><D>_<B><accumulate>_<compute>".
void ReadTypes(Tokens* tokens, KernelInfo* info) {
  const std::string_view types = tokens->rest();
  const std::string_view first = tokens->Next(), second = tokens->Next(), third = tokens->Next();
  if (!TwoTypes(first, &info->a, &info->output) || !TwoTypes(second, &info->b, &info->accumulate) ||
      tokens->touches_cut()) {
    info->a = info->b = info->output = info->accumulate = NumberType::kUnknown;
    return;
  }
  if (TypeOfWord(third) != NumberType::kUnknown)
    info->signature = types.substr(0, first.size() + second.size() + third.size() + 2);
  // TF32 in any of them makes it TF32 (f32f32_tf32f32_f32 reads FP32 and multiplies TF32).
  info->math = info->b == NumberType::kTf32 ? info->b : info->a;
}

}  // namespace

bool ReadXmma(const NameParts& name, KernelInfo* info) {
  std::string_view text = name.function;
  if (!text.starts_with("sm")) return ReadTemplate(name, info);
  const size_t at = text.find("_xmma_");
  if (at == std::string_view::npos || at > 8) return false;
  info->family = Family::kXmma;
  info->confidence = NameConfidence::kLow;
  info->arch = WholeNumber(text.substr(2, at - 2));
  text.remove_prefix(at + 6);
  Tokens tokens(text, name.cut);
  std::string_view token = tokens.Next();
  if (token == "gemm") {
    info->operation = Operation::kGemm;
    info->axes = TileAxes::kBlas;
  } else if (info->operation = ConvOf(token); info->operation != Operation::kUnknown) {
    if (tokens.Peek() == "implicit") tokens.Next();
    if (tokens.Peek() == "gemm") tokens.Next();
    if (tokens.Peek() == "indexed") tokens.Next();
  } else {
    return true;  // a form not seen before
  }
  ReadTypes(&tokens, info);
  bool tensor_token = false, simt_token = false, tiled = false, ended = false;
  const char* layout_begin = nullptr;
  const char* layout_end = nullptr;
  while (!tokens.done()) {
    token = tokens.Next();
    const bool cut = tokens.touches_cut();
    std::string_view rest = token;
    if (TakePrefix(&rest, "tilesize")) {
      const Dims tile = ReadDims(rest, cut);
      SetTile(tile, info);
      tiled = tile.valid && tile.count == 3;
    } else if (!tiled && !cut && IsLayout(token, "tnchwkrsdv", 1, 10)) {
      if (layout_begin == nullptr) layout_begin = token.data();
      layout_end = token.data() + token.size();
    } else if (TakePrefix(&rest, "cgasize")) {
      const Dims cluster = ReadDims(rest, cut);
      if (cluster.valid && cluster.count > 0) info->cluster_m = cluster.value[0];
      if (cluster.valid && cluster.count > 1) info->cluster_n = cluster.value[1];
    } else if (TakePrefix(&rest, "stage")) {
      if (!cut) info->stages = WholeNumber(rest);
    } else if (token.starts_with("tensor")) {
      tensor_token = true;
    } else if (token.starts_with("warpgroupsize")) {
      tensor_token = true;  // warp groups exist for Hopper's tensor instructions alone
    } else if (token == "ffma" || token == "simt" || token == "hfma2") {
      simt_token = true;
    } else if (token == "split" && tokens.Peek().starts_with("k")) {
      info->split_k = true;
    } else if (token == "segment" && tokens.Peek() == "k") {
      tokens.Next();
      if (tokens.Peek() == "off") info->split_k = false;
    } else if (token == "execute" && tokens.Peek() == "kernel") {
      // The one that splits is called execute_split_k_kernel.
      if (!info->split_k && !(name.cut && tokens.rest() == "kernel")) info->split_k = false;
    } else if (token == "kernel" && !cut) {
      ended = true;
    }
  }
  if (layout_begin != nullptr)
    info->layout = {layout_begin, static_cast<size_t>(layout_end - layout_begin)};
  if (simt_token || tensor_token ||
      (info->math != NumberType::kUnknown && info->math != NumberType::kFp64))
    info->tensor_core = !simt_token && (tensor_token || info->math != NumberType::kFp32);
  // Warp groups with FP32 in all groups would be TF32 that the name does not admit.
  if (tensor_token && info->math == NumberType::kFp32) info->math = NumberType::kUnknown;
  info->confidence = tiled && !info->signature.empty() && (ended || !name.cut)
                         ? NameConfidence::kHigh
                         : NameConfidence::kMedium;
  if (!tiled && info->signature.empty()) info->confidence = NameConfidence::kLow;
  return true;
}

}  // namespace flopwatch::efficiency::gemm
