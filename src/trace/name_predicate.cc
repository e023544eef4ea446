#include "trace/name_predicate.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"

namespace flopwatch::trace {

std::vector<bool> NamesWith(const StringPool& names, std::string_view part) {
  std::vector<bool> out(names.size());
  for (NameId id = 0; id < names.size(); ++id)
    out[id] = names.Text(id).find(part) != std::string_view::npos;
  return out;
}

bool HasAny(std::string_view text, std::initializer_list<std::string_view> parts) {
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view p) { return lower.find(p) != std::string::npos; });
}

}  // namespace flopwatch::trace
