#include "base/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/html.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "base/time.h"

namespace flopwatch {
namespace {

constexpr int kGap = 2;  // blanks between columns
// Before text is cut below these widths, whole columns are left out: a table of stumps tells
// nothing. The first column says what a row is about.
constexpr int kMinTextColumn = 14;
constexpr int kMinFirstColumn = 20;
constexpr int kMinWidthForBars =
    100;                            // narrower terminals have the numbers alone, and more columns
constexpr int kMaxTextColumn = 60;  // of a table on a terminal; -o wide shows all
constexpr int kBarColumns = 8;

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kReset = "\x1b[0m";

// --- text ---

// Decodes the character at s[*i] and moves on; a part that is not UTF-8 counts as one character.
char32_t NextChar(std::string_view s, size_t* i) {
  const Utf8Part part = ReadUtf8(s, *i);
  *i += part.bytes;
  return part.code;
}

int CharWidth(char32_t c) {
  if (c == 0 || c == 0x200B || c == 0x200D) return 0;
  if ((c >= 0x0300 && c <= 0x036F) || (c >= 0x1AB0 && c <= 0x1AFF) ||
      (c >= 0x20D0 && c <= 0x20FF) || (c >= 0xFE00 && c <= 0xFE0F))
    return 0;
  const bool wide = (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
                    (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
                    (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
                    (c >= 0xFFE0 && c <= 0xFFE6) || (c >= 0x1F300 && c <= 0x1F64F) ||
                    (c >= 0x1F900 && c <= 0x1F9FF) || (c >= 0x20000 && c <= 0x3FFFD);
  return wide ? 2 : 1;
}

// Labels and job names come from outside: an escape sequence in one must not reach a terminal. One
// line: its breaks are blanks.
std::string Clean(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  return Visible(line);
}

std::string Upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

// --- numbers ---

std::string Grouped(std::string digits) {
  const size_t start = digits[0] == '-' ? 1 : 0;
  size_t end = digits.find('.');
  if (end == std::string::npos) end = digits.size();
  for (size_t i = end; i > start + 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

// The value with a unit that keeps the number under `base`, and three significant digits.
std::string Scaled(double v, double base, std::initializer_list<std::string_view> units) {
  const std::string_view* unit = units.begin();
  // 999.6 would print as "1000": step over to the next unit at the rounding point, not at the base
  // itself.
  while (std::abs(v) >= base - 0.5 && unit + 1 != units.end()) {
    v /= base;
    ++unit;
  }
  const double a = std::abs(v);
  const bool first = unit == units.begin();
  return fmt::format("{:.{}f} {}", v, first || a >= 99.95 ? 0 : (a >= 9.995 ? 1 : 2), *unit);
}

// The two leading units, because nobody reads the seconds of a day: "3h12m", "2d4h", "45s",
// "250ms".
std::string HumanSeconds(double v) {
  const double a = std::abs(v);
  double unit = 1;
  if (a >= 3600) unit = 60;
  if (a >= 86400) unit = 3600;
  if (a < 1) unit = 0.001;
  if (a >= 9.2e12) return fmt::format("{:.3g}s", v);
  return FormatDuration(static_cast<Micros>(std::llround(v / unit) * (unit * kMicrosPerSecond)));
}

// Three digits in the unit that fits: what a trace measures goes from nanoseconds to hours.
std::string HumanMicros(double us) {
  const auto in = [us](double scale, std::string_view unit) {
    const double x = us / scale, a = std::abs(x);
    return fmt::format("{:.{}f} {}", x, a >= 99.95 ? 0 : a >= 9.995 ? 1 : 2, unit);
  };
  const double a = std::abs(us);
  if (a == 0) return "0 µs";
  if (a < 0.9995) return fmt::format("{:.0f} ns", us * 1e3);
  if (a < 999.5) return in(1, "µs");
  if (a < 999.5e3) return in(1e3, "ms");
  return a < 999.5e6 ? in(1e6, "s") : HumanSeconds(us / 1e6);
}

std::optional<double> Number(const Cell& cell) {
  if (const auto* i = std::get_if<int64_t>(&cell)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&cell); d != nullptr && std::isfinite(*d)) return *d;
  return std::nullopt;
}

bool Absent(const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return true;
  const auto* d = std::get_if<double>(&cell);
  return d != nullptr && !std::isfinite(*d);
}

bool IsNumber(const Cell& cell) {
  return std::holds_alternative<int64_t>(cell) || std::holds_alternative<double>(cell);
}

// The value of a cell for CSV and TSV: raw, "" when absent.
std::string RawCell(const Cell& cell, ColumnFormat format) {
  if (Absent(cell)) return "";
  if (format == ColumnFormat::kTime && IsNumber(cell))
    return FormatTime(static_cast<Micros>(*Number(cell)));
  struct Visitor {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return fmt::format("{}", i); }
    std::string operator()(double d) const { return fmt::format("{}", d); }
    std::string operator()(const std::string& s) const { return s; }
  };
  return std::visit(Visitor{}, cell);
}

void WriteJsonValue(const Table& table, const std::vector<Cell>& row, size_t c, JsonWriter* json) {
  const Cell cell = c < row.size() ? row[c] : Cell{};
  if (Absent(cell)) {
    json->Null();
  } else if (table.columns[c].format == ColumnFormat::kTime && IsNumber(cell)) {
    json->Value(RawCell(cell, ColumnFormat::kTime));
  } else if (const auto* b = std::get_if<bool>(&cell)) {
    json->Value(*b);
  } else if (const auto* i = std::get_if<int64_t>(&cell)) {
    json->Value(*i);
  } else if (const auto* d = std::get_if<double>(&cell)) {
    json->Value(*d);
  } else {
    json->Value(std::get<std::string>(cell));
  }
}

void AppendJsonObject(const Table& table, const std::vector<Cell>& row, std::string* out) {
  JsonWriter json(out);
  json.BeginObject();
  for (size_t c = 0; c < table.columns.size(); ++c) {
    json.Key(table.columns[c].name);
    WriteJsonValue(table, row, c, &json);
  }
  json.EndObject();
}

std::string RenderJson(const Table& table) {
  std::string out = "[";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    out += r == 0 ? "\n  " : ",\n  ";
    AppendJsonObject(table, table.rows[r], &out);
  }
  out += table.rows.empty() ? "]\n" : "\n]\n";
  return out;
}

// Values as in JSON, which YAML reads; names plain where YAML cannot take them for something else.
std::string RenderYaml(const Table& table) {
  const auto plain = [](std::string_view name) {
    static constexpr std::string_view kReserved[] = {"null", "true", "false", "yes", "no",
                                                     "on",   "off",  "y",     "n"};
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
      return letter(c) || (c >= '0' && c <= '9');
    }) && std::find(std::begin(kReserved), std::end(kReserved), name) == std::end(kReserved);
  };
  if (table.rows.empty()) return "[]\n";
  std::string out;
  for (const auto& row : table.rows) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      out += c == 0 ? "- " : "  ";
      const std::string& name = table.columns[c].name;
      if (plain(name)) {
        out += name;
      } else {
        JsonWriter(&out).Value(name);
      }
      out += ": ";
      JsonWriter json(&out);
      WriteJsonValue(table, row, c, &json);
      out.push_back('\n');
    }
  }
  return out;
}

std::string RenderHtml(const Table& table) {
  std::string body = HtmlTable(table);
  for (const std::string& note : table.notes)
    body += fmt::format("<p class=\"soft\">{}</p>\n", HtmlEscape(note));
  return HtmlPage("flopwatch", body);
}

std::string RenderJsonl(const Table& table) {
  std::string out;
  for (const auto& row : table.rows) {
    AppendJsonObject(table, row, &out);
    out.push_back('\n');
  }
  return out;
}

// A cell of a file that spreadsheets open: text that one would compute as a formula stands behind
// an apostrophe (OWASP, "CSV Injection"). A dash alone and a number with its sign compute nothing.
std::string WithoutFormula(std::string text) {
  if (text.size() < 2 || std::string_view("=+-@\t\r\n").find(text[0]) == std::string_view::npos)
    return text;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? text : "'" + text;
}

// Line breaks may stand within quotes (RFC 4180).
std::string CsvField(std::string_view text) {
  const std::string shown = Visible(text, /*keep_lines=*/true);
  if (shown.find_first_of(",\"\n") == std::string::npos) return shown;
  std::string out = "\"";
  for (const char c : shown) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  return out + "\"";
}

std::string RenderSeparated(const Table& table, bool csv, bool header) {
  std::string out;
  const char separator = csv ? ',' : '\t';
  const auto field = [&](const std::string& text) { return csv ? CsvField(text) : Clean(text); };
  if (header) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (c > 0) out.push_back(separator);
      out += field(table.columns[c].name);
    }
    out.push_back('\n');
  }
  for (const auto& row : table.rows) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (c > 0) out.push_back(separator);
      if (c < row.size()) out += field(WithoutFormula(RawCell(row[c], table.columns[c].format)));
    }
    out.push_back('\n');
  }
  return out;
}

std::string_view Title(const Column& column) {
  return column.title.empty() ? std::string_view(column.name) : std::string_view(column.title);
}

// Right-aligned where every value present is a number.
std::vector<bool> NumericColumns(const Table& table) {
  std::vector<bool> numeric(table.columns.size());
  for (size_t c = 0; c < table.columns.size(); ++c) {
    bool any = false, all = true;
    for (const auto& row : table.rows) {
      if (c >= row.size() || Absent(row[c])) continue;
      any = true;
      all = all && IsNumber(row[c]);
    }
    const ColumnFormat f = table.columns[c].format;
    numeric[c] = any ? all && f != ColumnFormat::kTime
                     : f != ColumnFormat::kPlain && f != ColumnFormat::kTime;
  }
  return numeric;
}

std::string RenderMarkdown(const Table& table) {
  const std::vector<bool> numeric = NumericColumns(table);
  const auto field = [](std::string_view text) {
    std::string out;
    for (const char c : Clean(text)) {
      if (std::string_view("|\\<`[").find(c) != std::string_view::npos) out.push_back('\\');
      out.push_back(c);
    }
    return out;
  };
  std::string out = "|", rule = "|";
  for (size_t c = 0; c < table.columns.size(); ++c) {
    out += fmt::format(" {} |", field(Title(table.columns[c])));
    rule += numeric[c] ? " ---: |" : " --- |";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    out += "|";
    for (size_t c = 0; c < table.columns.size(); ++c) {
      out += fmt::format(" {} |",
                         c < row.size() ? field(HumanCell(row[c], table.columns[c].format)) : "-");
    }
    out += "\n";
  }
  return out;
}

// --- the terminal table ---

std::string BarText(double ratio) {
  static constexpr std::string_view kPartial[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double filled = std::clamp(ratio, 0.0, 1.0) * kBarColumns;
  int eighths = static_cast<int>(std::lround(filled * 8));
  if (eighths == 0 && ratio > 0) eighths = 1;  // a little is not nothing
  std::string out;
  int used = eighths / 8;
  for (int i = 0; i < used; ++i) out += "█";
  if (eighths % 8 != 0) out += kPartial[eighths % 8], ++used;
  out.append(kBarColumns - used, ' ');
  return out;
}

struct Layout {
  std::vector<int> widths;  // of each column
  size_t shown = 0;         // columns kept, from the left
};

Layout LayOut(const Table& table, const std::vector<std::vector<std::string>>& texts,
              const std::vector<bool>& numeric, const WriteOptions& options) {
  const size_t n = table.columns.size();
  Layout layout{std::vector<int>(n, 0), n};
  for (size_t c = 0; c < n; ++c) {
    if (options.header) layout.widths[c] = DisplayWidth(Title(table.columns[c]));
    for (const auto& row : texts)
      layout.widths[c] = std::max(layout.widths[c], DisplayWidth(row[c]));
  }
  if (options.format == OutputFormat::kWide || options.width <= 0) return layout;
  const auto floor_of = [&](size_t c) {
    if (numeric[c]) return layout.widths[c];
    const int title = options.header ? DisplayWidth(Title(table.columns[c])) : 0;
    return std::min(layout.widths[c], std::max(c == 0 ? kMinFirstColumn : kMinTextColumn, title));
  };
  for (size_t c = 0; c < n; ++c) {
    if (!numeric[c])
      layout.widths[c] = std::min(layout.widths[c], std::max(kMaxTextColumn, floor_of(c)));
  }
  const auto total = [&](bool floors) {
    int sum = -kGap;
    for (size_t c = 0; c < layout.shown; ++c)
      sum += kGap + (floors ? floor_of(c) : layout.widths[c]);
    return sum;
  };
  while (layout.shown > 1 && total(true) > options.width) --layout.shown;
  while (total(false) > options.width) {
    // The widest text column gives way first.
    size_t widest = n;
    for (size_t c = 0; c < layout.shown; ++c) {
      if (layout.widths[c] > floor_of(c) &&
          (widest == n || layout.widths[c] > layout.widths[widest]))
        widest = c;
    }
    if (widest == n) break;
    --layout.widths[widest];
  }
  return layout;
}

std::string RenderText(const Table& table, const WriteOptions& options) {
  const std::vector<bool> numeric = NumericColumns(table);
  const bool bars = options.format == OutputFormat::kWide || options.width <= 0 ||
                    options.width >= kMinWidthForBars;
  std::vector<std::vector<std::string>> texts;
  texts.reserve(table.rows.size());
  for (const auto& row : table.rows) {
    auto& line = texts.emplace_back();
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const Cell cell = c < row.size() ? row[c] : Cell{};
      std::string text = Clean(HumanCell(cell, table.columns[c].format));
      if (bars && table.columns[c].format == ColumnFormat::kPercentBar) {
        text = Absent(cell) ? fmt::format("{:>7} {:{}}", "-", "", kBarColumns)
                            : fmt::format("{:>7} {}", text, BarText(Number(cell).value_or(0)));
      }
      line.push_back(std::move(text));
    }
  }
  const Layout layout = LayOut(table, texts, numeric, options);
  std::string out;
  const auto append = [&](size_t c, std::string_view text, bool right, std::string_view style) {
    const std::string cut = CutToWidth(text, layout.widths[c]);
    const int pad = layout.widths[c] - DisplayWidth(cut);
    if (c > 0) out.append(kGap, ' ');
    if (right) out.append(pad, ' ');
    if (options.color && !style.empty()) out += style;
    out += cut;
    if (options.color && !style.empty()) out += kReset;
    if (!right) out.append(pad, ' ');
  };
  const auto end_line = [&] {
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out.push_back('\n');
  };
  if (options.header) {
    for (size_t c = 0; c < layout.shown; ++c)
      append(c, Upper(Clean(Title(table.columns[c]))), numeric[c], kBold);
    end_line();
  }
  for (size_t r = 0; r < texts.size(); ++r) {
    for (size_t c = 0; c < layout.shown; ++c) {
      const bool absent = c >= table.rows[r].size() || Absent(table.rows[r][c]);
      append(c, texts[r][c], numeric[c], absent ? kDim : std::string_view());
    }
    end_line();
  }
  if (layout.shown < table.columns.size()) {
    std::string left_out;
    for (size_t c = layout.shown; c < table.columns.size(); ++c)
      left_out += (left_out.empty() ? "" : ", ") + table.columns[c].name;
    const std::string line = CutToWidth(
        fmt::format("… {} more with -o wide: {}", table.columns.size() - layout.shown, left_out),
        options.width);
    out += options.color ? fmt::format("{}{}{}\n", kDim, line, kReset) : line + "\n";
  }
  return out;
}

}  // namespace

int DisplayWidth(std::string_view text) {
  int width = 0;
  for (size_t i = 0; i < text.size();) width += CharWidth(NextChar(text, &i));
  return width;
}

std::string CutToWidth(std::string_view text, int width) {
  if (width <= 0) return "";
  int used = 0;
  size_t keep = 0;  // bytes that leave room for the ellipsis
  for (size_t i = 0; i < text.size();) {
    used += CharWidth(NextChar(text, &i));
    if (used <= width - 1) keep = i;
    if (used > width) return std::string(text.substr(0, keep)) + "…";
  }
  return std::string(text);
}

void WriteCell(JsonWriter& json, const Cell& cell) {
  std::visit(
      [&](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>) {
          json.Null();
        } else {
          json.Value(v);
        }
      },
      cell);
}

std::string HumanCell(const Cell& cell, ColumnFormat format) {
  if (Absent(cell)) return "-";
  if (const auto* b = std::get_if<bool>(&cell)) return *b ? "yes" : "no";
  if (const auto* s = std::get_if<std::string>(&cell)) return *s;
  const double v = *Number(cell);
  switch (format) {
    case ColumnFormat::kPercent:
    case ColumnFormat::kPercentBar:
      // 0.04 % must not read as 0.0 %.
      return std::abs(v) > 0 && std::abs(v) < 0.0005 ? (v > 0 ? "<0.1 %" : ">-0.1 %")
                                                     : fmt::format("{:.1f} %", v * 100);
    case ColumnFormat::kSeconds:
      return HumanSeconds(v);
    case ColumnFormat::kTime:
      return FormatTime(static_cast<Micros>(v));
    case ColumnFormat::kGpuHours: {
      const double hours = v / 3600;
      if (hours > 0 && hours < 0.05) return "<0.1 GPU-h";
      return Grouped(fmt::format("{:.{}f}", hours, std::abs(hours) < 9999.95 ? 1 : 0)) + " GPU-h";
    }
    case ColumnFormat::kMoney:
      return fmt::format("{:.2f}", v);
    case ColumnFormat::kWatts:
      return Scaled(v, 1000, {"W", "kW", "MW"});
    case ColumnFormat::kBytes:
      return Scaled(v, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
    case ColumnFormat::kMicros:
      return HumanMicros(v);
    case ColumnFormat::kCount:
      return Grouped(fmt::format("{:.0f}", v));
    case ColumnFormat::kPlain:
      break;
  }
  // Ten digits: all a measurement has, without the binary dust of 0.1 + 0.2.
  return std::holds_alternative<double>(cell) ? fmt::format("{:.10g}", v)
                                              : RawCell(cell, ColumnFormat::kPlain);
}

std::string Render(const Table& table, const WriteOptions& options) {
  switch (options.format) {
    case OutputFormat::kJson:
      return RenderJson(table);
    case OutputFormat::kJsonl:
      return RenderJsonl(table);
    case OutputFormat::kCsv:
      return RenderSeparated(table, /*csv=*/true, options.header);
    case OutputFormat::kTsv:
      return RenderSeparated(table, /*csv=*/false, options.header);
    case OutputFormat::kHtml:
      return RenderHtml(table);
    case OutputFormat::kYaml:
      return RenderYaml(table);
    case OutputFormat::kMarkdown:
      return RenderMarkdown(table);
    case OutputFormat::kTable:
    case OutputFormat::kWide:
      break;
  }
  return RenderText(table, options);
}

}  // namespace flopwatch
