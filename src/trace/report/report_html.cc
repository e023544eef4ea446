// The trace report as one HTML file: styles and pictures inside, no script, no outside request;
// light, dark and on paper. What colour says, a pattern or the order of the parts says too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/html.h"
#include "trace/report/report.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMaxDrawnRanks = 64;   // of the timeline; the table has all
constexpr size_t kMaxStepRanks = 16;    // small multiples of steps
constexpr size_t kMaxDrawnSteps = 120;  // bars a rank

// Wider than other documents: tables of ranks and operators have a dozen columns and more.
constexpr std::string_view kStyle =
    R"(<style>
:root{--copy:#7b68b5}body{max-width:1232px}th.n{white-space:normal}.bar{width:48px}
.dense th,.dense td{padding:3px 6px;font-size:13px}.dense th{font-size:12px}
.dense.packed th,.dense.packed td{padding:3px 3px}
.verdict{font-size:17px;line-height:1.55;margin:16px 0 8px}.verdict b{font-weight:650}
.card{border:1px solid var(--line);border-left:4px solid var(--soft);border-radius:4px;)"
    R"(padding:10px 16px;margin:12px 0;break-inside:avoid}
.card.critical{border-left-color:var(--bad)}.card.warning{border-left-color:var(--lost)}
.card h3{font-size:15px;margin:0 0 4px}.card ul{margin:6px 0;padding-left:20px}.card p{margin:6px 0}
.tag{font-size:12px;font-weight:600;text-transform:uppercase;letter-spacing:.4px;)"
    R"(color:var(--soft);margin-right:8px}
.critical .tag{color:var(--bad)})"
    R"(.name{font-family:ui-monospace,monospace;font-size:12px;overflow-wrap:anywhere}
.wide{overflow-x:auto}.wide svg{min-width:720px})"
    R"(.key svg{display:inline;width:12px;height:12px;margin:0 4px 0 16px;vertical-align:-1px}
details{margin:8px 0}summary{cursor:pointer}td{overflow-wrap:break-word}.any{overflow-wrap:anywhere}
@media print{body{max-width:none;padding:0;font-size:11px}.wide{overflow:visible})"
    R"(details>*{display:block}
:root{--ink:#000;--soft:#444;--line:#ccc;--page:#fff;--panel:#fff;--useful:#2f6fb5;--lost:#d9822b}}
</style>
)";

// Patterns, so that the parts differ without colour.
constexpr std::string_view kPatterns =
    "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs><pattern "
    "id=\"pc\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"var(--lost)\"/><rect "
    "width=\"2\" height=\"6\" fill=\"var(--page)\" fill-opacity=\".55\"/></pattern><pattern "
    "id=\"pm\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\"><rect width=\"5\" "
    "height=\"5\" fill=\"var(--copy)\"/><circle cx=\"2.5\" cy=\"2.5\" r=\"1\" "
    "fill=\"var(--page)\"/></pattern></defs></svg>\n";
constexpr std::string_view kFills[] = {"var(--useful)", "url(#pc)", "url(#pm)"};

std::string Key() {
  std::string out = "<p class=\"soft key\">";
  constexpr std::string_view kNames[] = {"compute", "communication that no compute hides",
                                         "copies that neither hides"};
  for (size_t i = 0; i < 3; ++i)
    out += fmt::format(
        "<svg viewBox=\"0 0 12 12\"><rect width=\"12\" height=\"12\" fill=\"{}\"/></svg>{}",
        kFills[i], kNames[i]);
  return out +
         "<svg viewBox=\"0 0 12 12\"><rect width=\"12\" height=\"12\" "
         "fill=\"var(--line)\"/></svg>idle</p>\n";
}

std::string Rect(double x, double y, double w, double h, std::string_view fill) {
  return w <= 0 || h <= 0 ? ""
                          : fmt::format(
                                "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" "
                                "height=\"{:.2f}\" fill=\"{}\"/>",
                                x, y, w, h, fill);
}

// The area between two stacked levels over the cells, as one path of steps.
std::string Band(const ReportRank& r, size_t part, double x0, double width, double y0,
                 double height) {
  const size_t n = r.timeline.size();
  const auto level = [&](size_t cell, size_t parts) {
    double sum = 0;
    for (size_t p = 0; p < parts; ++p) sum += r.timeline[cell][p];
    return std::clamp(sum, 0.0, 1.0);
  };
  std::string path;
  for (size_t begin = 0; begin < n;) {
    if (r.timeline[begin][part] <= 0) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < n && r.timeline[end][part] > 0) ++end;
    const auto x = [&](size_t i) {
      return x0 + width * static_cast<double>(i) / static_cast<double>(n);
    };
    const auto y = [&](double v) { return y0 + height * (1 - v); };
    path += fmt::format("M{:.1f} {:.1f}", x(begin), y(level(begin, part)));
    for (size_t i = begin; i < end; ++i)
      path += fmt::format("V{:.1f}H{:.1f}", y(level(i, part + 1)), x(i + 1));
    for (size_t i = end; i-- > begin;)
      path += fmt::format("V{:.1f}H{:.1f}", y(level(i, part)), x(i));
    path += 'Z';
    begin = end;
  }
  return path.empty() ? "" : fmt::format("<path d=\"{}\" fill=\"{}\"/>", path, kFills[part]);
}

// A strip a rank over time, and under it a bar of where its time went in all.
std::string Timelines(const TraceReport& r) {
  constexpr double kLeft = 76, kWidth = 884, kStrip = 26, kBar = 7, kRow = 44;
  std::vector<const ReportRank*> drawn;
  Nanos first = std::numeric_limits<Nanos>::max(), last = 0, longest = 0;
  for (const ReportRank& k : r.ranks) {
    if (!k.time) continue;
    if (drawn.size() < kMaxDrawnRanks) drawn.push_back(&k);
    first = std::min(first, k.gpu_begin);
    last = std::max(last, k.gpu_begin + k.time->window);
    longest = std::max(longest, k.time->window);
  }
  if (drawn.empty()) return "";
  const double span = static_cast<double>(r.aligned ? last - first : longest);
  std::string out = fmt::format(
      "<div class=\"wide\"><svg viewBox=\"0 0 960 {:.0f}\" role=\"img\" aria-label=\"Where the GPU "
      "time of each rank "
      "went, over time\">\n",
      kRow * static_cast<double>(drawn.size()) + 16);
  double y = 4;
  for (const ReportRank* k : drawn) {
    const TimeSplit& t = *k->time;
    const double x =
        kLeft + (r.aligned ? static_cast<double>(k->gpu_begin - first) / span * kWidth : 0);
    const double w = static_cast<double>(t.window) / span * kWidth;
    out += fmt::format("<text x=\"0\" y=\"{:.1f}\">rank {}</text>", y + 17, k->rank);
    out += Rect(x, y, w, kStrip, "var(--line)");
    for (size_t part = 0; part < 3; ++part) out += Band(*k, part, x, w, y, kStrip);
    const auto wide = [&](Nanos part) { return static_cast<double>(part) / t.window * kWidth; };
    const double b = y + kStrip + 3;
    out += Rect(kLeft, b, kWidth, kBar, "var(--line)");
    double at = kLeft;
    const Nanos parts[] = {t.compute, t.exposed_communication, t.exposed_memory};
    for (size_t p = 0; p < 3; ++p) {
      out += Rect(at, b, wide(parts[p]), kBar, kFills[p]);
      at += wide(parts[p]);
    }
    out += fmt::format(
        "<title>rank {}: compute {}, exposed communication {}, exposed copies {}, idle "
        "{}</title>\n",
        k->rank, HumanNanos(t.compute), HumanNanos(t.exposed_communication),
        HumanNanos(t.exposed_memory), HumanNanos(t.idle));
    y += kRow;
  }
  out += fmt::format(
      "<text x=\"{}\" y=\"{:.1f}\">0</text><text x=\"960\" y=\"{:.1f}\" "
      "text-anchor=\"end\">{}</text></svg></div>\n",
      kLeft, y + 8, y + 8, HumanNanos(static_cast<Nanos>(span)));
  out += Key();
  out += fmt::format(
      "<p class=\"soft\">Upper strips: GPU work over time{}. Lower bars: the whole span of the "
      "rank's GPU work in its parts.{}</p>\n",
      r.ranks.size() < 2 ? ""
      : r.aligned        ? ", all ranks on one clock as their files say"
                         : ", each rank from its own first GPU work",
      r.ranks.size() > drawn.size() ? fmt::format(" {} of {} ranks are drawn; the table has all.",
                                                  drawn.size(), r.ranks.size())
                                    : "");
  return out;
}

std::string Steps(const TraceReport& r) {
  if (std::ranges::none_of(r.ranks, [](const ReportRank& k) { return k.steps > 1; })) return "";
  constexpr double kLeft = 76, kWidth = 884, kHigh = 72, kRow = 96;
  Nanos longest = 1;
  std::vector<std::vector<const ReportStep*>> by_rank;
  for (const ReportStep& s : r.steps) {
    if (by_rank.empty() || by_rank.back().front()->rank != s.rank) {
      if (by_rank.size() == kMaxStepRanks) break;
      by_rank.emplace_back();
    }
    if (by_rank.back().size() < kMaxDrawnSteps) by_rank.back().push_back(&s);
    longest = std::max(longest, s.time.window);
  }
  std::string out = fmt::format(
      "<div class=\"wide\"><svg viewBox=\"0 0 960 {:.0f}\" role=\"img\" aria-label=\"Duration of "
      "each step and where "
      "it went\">\n",
      kRow * static_cast<double>(by_rank.size()) + 4);
  double y = 4;
  for (const auto& steps : by_rank) {
    out += fmt::format("<text x=\"0\" y=\"{:.1f}\">rank {}</text>", y + 12, steps.front()->rank);
    const double pitch = std::min(kWidth / static_cast<double>(steps.size()), 64.0),
                 w = pitch * 0.7;
    const size_t every = std::max<size_t>(1, static_cast<size_t>(std::ceil(34 / pitch)));
    for (size_t i = 0; i < steps.size(); ++i) {
      const TimeSplit& t = steps[i]->time;
      const double x = kLeft + pitch * static_cast<double>(i);
      const auto high = [&](Nanos part) { return static_cast<double>(part) / longest * kHigh; };
      double bottom = y + kHigh;
      out += Rect(x, bottom - high(t.window), w, high(t.window), "var(--line)");
      const Nanos parts[] = {t.compute, t.exposed_communication, t.exposed_memory};
      for (size_t p = 0; p < 3; ++p) {
        bottom -= high(parts[p]);
        out += Rect(x, bottom, w, high(parts[p]), kFills[p]);
      }
      if (i % every == 0)
        out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}{}</text>", x, y + kHigh + 14,
                           steps[i]->number, steps[i]->complete ? "" : "*");
    }
    out += '\n';
    y += kRow;
  }
  out += "</svg></div>\n" + Key();
  out += fmt::format(
      "<p class=\"soft\">Height: duration, the longest is {}. From below: compute, exposed "
      "communication, exposed copies; the rest is idle. * = not wholly in the trace.</p>\n",
      HumanNanos(longest));
  return out;
}

// A name as short as it can be told by, the whole one where the pointer rests.
std::string NameSpan(std::string_view name) {
  const std::string brief = BriefName(name);
  if (brief == name) return "<span class=\"any\">" + HtmlEscape(name) + "</span>";
  return fmt::format("<span class=\"any\" title=\"{}\">{}</span>", HtmlEscape(name),
                     HtmlEscape(brief));
}

std::string HtmlTableOf(const Table& table) {
  // Many columns stand closer, so that they fit a screen.
  constexpr size_t kDense = 10, kPacked = 16;
  const std::string html = HtmlTable(table, [](const Column& column, const Cell& cell) {
    const auto* name = std::get_if<std::string>(&cell);
    if (name == nullptr) return std::string();
    if (column.name.find("kernel") != std::string::npos) return NameSpan(*name);
    if (column.name == "shapes") return "<span class=\"any\">" + HtmlEscape(*name) + "</span>";
    return std::string();
  });
  const size_t columns = table.columns.size();
  return fmt::format("<div class=\"wide{}\">{}</div>\n",
                     columns >= kPacked  ? " dense packed"
                     : columns >= kDense ? " dense"
                                         : "",
                     html);
}

std::string PriceText(const Finding& f) {
  const std::string gain = HumanCell(f.gain, ColumnFormat::kPercent);
  return SharedGain(f)
             ? fmt::format("{} of the step, up to {} with what other findings explain too",
                           HumanCell(f.claimed, ColumnFormat::kPercent), gain)
             : fmt::format("Up to {} of the step", gain);
}

std::string Card(const Finding& f, Nanos origin) {
  std::string out =
      fmt::format("<div class=\"card {}\"><h3><span class=\"tag\">{}</span>{}</h3>\n",
                  SeverityName(f.severity), SeverityName(f.severity), HtmlEscape(f.title));
  if (f.gain > 0)
    out += fmt::format("<p><b>{}.</b> <span class=\"soft\">{}</span></p>\n", PriceText(f),
                       HtmlEscape(f.gain_basis));
  out += "<ul>";
  for (const Fact& fact : f.evidence) out += fmt::format("<li>{}</li>", HtmlEscape(fact.text));
  for (const std::string& text : f.top) {
    const TopLine line = ReadTop(text);
    out +=
        fmt::format("<li class=\"name\">{}{}</li>", NameSpan(line.name), HtmlEscape(line.figures));
  }
  out += "</ul>\n";
  if (const std::string where = WhereOf(f, origin); !where.empty())
    out += fmt::format("<p class=\"soft\">Look at {}</p>\n", HtmlEscape(where));
  out += fmt::format("<p><b>Do:</b> {}</p>\n", HtmlEscape(f.advice));
  for (const std::string& u : f.uncertain)
    out += fmt::format("<p class=\"soft\">To be certain: {}</p>\n", HtmlEscape(u));
  if (!f.source.empty())
    out += fmt::format("<p class=\"soft\">Rule <code>{}</code>, from {}</p>\n", HtmlEscape(f.id),
                       HtmlEscape(f.source));
  return out + "</div>\n";
}

void HtmlSection(std::string* out, std::string_view title, const ReportTable& t) {
  if (t.missing.empty() && t.table.rows.empty()) return;
  *out += fmt::format("<h2>{}</h2>\n", title);
  if (!t.missing.empty()) {
    *out += fmt::format("<p class=\"soft\">{}</p>\n", HtmlEscape(t.missing));
    return;
  }
  *out += HtmlTableOf(ForPeople(t.table));
  for (const std::string& note : t.table.notes)
    *out += fmt::format("<p class=\"soft\">{}</p>\n", HtmlEscape(note));
}

}  // namespace

std::string ReportHtml(const TraceReport& r) {
  std::string out = fmt::format("{}{}", kStyle, kPatterns);
  out += fmt::format("<h1>Trace report</h1>\n<p class=\"soft\">{}{}</p>\n<p class=\"verdict\">",
                     HtmlEscape(Headline(r)),
                     r.written.empty() ? "" : "<br>written " + HtmlEscape(r.written));
  for (size_t i = 0; i < r.verdict.size(); ++i)
    out += i == 0 ? "<b>" + HtmlEscape(r.verdict[i]) + "</b>" : " " + HtmlEscape(r.verdict[i]);
  out += "</p>\n<h2>Where the time went</h2>\n" + Timelines(r) + HtmlTableOf(RankTable(r));
  if (!r.steps.empty()) {
    const Table steps = StepTable(r);
    out += "<h2>Steps</h2>\n" + Steps(r) +
           fmt::format("<details{}><summary>{} steps as a table</summary>\n",
                       r.steps.size() <= 20 ? " open" : "", r.steps.size());
    out += HtmlTableOf(steps);
    for (const std::string& note : steps.notes)
      out += fmt::format("<p class=\"soft\">{}</p>", HtmlEscape(note));
    out += "</details>\n";
  }
  out += "<h2>Findings</h2>\n";
  if (r.findings.findings.empty()) out += "<p class=\"soft\">None.</p>\n";
  for (const Finding& f : r.findings.findings) out += Card(f, r.origin);
  if (!r.findings.not_checked.empty()) {
    out += fmt::format(
        "<details><summary class=\"soft\">{} rules were not checked, for want of "
        "data</summary><ul>",
        r.findings.not_checked.size());
    for (const NotChecked& n : r.findings.not_checked)
      out += fmt::format("<li><code>{}</code>: {}</li>", HtmlEscape(n.id), HtmlEscape(n.reason));
    out += "</ul></details>\n";
  }
  if (const Table ledger = LedgerTable(r); !ledger.rows.empty()) {
    out += fmt::format(
        "<details{}><summary>What was lost, and how much of it findings explain</summary>\n{}"
        "<p class=\"soft\">{}</p></details>\n",
        ledger.rows.size() <= 16 ? " open" : "", HtmlTableOf(ledger), HtmlEscape(ledger.notes[0]));
  }
  if (r.ranks.size() > 1) HtmlSection(&out, "Stragglers", r.stragglers);
  HtmlSection(&out, "Operators", r.operators);
  if (!r.operator_note.empty())
    out += fmt::format("<p class=\"soft\">{}</p>\n", HtmlEscape(r.operator_note));
  HtmlSection(&out, "Not counted", r.uncounted);
  if (const Table losses = LossTable(r.losses); !losses.rows.empty())
    out += "<h2>Left out or repaired</h2>\n" + HtmlTableOf(losses);
  out +=
      "<p class=\"soft\">Times are of GPU work (kernels, copies, sets) in nanoseconds, each moment "
      "given to the first of compute, exposed communication, "
      "exposed copies and idle that was true. What is \"up to\" is an upper bound, and such bounds "
      "do not add up.</p>\n";
  return HtmlPage("Trace report: " + Headline(r), out);
}

}  // namespace flopwatch::trace
