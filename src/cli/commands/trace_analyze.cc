// flopwatch trace analyze: the tables of single analyses.
#include <fmt/format.h>

#include <memory>

#include "cli/commands/trace.h"
#include "cli/commands/trace_input.h"
#include "trace/analysis/run.h"

namespace flopwatch::cli {
namespace {

struct AnalyzeOptions {
  TraceInputOptions input;
  TraceAnalysisOptions analysis;
  std::string names = "all";
  bool list = false;
};

Table ListAnalyses() {
  Table t;
  t.columns = {{"name", "name"}, {"many_ranks", "many ranks"}, {"title", "what it says"}};
  for (const trace::Analysis& a : trace::Analyses())
    t.rows.push_back({std::string(a.name), a.many_ranks, std::string(a.title)});
  return t;
}

Status RunAnalyze(Context& context, const AnalyzeOptions& o) {
  if (o.list) return context.Write(ListAnalyses());
  const trace::AnalysisOptions options = OptionsOf(o.input, o.analysis);
  FW_ASSIGN_OR_RETURN(const auto requests, trace::ParseAnalyses(o.names, options));
  TraceInputOptions paths = o.input;
  paths.rank_of_name = !options.hta;
  FW_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(context, paths));
  const trace::AnalysisInput input(loaded->set(), options);
  const std::vector<trace::AnalysisAnswer> answers =
      trace::RunAnalyses(input, requests, options.threads);
  if (context.format() == OutputFormat::kJson && !context.picks_columns()) {
    context.Out(trace::AnalysesJson(answers));
    return absl::OkStatus();
  }
  std::vector<std::pair<std::string, Table>> tables;
  for (const trace::AnalysisAnswer& a : answers) {
    if (!a.tables.ok()) {
      // One that was asked for by name fails the command; of many it is told.
      if (answers.size() == 1) return Annotate(a.tables.status(), a.key);
      context.Say(fmt::format("{}: {}", a.key, std::string(a.tables.status().message())));
      continue;
    }
    for (const trace::AnalysisTables::Part& part : a.tables->parts) {
      tables.emplace_back(part.name.empty() ? a.key : fmt::format("{} {}", a.key, part.name),
                          part.table);
    }
  }
  return WriteTables(context, tables);
}

}  // namespace

Args AddTraceAnalyze(Args trace, Run* run) {
  Args sub = trace.Command("analyze",
                           "Tables of single analyses: breakdowns, overlap, idle, queues, "
                           "launches, critical path and more");
  auto o = std::make_shared<AnalyzeOptions>();
  AddTraceInput(sub, &o->input);
  sub.Find("PATH").Required(false);  // --list needs none
  sub.Option("--analysis NAME,NAME", o->names, "Analyses, separated by commas, or all")
      .ShowDefault();
  AddTraceAnalysisOptions(sub, &o->analysis);
  sub.Flag("--list", o->list, "The analyses there are, and nothing else");
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace analyze traces/ --analysis temporal_breakdown,comm_comp_overlap\n"
      "  flopwatch trace analyze rank0.json.gz --analysis all -o json > analyses.json\n"
      "  flopwatch trace analyze rank0.json.gz --analysis gpu_kernel_breakdown --compat hta -o "
      "json\n"
      "  flopwatch trace analyze rank0.json.gz --analysis frequent_patterns:aten::linear\n"
      "  flopwatch trace analyze --list");
  *run = [o](Context& context) { return RunAnalyze(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
