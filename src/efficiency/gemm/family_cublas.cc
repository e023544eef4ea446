// cuBLAS's kernels before nvJet and XMMA (docs/gemm.md, Families):
//   [trt_]<volta|turing|ampere|maxwell>_[<out>_]<acc><mma>gemm_[<operand>_]<M>x<N>[_slicedAxB]
//        [_ldg<n>][_relu][_f2f][_stages_<K>x<stages>]_<layouts>[_v1]
// An instruction shape (884, 1688, 16816) means tensor cores; without one (sgemm, dgemm, hgemm,
// cgemm, gcgemm, igemm) the kernel runs on CUDA cores and adds nothing to tensor activity.
#include "efficiency/gemm/families.h"

namespace flopwatch::efficiency::gemm {
namespace {

constexpr std::pair<std::string_view, int32_t> kArchitectures[] = {
    {"volta_", 70},   {"turing_", 75}, {"ampere_", 80},
    {"maxwell_", 50}, {"pascal_", 60}, {"hopper_", 90}};

struct CublasWord {
  NumberType accumulate = NumberType::kUnknown;
  bool tensor = false;
  std::string_view shape;
};

// "s16816gemm", "h884gemm", "sgemm", "gcgemm", "igemm".
std::optional<CublasWord> ReadWord(std::string_view token) {
  if (!token.ends_with("gemm")) return std::nullopt;
  token.remove_suffix(4);
  CublasWord out;
  TakePrefix(&token, "g");  // Gauss's trick for complex products
  if (token.empty()) return std::nullopt;
  switch (token.front()) {
    case 'c':
      out.accumulate = NumberType::kComplex64;
      break;
    case 'z':
      out.accumulate = NumberType::kComplex128;
      break;
    default:
      out.accumulate = TypeOfLetter(token.front());
      if (out.accumulate == NumberType::kUnknown) return std::nullopt;
  }
  out.shape = token.substr(1);
  for (const char c : out.shape) {
    if (c < '0' || c > '9') return std::nullopt;
  }
  out.tensor = !out.shape.empty();
  return out;
}

// `before` stands before the word and `operand` behind it; kUnknown where the name has none.
void SetTypes(const CublasWord& word, NumberType before, NumberType operand, KernelInfo* info) {
  if (operand != NumberType::kUnknown) {
    info->a = operand;
  } else if (!word.tensor) {
    // igemm reads INT8 and names it; s, d, h, c, z are their own operands.
    if (word.accumulate != NumberType::kInt32) info->a = word.accumulate;
  } else if (word.accumulate == NumberType::kFp16 || word.shape == "884") {
    info->a = NumberType::kFp16;  // FP16 accumulation, and Volta's only tensor type
  } else if (before != NumberType::kUnknown) {
    info->a = before;
  }
  if (word.tensor && word.accumulate == NumberType::kFp64) info->a = NumberType::kFp64;
  info->b = info->a;
  info->math = info->a == NumberType::kFp32 && word.tensor ? NumberType::kTf32 : info->a;
  info->output = before != NumberType::kUnknown ? before : word.accumulate;
}

}  // namespace

bool ReadCublas(const NameParts& name, KernelInfo* info) {
  std::string_view text = name.function;
  if (text == "sgemm_largek_lds64" || text == "dgemm_largek_lds64") {
    info->family = Family::kCublas;
    info->operation = Operation::kGemm;
    info->confidence = NameConfidence::kMedium;
    info->tensor_core = false;
    info->a = info->b = info->accumulate = info->output = info->math =
        text.front() == 's' ? NumberType::kFp32 : NumberType::kFp64;
    return true;
  }
  TakePrefix(&text, "trt_");
  std::optional<int32_t> arch;
  for (const auto& [prefix, number] : kArchitectures) {
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
  const std::optional<CublasWord> word = tokens.touches_cut() ? std::nullopt : ReadWord(token);
  if (!word) return false;  // volta_scudnn and others: not a GEMM of cuBLAS
  info->family = Family::kCublas;
  info->operation = Operation::kGemm;
  info->arch = arch;
  info->axes = TileAxes::kBlas;
  info->tensor_core = word->tensor;
  info->accumulate = word->accumulate;
  info->signature = text.substr(0, static_cast<size_t>(token.data() + token.size() - text.data()));
  NumberType operand = NumberType::kUnknown;
  bool tiled = false, stages_next = false;
  while (!tokens.done()) {
    token = tokens.Next();
    const bool cut = tokens.touches_cut();
    std::string_view rest = token;
    if (stages_next) {
      stages_next = false;
      const Dims stages = ReadDims(token, cut);
      if (stages.valid && stages.count > 0) info->tile_k = stages.value[0];
      if (stages.valid && stages.count > 1) info->stages = stages.value[1];
    } else if (token == "stages") {
      stages_next = true;
    } else if (TakePrefix(&rest, "sliced")) {
      const Dims sliced = ReadDims(rest, cut);
      if (sliced.valid && sliced.count == 2) info->sliced_k = sliced.value[1];
    } else if (const Dims dims = ReadDims(token, cut);
               !tiled && Contains(token, "x") && dims.valid) {
      SetTile(dims, info, 2);
      tiled = dims.count == 2;
      if (!tiled) break;
    } else if (cut) {
      break;
    } else if (const NumberType type = TypeOfWord(token); !tiled && type != NumberType::kUnknown) {
      operand = type;
    } else if (tiled && info->layout.empty() && IsLayout(token, "nt", 2, 2)) {
      info->layout = token;
    }
  }
  SetTypes(*word, before, operand, info);
  info->confidence =
      tiled && info->math != NumberType::kUnknown ? NameConfidence::kHigh : NameConfidence::kMedium;
  return true;
}

}  // namespace flopwatch::efficiency::gemm
