// Putting text together: absl::StrCat takes absl::string_view, which in Debian's build is not
// std::string_view.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace flopwatch::store::duck {

template <typename Part>
void CatOne(std::string* out, const Part& part) {
  if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    out->append(std::string_view(part));
  } else {
    *out += fmt::format(
        "{}", part);  // not format_to, which compiles all of the library's formatting anew
  }
}
template <typename... Parts>
void CatTo(std::string* out, const Parts&... parts) {
  (CatOne(out, parts), ...);
}
template <typename... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  CatTo(&out, parts...);
  return out;
}
// A balanced tree, because the parser bounds the depth of a chain.
inline std::string UnionAll(const std::string* selects, size_t count) {
  if (count == 1) return *selects;
  const size_t half = count / 2;
  return Cat("(", UnionAll(selects, half), ") UNION ALL BY NAME (",
             UnionAll(selects + half, count - half), ")");
}
inline std::string UnionAll(const std::vector<std::string>& selects) {
  return selects.empty() ? std::string() : UnionAll(selects.data(), selects.size());
}
inline bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace flopwatch::store::duck
