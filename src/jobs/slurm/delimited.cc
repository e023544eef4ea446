#include "jobs/slurm/delimited.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"

namespace flopwatch::slurm {
namespace {

constexpr size_t kMaxColumns = 512;
constexpr size_t kMaxHeaderBytes = 32u << 10;
constexpr size_t kMaxFirstLineBytes = 1u << 20;
constexpr size_t kMaxJoinedLines = 1000;  // of one record
constexpr std::string_view kDelimiters[] = {"|", "\u2603", "\t", ";", ","};

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == ' ' || c == '/';
}

void SplitBy(std::string_view line, std::string_view delimiter,
             std::vector<std::string_view>* cells) {
  cells->clear();
  for (size_t at = 0;;) {
    const size_t stop = line.find(delimiter, at);
    cells->push_back(line.substr(at, stop == std::string_view::npos ? stop : stop - at));
    if (stop == std::string_view::npos) return;
    at = stop + delimiter.size();
  }
}

// The line at `at`, without its end; `at` goes behind it.
std::string_view TakeTableLine(std::string_view text, size_t* at) {
  const size_t end = std::min(text.find('\n', *at), text.size());
  std::string_view line = text.substr(*at, end - *at);
  if (line.ends_with('\r')) line.remove_suffix(1);
  *at = end + 1;
  return line;
}

bool IsBlankLine(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

// One record in the making: a view of the text that grows by whole lines.
class TableAssembler {
 public:
  TableAssembler(std::string_view text, const TableForm& form, const TableRules& rules,
                 absl::FunctionRef<void(const TableRecord&)> record,
                 absl::FunctionRef<void(const TableFault&)> fault)
      : text_(text), form_(form), rules_(rules), record_(record), fault_(fault) {
    for (size_t k = 0; k < form.columns.size(); ++k)
      if (rules.free_text(form.columns[k])) free_.push_back(k);
  }

  void Run() {
    size_t at = std::min(form_.body, text_.size());
    for (int number = form_.first_line; at < text_.size(); ++number) {
      const size_t from = at;
      const std::string_view line = TakeTableLine(text_, &at);
      Take(line, from, number);
    }
    Flush();
  }

 private:
  size_t columns() const { return form_.columns.size(); }
  bool last_is_free() const { return !free_.empty() && free_.back() + 1 == columns(); }

  // The cells of a whole record: without the one behind the last delimiter of --parsable.
  void Split(std::string_view record) {
    SplitBy(record, form_.delimiter, &cells_);
    if (form_.trailing && cells_.size() > 1 && cells_.back().empty()) cells_.pop_back();
  }
  bool Complete(size_t fields) const { return fields >= columns() + (form_.trailing ? 1 : 0); }
  // Whether a line more can belong to a record that has all its fields.
  bool MayGoOn() const { return last_is_free() && !form_.trailing; }

  void Take(std::string_view line, size_t from, int number) {
    // Cells take sixteen times the bytes of a line of delimiters: not of one that is too long.
    SplitBy(line.substr(0, rules_.max_record_bytes), form_.delimiter, &cells_);
    if (open_) {
      // A line of one cell is a name's second line, whatever it looks like.
      const bool begins = cells_.size() > 1 && rules_.begins_record(cells_.front());
      const bool next = Complete(cells_.size()) || (begins && Complete(fields_));
      if (!next) {
        Extend(line, from);
        return;
      }
      Flush();
    } else if (IsBlankLine(line)) {
      return;
    }
    open_ = true;
    overlong_ = line.size() > rules_.max_record_bytes;
    from_ = from;
    end_ = from + line.size();
    line_ = number;
    lines_ = 1;
    fields_ = cells_.size();
    if (!MayGoOn() && Complete(fields_)) Flush();
  }

  void Extend(std::string_view line, size_t from) {
    const size_t end = from + line.size();
    if (end - from_ > rules_.max_record_bytes || ++lines_ > kMaxJoinedLines) {
      overlong_ = true;
      return;
    }
    // A blank line after a complete record is the end of the file's last name, or nothing.
    if (Complete(fields_) && IsBlankLine(line)) return;
    end_ = end;
    fields_ += cells_.size() - 1;
    if (!MayGoOn() && Complete(fields_)) Flush();
  }

  void Flush() {
    if (!std::exchange(open_, false)) return;
    if (overlong_) {
      fault_({line_, "record_too_long",
              fmt::format("a record of more than {} bytes or {} lines", rules_.max_record_bytes,
                          kMaxJoinedLines)});
      return;
    }
    Split(text_.substr(from_, end_ - from_));
    if (cells_.size() < columns()) {
      fault_({line_, "short_record",
              fmt::format("{} fields where the header has {}", cells_.size(), columns())});
      return;
    }
    const size_t surplus = cells_.size() - columns();
    if (surplus > 0 && !JoinSurplus(surplus)) {
      fault_({line_, "delimiter_in_value",
              fmt::format("{} fields where the header has {}: a value has the delimiter '{}' in "
                          "it; put JobName last, or export JSON",
                          cells_.size(), columns(), Printable(form_.delimiter))});
      return;
    }
    record_({line_, cells_});
  }

  // More fields than columns: they belong to the free text, if there is one such column.
  bool JoinSurplus(size_t surplus) {
    if (free_.size() != 1) return false;
    const size_t at = free_.front();
    const std::string_view first = cells_[at], last = cells_[at + surplus];
    cells_[at] = {first.data(), static_cast<size_t>(last.data() + last.size() - first.data())};
    cells_.erase(cells_.begin() + static_cast<ptrdiff_t>(at) + 1,
                 cells_.begin() + static_cast<ptrdiff_t>(at + surplus) + 1);
    return true;
  }

  const std::string_view text_;
  const TableForm& form_;
  const TableRules& rules_;
  absl::FunctionRef<void(const TableRecord&)> record_;
  absl::FunctionRef<void(const TableFault&)> fault_;
  std::vector<size_t> free_;
  std::vector<std::string_view> cells_;
  bool open_ = false, overlong_ = false;
  size_t from_ = 0, end_ = 0, fields_ = 0, lines_ = 0;
  int line_ = 0;
};

}  // namespace

int TableForm::Find(std::string_view name) const {
  const auto it = std::find(columns.begin(), columns.end(), name);
  return it == columns.end() ? -1 : static_cast<int>(it - columns.begin());
}

StatusOr<TableForm> FormOfHeader(std::string_view text, std::string_view delimiter) {
  TableForm form;
  size_t at = 0;
  std::string_view line;
  while (at < text.size()) {
    line = TakeTableLine(text, &at);
    ++form.first_line;
    if (!IsBlankLine(line)) break;
  }
  form.body = at;
  const auto no_header = [&] {
    return InvalidArgument("line {} is no header: '{}'", form.first_line - 1, Printable(line, 60));
  };
  if (line.size() > kMaxHeaderBytes) return no_header();
  form.delimiter = std::string(delimiter);
  if (delimiter.empty()) {
    const auto* const name_end = std::find_if_not(line.begin(), line.end(), IsNameChar);
    const auto* const next = std::find_if(name_end, line.end(), IsNameChar);
    if (next == line.end() && !line.ends_with('|')) return no_header();
    form.delimiter = std::string(name_end, next);
  }
  if (form.delimiter.empty()) return no_header();
  std::vector<std::string_view> cells;
  SplitBy(line, form.delimiter, &cells);
  form.trailing = cells.size() > 1 && cells.back().empty();
  if (form.trailing) cells.pop_back();
  if (cells.size() < 2 || cells.size() > kMaxColumns) return no_header();
  for (const std::string_view cell : cells) {
    if (cell.empty() || !std::all_of(cell.begin(), cell.end(), IsNameChar)) return no_header();
    form.columns.push_back(LowerCase(cell));
    form.columns.back().erase(
        std::remove(form.columns.back().begin(), form.columns.back().end(), ' '),
        form.columns.back().end());
    if (std::count(form.columns.begin(), form.columns.end(), form.columns.back()) > 1)
      return InvalidArgument("the header names '{}' twice", Printable(cell, 60));
  }
  return form;
}

StatusOr<TableForm> FormOfFields(std::string_view text, const std::vector<std::string>& fields,
                                 std::string_view delimiter) {
  TableForm form;
  if (fields.size() < 2 || fields.size() > kMaxColumns)
    return InvalidArgument("{} field names; give those of --format, in its order", fields.size());
  for (const std::string& field : fields)
    form.columns.push_back(LowerCase(field.substr(0, field.find('%'))));
  size_t at = 0;
  std::string_view line;
  while (at < text.size() && IsBlankLine(line)) line = TakeTableLine(text, &at);
  line = line.substr(0, kMaxFirstLineBytes);
  std::vector<std::string_view> cells;
  const auto fits = [&](std::string_view candidate) {
    SplitBy(line, candidate, &cells);
    form.delimiter = std::string(candidate);
    form.trailing = cells.size() == fields.size() + 1 && cells.back().empty();
    return form.trailing || cells.size() == fields.size();
  };
  if (!delimiter.empty()) {
    fits(delimiter);
    return form;
  }
  for (const std::string_view candidate : kDelimiters)
    if (fits(candidate)) return form;
  return InvalidArgument(
      "no delimiter divides the first line into {} fields ({}); give the one sacct was told "
      "(--delimiter), and all fields of its --format",
      fields.size(), Printable(line, 80));
}

void ReadTable(std::string_view text, const TableForm& form, const TableRules& rules,
               absl::FunctionRef<void(const TableRecord&)> record,
               absl::FunctionRef<void(const TableFault&)> fault) {
  TableAssembler(text, form, rules, record, fault).Run();
}

}  // namespace flopwatch::slurm
