// The report as one HTML file: styles and pictures inside, no script, no outside request; light and dark.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/views/report_parts.h"

namespace flopwatch::cli {
namespace {

constexpr std::string_view kStyle = R"(
:root{--ink:#1c2128;--soft:#5c6672;--line:#dde2e8;--page:#fff;--panel:#f6f8fa;--useful:#2f6fb5;--lost:#d9822b;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#98a2ae;--line:#30363d;--page:#14171b;--panel:#1b1f24;--useful:#5b9be0;--lost:#e39a4a;--bad:#f2827b}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1040px;padding:32px 24px;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}
h1{font-size:22px;margin:0}h2{font-size:16px;margin:32px 0 8px}
.soft{color:var(--soft)}.big{font-size:44px;font-weight:650;letter-spacing:-1px;margin:20px 0 0}.big small{font-size:16px;font-weight:400;color:var(--soft);letter-spacing:0}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:8px;margin-top:20px}
.fact{background:var(--panel);border:1px solid var(--line);border-radius:4px;padding:8px 12px}.fact b{display:block;font-size:18px}.fact span{color:var(--soft);font-size:13px}
table{border-collapse:collapse;width:100%}th{text-align:left;font-weight:600;font-size:13px;color:var(--soft);border-bottom:1px solid var(--line);padding:4px 8px}
td{padding:4px 8px;border-bottom:1px solid var(--line)}.n{text-align:right;white-space:nowrap}
.bar{display:inline-block;vertical-align:middle;width:80px;height:8px;margin-left:8px;background:var(--line);border-radius:2px;overflow:hidden}.bar i{display:block;height:100%;background:var(--useful)}
svg{display:block;width:100%;height:auto;margin-top:16px}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.split{display:flex;height:16px;border-radius:2px;overflow:hidden;margin-top:16px;background:var(--line)}.u{background:var(--useful)}.l{background:var(--lost)}
.key i{display:inline-block;width:10px;height:10px;border-radius:2px;margin:0 4px 0 16px}.key i:first-child{margin-left:0}
)";

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: {
        const auto u = static_cast<unsigned char>(c);
        out.push_back(u < 0x20 || u == 0x7F ? ' ' : c);
      }
    }
  }
  return out;
}

// OFU over the window: a line, broken where nothing is known, over a faint band of coverage.
std::string Trend(const Report& r) {
  constexpr double kWidth = 960, kHeight = 220, kLeft = 40, kBottom = 24, kTop = 8;
  const SeriesView& s = r.series;
  if (s.ts.size() < 2) return "";
  double high = 0;
  for (const auto& p : s.ofu) high = std::max(high, p.value_or(0));
  if (high <= 0) return "";
  const double top = high <= 0.1 ? 0.1 : std::min(1.0, std::ceil(high * 10 + 0.25) / 10);
  const double from = s.ts.front(), span = std::max(1.0, s.ts.back() - from);
  const auto x = [&](double ts) { return kLeft + (ts - from) / span * (kWidth - kLeft); };
  const auto y = [&](double ratio) { return kTop + (1 - ratio / top) * (kHeight - kTop - kBottom); };
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"OFU over time, highest {}\">\n", kWidth, kHeight, Percent(high));
  for (int i = 0; i <= 2; ++i) {
    const double value = top * i / 2;
    out += fmt::format("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"var(--line)\"/>"
                       "<text x=\"0\" y=\"{3:.1f}\">{4:.0f} %</text>\n",
                       kLeft, kWidth, y(value), y(value) + 4, value * 100);
  }
  std::string line, area;
  bool open = false;
  double open_x = 0, last_x = 0;
  const auto close = [&] {
    if (open) area += fmt::format("L{:.1f} {:.1f}L{:.1f} {:.1f}Z", last_x, y(0), open_x, y(0));
    open = false;
  };
  for (size_t i = 0; i < s.ts.size(); ++i) {
    if (!s.ofu[i]) {
      close();
      continue;
    }
    const std::string point = fmt::format("{}{:.1f} {:.1f}", open ? "L" : "M", x(s.ts[i]), y(*s.ofu[i]));
    line += point;
    area += point;
    if (!open) open_x = x(s.ts[i]);
    last_x = x(s.ts[i]);
    open = true;
  }
  close();
  out += fmt::format("<path d=\"{}\" fill=\"var(--useful)\" fill-opacity=\"0.14\"/>\n", area);
  out += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"var(--useful)\" stroke-width=\"2\" stroke-linejoin=\"round\"/>\n", line);
  out += fmt::format("<text x=\"{}\" y=\"{}\">{}</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} UTC</text>\n</svg>\n", kLeft,
                     kHeight - 4, Minute(static_cast<Micros>(from) * kMicrosPerSecond), kWidth, kHeight - 4,
                     Minute(static_cast<Micros>(s.ts.back()) * kMicrosPerSecond));
  return out;
}

std::string Split(const UsageView& u) {
  if (!u.ofu || u.gpu_seconds <= 0) return "";
  const auto share = [&](double s) { return std::clamp(s / u.gpu_seconds * 100, 0.0, 100.0); };
  return fmt::format(
      "<div class=\"split\"><div class=\"u\" style=\"width:{:.2f}%\"></div><div class=\"l\" style=\"width:{:.2f}%\"></div></div>\n"
      "<p class=\"soft key\"><i class=\"u\"></i>useful {} GPU-h<i class=\"l\"></i>lost {} GPU-h"
      "<i style=\"background:var(--line)\"></i>not known {} GPU-h</p>\n",
      share(u.useful_s()), share(u.lost_s), GpuHours(u.useful_s()), GpuHours(u.lost_s),
      GpuHours(std::max(0.0, u.gpu_seconds - u.computable_s)));
}

std::string HtmlTable(const Table& t) {
  const auto numeric = [](ColumnFormat f) { return f != ColumnFormat::kPlain && f != ColumnFormat::kTime; };
  std::string out = "<table><thead><tr>";
  for (const Column& c : t.columns) {
    out += fmt::format("<th{}>{}</th>", numeric(c.format) ? " class=\"n\"" : "", Escape(c.title.empty() ? c.name : c.title));
  }
  out += "</tr></thead><tbody>\n";
  for (const auto& row : t.rows) {
    out += "<tr>";
    for (size_t i = 0; i < t.columns.size() && i < row.size(); ++i) {
      const ColumnFormat f = t.columns[i].format;
      out += numeric(f) ? "<td class=\"n\">" : "<td>";
      out += Escape(HumanCell(row[i], f));
      if (const auto* v = std::get_if<double>(&row[i]); f == ColumnFormat::kPercentBar && v != nullptr) {
        out += fmt::format("<span class=\"bar\"><i style=\"width:{:.1f}%\"></i></span>", std::clamp(*v, 0.0, 1.0) * 100);
      }
      out += "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

}  // namespace

std::string ReportHtml(const Report& r) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";
  out += fmt::format("<title>Fleet report, {}</title><style>{}</style></head><body>\n", Escape(r.window.Text()), kStyle);
  out += fmt::format("<h1>Fleet report</h1>\n<p class=\"soft\">{}<br>from {}, written {}</p>\n", Escape(r.window.Text()),
                     Escape(r.source), Escape(r.written));
  if (r.fleet.ofu) {
    out += fmt::format("<p class=\"big\">{} <small>OFU{}</small></p>\n", Escape(Percent(r.fleet.ofu)),
                       r.fleet.ci95 ? fmt::format(", ± {:.1f} points (95 %)", *r.fleet.ci95 * 100) : "");
  } else {
    out += fmt::format("<p class=\"big\">OFU <small>{}</small></p>\n", Escape(OfuHeadline(r)));
  }
  out += Split(r.fleet) + Trend(r) + "<div class=\"facts\">\n";
  for (const ReportFact& f : FactsOf(r)) {
    out += fmt::format("<div class=\"fact\">{}<b>{}</b><span>{}</span></div>\n", Escape(f.name), Escape(f.value), Escape(f.remark));
  }
  out += "</div>\n";
  for (const ReportSection& s : SectionsOf(r)) {
    out += fmt::format("<h2>{}</h2>\n", Escape(s.title));
    if (!s.remark.empty()) out += fmt::format("<p class=\"soft\">{}</p>\n", Escape(s.remark));
    out += HtmlTable(s.table);
  }
  return out + fmt::format("<p class=\"soft\">{}</p>\n</body></html>\n", Escape(MethodText(r)));
}

}  // namespace flopwatch::cli
