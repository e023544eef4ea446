#include <fmt/format.h>

#include "base/text.h"
#include "trace/report/report.h"

namespace flopwatch::trace {
namespace {

// Text of a trace in a document: what Markdown or HTML would read as markup is taken literally.
std::string Literal(std::string_view text) {
  std::string out;
  for (const char c : Visible(text, /*keep_lines=*/true)) {
    if (std::string_view("\\`*_[]<>|#").find(c) != std::string_view::npos) out += '\\';
    out += IsControl(c) ? ' ' : c;
  }
  return out;
}

std::string TableOf(const Table& t) { return Render(t, {.format = OutputFormat::kMarkdown}); }

void MarkdownSection(std::string* out, std::string_view title, const ReportTable& t) {
  if (t.missing.empty() && t.table.rows.empty()) return;
  *out += fmt::format("\n## {}\n\n", title);
  if (!t.missing.empty()) {
    *out += Literal(t.missing) + "\n";
    return;
  }
  *out += TableOf(ForPeople(t.table));
  for (const std::string& note : t.table.notes) *out += "\n" + Literal(note) + "\n";
}

std::string GainText(const Finding& f) {
  if (!(f.gain > 0)) return "";
  const std::string gain = HumanCell(f.gain, ColumnFormat::kPercent);
  return SharedGain(f)
             ? fmt::format(", {}, up to {}", HumanCell(f.claimed, ColumnFormat::kPercent), gain)
             : fmt::format(", up to {}", gain);
}

}  // namespace

std::string ReportMarkdown(const TraceReport& r) {
  std::string out = fmt::format("# Trace report\n\n{}\n\n", Literal(Headline(r)));
  for (size_t i = 0; i < r.verdict.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : " ", Literal(r.verdict[i]));
  out += "\n\n## Where the time went\n\n" + TableOf(RankTable(r));
  if (!r.steps.empty()) out += "\n## Steps\n\n" + TableOf(StepTable(r));
  out += "\n## Findings\n";
  if (r.findings.findings.empty()) out += "\nNone.\n";
  for (const Finding& f : r.findings.findings) {
    out +=
        fmt::format("\n### {} ({}{})\n\n", Literal(f.title), SeverityName(f.severity), GainText(f));
    for (const Fact& fact : f.evidence) out += fmt::format("- {}\n", Literal(fact.text));
    for (const std::string& text : f.top) {
      const TopLine top = ReadTop(text);
      out += fmt::format("- most concerned: {}{}\n", Literal(BriefName(top.name)),
                         Literal(top.figures));
    }
    if (const std::string where = WhereOf(f, r.origin); !where.empty())
      out += fmt::format("- look at {}\n", where);
    out += fmt::format("\n**{}** {}\n", Literal(f.advice), Literal(f.gain_basis));
  }
  if (const Table ledger = LedgerTable(r); !ledger.rows.empty()) {
    out += "\n### What was lost, and how much of it findings explain\n\n" + TableOf(ledger) + "\n" +
           Literal(ledger.notes[0]) + "\n";
  }
  if (!r.findings.not_checked.empty()) {
    out += "\nNot checked, for want of data:\n\n";
    for (const NotChecked& n : r.findings.not_checked)
      out += fmt::format("- `{}`: {}\n", n.id, Literal(n.reason));
  }
  if (r.ranks.size() > 1) MarkdownSection(&out, "Stragglers", r.stragglers);
  MarkdownSection(&out, "Operators", r.operators);
  if (!r.operator_note.empty()) out += "\n" + Literal(r.operator_note) + "\n";
  MarkdownSection(&out, "Not counted", r.uncounted);
  if (const Table losses = LossTable(r.losses); !losses.rows.empty())
    out += "\n## Left out or repaired\n\n" + TableOf(losses);
  return Visible(out, /*keep_lines=*/true);
}

}  // namespace flopwatch::trace
