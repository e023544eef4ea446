#include "net/message_parser.h"

#include <algorithm>

namespace flopwatch::net {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

std::string_view Strip(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

}  // namespace

std::string LowerCase(std::string_view s) {
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(), Lower);
  return out;
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return Lower(x) == Lower(y); });
}

bool HasToken(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    const std::string_view name = item.substr(0, item.find(';'));
    if (!EqualsIgnoreCase(Strip(name), token)) continue;
    const std::string_view weight = Strip(item.substr(std::min(name.size() + 1, item.size())));
    const bool zero = EqualsIgnoreCase(weight.substr(0, 3), "q=0") &&
                      weight.find_first_of("123456789") == std::string_view::npos;
    return !zero;
  }
  return false;
}

}  // namespace flopwatch::net
