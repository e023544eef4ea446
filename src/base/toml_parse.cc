#include <algorithm>
#include <memory>
#include <string>

#include "base/text.h"
#include "base/toml.h"

namespace flopwatch {
namespace {

// Walks over a document as far as it takes to know which brackets begin a table's header and not a
// value: those at the start of a line outside of strings, arrays and inline tables. Where a text is
// no TOML any more the library stops, so that what is found behind does no harm.
class HeaderScan {
 public:
  explicit HeaderScan(std::string_view text) : text_(WithoutByteOrderMark(text)) {}

  int Run() {
    while (at_ < text_.size()) {
      Blanks();
      if (Peek() == '[') {
        if (!HasName()) return line_;
        Header();
      } else {
        Expression();
      }
    }
    return 0;
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n';
  }
  void Blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  void Step() {
    if (at_ < text_.size() && text_[at_] == '\n') ++line_;
    ++at_;
  }

  bool HasName() const {
    size_t at = at_ + (Peek(1) == '[' ? 2 : 1);
    at = std::min(text_.find_first_not_of(" \t", at), text_.size());
    const char c = at < text_.size() ? text_[at] : '\n';
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '"' || c == '\'';
  }
  void Header() {  // names in it may be quoted, and none has a line feed
    at_ = std::min(text_.find('\n', at_), text_.size());
    Step();
  }

  // A key with its value, a comment or nothing, to the end of its last line.
  void Expression() {
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        String(c);
      } else if (c == '\n' && depth <= 0) {
        Step();
        return;
      } else {
        depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
        Step();
      }
    }
  }

  void String(char quote) {
    const bool lines = Peek(1) == quote && Peek(2) == quote;
    at_ += lines ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && quote == '"') {
        Step();
        Step();
      } else if (c == quote && !lines) {
        ++at_;
        return;
      } else if (c == quote && Peek(1) == quote && Peek(2) == quote) {
        at_ += 3;
        // One or two more may stand before the end: """a"""" is a".
        for (int more = 0; more < 2 && Peek() == quote; ++more) ++at_;
        return;
      } else if (c == '\n' && !lines) {
        return;  // no TOML: a string of one line ends on it
      } else {
        Step();
      }
    }
  }

  const std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

int LineOfNamelessHeader(std::string_view text) { return HeaderScan(text).Run(); }

toml::parse_result ParseToml(std::string_view text, std::string_view file_name) {
  if (const int line = LineOfNamelessHeader(text); line > 0) {
    toml::source_region where;
    where.begin = where.end = {static_cast<toml::source_index>(line), 1};
    if (!file_name.empty()) where.path = std::make_shared<const std::string>(file_name);
    return toml::parse_result(toml::parse_error(
        std::string("a table needs its name on the line of its bracket: [name]"), where));
  }
  return toml::parse(text, file_name);
}

}  // namespace flopwatch
