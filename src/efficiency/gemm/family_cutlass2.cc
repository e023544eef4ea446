// CUTLASS 2.x (docs/gemm.md, Families), bare, wrapped (void cutlass::Kernel2<NAME>(...)), mangled
// (_ZN7cutlass7Kernel2I66NAME...) or as a template of GemmShapes:
//   cutlass[_NN]_[wmma_]<tensorop|simt>_[<out>_]<acc><mma>[<math>]<gemm|fprop|dgrad|wgrad>
//        [_<epilogue>][_<operand>]_<M>x<N>[_<K>x<stages>]_<layouts>_align<n>
// The type before the instruction is that of C where it differs from the accumulator, the one
// after it that of A where it differs (CUTLASS's own naming); neither on a 1688 instruction: FP32
// operands multiplied as TF32. No name of this family shows split-K (a launch with grid z 5 has the
// same name as one without). The swizzle may round the grid up: grid >= tiles.
#include "efficiency/gemm/families.h"

namespace flopwatch::efficiency::gemm {
namespace {

// "s16816gemm", "h884gemm", "i16832gemm", "s1688tf32gemm", "sgemm", "s1688dgrad", "d884gemm".
struct Instruction {
  NumberType accumulate = NumberType::kUnknown;
  NumberType math = NumberType::kUnknown;  // between shape and operation
  std::string_view shape;
  Operation operation = Operation::kUnknown;
};

std::optional<Instruction> ReadInstruction(std::string_view token) {
  Instruction out;
  const struct {
    std::string_view word;
    Operation operation;
  } kOperations[] = {{"gemm", Operation::kGemm},
                     {"fprop", Operation::kConvForward},
                     {"dgrad", Operation::kConvDataGrad},
                     {"wgrad", Operation::kConvWeightGrad}};
  for (const auto& [word, operation] : kOperations) {
    const size_t at = token.find(word);
    if (at == std::string_view::npos) continue;
    out.operation = operation;
    token = token.substr(0, at);  // "gemmf16" and the like do not occur
    break;
  }
  if (out.operation == Operation::kUnknown || token.empty()) return std::nullopt;
  const bool complex = token.front() == 'c' || token.front() == 'z';
  out.accumulate = token.front() == 'c'   ? NumberType::kComplex64
                   : token.front() == 'z' ? NumberType::kComplex128
                                          : TypeOfLetter(token.front());
  if (out.accumulate == NumberType::kUnknown && !complex) return std::nullopt;
  token.remove_prefix(1);
  size_t digits = 0;
  while (digits < token.size() &&
         ((token[digits] >= '0' && token[digits] <= '9') || token[digits] == 'x'))
    ++digits;
  out.shape = token.substr(0, digits);
  token.remove_prefix(digits);
  if (!token.empty()) {
    out.math = TypeOfWord(token);
    if (out.math == NumberType::kUnknown) return std::nullopt;
  }
  return out;
}

// Sets what the pipe multiplies: the operand type, TF32 for FP32 operands on a tensor instruction.
void SetMath(bool simt, const Instruction& mma, NumberType operand, KernelInfo* info) {
  info->accumulate = mma.accumulate;
  if (simt) {
    info->tensor_core = false;
    info->a = operand != NumberType::kUnknown ? operand : mma.accumulate;
    info->math = info->a;
  } else {
    info->tensor_core = true;
    if (operand != NumberType::kUnknown) {
      info->a = operand;
      info->math = mma.math != NumberType::kUnknown ? mma.math : operand;
    } else if (mma.math != NumberType::kUnknown) {
      info->math = mma.math;
      info->a = mma.accumulate;
    } else if (mma.accumulate == NumberType::kFp32) {
      // FP32 in and out: only TF32 (1688 on sm80) multiplies that; 16816 and 884 take 16-bit types,
      // which would have been named.
      if (mma.shape == "1688" && info->arch.value_or(80) >= 80) {
        info->a = NumberType::kFp32;
        info->math = NumberType::kTf32;
      }
    } else if (mma.accumulate != NumberType::kInt32) {
      info->a = info->math = mma.accumulate;  // h: FP16 throughout, d: FP64
    }
  }
  info->b = info->a;
}

bool ReadProcedural2(std::string_view text, bool cut, KernelInfo* info) {
  if (!TakePrefix(&text, "cutlass_")) return false;
  info->family = Family::kCutlass2;
  info->confidence = NameConfidence::kLow;
  Tokens tokens(text, cut);
  std::string_view token = tokens.Next();
  if (const auto arch = WholeNumber(token); arch && !tokens.touches_cut()) {
    info->arch = *arch;
    token = tokens.Next();
  }
  if (token == "wmma") token = tokens.Next();
  // "cutlass_80_wmma_h161616gemm_..." leaves the class out: wmma is always tensor.
  const bool simt = token == "simt";
  const std::string_view signature_begin = token;
  if (simt || token == "tensorop" || token == "sparse" || token == "tensorspop")
    token = tokens.Next();
  std::optional<Instruction> mma;
  NumberType before = NumberType::kUnknown;
  for (int i = 0; i < 3 && !mma && !tokens.touches_cut(); ++i) {
    mma = ReadInstruction(token);
    if (mma) break;
    if (const NumberType type = TypeOfWord(token); type != NumberType::kUnknown) before = type;
    token = tokens.Next();
  }
  if (!mma || tokens.touches_cut()) return true;
  info->operation = mma->operation;
  info->axes = mma->operation == Operation::kGemm ? TileAxes::kBlas : TileAxes::kUnknown;
  const std::string_view instruction_token = token;

  // Epilogue and operand type stand in any order up to the tile.
  NumberType operand = NumberType::kUnknown;
  bool tiled = false;
  while (!tokens.done()) {
    token = tokens.Next();
    const Dims dims = ReadDims(token, tokens.touches_cut());
    const bool tile_like = Contains(token, "x") && dims.valid;
    if (tile_like && !tiled) {
      SetTile(dims, info, 2);
      tiled = dims.count == 2;
      if (!tiled) break;
    } else if (tile_like && !info->tile_k) {
      if (dims.count > 0) info->tile_k = dims.value[0];
      if (dims.count > 1) info->stages = dims.value[1];
    } else if (!tokens.touches_cut()) {
      const NumberType type = TypeOfWord(token);
      if (!tiled && type != NumberType::kUnknown) operand = type;
      if (tiled && info->layout.empty() &&
          (IsLayout(token, "nt", 2, 3) || IsLayout(token, "nhwcdkrst", 4, 10))) {
        info->layout = token;
      }
      if (token == "bias") info->bias = true;
    }
  }
  SetMath(simt, *mma, operand, info);
  info->output = before != NumberType::kUnknown ? before : mma->accumulate;
  info->signature = {signature_begin.data(),
                     static_cast<size_t>(instruction_token.data() + instruction_token.size() -
                                         signature_begin.data())};
  info->confidence =
      tiled && info->math != NumberType::kUnknown ? NameConfidence::kHigh : NameConfidence::kMedium;
  return true;
}

// Three literals of the first GemmShape: "GemmShape<128, 128, 32>" or
// "GemmShapeILi128ELi128ELi32E". The first of an instantiation is the thread block's.
void ReadGemmShape(std::string_view text, KernelInfo* info) {
  const size_t at = text.find("GemmShape");
  if (at == std::string_view::npos) return;
  std::string_view rest = text.substr(at + 9);
  int32_t value[3] = {};
  if (TakePrefix(&rest, "I")) {
    for (int32_t& v : value) {
      if (!TakePrefix(&rest, "Li")) return;
      const size_t end = rest.find('E');
      const auto number = WholeNumber(rest.substr(0, end));
      if (end == std::string_view::npos || !number) return;
      v = *number;
      rest.remove_prefix(end + 1);
    }
  } else if (TakePrefix(&rest, "<")) {
    Arguments args(rest);
    for (int i = 0; i < 3; ++i) {
      if (i > 0 && !args.Comma()) return;
      const auto number = args.Number();
      if (!number) return;
      value[i] = *number;
    }
  } else {
    return;
  }
  if (value[0] == 0 || value[1] == 0 || value[2] == 0) return;
  info->tile_m = value[0];
  info->tile_n = value[1];
  info->tile_k = value[2];
}

void ReadInstantiation(std::string_view text, KernelInfo* info) {
  info->family = Family::kCutlass2;
  info->confidence = NameConfidence::kMedium;
  const bool conv = Contains(text, "ImplicitGemmConvolution");
  info->operation = conv ? Operation::kUnknown : Operation::kGemm;
  if (conv) {
    // The iterator over A names the operation: dgrad reads the output's gradient as an activation.
    const size_t at = text.find("TileAccessIterator");
    const std::string_view iterator = text.substr(0, at);
    if (at != std::string_view::npos && Contains(iterator, "Wgrad")) {
      info->operation = Operation::kConvWeightGrad;
    } else if (at != std::string_view::npos && Contains(iterator, "Dgrad")) {
      info->operation = Operation::kConvDataGrad;
    } else if (at != std::string_view::npos && Contains(iterator, "Fprop")) {
      info->operation = Operation::kConvForward;
    }
  } else if (Contains(text, "GroupedProblemVisitor") || Contains(text, "GemmGrouped")) {
    info->operation = Operation::kGroupedGemm;
  }
  ReadGemmShape(text, info);
  // An element type is visible where it comes before the cut, but the first one is A's only in the
  // iterators of the threadblock, so only types that exist on tensor pipes alone are taken.
  const NumberType type = FindElementType(text);
  if (type == NumberType::kTf32) {
    info->a = info->b = info->math = NumberType::kTf32;
    info->tensor_core = true;
  }
  if (Contains(text, "OpClassTensorOp") || Contains(text, "MmaTensorOp")) info->tensor_core = true;
  if (Contains(text, "OpClassSimt") || Contains(text, "MmaSimt")) info->tensor_core = false;
}

}  // namespace

bool ReadCutlass2(const NameParts& name, KernelInfo* info) {
  if (ReadProcedural2(name.function, name.cut, info)) return true;
  const bool kernel = name.function == "Kernel" || name.function == "Kernel2";
  if (!kernel || !Contains(name.scope, "cutlass")) return false;
  std::string_view inner = name.arguments;
  if (name.mangled) {  // "66cutlass_80_...EEvNT_6ParamsE"
    size_t digits = 0;
    while (digits < inner.size() && digits < kMaxDigits && inner[digits] >= '0' &&
           inner[digits] <= '9')
      ++digits;
    if (const auto length = WholeNumber(inner.substr(0, digits))) {
      std::string_view word = inner.substr(digits);
      const bool cut = static_cast<size_t>(*length) > word.size();
      word = word.substr(0, static_cast<size_t>(*length));
      if (ReadProcedural2(word, cut, info)) {
        info->cut |= cut;
        return true;
      }
    }
    ReadInstantiation(inner, info);
    return true;
  }
  const size_t end = inner.find_first_of("<>(,");
  if (ReadProcedural2(inner.substr(0, end), name.cut && end == std::string_view::npos, info))
    return true;
  ReadInstantiation(inner, info);
  return true;
}

}  // namespace flopwatch::efficiency::gemm
