#include "trace/name_test.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"

namespace flopwatch::trace {

bool HasAny(std::string_view text, std::initializer_list<std::string_view> parts) {
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view p) { return lower.find(p) != std::string::npos; });
}

}  // namespace flopwatch::trace
