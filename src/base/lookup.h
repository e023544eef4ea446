// Tables of pairs in place of a switch whose cases only name a constant.
#pragma once

namespace flopwatch {

// What `table` has for `key`; `otherwise` where it has nothing.
template <typename Table, typename Key, typename Value>
constexpr Value ValueOf(const Table& table, Key key, Value otherwise) {
  for (const auto& [known, value] : table)
    if (known == key) return value;
  return otherwise;
}

}  // namespace flopwatch
