// flopwatch trace report, and flopwatch trace PATH…: the verdict on a trace as one document.
#include <memory>

#include "cli/commands/site_catalog.h"
#include "cli/commands/trace.h"
#include "cli/commands/trace_input.h"
#include "cli/output_formats.h"
#include "cli/views/trace_report.h"
#include "trace/report/report.h"

namespace flopwatch::cli {
namespace {

struct TraceReportOptions {
  TraceInputOptions input;
  TraceAnalysisOptions analysis;
  std::string output;
  trace::ReportOptions report;
};

StatusOr<std::string> FormatOf(Context& context, const std::string& output) {
  if (context.format_given()) {
    const std::string_view format = DocumentFormat(context.format());
    if (!format.empty()) return std::string(format);
    return InvalidArgument(
        "trace report: it is a document, not a table; choose -o table, md, html or json, or "
        "take rows from \"flopwatch trace analyze\"");
  }
  if (output.ends_with(".html") || output.ends_with(".htm")) return "html";
  if (output.ends_with(".md")) return "md";
  if (output.ends_with(".json")) return "json";
  return "text";
}

Status RunTraceReport(Context& context, const TraceReportOptions& o) {
  FW_ASSIGN_OR_RETURN(const std::string format, FormatOf(context, o.output));
  FW_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(context, o.input, /*say=*/false));
  const trace::AnalysisInput input(loaded->set(), OptionsOf(o.input, o.analysis));
  trace::ReportOptions options = o.report;
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  options.catalog = &catalog;
  options.written = FormatTime(FloorTo(Now(), kMicrosPerSecond));
  const trace::TraceReport report = trace::MakeTraceReport(input, loaded->loaded.failures, options);
  std::string text;
  if (format == "json") {
    text = trace::ReportJson(report);
  } else if (format == "md") {
    text = trace::ReportMarkdown(report);
  } else if (format == "html") {
    text = trace::ReportHtml(report);
  } else {
    ViewOptions view = context.view();
    view.color &= o.output.empty();
    text = TraceReportText(report, view);
  }
  return context.WriteDocument(o.output, text);
}

}  // namespace

void AddReportOptions(Args app, Run* run) {
  auto o = std::make_shared<TraceReportOptions>();
  AddTraceInput(app, &o->input);
  app.Find("PATH").Required(false);  // LoadTrace() says what is missing, for subcommands too
  app.Option("--write FILE", o->output,
             "Write to this file; its ending (.html, .md, .json) chooses the format");
  app.Option("--top N", o->report.operators, "Lines of the table of operators (default 15)")
      .Range(1, 1000);
  app.Option("--peak-tflops TFLOPS", o->report.peak_tflops,
             "Peak of one GPU for the operators' MFU, where the table of GPUs is not to decide")
      .RangeOf(1e-3, 1e7);
  AddTraceAnalysisOptions(app, &o->analysis);
  *run = [o](Context& context) { return RunTraceReport(context, *o); };
}

Args AddTraceReport(Args trace, Run* run) {
  Args sub = trace.Command("report",
                           "The verdict on a trace: where time went, findings, stragglers, "
                           "operators; as text, Markdown, HTML or JSON");
  AddReportOptions(sub, run);
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace report traces/                 all ranks in a folder\n"
      "  flopwatch trace report rank0.json.gz --write report.html   one file to send; nothing is "
      "loaded from elsewhere\n"
      "  flopwatch trace report rank0.json.gz -o json | jq .verdict");
  return sub;
}

}  // namespace flopwatch::cli
