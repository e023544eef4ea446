#include "models/readers/argument_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "models/model.h"

namespace flopwatch::models {
namespace {

constexpr size_t kMaxArguments = 8192;
constexpr int kMaxExpressionDepth = 8;

// ---- a list written as Python writes it: [0]*3+[1]*58, ([0,1])*2. Only 0 and 1, at most
// kMaxLayers of them.

class ListExpression {
 public:
  explicit ListExpression(std::string_view text) : text_(text) {}
  std::optional<std::vector<int64_t>> Parse() {
    auto out = Sum(0);
    if (!out || !Rest().empty()) return std::nullopt;
    return out;
  }

 private:
  using List = std::vector<int64_t>;
  std::string_view Rest() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return text_.substr(at_);
  }
  bool Take(char c) {
    if (Rest().empty() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<int64_t> Number() {
    const std::string_view rest = Rest();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc() || value < 0 || value > kMaxLayers) return std::nullopt;
    at_ += static_cast<size_t>(end - rest.data());
    return value;
  }
  std::optional<List> Atom(int depth) {
    if (depth > kMaxExpressionDepth) return std::nullopt;
    if (Take('(')) {
      auto inner = Sum(depth + 1);
      if (!inner || !Take(')')) return std::nullopt;
      return inner;
    }
    if (!Take('[')) return std::nullopt;
    List out;
    while (!Take(']')) {
      if (!out.empty() && !Take(',')) return std::nullopt;
      if (Take(']')) break;
      const auto value = Number();
      if (!value || *value > 1 || out.size() >= kMaxLayers) return std::nullopt;
      out.push_back(*value);
    }
    return out;
  }
  std::optional<List> Product(int depth) {
    auto list = Atom(depth);
    while (list && Take('*')) {
      const auto times = Number();
      if (!times || list->size() * static_cast<size_t>(*times) > kMaxLayers) return std::nullopt;
      List repeated;
      for (int64_t i = 0; i < *times; ++i)
        repeated.insert(repeated.end(), list->begin(), list->end());
      list = std::move(repeated);
    }
    return list;
  }
  std::optional<List> Sum(int depth) {
    auto list = Product(depth);
    while (list && Take('+')) {
      const auto more = Product(depth);
      if (!more || list->size() + more->size() > kMaxLayers) return std::nullopt;
      list->insert(list->end(), more->begin(), more->end());
    }
    return list;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// ---- text -> values

Json ValueOf(std::string_view text) {
  Json out;
  if (text == "True" || text == "true") {
    out.value_ = true;
  } else if (text == "False" || text == "false") {
    out.value_ = false;
  } else if (text == "None" || text == "null" || text.empty()) {
    return out;
  } else {
    int64_t integer = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), integer);
    if (error == std::errc() && end == text.data() + text.size()) {
      out.value_ = integer;
    } else {
      out.value_ = std::string(text);
    }
  }
  return out;
}

std::string WithUnderscores(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

// "  num_layers ........... 32" anywhere in a line; launchers put ranks and times before it.
bool DumpLine(std::string_view line, std::string* name, std::string* value) {
  const size_t dots = line.find(" ...");
  if (dots == std::string_view::npos) return false;
  size_t after = line.find_first_not_of('.', dots + 1);
  if (after == std::string_view::npos || line[after] != ' ') return false;
  const std::string_view before = line.substr(0, dots);
  const size_t start = before.find_last_of(" \t:]");
  *name = std::string(before.substr(start == std::string_view::npos ? 0 : start + 1));
  std::string_view rest = line.substr(after);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  while (!rest.empty() && (rest.back() == ' ' || rest.back() == '\r')) rest.remove_suffix(1);
  *value = std::string(rest);
  return !name->empty() && name->find_first_not_of(
                               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
                               std::string::npos;
}

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> out;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (c == '#' && !in_word) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;  // a comment of the shell
    } else if (c == '\\' && i + 1 < text.size() && (text[i + 1] == '\n' || text[i + 1] == '\r')) {
      continue;  // a shell line goes on
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (in_word) out.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (in_word) out.push_back(std::move(word));
  return out;
}

bool IsOption(std::string_view word) { return word.size() > 2 && word.starts_with("--"); }

}  // namespace

std::optional<std::vector<int64_t>> ParseListExpression(std::string_view text) {
  return ListExpression(text).Parse();
}

StatusOr<Json> ReadArguments(std::string_view text, std::string_view name) {
  Json::Object object;
  const auto set = [&](std::string key, Json value) {
    for (auto& [known, old] : object) {
      if (known == key) {
        old = std::move(value);  // the last one counts, as in argparse
        return;
      }
    }
    object.emplace_back(std::move(key), std::move(value));
  };
  const Status too_many = InvalidArgument("{}: more than {} arguments", name, kMaxArguments);
  bool dump = false;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string key, value;
    if (DumpLine(text.substr(start, end - start), &key, &value)) {
      dump = true;
      set(key, ValueOf(value));
      if (object.size() > kMaxArguments) return too_many;
    }
    start = end + 1;
  }
  if (!dump) {
    const std::vector<std::string> words = Words(text);
    for (size_t i = 0; i < words.size(); ++i) {
      if (!IsOption(words[i])) continue;
      std::string_view word = std::string_view(words[i]).substr(2);
      const size_t equals = word.find('=');
      if (equals != std::string_view::npos) {
        set(WithUnderscores(word.substr(0, equals)), ValueOf(word.substr(equals + 1)));
      } else if (i + 1 < words.size() && !IsOption(words[i + 1]) && words[i + 1] != ")") {
        set(WithUnderscores(word), ValueOf(words[i + 1]));
      } else {
        Json yes;
        yes.value_ = true;
        set(WithUnderscores(word), std::move(yes));
      }
      if (object.size() > kMaxArguments) return too_many;
    }
  }
  if (object.empty()) {
    return InvalidArgument(
        "{}: neither a config.json (an object) nor Megatron-LM arguments (--num-layers "
        "32 ..., or a log's \"num_layers ..... 32\")",
        name);
  }
  Json out;
  out.value_ = std::move(object);
  return out;
}

}  // namespace flopwatch::models
