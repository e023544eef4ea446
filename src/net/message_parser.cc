#include "net/message_parser.h"

namespace flopwatch::net {
namespace {

std::string_view Strip(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

}  // namespace

bool HasToken(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    const std::string_view name = item.substr(0, item.find(';'));
    if (!EqualsIgnoringCase(Strip(name), token)) continue;
    const std::string_view weight = Strip(item.substr(std::min(name.size() + 1, item.size())));
    const bool zero = EqualsIgnoringCase(weight.substr(0, 3), "q=0") &&
                      weight.find_first_of("123456789") == std::string_view::npos;
    return !zero;
  }
  return false;
}

}  // namespace flopwatch::net
