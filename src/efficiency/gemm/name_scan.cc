#include "efficiency/gemm/name_scan.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace flopwatch::efficiency::gemm {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Itanium mangling, as far as kernel names need it: _Z, N, then <length><identifier>... up to the
// template arguments I. Substitutions and operators do not occur before the function's name.
bool SplitMangled(std::string_view text, NameParts* out) {
  if (!TakePrefix(&text, "_Z")) return false;
  const bool nested = TakePrefix(&text, "N");
  const char* scope_begin = text.data();
  std::string_view identifier;
  while (!text.empty() && IsDigit(text.front())) {
    size_t length = 0, digits = 0;
    while (digits < text.size() && digits < kMaxDigits && IsDigit(text[digits]))
      length = length * 10 + static_cast<size_t>(text[digits++] - '0');
    if (!identifier.empty())
      out->scope = {scope_begin, static_cast<size_t>(text.data() - scope_begin)};
    text.remove_prefix(digits);
    if (length > text.size()) {
      out->cut = true;
      length = text.size();
    }
    identifier = text.substr(0, length);
    text.remove_prefix(length);
    if (!nested) break;
  }
  if (identifier.empty()) return false;
  out->mangled = true;
  out->function = identifier;
  if (TakePrefix(&text, "I")) out->arguments = text;
  return true;
}

// "__nv_bfloat16" may follow "const", a namespace or a mangled length, so this looks for it
// anywhere.
struct ElementName {
  std::string_view name;
  NumberType type;
};
constexpr ElementName kElements[] = {
    {"bfloat16", NumberType::kBf16},    {"half", NumberType::kFp16},
    {"tfloat32", NumberType::kTf32},    {"float_e4m3", NumberType::kE4m3},
    {"float_e5m2", NumberType::kE5m2},  {"float_e2m1", NumberType::kFp4},
    {"fp8_e4m3", NumberType::kE4m3},    {"fp8_e5m2", NumberType::kE5m2},
    {"float", NumberType::kFp32},       {"double", NumberType::kFp64},
    {"signed char", NumberType::kInt8}, {"int8_t", NumberType::kInt8},
};

struct Word {
  std::string_view word;
  NumberType type;
};
// Longer words first where one begins another.
constexpr Word kWords[] = {
    {"ue4m3xf4", NumberType::kFp4},    {"ue8m0xf4", NumberType::kFp4},
    {"ue4m3xe2m1", NumberType::kFp4},  {"ue8m0xe2m1", NumberType::kFp4},
    {"ue8m0xe4m3", NumberType::kE4m3}, {"ue8m0xe5m2", NumberType::kE5m2},
    {"ue8m0xf8", NumberType::kFp8},    {"ue8m0xe3m2", NumberType::kFp6},
    {"ue8m0xe2m3", NumberType::kFp6},  {"bfloat16", NumberType::kBf16},
    {"Bfloat16", NumberType::kBf16},   {"MxE4m3", NumberType::kE4m3},
    {"MxE2m1", NumberType::kFp4},      {"bf16", NumberType::kBf16},
    {"tf32", NumberType::kTf32},       {"fp64", NumberType::kFp64},
    {"fp32", NumberType::kFp32},       {"fp16", NumberType::kFp16},
    {"Fp32", NumberType::kFp32},       {"Fp16", NumberType::kFp16},
    {"E4m3", NumberType::kE4m3},       {"E5m2", NumberType::kE5m2},
    {"E2m1", NumberType::kFp4},        {"e4m3", NumberType::kE4m3},
    {"e5m2", NumberType::kE5m2},       {"e2m1", NumberType::kFp4},
    {"e3m2", NumberType::kFp6},        {"e2m3", NumberType::kFp6},
    {"int8", NumberType::kInt8},       {"f64", NumberType::kFp64},
    {"f32", NumberType::kFp32},        {"f16", NumberType::kFp16},
    {"i32", NumberType::kInt32},       {"s32", NumberType::kInt32},
    {"cf32", NumberType::kComplex64},  {"cf64", NumberType::kComplex128},
    {"f8", NumberType::kFp8},          {"f4", NumberType::kFp4},
    {"i8", NumberType::kInt8},         {"s8", NumberType::kInt8},
    {"u8", NumberType::kInt8},         {"s4", NumberType::kInt4},
    {"u4", NumberType::kInt4},
};

}  // namespace

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool Contains(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

NameParts SplitName(std::string_view name) {
  NameParts out;
  if (name.size() > kMaxKernelNameBytes) {
    name = name.substr(0, kMaxKernelNameBytes);
    out.cut = true;
  }
  const auto blank = [](char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '"' || c == '`';
  };
  while (!name.empty() && blank(name.front())) name.remove_prefix(1);
  while (!name.empty() && blank(name.back())) name.remove_suffix(1);
  for (const std::string_view dots : {"...", "\xE2\x80\xA6"}) {  // three dots, or one ellipsis
    if (name.ends_with(dots)) {
      name.remove_suffix(dots.size());
      out.cut = true;
    }
  }
  // A return type that is itself a template goes: std::enable_if<...>::type f<...>.
  if (name.starts_with("std::enable_if<")) {
    const size_t end = name.find(">::type ");
    if (end != std::string_view::npos) name.remove_prefix(end + 8);
  }
  TakePrefix(&name, "void ");
  TakePrefix(&name, "__global__ ");
  TakePrefix(&name, "static ");
  TakePrefix(&name, "(anonymous namespace)::");
  TakePrefix(&name, "<unnamed>::");
  out.text = name;
  if (SplitMangled(name, &out)) return out;

  const size_t end = name.find_first_of("<(");
  const std::string_view path = name.substr(0, end);
  const size_t colons = path.rfind("::");
  out.function = colons == std::string_view::npos ? path : path.substr(colons + 2);
  out.scope = colons == std::string_view::npos ? std::string_view() : path.substr(0, colons + 2);
  if (end == std::string_view::npos || name[end] == '(') return out;
  int depth = 0;
  for (size_t i = end; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>' && --depth == 0) {
      out.arguments = name.substr(end + 1, i - end - 1);
      return out;
    }
  }
  out.arguments = name.substr(end + 1);  // never closed: the printer stopped here
  out.cut = true;
  return out;
}

std::optional<int32_t> WholeNumber(std::string_view text) {
  if (text.empty() || text.size() > kMaxDigits) return std::nullopt;
  int32_t v = 0;
  for (const char c : text) {
    if (!IsDigit(c)) return std::nullopt;
    v = v * 10 + (c - '0');
  }
  return v;
}

Dims ReadDims(std::string_view text, bool may_be_cut) {
  Dims out;
  while (true) {
    const size_t x = text.find('x');
    const bool last = x == std::string_view::npos;
    const std::string_view digits = text.substr(0, x);
    if (last && may_be_cut) {
      // "128", "12" or "" of a longer number: not reported, but the numbers before it are.
      out.valid = digits.empty() || WholeNumber(digits).has_value();
      return out;
    }
    const auto number = WholeNumber(digits);
    if (!number || *number == 0 || out.count == kMaxDims) return {};
    out.value[out.count++] = *number;
    if (last) break;
    text.remove_prefix(x + 1);
  }
  out.valid = true;
  return out;
}

std::string_view Tokens::Peek() const {
  return done_ ? std::string_view() : rest_.substr(0, rest_.find('_'));
}

void SetTile(const Dims& dims, KernelInfo* info, size_t count) {
  if (!dims.valid) return;
  std::optional<int32_t>* const tile[] = {&info->tile_m, &info->tile_n, &info->tile_k};
  for (size_t i = 0; i < std::min({count, dims.count, std::size(tile)}); ++i)
    *tile[i] = dims.value[i];
}

std::string_view Tokens::Next() {
  if (done_) return {};
  const size_t end = rest_.find('_');
  const std::string_view token = rest_.substr(0, end);
  if (end == std::string_view::npos) {
    done_ = true;
    touches_cut_ = cut_;
    rest_ = {};
  } else {
    rest_.remove_prefix(end + 1);
  }
  return token;
}

void Arguments::Blanks() {
  while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
}

bool Arguments::Literal(std::string_view literal) {
  Blanks();
  return TakePrefix(&rest_, literal);
}

std::optional<int32_t> Arguments::Number() {
  Blanks();
  std::string_view at = rest_;
  if (at.starts_with('(')) {  // a cast
    const size_t close = at.find(')');
    if (close == std::string_view::npos || close > 24) return std::nullopt;
    at.remove_prefix(close + 1);
  }
  size_t digits = 0;
  while (digits < at.size() && IsDigit(at[digits])) ++digits;
  const auto number = WholeNumber(at.substr(0, digits));
  size_t end = digits;
  while (end < at.size() && (at[end] == 'u' || at[end] == 'l' || at[end] == 'U' || at[end] == 'L'))
    ++end;
  if (!number || end == at.size()) return std::nullopt;  // what ends the text may go on
  if (at[end] != ',' && at[end] != '>' && at[end] != ' ') return std::nullopt;
  at.remove_prefix(end);
  rest_ = at;
  return number;
}

std::optional<std::array<int32_t, 3>> Arguments::Tuple3() {
  const std::string_view before = rest_;
  std::array<int32_t, 3> out{};
  bool ok = Literal("cute::tuple<");
  for (size_t i = 0; ok && i < out.size(); ++i) {
    if (i > 0) ok = Comma();
    ok = ok && Literal("cute::C<");
    const auto number = ok ? Number() : std::nullopt;
    ok = number.has_value() && Literal(">");
    if (ok) out[i] = *number;
  }
  ok = ok && Literal(">");
  if (!ok) {
    rest_ = before;
    return std::nullopt;
  }
  return out;
}

bool Arguments::Comma() { return Literal(","); }

bool Arguments::SkipArgument() {
  int depth = 0;
  for (size_t i = 0; i < rest_.size(); ++i) {
    const char c = rest_[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') {
      if (depth == 0) {
        rest_.remove_prefix(i);
        return true;
      }
      --depth;
    }
    if (c == ',' && depth == 0) {
      rest_.remove_prefix(i);
      return true;
    }
  }
  return false;
}

NumberType TypeOfLetter(char c) {
  static constexpr std::pair<char, NumberType> kLetters[] = {
      {'h', NumberType::kFp16},  {'t', NumberType::kBf16}, {'s', NumberType::kFp32},
      {'q', NumberType::kE4m3},  {'r', NumberType::kE5m2}, {'o', NumberType::kFp4},
      {'i', NumberType::kInt32}, {'d', NumberType::kFp64}};
  for (const auto& [letter, type] : kLetters) {
    if (letter == c) return type;
  }
  return NumberType::kUnknown;
}

NumberType TakeType(std::string_view* text) {
  for (const Word& w : kWords) {
    if (TakePrefix(text, w.word)) return w.type;
  }
  return NumberType::kUnknown;
}

NumberType TypeOfWord(std::string_view w) {
  const NumberType type = TakeType(&w);
  return w.empty() ? type : NumberType::kUnknown;
}

NumberType FindElementType(std::string_view text) {
  size_t best = std::string_view::npos;
  NumberType type = NumberType::kUnknown;
  for (const ElementName& e : kElements) {
    const size_t at = text.substr(0, std::min(best, text.size())).find(e.name);
    if (at < best) {
      best = at;
      type = e.type;
    }
  }
  return type;
}

bool IsLayout(std::string_view token, std::string_view letters, size_t min, size_t max) {
  if (token.size() < min || token.size() > max) return false;
  return std::all_of(token.begin(), token.end(),
                     [&](char c) { return letters.find(c) != std::string_view::npos; });
}

}  // namespace flopwatch::efficiency::gemm
