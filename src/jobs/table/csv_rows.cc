#include <algorithm>
#include <deque>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/table/rows.h"

namespace flopwatch::table {
namespace {

// A table's text, taken record by record.
class CsvScanner {
 public:
  CsvScanner(std::string_view text, const RowForm& form) : text_(text), form_(form) {}

  bool done() const { return at_ >= text_.size(); }
  int64_t line() const { return record_line_; }
  const std::vector<std::string_view>& cells() const { return cells_; }

  // The next record that is not blank, of at most `max_cells` cells and one. False at the end.
  // `fault` has a reason where it cannot be read; the scanner then stands behind it.
  bool Next(size_t max_cells, RowFault* fault) {
    while (!done()) {
      Begin();
      *fault = {};
      fault->line = record_line_;
      const bool whole = TakeRecord(max_cells, fault);
      if (whole && cells_.size() == 1 && cells_[0].find_first_not_of(" \t") == std::string::npos)
        continue;
      return true;
    }
    return false;
  }

 private:
  void Begin() {
    cells_.clear();
    unquoted_.clear();
    record_line_ = line_;
    begin_ = at_;
    limit_ = std::min(text_.size(), at_ + form_.limits.max_row_bytes);
  }

  bool TakeRecord(size_t max_cells, RowFault* fault) {
    while (true) {
      std::string_view cell;
      const bool quoted = at_ < text_.size() && text_[at_] == '"';
      if (!(quoted ? TakeQuoted(&cell, fault) : TakePlain(&cell, fault))) return false;
      if (cells_.size() <= max_cells) cells_.push_back(cell);
      if (done()) return true;
      if (text_[at_] == '\n') {
        ++at_;
        ++line_;
        return true;
      }
      at_ += form_.delimiter.size();
      // A delimiter is the last there is: an empty cell ends the record.
      if (done()) {
        if (cells_.size() <= max_cells) cells_.push_back({});
        return true;
      }
    }
  }

  bool AtDelimiter(size_t at) const { return text_.substr(at).starts_with(form_.delimiter); }

  // A cell without quotes, up to the delimiter or the line's end, where at_ is left.
  bool TakePlain(std::string_view* cell, RowFault* fault) {
    const size_t from = at_;
    const char first = form_.delimiter[0];
    while (at_ < limit_ && text_[at_] != '\n' && !(text_[at_] == first && AtDelimiter(at_))) ++at_;
    if (at_ >= limit_ && !done()) return Fail("row_too_long", fault);
    *cell = text_.substr(from, at_ - from);
    if ((done() || text_[at_] == '\n') && cell->ends_with('\r')) cell->remove_suffix(1);
    return true;
  }

  bool TakeQuoted(std::string_view* cell, RowFault* fault) {
    const size_t from = ++at_;
    bool doubled = false;
    while (true) {
      while (at_ < limit_ && text_[at_] != '"') line_ += text_[at_++] == '\n' ? 1 : 0;
      if (at_ >= limit_) return Fail("open_quote", fault);
      if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
      doubled = true;
      at_ += 2;
    }
    *cell = text_.substr(from, at_ - from);
    ++at_;
    if (doubled) *cell = Undoubled(*cell);
    if (!done() && text_[at_] == '\r' && (at_ + 1 == text_.size() || text_[at_ + 1] == '\n')) ++at_;
    if (done() || text_[at_] == '\n' || AtDelimiter(at_)) return true;
    return Fail("text_after_quote", fault);
  }

  std::string_view Undoubled(std::string_view text) {
    std::string& out = unquoted_.emplace_back();
    for (size_t k = 0; k < text.size(); ++k) {
      out += text[k];
      if (text[k] == '"') ++k;
    }
    return out;
  }

  // Goes on behind the line in which the fault is. What an open quote swallowed stays swallowed:
  // looking for a quote's end from every line anew would take a square of the text.
  bool Fail(std::string_view reason, RowFault* fault) {
    fault->reason = reason;
    fault->why = reason == "open_quote"
                     ? fmt::format("a quote is not closed within {} bytes", limit_ - begin_)
                 : reason == "row_too_long"
                     ? fmt::format("a row of more than {} bytes", form_.limits.max_row_bytes)
                     : "a cell goes on behind its closing quote";
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    line_ += end < text_.size() ? 1 : 0;
    at_ = std::min(end + 1, text_.size());
    return false;
  }

  const std::string_view text_;
  const RowForm& form_;
  std::vector<std::string_view> cells_;
  std::deque<std::string> unquoted_;
  size_t at_ = 0, begin_ = 0, limit_ = 0;
  int64_t line_ = 1, record_line_ = 1;
};

}  // namespace

Status ReadCsvRows(std::string_view text, const RowForm& form,
                   absl::Span<const std::string> columns, OnRow on_row, OnFault on_fault) {
  CsvScanner scanner(text, form);
  RowFault fault;
  if (!scanner.Next(form.limits.max_columns, &fault))
    return InvalidArgument("the table is empty; it needs a header");
  if (!fault.reason.empty()) return InvalidArgument("line {}: {}", fault.line, fault.why);
  const std::vector<std::string> header(scanner.cells().begin(), scanner.cells().end());
  if (header.size() > form.limits.max_columns)
    return InvalidArgument("the table has more than {} columns", form.limits.max_columns);
  const std::vector<std::string_view> there(header.begin(), header.end());
  std::vector<size_t> places;
  for (const std::string& column : columns) {
    const auto it = std::find(there.begin(), there.end(), column);
    if (it == there.end()) return NoSuchColumn(column, there);
    if (std::find(it + 1, there.end(), column) != there.end())
      return InvalidArgument("the table has two columns '{}'", Printable(column, 60));
    places.push_back(static_cast<size_t>(it - there.begin()));
  }
  Row row;
  row.cells.resize(columns.size());
  while (scanner.Next(header.size(), &fault)) {
    ++row.number;
    row.line = scanner.line();
    const size_t cells = scanner.cells().size();
    if (fault.reason.empty() && cells != header.size()) {
      fault.reason = cells < header.size() ? "short_row" : "long_row";
      fault.why = cells < header.size()
                      ? fmt::format("{} cells where the header has {}", cells, header.size())
                      : fmt::format("more cells than the {} of the header", header.size());
    }
    if (!fault.reason.empty()) {
      on_fault(fault);
      continue;
    }
    for (size_t k = 0; k < places.size(); ++k) row.cells[k] = scanner.cells()[places[k]];
    on_row(row);
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::table
