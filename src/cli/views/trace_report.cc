#include "cli/views/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace flopwatch::cli {
namespace {

using trace::Finding;
using trace::HumanNanos;
using trace::Nanos;
using trace::ReportRank;
using trace::ReportStep;
using trace::ReportTable;
using trace::Severity;
using trace::TimeSplit;
using trace::TraceReport;

constexpr size_t kMaxRankLines = 24;  // of the terminal; the documents have all
constexpr size_t kMaxStepLines = 12;
constexpr size_t kMaxTableLines = 16;
constexpr int kIndent = 2;

struct Part {
  std::string_view block, ascii, name;
  Tone tone;
};
constexpr std::array<Part, 4> kParts = {{{"█", "#", "compute", Tone::kUseful},
                                         {"▓", "=", "communication nothing hides", Tone::kLost},
                                         {"▒", "+", "copies nothing hides", Tone::kPlain},
                                         {"·", ".", "idle", Tone::kDim}}};

std::string Heading(const ViewOptions& v, std::string_view text) {
  return "\n" + Paint(v, Tone::kBold, text) + "\n";
}

std::string Line(int indent, std::string_view text, int width, std::string_view first = "") {
  const std::string blank(static_cast<size_t>(indent), ' ');
  std::string out = Wrap(text, width, first.empty() ? blank : std::string(first), blank);
  if (!out.ends_with('\n')) out += '\n';
  return out;
}

Tone ToneOfSeverity(Severity s) {
  return s == Severity::kCritical ? Tone::kBad : s == Severity::kWarning ? Tone::kLost : Tone::kDim;
}

std::string SplitLine(const ViewOptions& v, std::string_view label, int label_width,
                      const TimeSplit& t) {
  const auto percent = [&](Nanos part) { return fmt::format("{:>8}", Percent(t.Share(part))); };
  std::string out =
      "  " + PadRight(label, label_width) + fmt::format(" {:>9}", HumanNanos(t.window));
  // "µ" is one column and two bytes.
  out = PadRight(out, 2 + label_width + 10);
  out += percent(t.compute) + percent(t.exposed_communication) + percent(t.exposed_memory) +
         percent(t.idle) + "  ";
  const int bar = std::max(10, v.width - DisplayWidth(out));
  return out + SplitBar(t, std::min(bar, 60), v) + "\n";
}

std::string SplitHead(const ViewOptions& v, std::string_view label, int label_width,
                      std::string_view span) {
  std::string out = "  " + PadRight(label, label_width) + PadLeft(span, 10) +
                    PadLeft("compute", 8) + PadLeft("comm.", 8) + PadLeft("copies", 8) +
                    PadLeft("idle", 8);
  return Paint(v, Tone::kDim, out) + "\n";
}

std::string Legend(const ViewOptions& v) {
  std::string out = "  ";
  for (const Part& p : kParts)
    out += Paint(v, p.tone, v.ascii ? p.ascii : p.block) + " " + std::string(p.name) + "   ";
  while (out.ends_with(' ')) out.pop_back();
  return out + "\n";
}

Nanos Lost(const TimeSplit& t) { return t.window - t.compute; }

std::string Ranks(const TraceReport& r, const ViewOptions& v) {
  std::vector<const ReportRank*> shown;
  for (const ReportRank& k : r.ranks) {
    if (k.time) shown.push_back(&k);
  }
  if (shown.empty()) return "";
  const size_t all = shown.size();
  if (all > kMaxRankLines) {
    // `shown` keeps those that lose most, and then goes back in order.
    std::stable_sort(shown.begin(), shown.end(), [](const ReportRank* a, const ReportRank* b) {
      return Lost(*a->time) > Lost(*b->time);
    });
    shown.resize(kMaxRankLines);
    std::stable_sort(shown.begin(), shown.end(),
                     [](const ReportRank* a, const ReportRank* b) { return a->rank < b->rank; });
  }
  std::string out = Heading(v, "Where the time went") + SplitHead(v, "rank", 6, "GPU span");
  for (const ReportRank* k : shown)
    out += SplitLine(v, fmt::format("{}{}", k->rank, k->rank_known || all < 2 ? "" : "?"), 6,
                     *k->time);
  if (all > 1) out += SplitLine(v, "all", 6, r.total);
  out += Legend(v);
  if (all > shown.size())
    out += Paint(v, Tone::kDim,
                 fmt::format("  the {} of {} ranks that lose most; -o md or html has all",
                             shown.size(), all)) +
           "\n";
  return out;
}

std::string Steps(const TraceReport& r, const ViewOptions& v) {
  if (std::none_of(r.ranks.begin(), r.ranks.end(), [](const ReportRank& k) { return k.steps > 1; }))
    return "";
  std::vector<const ReportStep*> shown;
  for (const ReportStep& s : r.steps) shown.push_back(&s);
  const size_t all = shown.size() + static_cast<size_t>(r.steps_left_out);
  if (shown.size() > kMaxStepLines) {
    std::stable_sort(shown.begin(), shown.end(), [](const ReportStep* a, const ReportStep* b) {
      return a->time.window > b->time.window;
    });
    shown.resize(kMaxStepLines);
  }
  const bool many = r.ranks.size() > 1;
  std::string out =
      Heading(v, all > shown.size() ? fmt::format("Steps, the {} longest of {}", shown.size(), all)
                                    : std::string("Steps"));
  const int label = many ? 16 : 10;
  out += SplitHead(v, many ? "rank, step" : "step", label, "duration");
  bool cut = false;
  for (const ReportStep* s : shown) {
    cut |= !s->complete;
    const std::string mark = s->complete ? "" : "*";
    out += SplitLine(v,
                     many ? fmt::format("{}, {}{}", s->rank, s->number, mark)
                          : fmt::format("{}{}", s->number, mark),
                     label, s->time);
  }
  if (cut) out += Paint(v, Tone::kDim, "  * not wholly in the trace") + "\n";
  return out;
}

std::string TableText(const Table& table, const ViewOptions& v) {
  Table t = trace::ForPeople(table);
  const size_t all = t.rows.size();
  if (all > kMaxTableLines) t.rows.resize(kMaxTableLines);
  if (v.ascii) {
    for (Column& c : t.columns) {
      if (c.format == ColumnFormat::kPercentBar) c.format = ColumnFormat::kPercent;
    }
  }
  std::string text =
      Render(t, {.format = OutputFormat::kTable, .color = v.color, .width = v.width - kIndent});
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out += "  " + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  if (all > kMaxTableLines)
    out += Paint(v, Tone::kDim, fmt::format("  {} more", all - kMaxTableLines)) + "\n";
  for (const std::string& note : t.notes) out += Paint(v, Tone::kDim, Line(2, note, v.width));
  return out;
}

std::string Section(const TraceReport&, std::string_view title, const ReportTable& t,
                    const ViewOptions& v) {
  if (!t.missing.empty() || t.table.rows.empty()) return "";
  return Heading(v, title) + TableText(t.table, v);
}

}  // namespace

std::string SplitBar(const TimeSplit& t, int width, const ViewOptions& v) {
  if (t.window <= 0 || width <= 0) return std::string(static_cast<size_t>(std::max(width, 0)), ' ');
  const std::array<Nanos, 4> parts = {t.compute, t.exposed_communication, t.exposed_memory, t.idle};
  // Largest remainder: the columns add up to the width, each as near to its share as can be.
  std::array<int, 4> columns{};
  std::array<std::pair<double, size_t>, 4> rest;
  int used = 0;
  for (size_t i = 0; i < 4; ++i) {
    const double exact = static_cast<double>(parts[i]) / static_cast<double>(t.window) * width;
    columns[i] = static_cast<int>(exact);
    used += columns[i];
    rest[i] = {exact - columns[i], i};
  }
  std::stable_sort(rest.begin(), rest.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; used < width && i < 4; ++i, ++used) ++columns[rest[i].second];
  std::string out;
  for (size_t i = 0; i < 4; ++i) {
    std::string piece;
    for (int c = 0; c < columns[i]; ++c) piece += v.ascii ? kParts[i].ascii : kParts[i].block;
    if (!piece.empty()) out += Paint(v, kParts[i].tone, piece);
  }
  return out;
}

std::string FindingsText(const trace::Findings& findings, Nanos origin, const ViewOptions& v) {
  std::string out;
  int number = 0;
  for (const Finding& f : findings.findings) {
    const std::string tag = fmt::format(
        "{} {}", Paint(v, ToneOfSeverity(f.severity), trace::SeverityName(f.severity)),
        !(f.gain > 0)          ? std::string("no gain claimed")
        : trace::SharedGain(f) ? fmt::format("{}, up to {}", Percent(f.claimed), Percent(f.gain))
                               : fmt::format("up to {}", Percent(f.gain)));
    if (number++ > 0) out += "\n";
    out += fmt::format("{:>2}. {}  {}\n", number, Paint(v, Tone::kBold, Printable(f.title)), tag);
    for (const trace::Fact& fact : f.evidence)
      out += Line(6, Printable(fact.text, 400), v.width, "    - ");
    for (const std::string& text : f.top) {
      const trace::TopLine top = trace::ReadTop(text);
      out += Line(6, Printable(trace::BriefName(top.name)) + Printable(top.figures), v.width,
                  "    - ");
    }
    if (const std::string where = trace::WhereOf(f, origin); !where.empty())
      out += Line(4, "Look at " + where, v.width);
    out += Line(4, "Do: " + Printable(f.advice, 600), v.width);
    if (f.gain > 0 && !f.gain_basis.empty())
      out += Paint(v, Tone::kDim, Line(4, "Gain: " + Printable(f.gain_basis, 400), v.width));
    for (const std::string& u : f.uncertain)
      out += Paint(v, Tone::kDim, Line(4, "To be certain: " + Printable(u, 400), v.width));
  }
  if (findings.findings.empty()) out += "  No finding.\n";
  if (!findings.not_checked.empty()) {
    std::string ids;
    for (const trace::NotChecked& n : findings.not_checked)
      ids += fmt::format("{}{}", ids.empty() ? "" : ", ", n.id);
    out += "\n" +
           Paint(v, Tone::kDim,
                 Line(2,
                      fmt::format(
                          "Not checked, for want of data: {} (-o json says what each lacks)", ids),
                      v.width));
  }
  return out;
}

std::string TraceReportText(const TraceReport& r, const ViewOptions& v) {
  std::string out = Paint(v, Tone::kDim, Printable(trace::Headline(r), 300)) + "\n\n";
  std::string verdict;
  for (const std::string& s : r.verdict)
    verdict += (verdict.empty() ? "" : " ") + Printable(s, 1000);
  out += Line(0, verdict, v.width);
  out += Ranks(r, v) + Steps(r, v);
  out += Heading(v, "Findings") + FindingsText(r.findings, r.origin, v);
  out += Section(r, "Stragglers", r.stragglers, v);
  out += Section(r, "Operators", r.operators, v);
  if (!r.operator_note.empty())
    out += Paint(v, Tone::kDim, Line(2, Printable(r.operator_note, 600), v.width));
  out += Section(r, "Not counted", r.uncounted, v);
  if (const Table losses = trace::LossTable(r.losses); !losses.rows.empty())
    out += Heading(v, "Left out or repaired") + TableText(losses, v);
  return out;
}

}  // namespace flopwatch::cli
