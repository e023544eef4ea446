#include "trace/export/xlsx.h"

#include <xlsxwriter.h>

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

namespace flopwatch::trace {
namespace {

constexpr size_t kMaxSheetRows = 1'048'575;
constexpr size_t kMaxCellText = 32'767;  // characters a cell holds; bytes are at least as many
constexpr double kHeaderHeight = 27;

// msprof-analyze's titles; what it did not rename keeps its name.
std::string TitleOf(const std::string& column) {
  static const std::map<std::string_view, std::string_view> kTitles = {
      {"rank_id", "Rank ID"},
      {"op_name", "Op Name"},
      {"kernel_name", "Kernel Name"},
      {"kernel_start(ns)", "Kernel Start(ns)"},
      {"kernel_end(ns)", "Kernel End(ns)"},
      {"kernel_duration(ns)", "Kernel Duration(ns)"},
      {"mfu", "MFU"},
      {"parent_module", "Parent Module"},
      {"module", "Module"},
      {"kernel_list", "Kernel List"},
      {"total_kernel_duration(ns)", "Total Kernel Duration(ns)"},
      {"avg_kernel_duration(ns)", "Avg Kernel Duration(ns)"},
      {"op_count", "Op Count"},
      {"avg_mfu", "Avg MFU"}};
  const auto it = kTitles.find(column);
  return it == kTitles.end() ? column : std::string(it->second);
}

// Widths go by name: msprof-analyze sets them by position, one off.
double WidthOf(std::string_view column) {
  if (column == "parent_module" || column == "module" || column == "op_name" ||
      column == "kernel_name")
    return 40;
  if (column == "kernel_list" || column == "input_shapes" || column == "output_shapes") return 50;
  if (column == "kernel_start(ns)" || column == "kernel_end(ns)") return 22;
  return column == "rank_id" || column == "op_count" || column == "mfu" ? 10 : 18;
}

// Nanoseconds since 1970 do not fit a spreadsheet's numbers.
bool IsMoment(std::string_view column) {
  return column == "kernel_start(ns)" || column == "kernel_end(ns)";
}

std::string CutText(const std::string& text) {
  if (text.size() <= kMaxCellText) return text;
  size_t end = kMaxCellText - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

class Sheet {
 public:
  Sheet(lxw_workbook* book, const Table& table)
      : table_(table),
        sheet_(workbook_add_worksheet(book, "Sheet1")),
        body_(workbook_add_format(book)),
        header_(workbook_add_format(book)) {
    for (lxw_format* format : {body_, header_}) {
      format_set_font_name(format, "Times New Roman");
      format_set_border(format, LXW_BORDER_THIN);
      format_set_align(format, LXW_ALIGN_VERTICAL_CENTER);
    }
    format_set_bold(header_);
    format_set_bg_color(header_, 0xAFEEEE);
  }

  lxw_error Write(SheetKind kind) {
    if (kind == SheetKind::kModules) worksheet_set_row(sheet_, 0, kHeaderHeight, nullptr);
    for (size_t c = 0; c < table_.columns.size(); ++c) {
      const auto column = static_cast<lxw_col_t>(c);
      worksheet_set_column(sheet_, column, column, WidthOf(table_.columns[c].name), nullptr);
      worksheet_write_string(sheet_, 0, column, TitleOf(table_.columns[c].name).c_str(), header_);
    }
    lxw_error error = LXW_NO_ERROR;
    for (size_t r = 0; r < table_.rows.size() && error == LXW_NO_ERROR; ++r) {
      for (size_t c = 0; c < table_.columns.size() && error == LXW_NO_ERROR; ++c)
        error = WriteCell(r, c);
    }
    if (kind == SheetKind::kModules && error == LXW_NO_ERROR) {
      MergeRuns("parent_module");
      MergeRuns("module");
    }
    return error;
  }

 private:
  lxw_error WriteCell(size_t r, size_t c) {
    const auto row = static_cast<lxw_row_t>(r + 1);
    const auto column = static_cast<lxw_col_t>(c);
    const Cell& cell = table_.rows[r][c];
    if (const auto* integer = std::get_if<int64_t>(&cell)) {
      if (IsMoment(table_.columns[c].name))
        return worksheet_write_string(sheet_, row, column, fmt::format("{}", *integer).c_str(),
                                      body_);
      return worksheet_write_number(sheet_, row, column, static_cast<double>(*integer), body_);
    }
    if (const auto* number = std::get_if<double>(&cell))
      return worksheet_write_number(sheet_, row, column, *number, body_);
    if (const auto* text = std::get_if<std::string>(&cell); text != nullptr && !text->empty())
      return worksheet_write_string(sheet_, row, column, CutText(*text).c_str(), body_);
    return worksheet_write_blank(sheet_, row, column, body_);
  }

  void MergeRuns(std::string_view name) {
    const auto it = std::find_if(table_.columns.begin(), table_.columns.end(),
                                 [&](const Column& c) { return c.name == name; });
    if (it == table_.columns.end()) return;
    const auto c = static_cast<size_t>(it - table_.columns.begin());
    for (size_t begin = 0; begin < table_.rows.size();) {
      size_t end = begin + 1;
      while (end < table_.rows.size() && table_.rows[end][c] == table_.rows[begin][c]) ++end;
      const auto* text = std::get_if<std::string>(&table_.rows[begin][c]);
      if (end - begin > 1 && text != nullptr) {
        const auto column = static_cast<lxw_col_t>(c);
        worksheet_merge_range(sheet_, static_cast<lxw_row_t>(begin + 1), column,
                              static_cast<lxw_row_t>(end), column, CutText(*text).c_str(), body_);
      }
      begin = end;
    }
  }

  const Table& table_;
  lxw_worksheet* sheet_;
  lxw_format *body_, *header_;
};

}  // namespace

Status WriteSheet(const std::string& path, const Table& table, SheetKind kind) {
  if (table.rows.size() > kMaxSheetRows)
    return InvalidArgument("{} rows for {}: a sheet holds {}; export as db or csv, or fewer ranks",
                           table.rows.size(), path, kMaxSheetRows);
  lxw_workbook* const book = workbook_new(path.c_str());
  if (book == nullptr) return ResourceExhausted("no memory for the spreadsheet {}", path);
  const lxw_error written = Sheet(book, table).Write(kind);
  const lxw_error closed = workbook_close(book);  // frees the book, whatever comes
  const lxw_error error = written != LXW_NO_ERROR ? written : closed;
  if (error == LXW_NO_ERROR) return absl::OkStatus();
  return Unavailable("cannot write {}: {}; check that the folder is writable and the disk has room",
                     path, lxw_strerror(error));
}

}  // namespace flopwatch::trace
