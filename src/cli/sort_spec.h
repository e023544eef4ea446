// How --sort is written everywhere: NAME, NAME:asc, NAME:desc, or -NAME for the largest first.
#pragma once

#include <optional>
#include <string_view>

namespace flopwatch::cli {

struct SortSpec {
  std::string_view name;           // into the text it was parsed from
  std::optional<bool> descending;  // not said: the list's own way

  static SortSpec Parse(std::string_view text) {
    SortSpec s{text, std::nullopt};
    if (s.name.starts_with('-')) s.name.remove_prefix(1), s.descending = true;
    if (s.name.ends_with(":desc")) s.name.remove_suffix(5), s.descending = true;
    if (s.name.ends_with(":asc")) s.name.remove_suffix(4), s.descending = false;
    return s;
  }
};

}  // namespace flopwatch::cli
