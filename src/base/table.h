// A small result table: what a query, a study or a command gives back before it is written as a
// terminal table, JSON, CSV or Markdown. Not for bulk samples.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace flopwatch {

// std::monostate is "absent" (SQL NULL): written as null, an empty cell or "-", never as 0.
using Cell = std::variant<std::monostate, bool, int64_t, double, std::string>;

enum class ColumnFormat : uint8_t {
  kPlain,     // numbers in full (ten digits where a person reads)
  kPercent,   // a ratio 0..1 that a person reads as per cent
  kSeconds,   // seconds, shown as 3h12m
  kTime,      // microseconds since 1970, shown as RFC 3339
  kGpuHours,  // GPU-seconds, shown as GPU-hours
  kWatts,
  kBytes,
  kCount,
  kPercentBar,  // as kPercent, with a small bar beside it in a terminal
  kMoney,       // an amount, shown with two digits
  kMicros,      // microseconds, shown as 840 µs, 12.3 ms, 1.20 s
};

struct Column {
  std::string name;        // the stable field name in JSON and CSV
  std::string title = {};  // what a terminal shows; empty = name
  ColumnFormat format = ColumnFormat::kPlain;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  // One line a person should know (window, weight, source, coverage); goes to stderr or a caption,
  // never into the data.
  std::vector<std::string> notes;
};

enum class OutputFormat : uint8_t {
  kTable,
  kWide,
  kJson,
  kJsonl,
  kCsv,
  kTsv,
  kMarkdown,
  kHtml,
  kYaml
};

struct WriteOptions {
  OutputFormat format = OutputFormat::kTable;
  bool color = false;
  bool header = true;
  int width = 0;  // terminal columns; 0 = no truncation
};

// kJson is an array of objects, kJsonl one object a line, kYaml a sequence of mappings; numbers raw
// and SI there and in CSV/TSV (times as RFC 3339), human with unit in kTable, kMarkdown and kHtml
// (a whole document, the notes in it). A kTable wider than `width` first shortens its long text
// columns, then leaves out columns from the right and says which; kWide and every machine format
// are never cut.
std::string Render(const Table& table, const WriteOptions& options);

class JsonWriter;
// A cell as a JSON value: raw, absent as null.
void WriteCell(JsonWriter& json, const Cell& cell);

// One cell as a person reads it: "45.1 %", "1,204.5 GPU-h"; "-" for an absent one.
std::string HumanCell(const Cell& cell, ColumnFormat format);

// Terminal columns `text` takes: UTF-8 aware, wide East Asian characters count two, combining marks
// none.
int DisplayWidth(std::string_view text);
// `text` cut to at most `width` columns, the last of them "…" where something was cut.
std::string CutToWidth(std::string_view text, int width);

}  // namespace flopwatch
