// Neighbours that are alike, taken together.
#pragma once

#include <cstddef>

#include "absl/types/span.h"

namespace flopwatch {

// Calls f(run, key) for each longest run of `all` with the same key(item).
template <typename T, typename KeyOf, typename F>
void ForEachRun(absl::Span<const T> all, KeyOf&& key_of, F&& f) {
  for (size_t begin = 0; begin < all.size();) {
    const auto& key = key_of(all[begin]);
    size_t end = begin + 1;
    while (end < all.size() && key_of(all[end]) == key) ++end;
    f(all.subspan(begin, end - begin), key);
    begin = end;
  }
}

}  // namespace flopwatch
