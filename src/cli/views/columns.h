// Columns and rows of a table as calls, so that several stand on a line.
#pragma once

#include <utility>
#include <vector>

#include "base/table.h"

namespace flopwatch::cli {

template <typename... Columns>
std::vector<Column> ColumnsOf(Columns... columns) {
  return {std::move(columns)...};
}

template <typename... Cells>
void AddRow(Table* table, Cells&&... cells) {
  table->rows.push_back({Cell(std::forward<Cells>(cells))...});
}

}  // namespace flopwatch::cli
