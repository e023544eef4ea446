// Columns of a table as a list of their names, the way every table of this room is declared.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/table.h"

namespace flopwatch::trace {

// Before a name "#" says that the column holds counts, "%" shares, 0 to 1, "@" bytes.
inline std::vector<Column> ColumnsOf(std::initializer_list<std::string_view> names) {
  std::vector<Column> out;
  for (const std::string_view name : names) {
    const ColumnFormat format = name.starts_with('#')   ? ColumnFormat::kCount
                                : name.starts_with('%') ? ColumnFormat::kPercent
                                : name.starts_with('@') ? ColumnFormat::kBytes
                                                        : ColumnFormat::kPlain;
    out.push_back({std::string(name.substr(format == ColumnFormat::kPlain ? 0 : 1)), "", format});
  }
  return out;
}
inline Table TableWith(std::initializer_list<std::string_view> names) {
  Table out;
  out.columns = ColumnsOf(names);
  return out;
}

}  // namespace flopwatch::trace
