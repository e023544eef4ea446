#include "trace/ops/op_inputs.h"

#include <charconv>

namespace flopwatch::trace {
namespace {

constexpr size_t kMaxValueBytes = 4096;

Status Unreadable(std::string_view what) {
  return InvalidArgument("the recorded {} cannot be read", what);
}

// One pass, no recursion: at most three levels of brackets.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  char Peek() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  bool Number(int64_t* value) {
    Peek();
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), *value);
    if (error != std::errc()) return false;
    at_ = static_cast<size_t>(end - text_.data());
    return true;
  }
  // A text in double quotes (escapes are left as they are, quotes aside), or a bare word up to , or
  // ].
  bool Word(std::string* out) {
    out->clear();
    if (Take('"')) {
      for (; at_ < text_.size(); ++at_) {
        if (text_[at_] == '"') {
          ++at_;
          return true;
        }
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        if (out->size() < kMaxValueBytes) *out += text_[at_];
      }
      return false;
    }
    Peek();
    for (; at_ < text_.size() && text_[at_] != ',' && text_[at_] != ']' && text_[at_] != '[';
         ++at_) {
      if (out->size() < kMaxValueBytes) *out += text_[at_];
    }
    return true;
  }
  bool AtEnd() { return Peek() == '\0'; }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

// "3, 4]" after its opening bracket.
bool ReadShape(Scanner* s, Shape* shape) {
  while (!s->Take(']')) {
    int64_t size = 0;
    if (!shape->empty() && !s->Take(',')) return false;
    if (!s->Number(&size) || size < 0 || size > kMaxSize || shape->size() >= kMaxDimensions)
      return false;
    shape->push_back(size);
  }
  return true;
}

bool ReadDims(Scanner* s, std::vector<OpArgument>* out) {
  if (!s->Take('[')) return false;
  bool first = true;
  while (!s->Take(']')) {
    if (!first && !s->Take(',')) return false;
    first = false;
    if (out->size() >= kMaxArguments) return false;
    OpArgument& argument = out->emplace_back();
    if (!s->Take('[')) {  // a scalar that is written as one
      std::string word;
      if (!s->Word(&word)) return false;
      continue;
    }
    if (s->Peek() != '[') {
      if (!ReadShape(s, &argument.shape)) return false;
      continue;
    }
    while (!s->Take(']')) {
      if (!argument.list.empty() && !s->Take(',')) return false;
      if (!s->Take('[') || argument.list.size() >= kMaxListedTensors ||
          !ReadShape(s, &argument.list.emplace_back()))
        return false;
    }
  }
  return s->AtEnd();
}

// Words of a list, one an argument; of a list within the list the first word counts (types), or all
// of it (values).
bool ReadWords(Scanner* s, std::string OpArgument::*member, std::vector<OpArgument>* out) {
  if (!s->Take('[')) return false;
  std::string word;
  for (size_t i = 0; !s->Take(']'); ++i) {
    if ((i > 0 && !s->Take(',')) || i >= kMaxArguments) return false;
    if (i >= out->size()) out->emplace_back();
    std::string& value = (*out)[i].*member;
    if (!s->Take('[')) {
      if (!s->Word(&value)) return false;
      continue;
    }
    value = "[";
    while (!s->Take(']')) {
      if (value.size() > 1) {
        if (!s->Take(',')) return false;
        value += ", ";
      }
      if (s->Peek() == '[' || !s->Word(&word)) return false;
      if (value.size() < kMaxValueBytes) value += word;
    }
    value += "]";
  }
  return s->AtEnd();
}

std::optional<int64_t> ToInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> ToBoolean(std::string_view text) {
  if (text == "True" || text == "true" || text == "1") return true;
  if (text == "False" || text == "false" || text == "0") return false;
  return std::nullopt;
}

// "[a, b]" -> its parts; nullopt for anything else.
std::optional<std::vector<std::string_view>> Parts(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    out.push_back(part);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return out;
}

}  // namespace

const Shape* OpInputs::tensor(size_t argument, size_t rank) const {
  if (argument >= arguments.size()) return nullptr;
  const Shape& shape = arguments[argument].shape;
  return shape.empty() || (rank != 0 && shape.size() != rank) ? nullptr : &shape;
}

std::string_view OpInputs::type(size_t argument) const {
  return argument < arguments.size() ? std::string_view(arguments[argument].type)
                                     : std::string_view();
}

std::string_view OpInputs::text(size_t argument) const {
  return argument < arguments.size() ? std::string_view(arguments[argument].value)
                                     : std::string_view();
}

std::optional<bool> OpInputs::boolean(size_t argument) const { return ToBoolean(text(argument)); }
std::optional<int64_t> OpInputs::integer(size_t argument) const {
  return ToInteger(text(argument));
}

std::optional<Shape> OpInputs::integers(size_t argument) const {
  const auto parts = Parts(text(argument));
  if (!parts) return std::nullopt;
  Shape out;
  for (const std::string_view part : *parts) {
    const auto value = ToInteger(part);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

std::optional<std::vector<bool>> OpInputs::booleans(size_t argument) const {
  const auto parts = Parts(text(argument));
  if (!parts) return std::nullopt;
  std::vector<bool> out;
  for (const std::string_view part : *parts) {
    const auto value = ToBoolean(part);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

StatusOr<OpInputs> ParseOpInputs(std::string_view dims, std::string_view types,
                                 std::string_view values) {
  OpInputs out;
  if (!dims.empty()) {
    Scanner scanner(dims);
    if (!ReadDims(&scanner, &out.arguments)) return Unreadable("sizes");
  }
  if (!types.empty()) {
    Scanner scanner(types);
    if (!ReadWords(&scanner, &OpArgument::type, &out.arguments)) return Unreadable("types");
  }
  if (!values.empty()) {
    Scanner scanner(values);
    if (!ReadWords(&scanner, &OpArgument::value, &out.arguments)) return Unreadable("values");
  }
  return out;
}

}  // namespace flopwatch::trace
