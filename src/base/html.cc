#include "base/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/lookup.h"
#include "base/text.h"

namespace flopwatch {
namespace {

constexpr std::string_view kStyle =
    R"(
:root{--ink:#1c2128;--soft:#5c6672;--line:#dde2e8;--page:#fff;--panel:#f6f8fa;--useful:#2f6fb5;)"
    R"(--lost:#d9822b;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#98a2ae;--line:#30363d;)"
    R"(--page:#14171b;--panel:#1b1f24;--useful:#5b9be0;--lost:#e39a4a;--bad:#f2827b}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1040px;padding:32px 24px;background:var(--page);color:var(--ink);)"
    R"(font:15px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}
h1{font-size:22px;margin:0}h2{font-size:16px;margin:32px 0 8px}
.soft{color:var(--soft)})"
    R"(.big{font-size:44px;font-weight:650;letter-spacing:-1px;margin:20px 0 0})"
    R"(.big small{font-size:16px;font-weight:400;color:var(--soft);letter-spacing:0}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:8px;)"
    R"(margin-top:20px}
.fact{background:var(--panel);border:1px solid var(--line);border-radius:4px;padding:8px 12px})"
    R"(.fact b{display:block;font-size:18px}.fact span{color:var(--soft);font-size:13px}
table{border-collapse:collapse;width:100%})"
    R"(th{text-align:left;font-weight:600;font-size:13px;color:var(--soft);)"
    R"(border-bottom:1px solid var(--line);padding:4px 8px}
td{padding:4px 8px;border-bottom:1px solid var(--line)}.n{text-align:right;white-space:nowrap}
.bar{display:inline-block;vertical-align:middle;width:80px;height:8px;margin-left:8px;)"
    R"(background:var(--line);border-radius:2px;overflow:hidden}.bar i{display:block;height:100%;)"
    R"(background:var(--useful)}
svg{display:block;width:100%;height:auto;margin-top:16px})"
    R"(svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.split{display:flex;height:16px;border-radius:2px;overflow:hidden;margin-top:16px;)"
    R"(background:var(--line)}.u{background:var(--useful)}.l{background:var(--lost)}
.key i{display:inline-block;width:10px;height:10px;border-radius:2px;margin:0 4px 0 16px})"
    R"(.key i:first-child{margin-left:0}
)";

}  // namespace

std::string HtmlEscape(std::string_view text) {
  static constexpr std::pair<char, std::string_view> kEscapes[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string out;
  std::string line(text);
  for (char& c : line)
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  for (const char& c : Visible(line)) out += ValueOf(kEscapes, c, std::string_view(&c, 1));
  return out;
}

std::string HtmlTable(const Table& t) {
  return HtmlTable(t, [](const Column&, const Cell&) { return std::string(); });
}

std::string HtmlTable(const Table& t, const HtmlCell& cell) {
  const auto numeric = [](ColumnFormat f) {
    return f != ColumnFormat::kPlain && f != ColumnFormat::kTime;
  };
  std::string out = "<table><thead><tr>";
  for (const Column& c : t.columns) {
    out += fmt::format("<th{}>{}</th>", numeric(c.format) ? " class=\"n\"" : "",
                       HtmlEscape(c.title.empty() ? c.name : c.title));
  }
  out += "</tr></thead><tbody>\n";
  for (const auto& row : t.rows) {
    out += "<tr>";
    for (size_t i = 0; i < t.columns.size() && i < row.size(); ++i) {
      const ColumnFormat f = t.columns[i].format;
      out += numeric(f) ? "<td class=\"n\">" : "<td>";
      const std::string own = cell(t.columns[i], row[i]);
      out += own.empty() ? HtmlEscape(HumanCell(row[i], f)) : own;
      if (const auto* v = std::get_if<double>(&row[i]);
          f == ColumnFormat::kPercentBar && v != nullptr) {
        out += fmt::format("<span class=\"bar\"><i style=\"width:{:.1f}%\"></i></span>",
                           std::clamp(*v, 0.0, 1.0) * 100);
      }
      out += "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string HtmlPage(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<title>{}</title><style>{}</style></head><body>\n{}</body></html>\n",
      HtmlEscape(title), kStyle, body);
}

}  // namespace flopwatch
