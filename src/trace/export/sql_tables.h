// The tables that `flopwatch trace sql` shows: their names, columns and meaning, and how a value of
// a column follows from the event table. A declaration without an engine: whoever has one asks for
// the columns that a query needs, row by row, and nothing is copied before.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/table.h"
#include "trace/analysis/analysis.h"
#include "trace/findings/finding.h"

namespace flopwatch::trace {

// One row of a table: an event of a rank, an entry of one of its lists, or a finding.
struct SqlRow {
  const StringPool* names = nullptr;
  Nanos origin = 0;
  const RankView* view = nullptr;
  uint32_t at = 0;  // the event's row, or the index into the list
  const Finding* finding = nullptr;

  const RankTrace& rank() const { return view->rank(); }
  const EventTable& events() const { return view->events(); }
};

// A column's type is that of its values; nothing, and a double that is not finite, is NULL. Texts
// live as long as the trace.
struct SqlColumn {
  using Integer = std::optional<int64_t> (*)(const SqlRow&);
  using Double = double (*)(const SqlRow&);
  using Boolean = std::optional<bool> (*)(const SqlRow&);
  using Text = std::optional<std::string_view> (*)(const SqlRow&);

  std::string_view name, help;  // help: one line, with the unit
  std::variant<Integer, Double, Boolean, Text> value;
};

// What a table is made of. A row is named by rank and row in every table, so tables join on them.
struct SqlSource {
  std::string_view name, help;
  std::vector<SqlColumn> columns;
  bool (*keep)(const RankTrace&, Row) = nullptr;  // a table of events: which of them
  size_t (*size)(const RankTrace&) = nullptr;     // a table of a list: its length in a rank
};                                                // neither: the findings
const std::vector<SqlSource>& SqlSources();

// One row a column of every table: for --schema. The same whatever the trace.
Table SqlSchema();

// One table of one trace. Safe from several threads.
class SqlTable {
 public:
  // `input` and `source` outlive the table.
  SqlTable(const AnalysisInput& input, const SqlSource& source) : input_(input), source_(source) {}
  const SqlSource& source() const { return source_; }

  // The first call finds the rows of the table, which walks the trace, or runs the rules.
  uint64_t rows() const;

  // Calls use(i, row) for each of the rows [first, first + count), i from 0. rows() comes before
  // it.
  template <typename Use>
  void ForEach(uint64_t first, size_t count, const Use& use) const {
    SqlRow row{.names = &input_.set().names, .origin = origin_};
    size_t rank = count > 0 && findings_.findings.empty() ? RankOf(first) : 0;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t at = first + i;
      if (!findings_.findings.empty()) {
        row.finding = &findings_.findings[at];
      } else {
        while (rank + 1 < first_of_.size() && first_of_[rank + 1] <= at) ++rank;
        row.view = input_.ranks()[rank].get();
        row.at = source_.size == nullptr ? kept_[at] : static_cast<uint32_t>(at - first_of_[rank]);
      }
      use(i, row);
    }
  }

 private:
  void FindRows() const;
  size_t RankOf(uint64_t at) const;

  const AnalysisInput& input_;
  const SqlSource& source_;
  mutable std::once_flag found_;  // what follows is written once, under it
  mutable Nanos origin_ = 0;
  mutable std::vector<uint64_t> first_of_;  // of each rank, its first row in the table
  mutable std::vector<Row> kept_;           // of a table of events
  mutable uint64_t count_ = 0;
  mutable Findings findings_;
};

}  // namespace flopwatch::trace
