// nvJet, cuBLAS's own GEMMs since CUDA 12.8 (docs/gemm.md; grids of B200 launches confirm tile,
// axes and cluster):
//   nvjet[_smNN]_<sig>[_tf32]_<T1>x<T2>_<BK>x<STG>_<C1>x<C2>[_2cta]_<v|h>_<beta>[_coopA|B]
//        [_splitK][_bias][_algoN][_Avec<n><fmt>_Bvec<n><fmt>...]_<LLL>
// and for sm120 (consumer Blackwell, no clusters; stages x tile bytes fill its shared memory):
//   nvjet_sm120_<sig>_mma_<T1>x<T2>x<BK>_<STG>_<warp tile>_tmaAB[_alignCD4]_<beta>_<LLLL>
#include "efficiency/gemm/families.h"

namespace flopwatch::efficiency::gemm {
namespace {

// hsh = A and B, accumulate, output; qqtst = A, B, C, accumulate, output. Fits every name seen; not
// documented, so the raw letters stay beside it.
bool ReadSignature(std::string_view sig, KernelInfo* info) {
  for (const char c : sig) {
    if (c < 'a' || c > 'z') return false;
  }
  const bool three = sig.size() == 3, five = sig.size() == 5;
  if (!three && !five) return false;
  info->signature = sig;
  info->a = TypeOfLetter(sig[0]);
  info->b = TypeOfLetter(three ? sig[0] : sig[1]);
  info->accumulate = TypeOfLetter(three ? sig[1] : sig[3]);
  info->output = TypeOfLetter(three ? sig[2] : sig[4]);
  info->math = info->a == info->b ? info->a : NumberType::kUnknown;
  const auto fp8 = [](NumberType t) { return t == NumberType::kE4m3 || t == NumberType::kE5m2; };
  if (fp8(info->a) && fp8(info->b)) info->math = info->a;
  // FP32 operands on tensor cores are TF32 or an emulation; only the token _tf32 says which.
  if (info->a == NumberType::kFp32) info->math = NumberType::kUnknown;
  // The letters b, i and u of integer kernels are not understood.
  if (info->a == NumberType::kInt32) info->a = info->b = info->math = NumberType::kUnknown;
  return true;
}

// Suffix words of known meaning; others leave the reading as it is but lower its confidence.
bool KnownWord(std::string_view word) {
  for (const std::string_view known :
       {"v",       "h",       "bz",          "badd",        "bx",       "coopA",
        "coopB",   "bias",    "relu",        "gelu",        "relubias", "gelubias",
        "reluaux", "geluaux", "reluauxbias", "geluauxbias", "auxr",     "ptrBatch",
        "ovscale", "ssched",  "tmaAB",       "alignCD4",    "dynba"}) {
    if (word == known) return true;
  }
  return word.starts_with("algo") || word.starts_with("Bblk") || word.starts_with("Ablk") ||
         word.starts_with("Bvec") || word.starts_with("Cvec") || word.starts_with("Dvec");
}

// Reads the words behind the cluster; the last of a whole name is the layout.
void ReadSuffixes(Tokens tokens, KernelInfo* info) {
  bool understood = info->math != NumberType::kUnknown, split = false, ended = false;
  while (!tokens.done()) {
    const std::string_view token = tokens.Next();
    if (tokens.touches_cut()) break;
    std::string_view rest = token;
    if (token.empty()) {
      continue;
    } else if (token == "2cta") {
      info->two_cta = true;
    } else if (token == "splitK") {
      split = true;
    } else if (TakePrefix(&rest, "Avec")) {
      info->scaling = rest;
    } else if (IsLayout(token, "TN", 3, 4)) {
      info->layout = token;
      ended = tokens.done();
    } else if (!KnownWord(token)) {
      understood = false;
    }
    if (token == "bias" || token.ends_with("auxbias") || token == "relubias" || token == "gelubias")
      info->bias = true;
  }
  // Without the layout that ends every whole name, more may have followed.
  if (split || ended) info->split_k = split;
  info->confidence = understood && ended ? NameConfidence::kHigh : NameConfidence::kMedium;
}

}  // namespace

bool ReadNvjet(const NameParts& name, KernelInfo* info) {
  std::string_view text = name.function;
  if (!TakePrefix(&text, "nvjet_")) return false;
  info->family = Family::kNvjet;
  info->operation = Operation::kGemm;
  info->confidence = NameConfidence::kLow;
  info->tensor_core = true;
  info->axes = TileAxes::kBlas;
  Tokens tokens(text, name.cut);
  std::string_view token = tokens.Next();
  if (token.starts_with("sm") && !tokens.touches_cut()) {
    if (const auto arch = WholeNumber(token.substr(2))) info->arch = *arch;
    token = tokens.Next();
  }
  if (tokens.touches_cut() || !ReadSignature(token, info)) return true;
  if (tokens.Peek() == "tf32") {
    tokens.Next();
    if (!tokens.touches_cut()) info->math = NumberType::kTf32;
  }
  const bool mma = tokens.Peek() == "mma";
  if (mma) tokens.Next();
  token = tokens.Next();
  const Dims tile = ReadDims(token, tokens.touches_cut());
  if (!tile.valid || (!tokens.touches_cut() && tile.count != (mma ? 3u : 2u))) return true;
  SetTile(tile, info);
  bool complete = false;
  if (mma) {
    token = tokens.Next();
    if (const auto stages = WholeNumber(token); stages && !tokens.touches_cut()) {
      info->stages = *stages;
      tokens.Next();  // the tile of a warp
      complete = !tokens.touches_cut();
    }
  } else {
    token = tokens.Next();
    // "_<LLL>" may follow at once in what people type; everything else is BK x stages.
    const Dims step = ReadDims(token, tokens.touches_cut());
    if (step.valid && step.count > 0) info->tile_k = step.value[0];
    if (step.valid && step.count > 1) info->stages = step.value[1];
    if (step.valid && step.count == 2) {
      token = tokens.Next();
      const Dims cluster = ReadDims(token, tokens.touches_cut());
      if (cluster.valid && cluster.count > 0) info->cluster_m = cluster.value[0];
      if (cluster.valid && cluster.count > 1) info->cluster_n = cluster.value[1];
      complete = cluster.valid && cluster.count == 2;
    }
  }
  if (!complete) {
    info->confidence = info->tile_m ? NameConfidence::kMedium : NameConfidence::kLow;
    return true;
  }
  ReadSuffixes(tokens, info);
  return true;
}

}  // namespace flopwatch::efficiency::gemm
