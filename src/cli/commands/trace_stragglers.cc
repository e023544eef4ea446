// flopwatch trace stragglers: who is waited for, what that costs and why.
#include <fmt/format.h>

#include <memory>

#include "cli/commands/trace.h"
#include "cli/commands/trace_input.h"
#include "cli/views/style.h"
#include "trace/analysis/run.h"
#include "trace/analysis/stragglers.h"

namespace flopwatch::cli {
namespace {

struct StragglersOptions {
  TraceInputOptions input;
  TraceAnalysisOptions analysis;
};

Status RunStragglers(Context& context, const StragglersOptions& o) {
  FW_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(context, o.input));
  const trace::AnalysisOptions options = OptionsOf(o.input, o.analysis);
  const trace::AnalysisInput input(loaded->set(), options);
  if (loaded->set().ranks.size() < 2) {
    return FailedPrecondition(
        "not computable: one rank alone waits for nobody we can see; give the files of two ranks "
        "or more, or their folder");
  }
  FW_ASSIGN_OR_RETURN(const trace::StragglerVerdict verdict,
                      trace::FindStragglers(input, input.collectives()));
  const bool json = context.format() == OutputFormat::kJson && !context.picks_columns();
  const bool all = json || context.for_people() || context.format() == OutputFormat::kMarkdown;
  FW_ASSIGN_OR_RETURN(
      const auto requests,
      trace::ParseAnalyses(all ? "stragglers,collectives,collective_skew" : "stragglers", options));
  const std::vector<trace::AnalysisAnswer> answers =
      trace::RunAnalyses(input, requests, options.threads);
  if (json) {
    std::string out;
    JsonWriter writer(&out);
    writer.BeginObject().Field("verdict", verdict.sentence).Key("straggler");
    verdict.straggler ? writer.Value(verdict.ranks.front().rank) : writer.Null();
    writer.Key("cause");
    verdict.straggler&& verdict.cause ? writer.Value(trace::LatenessCauseName(*verdict.cause))
                                      : writer.Null();
    for (const trace::AnalysisAnswer& a : answers) {
      writer.Key(a.key);
      trace::WriteAnalysisJson(writer, a.key, a.tables);
    }
    trace::WriteLosses(writer, loaded->losses);
    writer.EndObject();
    context.Out(out + "\n");
    return absl::OkStatus();
  }
  if (context.for_people())
    context.Out(Wrap(verdict.sentence, context.width() > 0 ? context.width() : 100, "", "") +
                "\n\n");
  std::vector<std::pair<std::string, Table>> tables;
  for (const trace::AnalysisAnswer& a : answers) {
    if (!a.tables.ok()) return Annotate(a.tables.status(), a.key);
    for (const trace::AnalysisTables::Part& part : a.tables->parts)
      tables.emplace_back(part.name.empty() ? a.title : fmt::format("{}: {}", a.title, part.name),
                          part.table);
  }
  if (!tables.empty() && !tables[0].second.notes.empty() && context.for_people())
    tables[0].second.notes.erase(tables[0].second.notes.begin());  // the verdict, said above
  return WriteTables(context, tables);
}

}  // namespace

Args AddTraceStragglers(Args trace, Run* run) {
  Args sub = trace.Command("stragglers", "Which rank the others wait for, what that costs and why");
  auto o = std::make_shared<StragglersOptions>();
  AddTraceInput(sub, &o->input);
  AddTraceAnalysisOptions(sub, &o->analysis);
  sub.Footer(
      "This reads profiler traces: it sees every collective of a few steps. \"flopwatch "
      "stragglers\" "
      "judges all\njobs of a fleet by their counters, without any trace; a GPU that it names is "
      "one "
      "to trace.\n\n"
      "Examples:\n"
      "  flopwatch trace stragglers traces/\n"
      "  flopwatch trace stragglers traces/ -o json | jq .straggler");
  *run = [o](Context& context) { return RunStragglers(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
