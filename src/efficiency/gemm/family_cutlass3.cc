// CUTLASS 3.x (docs/gemm.md, Families): the procedural names of cuBLAS and the profiler
//   cutlass3x_smNN_<tensorop|bstensorop|simt>_[<acc><MxNxK>[math]]gemm[_block_scaled]
//        _<A>_<B>_<acc>_<C>_<D>_<M>x<N>x<K>[_<cluster>]_<stages>_<layouts>_align<n>_...
// and templates: void cutlass::device_kernel<...GemmUniversal<...CollectiveMma<
//   Mainloop<stages, cute::tuple<cluster>, ...>, cute::tuple<tile>, type, ...>>>.
// "0" stages mean the builder chose; the number is not visible. In sm100's 2sm names the tile is
// that of the pair of CTAs.
#include "efficiency/gemm/families.h"

namespace flopwatch::efficiency::gemm {
namespace {

// Reads what follows the tile: "2x1x1_0_tnn_align8_2sm_bias_...".
void ReadBehindTile(Tokens tokens, KernelInfo* info) {
  while (!tokens.done()) {
    const std::string_view token = tokens.Next();
    const bool last_cut = tokens.touches_cut();
    const Dims cluster = ReadDims(token, last_cut);
    if (Contains(token, "x") && cluster.valid && !info->cluster_m) {
      // A cluster of 0x0x1 is chosen at launch.
      if (cluster.count > 0) info->cluster_m = cluster.value[0];
      if (cluster.count > 1) info->cluster_n = cluster.value[1];
    } else if (const auto stages = WholeNumber(token);
               stages && !last_cut && info->layout.empty()) {
      if (*stages > 0) info->stages = *stages;
    } else if (IsLayout(token, "tn", 3, 3) && !last_cut) {
      info->layout = token;
    } else if (token == "2sm" && !last_cut) {
      info->two_cta = info->tile_spans_pair = true;
    } else if (token.starts_with("vs") && WholeNumber(token.substr(2)) && !last_cut) {
      info->scaling = token;
    } else if (token == "bias" && !last_cut) {
      info->bias = true;
    }
  }
  info->confidence =
      info->layout.empty() || info->math == NumberType::kUnknown || info->tile_spans_pair
          ? NameConfidence::kMedium
          : NameConfidence::kHigh;
}

bool ReadProcedural3(std::string_view text, bool cut, KernelInfo* info) {
  if (!TakePrefix(&text, "cutlass3x_")) return false;
  info->family = Family::kCutlass3;
  info->confidence = NameConfidence::kLow;
  info->operation = Operation::kGemm;
  info->axes = TileAxes::kBlas;
  Tokens tokens(text, cut);
  std::string_view token = tokens.Next();
  if (token.starts_with("sm") && !tokens.touches_cut()) {
    info->arch = WholeNumber(token.substr(2));
    token = tokens.Next();
  }
  const bool simt = token == "simt";
  if (!simt && token != "tensorop" && token != "bstensorop" && token != "sptensorop") return true;
  info->tensor_core = !simt;
  const char* signature_begin = token.data();
  // The instruction ends in "gemm"; a type between its shape and that word is what is multiplied.
  token = tokens.Next();
  if (tokens.touches_cut() || !Contains(token, "gemm")) return true;
  std::string_view math_word = token.substr(0, token.find("gemm"));
  if (!math_word.empty()) math_word.remove_prefix(1);
  while (!math_word.empty() && Contains("0123456789x", math_word.substr(0, 1)))
    math_word.remove_prefix(1);
  const NumberType math = TypeOfWord(math_word);
  if (tokens.Peek() == "block") {  // block_scaled
    tokens.Next();
    tokens.Next();
  }
  NumberType types[5] = {};
  const char* signature_end = nullptr;
  for (NumberType& type : types) {
    token = tokens.Next();
    if (tokens.touches_cut()) return true;
    type = TypeOfWord(token);
    if (type == NumberType::kUnknown && token != "void") return true;
    signature_end = token.data() + token.size();
  }
  info->a = types[0];
  info->b = types[1];
  info->accumulate = types[2];
  info->output = types[4];
  info->math = math != NumberType::kUnknown ? math
               : info->a == info->b         ? info->a
                                            : NumberType::kUnknown;
  // FP32 operands on the tensor pipe are TF32, which the instruction's name says; without it, not
  // known.
  if (!simt && info->math == NumberType::kFp32) info->math = NumberType::kUnknown;
  info->signature = {signature_begin, static_cast<size_t>(signature_end - signature_begin)};
  token = tokens.Next();
  const Dims tile = ReadDims(token, tokens.touches_cut());
  SetTile(tile, info);
  info->confidence = NameConfidence::kMedium;
  if (!tile.valid || tile.count != 3) return true;
  ReadBehindTile(tokens, info);
  return true;
}

// The arguments of the collective: CUTLASS' own, or one of the same order that a library made of
// it (CollectiveMmaBlock, CollectiveMmaGated, CollectiveMmaArrayMixedInput). "" where there is
// none.
std::string_view CollectiveArguments(std::string_view text) {
  constexpr std::string_view kName = "CollectiveMma";
  const size_t at = text.find(kName);
  if (at == std::string_view::npos) return "";
  std::string_view rest = text.substr(at + kName.size());
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  while (!rest.empty() && is_letter(rest.front())) rest.remove_prefix(1);
  return TakePrefix(&rest, "<") ? rest : "";
}

void ReadCollective(std::string_view text, KernelInfo* info) {
  const std::string_view mma = CollectiveArguments(text);
  const size_t mainloop = mma.find("Mainloop");
  if (mainloop == std::string_view::npos) return;
  std::string_view head = mma.substr(mainloop + 8);
  if (TakePrefix(&head, "Sm")) {
    size_t digits = 0;
    while (digits < head.size() && digits < kMaxDigits && head[digits] >= '0' &&
           head[digits] <= '9')
      ++digits;
    info->arch = WholeNumber(head.substr(0, digits));
  }
  const size_t open = head.find('<');
  if (open == std::string_view::npos) return;
  Arguments args(head.substr(open + 1));
  info->stages = args.Number();
  if (!info->stages) return;
  // sm100 has two more stage counts before the cluster, sm103 three; block scaling on Hopper has
  // the granularity of its scales behind the schedule.
  while (args.Comma()) {
    if (const auto cluster = args.Tuple3()) {
      if ((*cluster)[0] > 0) info->cluster_m = (*cluster)[0];
      if ((*cluster)[1] > 0) info->cluster_n = (*cluster)[1];
    } else if (!args.SkipArgument()) {
      return;
    }
  }
  if (!args.Literal(">") || !args.Comma()) return;
  const auto tile = args.Tuple3();
  if (!tile || (*tile)[0] == 0 || (*tile)[1] == 0 || (*tile)[2] == 0) return;
  info->tile_m = (*tile)[0];
  info->tile_n = (*tile)[1];
  info->tile_k = (*tile)[2];
  info->axes = TileAxes::kRowMajor;
  if (!args.Comma()) return;
  const std::string_view before = args.rest();
  if (!args.SkipArgument()) return;
  const std::string_view element = before.substr(0, before.size() - args.rest().size());
  const NumberType type = FindElementType(element);
  info->a = type;
  if (type != NumberType::kFp32) info->math = type;
  if (Contains(args.rest(), "2x1SM") || Contains(args.rest(), "2SM"))
    info->two_cta = info->tile_spans_pair = true;
}

}  // namespace

bool ReadCutlass3(const NameParts& name, KernelInfo* info) {
  if (ReadProcedural3(name.function, name.cut, info)) return true;
  if (name.function != "device_kernel" || !Contains(name.scope, "cutlass")) return false;
  info->family = Family::kCutlass3;
  info->confidence = NameConfidence::kLow;
  const std::string_view text = name.arguments;
  const bool grouped = Contains(text, "GroupProblemShape") || Contains(text, "grouped");
  const bool gemm = Contains(text, "GemmUniversal") || Contains(text, "GemmKernel");
  if (gemm) {
    info->operation = grouped ? Operation::kGroupedGemm : Operation::kGemm;
    info->tensor_core = Contains(text, "Simt") ? std::nullopt : std::optional<bool>(true);
  } else if (Contains(text, "fmha") || Contains(text, "Fmha")) {
    info->operation =
        Contains(text, "Bwd") ? Operation::kAttentionBackward : Operation::kAttentionForward;
    info->tensor_core = true;
  } else if (Contains(text, "ConvUniversal")) {
    info->tensor_core = true;
  }
  if (Contains(text, "fp8_")) info->a = info->b = info->math = NumberType::kFp8;
  if (!name.mangled && gemm) ReadCollective(text, info);
  if (info->tile_m) info->confidence = NameConfidence::kMedium;
  return true;
}

}  // namespace flopwatch::efficiency::gemm
