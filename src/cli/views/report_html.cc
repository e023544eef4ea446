// The report as one HTML file: styles and pictures inside, no script, no request; light and dark.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/html.h"
#include "cli/views/report_parts.h"

namespace flopwatch::cli {
namespace {

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
  const auto y = [&](double ratio) {
    return kTop + (1 - ratio / top) * (kHeight - kTop - kBottom);
  };
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"OFU over time, highest {}\">\n",
      kWidth, kHeight, Percent(high));
  for (int i = 0; i <= 2; ++i) {
    const double value = top * i / 2;
    out += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"var(--line)\"/>"
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
    const std::string point =
        fmt::format("{}{:.1f} {:.1f}", open ? "L" : "M", x(s.ts[i]), y(*s.ofu[i]));
    line += point;
    area += point;
    if (!open) open_x = x(s.ts[i]);
    last_x = x(s.ts[i]);
    open = true;
  }
  close();
  out += fmt::format("<path d=\"{}\" fill=\"var(--useful)\" fill-opacity=\"0.14\"/>\n", area);
  out += fmt::format(
      "<path d=\"{}\" fill=\"none\" stroke=\"var(--useful)\" stroke-width=\"2\" "
      "stroke-linejoin=\"round\"/>\n",
      line);
  out += fmt::format(
      "<text x=\"{}\" y=\"{}\">{}</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} "
      "UTC</text>\n</svg>\n",
      kLeft, kHeight - 4, Minute(static_cast<Micros>(from) * kMicrosPerSecond), kWidth, kHeight - 4,
      Minute(static_cast<Micros>(s.ts.back()) * kMicrosPerSecond));
  return out;
}

std::string Split(const UsageView& u) {
  if (!u.ofu || u.gpu_seconds <= 0) return "";
  const auto share = [&](double s) { return std::clamp(s / u.gpu_seconds * 100, 0.0, 100.0); };
  return fmt::format(
      "<div class=\"split\"><div class=\"u\" style=\"width:{:.2f}%\"></div><div class=\"l\" "
      "style=\"width:{:.2f}%\"></div></div>\n"
      "<p class=\"soft key\"><i class=\"u\"></i>useful {} GPU-h<i class=\"l\"></i>lost {} GPU-h"
      "<i style=\"background:var(--line)\"></i>not known {} GPU-h</p>\n",
      share(u.useful_s()), share(u.lost_s), GpuHours(u.useful_s()), GpuHours(u.lost_s),
      GpuHours(std::max(0.0, u.gpu_seconds - u.computable_s)));
}

}  // namespace

std::string ReportHtml(const Report& r) {
  std::string out =
      fmt::format("<h1>Fleet report</h1>\n<p class=\"soft\">{}<br>from {}, written {}</p>\n",
                  HtmlEscape(r.window.Text()), HtmlEscape(r.source), HtmlEscape(r.written));
  if (r.fleet.ofu) {
    out += fmt::format(
        "<p class=\"big\">{} <small>OFU{}</small></p>\n", HtmlEscape(Percent(r.fleet.ofu)),
        r.fleet.ci95 ? fmt::format(", ± {:.1f} points (95 %)", *r.fleet.ci95 * 100) : "");
  } else {
    out += fmt::format("<p class=\"big\">OFU <small>{}</small></p>\n", HtmlEscape(OfuHeadline(r)));
  }
  out += Split(r.fleet) + Trend(r) + "<div class=\"facts\">\n";
  for (const ReportFact& f : FactsOf(r)) {
    out += fmt::format("<div class=\"fact\">{}<b>{}</b><span>{}</span></div>\n", HtmlEscape(f.name),
                       HtmlEscape(f.value), HtmlEscape(f.remark));
  }
  out += "</div>\n";
  for (const ReportSection& s : SectionsOf(r)) {
    out += fmt::format("<h2>{}</h2>\n", HtmlEscape(s.title));
    if (!s.remark.empty()) out += fmt::format("<p class=\"soft\">{}</p>\n", HtmlEscape(s.remark));
    out += HtmlTable(s.table);
  }
  out += fmt::format("<p class=\"soft\">{}</p>\n", HtmlEscape(MethodText(r)));
  return HtmlPage("Fleet report, " + r.window.Text(), out);
}

}  // namespace flopwatch::cli
