// Tables as text: CSV with a header (RFC 4180 quoting, any delimiter) and JSON lines. Rows have the
// cells of the columns that are asked for. Pure; any thread.
//
// Everything is hostile: a row that cannot be read is told as a fault with its line, and the rest
// goes on; sizes are named limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/status.h"

namespace flopwatch::table {

struct RowLimits {
  size_t max_bytes = 1u << 30;         // of a file, unpacked
  size_t max_rows = 10'000'000;        // of all files
  size_t max_columns = 1024;           // of a file
  size_t max_row_bytes = 1u << 20;     // its line ends in quotes included
  size_t max_json_header_rows = 1000;  // columns of JSON lines are the members of these
};

struct RowForm {
  bool json_lines = false;
  std::string delimiter = ",";
  RowLimits limits;
};

struct Row {
  int64_t line = 0;    // of the file, from 1
  int64_t number = 0;  // of the row, from 1, those that are faults included
  // Of the columns asked for, in their order; absent: null, or no such member. Valid during the
  // callback.
  std::vector<std::optional<std::string_view>> cells;
};
struct RowFault {
  int64_t line = 0;
  std::string_view
      reason;  // "short_row", "long_row", "row_too_long", "open_quote", "not_json", ...
  std::string why;
};

using OnRow = absl::FunctionRef<void(const Row&)>;
using OnFault = absl::FunctionRef<void(const RowFault&)>;

// InvalidArgument where there is no header, or it has not one of `columns`, with names near it.
Status ReadRows(std::string_view text, const RowForm& form, absl::Span<const std::string> columns,
                OnRow row, OnFault fault);

// --- of its two files ---

Status ReadCsvRows(std::string_view text, const RowForm& form,
                   absl::Span<const std::string> columns, OnRow row, OnFault fault);
Status ReadJsonRows(std::string_view text, const RowForm& form,
                    absl::Span<const std::string> columns, OnRow row, OnFault fault);
// Why a table has no column `wanted`, with those near it or, of a small table, all there are.
Status NoSuchColumn(std::string_view wanted, const std::vector<std::string_view>& there);

}  // namespace flopwatch::table
