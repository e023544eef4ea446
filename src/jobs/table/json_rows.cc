#include <algorithm>
#include <cmath>
#include <set>

#include "base/json_read.h"
#include "base/text.h"
#include "fmt/format.h"
#include "jobs/table/rows.h"

namespace flopwatch::table {
namespace {

constexpr int kMaxRowDepth = 8;
constexpr size_t kMaxMemberNames = 10'000;

// The member "a.b", or else member "b" of "a".
const Json& MemberOf(const Json& object, std::string_view path) {
  const Json& whole = object[path];
  if (!whole.is_null()) return whole;
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return whole;
  const Json& outer = object[path.substr(0, dot)];
  return outer.is_object() ? MemberOf(outer, path.substr(dot + 1)) : whole;
}

// What a CSV cell would have held; false for what has no such form.
bool CellText(const Json& value, std::string* out) {
  if (const auto* text = std::get_if<std::string>(&value.value_)) {
    *out = *text;
  } else if (const auto* flag = std::get_if<bool>(&value.value_)) {
    *out = *flag ? "true" : "false";
  } else if (const auto whole = value.integer()) {
    *out = fmt::format("{}", *whole);
  } else if (const auto number = value.number()) {
    *out = fmt::format("{}", *number);
  } else if (value.is_array()) {
    out->clear();
    std::string element;
    for (const Json& v : value.array()) {
      if (v.is_array() || !CellText(v, &element)) return false;
      *out += (out->empty() ? "" : ",") + element;
    }
  } else {
    return false;
  }
  return true;
}

void AddNames(const Json& object, const std::string& prefix, std::set<std::string>* names) {
  for (const auto& [name, value] : object.object()) {
    if (names->size() >= kMaxMemberNames) return;
    names->insert(prefix + name);
    if (value.is_object()) AddNames(value, prefix + name + ".", names);
  }
}

class JsonLines {
 public:
  JsonLines(std::string_view text, const RowForm& form) : text_(text), form_(form) {
    limits_.max_bytes = form.limits.max_row_bytes;
    limits_.max_depth = kMaxRowDepth;
    limits_.python_constants = true;
    limits_.what = "the row";
  }
  int64_t line() const { return line_; }

  // The next line that is not blank; false at the end. `fault` as of CSV.
  bool Next(Json* row, RowFault* fault) {
    while (at_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      const std::string_view line = text_.substr(at_, end - at_);
      at_ = end + 1;
      ++line_;
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      *fault = {};
      fault->line = line_;
      if (line.size() > form_.limits.max_row_bytes) {
        fault->reason = "row_too_long";
        fault->why = fmt::format("a row of more than {} bytes", form_.limits.max_row_bytes);
        return true;
      }
      auto parsed = Json::Parse(line, limits_);
      if (parsed.ok() && parsed->is_object()) {
        *row = *std::move(parsed);
        return true;
      }
      fault->reason = "not_json";
      fault->why = parsed.ok() ? "no object" : std::string(MessageOf(parsed.status()));
      return true;
    }
    return false;
  }

 private:
  const std::string_view text_;
  const RowForm& form_;
  JsonLimits limits_;
  size_t at_ = 0;
  int64_t line_ = 0;
};

// Every column is a member of one of the first rows.
Status CheckMembers(std::string_view text, const RowForm& form,
                    absl::Span<const std::string> columns) {
  std::set<std::string> names;
  JsonLines lines(text, form);
  Json row;
  RowFault fault;
  size_t rows = 0;
  for (; rows < form.limits.max_json_header_rows && lines.Next(&row, &fault); ++rows)
    if (fault.reason.empty()) AddNames(row, "", &names);
  if (rows == 0) return InvalidArgument("the table is empty");
  if (names.empty())
    return InvalidArgument("no row is an object of JSON; is format = \"csv\" meant? ({})",
                           Printable(fault.why));
  const std::vector<std::string_view> there(names.begin(), names.end());
  for (const std::string& column : columns)
    if (!names.contains(column)) return NoSuchColumn(column, there);
  return absl::OkStatus();
}

}  // namespace

Status ReadJsonRows(std::string_view text, const RowForm& form,
                    absl::Span<const std::string> columns, OnRow on_row, OnFault on_fault) {
  FW_RETURN_IF_ERROR(CheckMembers(text, form, columns));
  JsonLines lines(text, form);
  Json object;
  RowFault fault;
  Row row;
  row.cells.resize(columns.size());
  std::vector<std::string> texts(columns.size());
  while (lines.Next(&object, &fault)) {
    ++row.number;
    row.line = lines.line();
    for (size_t k = 0; k < columns.size() && fault.reason.empty(); ++k) {
      const Json& value = MemberOf(object, columns[k]);
      row.cells[k].reset();
      if (value.is_null()) continue;
      if (CellText(value, &texts[k])) {
        row.cells[k] = texts[k];
      } else {
        fault.reason = "no_text";
        fault.why = fmt::format("{} is no text, number or list", Printable(columns[k], 60));
      }
    }
    if (fault.reason.empty()) {
      on_row(row);
    } else {
      on_fault(fault);
    }
  }
  return absl::OkStatus();
}

Status ReadRows(std::string_view text, const RowForm& form, absl::Span<const std::string> columns,
                OnRow row, OnFault fault) {
  if (text.size() > form.limits.max_bytes)
    return OutOfRange("the table has more than {} bytes; give it in parts", form.limits.max_bytes);
  text = WithoutByteOrderMark(text);
  return form.json_lines ? ReadJsonRows(text, form, columns, row, fault)
                         : ReadCsvRows(text, form, columns, row, fault);
}

Status NoSuchColumn(std::string_view wanted, const std::vector<std::string_view>& there) {
  constexpr size_t kListed = 40;
  const std::string_view near = Nearest(wanted, there);
  std::string hint = near.empty() ? "" : fmt::format("did you mean '{}'?", Printable(near, 60));
  if (near.empty()) {
    for (size_t k = 0; k < std::min(kListed, there.size()); ++k)
      hint += fmt::format("{}{}", k == 0 ? "it has " : ", ", Printable(there[k], 60));
    if (there.size() > kListed) hint += ", …";
  }
  return Advise(InvalidArgument("the table has no column '{}'", Printable(wanted, 60)), hint);
}

}  // namespace flopwatch::table
