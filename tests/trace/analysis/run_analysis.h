// Running one analysis in a test and reading cells of its tables.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/analysis/analysis.h"
#include "trace/analysis/statistics.h"

namespace flopwatch::trace {

constexpr Nanos kUs = 1000;

inline StatusOr<AnalysisTables> RunNamed(const TraceSet& set, std::string_view name,
                                         AnalysisOptions options = {}) {
  const AnalysisInput input(set, std::move(options));
  const StatusOr<const Analysis*> analysis = FindAnalysis(name);
  if (!analysis.ok()) return analysis.status();
  return (*analysis)->run(input);
}

inline const Table& PartOf(const AnalysisTables& tables, std::string_view part) {
  for (const AnalysisTables::Part& p : tables.parts) {
    if (p.name == part) return p.table;
  }
  ADD_FAILURE() << "no part " << part;
  return tables.parts.front().table;
}

// The cell of the first row whose columns `where` have the given values.
using Where = std::vector<std::pair<std::string_view, Cell>>;
inline Cell CellAt(const Table& table, std::string_view column, const Where& where = {}) {
  const auto index = [&](std::string_view name) {
    for (size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].name == name) return i;
    }
    ADD_FAILURE() << "no column " << name;
    return size_t{0};
  };
  for (const std::vector<Cell>& row : table.rows) {
    bool matches = true;
    for (const auto& [name, value] : where) matches = matches && row[index(name)] == value;
    if (matches) return row[index(column)];
  }
  ADD_FAILURE() << "no such row (" << column << ")";
  return {};
}
inline double NumberAt(const Table& table, std::string_view column, const Where& where = {}) {
  const Cell cell = CellAt(table, column, where);
  if (const auto* number = std::get_if<double>(&cell)) return *number;
  if (const auto* whole = std::get_if<int64_t>(&cell)) return static_cast<double>(*whole);
  return kNaN;
}
inline Cell Text(std::string_view text) { return std::string(text); }

inline AnalysisOptions Hta() { return {.hta = true}; }

}  // namespace flopwatch::trace
