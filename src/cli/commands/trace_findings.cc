// flopwatch trace findings: ways of wasting the GPU that the rules saw, with evidence and advice.
#include <fmt/format.h>

#include <memory>

#include "cli/commands/trace.h"
#include "cli/commands/trace_input.h"
#include "cli/views/columns.h"
#include "cli/views/trace_report.h"
#include "trace/findings/finding.h"
#include "trace/report/report.h"

namespace flopwatch::cli {
namespace {

struct FindingsOptions {
  TraceInputOptions input;
  TraceAnalysisOptions analysis;
  std::string fail_on;
  bool list = false;
};

Table ListRules() {
  Table t;
  t.columns = {{"id", "id"}, {"title", "what it looks for"}};
  for (const trace::Rule& r : trace::Rules())
    t.rows.push_back({std::string(r.id), std::string(r.title)});
  return t;
}

Table FindingsTable(const trace::Findings& findings, trace::Nanos origin) {
  Table t;
  t.columns = ColumnsOf(Column{"id", "id"}, Column{"severity", "severity"},
                        Column{"gain_share", "gain, up to", ColumnFormat::kPercent},
                        Column{"claimed_share", "its own", ColumnFormat::kPercent},
                        Column{"ranks", "ranks"}, Column{"title", "finding"},
                        Column{"where", "where"}, Column{"evidence", "evidence"},
                        Column{"top", "most concerned"}, Column{"advice", "advice"});
  for (const trace::Finding& f : findings.findings) {
    std::string ranks, evidence, top;
    for (const int32_t r : f.ranks) ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", r);
    for (const trace::Fact& fact : f.evidence)
      evidence += fmt::format("{}{}", evidence.empty() ? "" : "; ", fact.text);
    for (const std::string& name : f.top) top += fmt::format("{}{}", top.empty() ? "" : "; ", name);
    t.rows.push_back({f.id, std::string(trace::SeverityName(f.severity)), f.gain, f.claimed, ranks,
                      f.title, trace::WhereOf(f, origin), evidence, top, f.advice});
  }
  for (const trace::NotChecked& n : findings.not_checked)
    t.notes.push_back(fmt::format("not checked: {}: {}", n.id, n.reason));
  return t;
}

Status RunFindings(Context& context, const FindingsOptions& o) {
  if (o.list) return context.Write(ListRules());
  FW_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(context, o.input));
  const trace::AnalysisInput input(loaded->set(), OptionsOf(o.input, o.analysis));
  const trace::Findings findings = trace::FindAll(input);
  const trace::Nanos origin = loaded->set().origin();
  const trace::Severity bar =
      o.fail_on == "critical" ? trace::Severity::kCritical : trace::Severity::kWarning;
  for (const trace::Finding& f : findings.findings) {
    if (!o.fail_on.empty() && f.severity >= bar) context.SetExitCode(ExitCode::kUnhealthy);
  }
  if (context.format() == OutputFormat::kJson && !context.picks_columns()) {
    std::string out;
    JsonWriter json(&out);
    json.BeginObject();
    trace::WriteFindings(json, findings, origin);
    trace::WriteLosses(json, loaded->losses);
    json.EndObject();
    context.Out(out + "\n");
    return absl::OkStatus();
  }
  if (context.for_people() && !context.picks_columns()) {
    context.Out(FindingsText(findings, origin, context.view()));
    return absl::OkStatus();
  }
  return context.Write(FindingsTable(findings, origin));
}

}  // namespace

Args AddTraceFindings(Args trace, Run* run) {
  Args sub = trace.Command(
      "findings", "What wastes the GPU in a trace, by expected gain, with evidence and advice");
  auto o = std::make_shared<FindingsOptions>();
  AddTraceInput(sub, &o->input);
  sub.Find("PATH").Required(false);  // --list needs none
  AddTraceAnalysisOptions(sub, &o->analysis);
  sub.Option("--fail-on SEVERITY", o->fail_on,
             "Exit with 3 when a finding is this severe or worse: warning or critical")
      .OneOf({"warning", "critical"});
  sub.Flag("--list", o->list, "The rules there are, and nothing else");
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace findings traces/\n"
      "  flopwatch trace findings rank0.json.gz -o json | jq '.findings[0]'\n"
      "  flopwatch trace findings rank0.json.gz --fail-on critical -q >/dev/null   in CI: exits "
      "with 3\n"
      "  flopwatch trace findings --list");
  *run = [o](Context& context) { return RunFindings(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
