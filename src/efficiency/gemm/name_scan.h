// Reading a kernel name: its parts (namespace, function, template arguments) and its
// underscore-separated tokens, remembering where the name was cut. Internal to gemm/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "efficiency/gemm/kernel_name.h"

namespace flopwatch::efficiency::gemm {

// A number of a name; anything longer than five digits is not a tile, a stage or a head.
inline constexpr size_t kMaxDigits = 5;
// Template parameters of the form N x M x K.
inline constexpr size_t kMaxDims = 3;

struct NameParts {
  std::string_view text;       // without "...", "void ", return types, leading blanks
  std::string_view function;   // last component: "device_kernel", "nvjet_tst_...", "kernel"
  std::string_view scope;      // what is before it: "cutlass::", "cutlass7" (mangled), ""
  std::string_view arguments;  // template arguments without the outer brackets; "" where none
  bool mangled = false;
  bool cut = false;  // printed with "..." or with a template left open
};
NameParts SplitName(std::string_view name);

// The whole of `text` as a small number, nullopt where it is anything else.
std::optional<int32_t> WholeNumber(std::string_view text);

// Numbers of "256x128x64". `may_be_cut`: the last of them touches the cut and is dropped.
struct Dims {
  std::array<int32_t, kMaxDims> value{};
  size_t count = 0;    // complete ones
  bool valid = false;  // the text is digits and 'x' alone, at most kMaxDims numbers, none 0
};
Dims ReadDims(std::string_view text, bool may_be_cut = false);
// The first of them, up to `count`, as tile M, N, K; what is not there stays unknown.
void SetTile(const Dims& dims, KernelInfo* info, size_t count = 3);

// Tokens between underscores. The last token of a cut name may be incomplete.
class Tokens {
 public:
  Tokens(std::string_view text, bool cut) : rest_(text), cut_(cut) {}
  bool done() const { return done_; }
  // The next token; "" at the end (and for doubled underscores, which are tokens too).
  std::string_view Next();
  std::string_view Peek() const;
  // Whether the token Next() gave last touches the cut.
  bool touches_cut() const { return touches_cut_; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool cut_, done_ = false, touches_cut_ = false;
};

// Reads template arguments left to right: "(int)2, cute::tuple<...>, float". All Skip/Read
// functions return false and stay put where the text is not of that form.
class Arguments {
 public:
  explicit Arguments(std::string_view text) : rest_(text) {}
  bool Literal(std::string_view literal);
  // "128", "128u", "(int)128", "128ul"; a number at the very end of a cut text is not one.
  std::optional<int32_t> Number();
  // "cute::tuple<cute::C<128>, cute::C<64>, cute::C<32> >" or with _128 literals.
  std::optional<std::array<int32_t, 3>> Tuple3();
  // Skips blanks and one comma.
  bool Comma();
  // Skips one argument with its nested brackets; false where it is not closed.
  bool SkipArgument();
  std::string_view rest() const { return rest_; }

 private:
  void Blanks();
  std::string_view rest_;
};

// Types as the families spell them. kUnknown where the word is none of theirs.
NumberType TypeOfLetter(char c);            // nvJet and CUTLASS accumulators: h t s q r o i d
NumberType TypeOfWord(std::string_view w);  // bf16, f16, fp16, tf32, e4m3, s8, ue4m3xf4, Bfloat16
// The longest type word `text` begins with, consumed from it.
NumberType TakeType(std::string_view* text);
// First C++ element type named anywhere in `text`: __half, cutlass::bfloat16_t, float_e4m3_t, ...
NumberType FindElementType(std::string_view text);

bool TakePrefix(std::string_view* text, std::string_view prefix);
bool Contains(std::string_view text, std::string_view what);
bool IsLayout(std::string_view token, std::string_view letters, size_t min, size_t max);

}  // namespace flopwatch::efficiency::gemm
