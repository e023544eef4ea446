// Tables that sacct -P, sacctmgr -P and their likes write: a header, then one record a line, no
// quoting. Values may hold what they like: a job's name may have the delimiter and newlines in it.
// The number of fields a record must have, and which columns are free text, say where such a value
// ends; where they do not, the record is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"

namespace flopwatch::slurm {

struct TableForm {
  std::string delimiter;
  std::vector<std::string> columns;  // lower case
  bool trailing = false;             // --parsable: lines end with a delimiter, --parsable2 not
  size_t body = 0;                   // where in the text the records begin
  int first_line = 1;                // its number

  // -1 where there is no such column. `name` in lower case.
  int Find(std::string_view name) const;
};

// The form of a table whose first line that is not blank is a header: names of letters, digits and
// blanks between equal delimiters, at least two of them. An empty `delimiter` is recognised:
// whatever stands after the first name.
StatusOr<TableForm> FormOfHeader(std::string_view text, std::string_view delimiter);
// The form of a table without header, whose columns are given. An empty `delimiter` is recognised
// among those in use: | U+2603 tab ; , : the one that gives the first line so many fields.
StatusOr<TableForm> FormOfFields(std::string_view text, const std::vector<std::string>& fields,
                                 std::string_view delimiter);

struct TableRecord {
  int line = 0;
  std::vector<std::string_view> cells;  // as many as columns; valid during the callback
};
struct TableFault {
  int line = 0;
  std::string_view reason;  // "short_record", "delimiter_in_value", "record_too_long"
  std::string why;
};

struct TableRules {
  // Columns whose values may hold anything.
  absl::FunctionRef<bool(std::string_view column)> free_text;
  // Whether a cell can be that of the first column in a record: tells a new record from the second
  // line of a name.
  absl::FunctionRef<bool(std::string_view cell)> begins_record;
  size_t max_record_bytes;
};

void ReadTable(std::string_view text, const TableForm& form, const TableRules& rules,
               absl::FunctionRef<void(const TableRecord&)> record,
               absl::FunctionRef<void(const TableFault&)> fault);

}  // namespace flopwatch::slurm
