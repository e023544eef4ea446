// Attention kernels. Tiles are queries x keys (x head dimension), never those of a GEMM.
//   FlashAttention-2: flash_fwd_kernel<Flash_fwd_kernel_traits<head, Br, Bc, warps, ..., type>>,
//     flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<...>>
//   FlashAttention-3: flash::compute_attn_ws<Flash_fwd_kernel_traits<head, Br, Bc, warps, stages,
//     ...>>, cutlass::device_kernel<flash::FlashAttnFwdSm90<CollectiveMainloopFwdSm90<stages,
//     tuple cluster, tuple tile, head of V, type>>>, FlashAttnBwd...
//   cuDNN:
//   cudnn_generated_fort_native_sdpa_smNN_flash_<fprop|bprop>_<wgmma|..>_f16_knob_<n>_
//     <Q>x<K>x<D>_...
//     (_f16_ stands in the names of BF16 kernels too, so it tells no type)
//   xformers and PyTorch: fmha_cutlass<F|B>_<type>_aligned_<Q>x<K>_<rf|gmem|kN>_smNN; FP32 on sm80
//     and later multiplies as three TF32 products on the tensor pipe
#include "efficiency/gemm/families.h"

namespace flopwatch::efficiency::gemm {
namespace {

// Whether the token is the first tile, "128x64"; it is noted then.
bool TakeTile(std::string_view token, bool cut, KernelInfo* info) {
  const Dims tile = ReadDims(token, cut);
  if (!Contains(token, "x") || !tile.valid || info->tile_m) return false;
  SetTile(tile, info, 2);
  return true;
}

void SetOperand(NumberType type, KernelInfo* info) {
  if (type == NumberType::kFp32) return;  // the accumulator's
  info->a = info->b = info->math = type;
}

// "Flash_fwd_kernel_traits<192, 128, 128, 12, 2, false, 1, cutlass::bfloat16_t, ...".
void ReadTraits(std::string_view text, bool third, KernelInfo* info) {
  const size_t at = text.find("_kernel_traits<");
  if (at == std::string_view::npos) return;
  std::string_view inside = text.substr(at + 15);
  Arguments args(inside);
  int32_t value[5] = {};
  size_t count = 0;
  while (count < 5) {
    if (count > 0 && !args.Comma()) break;
    const auto number = args.Number();
    if (!number) break;
    value[count++] = *number;
  }
  if (count > 0) info->head_dim = info->tile_k = value[0];
  if (count > 1) info->tile_m = value[1];
  if (count > 2) info->tile_n = value[2];
  if (third && count > 4) info->stages = value[4];
  SetOperand(FindElementType(inside), info);
}

// "CollectiveMainloopFwdSm90<2, cute::tuple<cluster>, cute::tuple<tile>, 128, cutlass::bfloat16_t";
// the backward one may have more stage counts behind the first. Sm80's begins with warps and is not
// read.
void ReadMainloop(std::string_view text, KernelInfo* info) {
  size_t at = text.find("CollectiveMainloop");
  if (at == std::string_view::npos) return;
  text.remove_prefix(at + 18);
  at = text.find('<');
  if (at == std::string_view::npos) return;
  const std::string_view kind = text.substr(0, at);
  if (kind != "Fwd" && kind != "Bwd" && kind != "FwdSm90" && kind != "BwdSm90") return;
  Arguments args(text.substr(at + 1));
  info->stages = args.Number();
  if (!info->stages || !args.Comma()) return;
  while (args.Number() && args.Comma()) {
  }
  const auto cluster = args.Tuple3();
  if (!cluster || !args.Comma()) return;
  info->cluster_m = (*cluster)[0];
  info->cluster_n = (*cluster)[1];
  const auto tile = args.Tuple3();
  if (!tile) return;
  info->tile_m = (*tile)[0];
  info->tile_n = (*tile)[1];
  info->tile_k = info->head_dim = (*tile)[2];
  SetOperand(FindElementType(args.rest()), info);
}

// Reads an attention kernel behind its prefix: "sm90_flash_fprop_wgmma_f16_knob_7_64x256x192_...".
void ReadSdpa(Tokens tokens, KernelInfo* info) {
  info->family = Family::kCudnnSdpa;
  info->axes = TileAxes::kAttention;
  info->tensor_core = true;
  info->confidence = NameConfidence::kMedium;
  while (!tokens.done()) {
    const std::string_view token = tokens.Next();
    const bool cut = tokens.touches_cut();
    const Dims tile = ReadDims(token, cut);
    if (token.starts_with("sm") && !cut && !info->arch) {
      info->arch = WholeNumber(token.substr(2));
    } else if (token == "fprop") {
      info->operation = Operation::kAttentionForward;
    } else if (token == "bprop") {
      info->operation = Operation::kAttentionBackward;
    } else if (Contains(token, "x") && tile.valid && !info->tile_m) {
      SetTile(tile, info, 2);
      if (tile.count > 2) info->tile_k = info->head_dim = tile.value[2];
    }
  }
}

// Reads convolutions without an architecture in their names: transforms before and after a product
// that is a kernel of its own, cuDNN's engines from before tensor cores, and
// implicit_convolve_sgemm<float, float, ...>.
bool ReadPlainConvolution(const NameParts& name, KernelInfo* info) {
  const std::string_view f = name.function;
  const bool transform = Contains(name.scope, "winograd_nonfused") || f.starts_with("fft2d_");
  const bool engine = f.starts_with("wgrad_alg") || f.starts_with("wgrad2d_") ||
                      f.starts_with("dgrad_engine") || f.starts_with("dgrad2d_") ||
                      f.starts_with("explicit_convolve_sgemm");
  if (!transform && !engine && !f.starts_with("implicit_convolve_")) return false;
  info->family = Family::kCudnnConv;
  info->operation = transform                ? Operation::kHelper
                    : f.starts_with("wgrad") ? Operation::kConvWeightGrad
                    : f.starts_with("dgrad") ? Operation::kConvDataGrad
                                             : Operation::kConvForward;
  info->confidence = NameConfidence::kMedium;
  const bool sgemm = f.starts_with("implicit_convolve_sgemm");
  if (transform || engine || sgemm) info->tensor_core = false;
  if (transform) return true;
  if (engine || sgemm) info->a = info->b = info->math = FindElementType(name.arguments);
  if (sgemm) info->accumulate = NumberType::kFp32;
  return true;
}

// Reads what follows the instruction: "128x64_3dconv_fprop_...", "256x64_sliced1x2_ldg8_relu_...".
void ReadConvolutionTail(Tokens tokens, KernelInfo* info) {
  while (!tokens.done()) {
    const std::string_view token = tokens.Next();
    const bool cut = tokens.touches_cut();
    if (TakeTile(token, cut, info)) continue;
    if (cut) break;
    if (token == "splitK") {
      info->split_k = true;
    } else if (token.starts_with("sliced")) {
      const Dims sliced = ReadDims(token.substr(6));
      if (sliced.valid && sliced.count == 2) info->sliced_k = sliced.value[1];
    } else if (token == "fprop") {
      info->operation = Operation::kConvForward;
    } else if (token == "dgrad") {
      info->operation = Operation::kConvDataGrad;
    } else if (token == "wgrad") {
      info->operation = Operation::kConvWeightGrad;
    } else if (IsLayout(token, "nt", 2, 2)) {
      info->layout = token;
    } else if (const NumberType type = TypeOfWord(token);
               type != NumberType::kUnknown && !info->tile_m) {
      info->a = type;
    }
  }
}

}  // namespace

bool ReadFlashAttention(const NameParts& name, KernelInfo* info) {
  const std::string_view f = name.function;
  const bool wrapped = f == "device_kernel" && Contains(name.scope, "cutlass") &&
                       Contains(name.arguments.substr(0, 96), "FlashAttn");
  const bool ws = f.starts_with("compute_attn_ws");
  const bool second = f.starts_with("flash_fwd") || f.starts_with("flash_bwd");
  if (!wrapped && !ws && !second) {
    if (!Contains(f, "FlashAttn") && !Contains(f, "FlashAttention") && !Contains(f, "flash_attn") &&
        !Contains(f, "flash_attention")) {
      return false;
    }
    if (f.starts_with("fmha") || f.starts_with("triton_")) return false;
    // It is some build of it, or an annotation that speaks of it.
    info->family = Family::kFlashAttention;
    info->confidence = NameConfidence::kLow;
    info->operation = Contains(f, "Backward") || Contains(f, "bwd")  ? Operation::kAttentionBackward
                      : Contains(f, "Forward") || Contains(f, "fwd") ? Operation::kAttentionForward
                                                                     : Operation::kUnknown;
    return true;
  }
  info->axes = TileAxes::kAttention;
  info->family = wrapped || ws ? Family::kFlashAttention3 : Family::kFlashAttention2;
  const std::string_view where = wrapped ? name.arguments.substr(0, 256) : f;
  const bool backward = Contains(where, "Bwd") || Contains(where, "bwd");
  info->operation = backward ? Operation::kAttentionBackward : Operation::kAttentionForward;
  for (const std::string_view helper : {"Preprocess", "Postprocess", "dot_do_o", "convert_dq",
                                        "convert_dkv", "clear_dkvaccum", "combine", "Combine"}) {
    if (Contains(where, helper)) info->operation = Operation::kHelper;
  }
  info->confidence = NameConfidence::kMedium;
  if (info->operation == Operation::kHelper) {
    info->tensor_core = false;  // elementwise work before, between or after the products
    info->axes = TileAxes::kUnknown;
    return true;
  }
  info->tensor_core = true;
  if (wrapped) {
    info->arch = Contains(where, "Sm90")    ? std::optional<int32_t>(90)
                 : Contains(where, "Sm100") ? std::optional<int32_t>(100)
                 : Contains(where, "Sm80")  ? std::optional<int32_t>(80)
                                            : std::nullopt;
    ReadMainloop(name.arguments, info);
    if (!info->arch && Contains(name.arguments.substr(0, 400), "arch::Sm90")) info->arch = 90;
  } else {
    ReadTraits(name.arguments, ws, info);
    if (ws) info->arch = 90;
  }
  if (info->tile_n && info->math != NumberType::kUnknown) info->confidence = NameConfidence::kHigh;
  return true;
}

bool ReadFmhaCutlass(const NameParts& name, KernelInfo* info) {
  std::string_view text = name.function;
  if (!TakePrefix(&text, "fmha_cutlass")) return false;
  info->family = Family::kFmhaCutlass;
  info->axes = TileAxes::kAttention;
  info->operation = text.starts_with("B")   ? Operation::kAttentionBackward
                    : text.starts_with("F") ? Operation::kAttentionForward
                                            : Operation::kUnknown;
  info->confidence = NameConfidence::kMedium;
  Tokens tokens(text, name.cut);
  tokens.Next();
  while (!tokens.done()) {
    const std::string_view token = tokens.Next();
    const bool cut = tokens.touches_cut();
    if (TakeTile(token, cut, info)) continue;
    if (cut) break;
    if (token.starts_with("sm")) {
      info->arch = WholeNumber(token.substr(2));
    } else if (token.starts_with("k")) {
      if (const auto k = WholeNumber(token.substr(1))) info->head_dim = *k;  // the largest it takes
    } else if (const NumberType type = TypeOfWord(token); type != NumberType::kUnknown) {
      info->a = info->b = info->math = type;
    }
  }
  if (info->arch && info->a != NumberType::kUnknown) {
    const bool single = info->a == NumberType::kFp32;
    info->tensor_core =
        single ? *info->arch >= 80 : *info->arch >= (info->a == NumberType::kBf16 ? 80 : 70);
    if (single && *info->tensor_core) info->math = NumberType::kTf32;
    if (info->tile_n) info->confidence = NameConfidence::kHigh;
  }
  return true;
}

// Reads attention and convolutions: cudnn_infer_volta_scudnn_128x64_3dconv_fprop_...,
// turing_h1688cudnn_256x64_..., and those without an architecture.
bool ReadCudnn(const NameParts& name, KernelInfo* info) {
  std::string_view text = name.function;
  if (TakePrefix(&text, "cudnn_generated_fort_native_sdpa_")) {
    ReadSdpa(Tokens(text, name.cut), info);
    return true;
  }
  if (ReadPlainConvolution(name, info)) return true;
  TakePrefix(&text, "cudnn_infer_");
  TakePrefix(&text, "cudnn_train_");
  TakePrefix(&text, "cudnn_");
  std::optional<int32_t> arch;
  for (const auto& [prefix, number] : {std::pair<std::string_view, int32_t>{"maxwell_", 50},
                                       {"volta_", 70},
                                       {"turing_", 75},
                                       {"ampere_", 80}}) {
    if (!arch && TakePrefix(&text, prefix)) arch = number;
  }
  if (!arch) return false;
  Tokens tokens(text, name.cut);
  NumberType before = NumberType::kUnknown;
  std::string_view token = tokens.Next();
  if (const NumberType type = TypeOfWord(token); type != NumberType::kUnknown) {
    before = type;
    token = tokens.Next();
  }
  if (!token.ends_with("cudnn") || token.size() < 6 || tokens.touches_cut()) return false;
  const std::string_view word = token.substr(0, token.size() - 5);
  info->family = Family::kCudnnConv;
  info->arch = arch;
  info->confidence = NameConfidence::kMedium;
  info->signature = token;
  info->accumulate = TypeOfLetter(word.front());
  info->output = before != NumberType::kUnknown ? before : info->accumulate;
  info->tensor_core = word.size() > 1;
  if (*info->tensor_core) {
    info->a = before != NumberType::kUnknown ? before
              : info->accumulate == NumberType::kFp16 || word.substr(1) == "884"
                  ? NumberType::kFp16
                  : NumberType::kUnknown;
  } else {
    info->a = info->accumulate;
  }
  ReadConvolutionTail(tokens, info);
  info->b = info->math = info->a;
  return true;
}

}  // namespace flopwatch::efficiency::gemm
