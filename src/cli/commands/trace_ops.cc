// flopwatch trace ops: operators and modules by time, FLOPs and MFU, and the files that
// msprof-analyze's users know.
#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "base/text.h"
#include "cli/commands/site_catalog.h"
#include "cli/commands/trace.h"
#include "cli/commands/trace_input.h"
#include "trace/analysis/run.h"
#include "trace/export/operators.h"
#include "trace/ops/ops.h"

namespace flopwatch::cli {
namespace {

struct TraceOpsOptions {
  TraceInputOptions input;
  std::vector<std::string> communication, peaks;
  std::string gpu, format, out = ".", level = "operator";
  std::optional<double> clock;
  bool same_thread = false;
};

// "989" for every precision, "bf16=989" for one.
StatusOr<std::map<std::string, double>> ReadPeaks(const std::vector<std::string>& texts) {
  std::map<std::string, double> out;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
    const std::string number = equals == std::string::npos ? text : text.substr(equals + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || !(value > 0) ||
        value > 1e7) {
      return InvalidArgument(
          "cannot read --peak-tflops '{}': it is no peak; write 989.4 for every "
          "precision, or bf16=989.4,fp8=1979",
          Printable(text, 40));
    }
    out[name] = value;
  }
  return out;
}

Status RunOps(Context& context, const TraceOpsOptions& o) {
  trace::OpsOptions options;
  FW_ASSIGN_OR_RETURN(options.peak_tflops, ReadPeaks(o.peaks));
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  options.gpu = o.gpu;
  options.catalog = &catalog;
  options.tensor_clock_mhz = o.clock;
  options.communication_names = o.communication;
  options.same_thread = o.same_thread;
  const bool json = context.format() == OutputFormat::kJson && !context.picks_columns();
  options.kernel_rows = json || !o.format.empty() || o.level == "kernel";
  FW_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(context, o.input));
  FW_ASSIGN_OR_RETURN(const trace::OpsReport report,
                      trace::AnalyseOperators(loaded->set(), options));
  if (!o.format.empty()) {
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> written,
                        trace::ExportOperators(report, o.format, o.out));
    if (written.empty())
      context.Say(
          "no kernel has FLOPs: nothing was written; \"flopwatch trace ops\" without --export says "
          "why");
    for (const std::string& path : written) context.Say("wrote " + path);
    return absl::OkStatus();
  }
  if (json) {
    std::string out;
    JsonWriter writer(&out);
    writer.BeginObject();
    const auto table = [&](std::string_view name, const Table& t) {
      writer.Key(name).BeginObject();
      trace::WriteTableJson(writer, t);
      writer.EndObject();
    };
    table("operators", trace::OperatorTable(report));
    table("kernels", trace::KernelMfuTable(report));
    table("modules", trace::ModuleMfuTable(report));
    table("uncounted", trace::UncountedTable(report));
    table("coverage", trace::CoverageTable(report));
    writer.Key("notes").BeginArray();
    for (const std::string& note : report.notes) writer.Value(note);
    writer.EndArray();
    trace::WriteLosses(writer, loaded->losses);
    writer.EndObject();
    context.Out(out + "\n");
    return absl::OkStatus();
  }
  const bool document = (context.for_people() || context.format() == OutputFormat::kMarkdown) &&
                        !context.picks_columns();
  std::vector<std::pair<std::string, Table>> tables;
  if (o.level == "kernel") {
    tables.emplace_back("kernels", trace::KernelMfuTable(report));
  } else if (o.level == "module") {
    tables.emplace_back("modules", trace::ModuleMfuTable(report));
  } else if (o.level == "uncounted") {
    tables.emplace_back("not counted", trace::UncountedTable(report));
  } else if (o.level == "coverage") {
    tables.emplace_back("coverage", trace::CoverageTable(report));
  } else {
    constexpr size_t kRows = 30;
    tables.emplace_back("operators by time", trace::OperatorTable(report, document ? kRows : 0));
    if (document) {
      if (!report.uncounted.empty())
        tables.emplace_back("not counted", trace::UncountedTable(report, 10));
      tables.emplace_back("coverage", trace::CoverageTable(report));
    }
  }
  FW_RETURN_IF_ERROR(WriteTables(context, tables));
  for (const std::string& note : report.notes) context.Say(note);
  return absl::OkStatus();
}

}  // namespace

Args AddTraceOps(Args trace, Run* run) {
  Args sub = trace.Command(
      "ops", "Operators and modules: time, FLOPs, MFU, what could not be counted; exports");
  auto o = std::make_shared<TraceOpsOptions>();
  AddTraceInput(sub, &o->input);
  sub.Option("--gpu NAME", o->gpu,
             "Accelerator whose peak counts, where the trace does not say or says it wrongly");
  sub.Option("--peak-tflops TFLOPS|P=TFLOPS", o->peaks,
             "Peak of one GPU instead of the table's: for every precision, or by precision")
      .Delimiter(',')
      .OneWord();
  sub.Option("--tensor-clock MHZ", o->clock, "Clock in OFU's denominator, instead of the table's")
      .RangeOf(1.0, 1e5);
  sub.Option("--level LEVEL", o->level,
             "Table to write: operator, kernel, module, uncounted, coverage")
      .OneOf({"operator", "kernel", "module", "uncounted", "coverage"})
      .ShowDefault();
  sub.Option("--export FORMAT", o->format,
             "Write OperatorMFU and ModuleMFU as msprof-analyze does: db, xlsx or csv")
      .OneOf({"db", "xlsx", "csv"});
  sub.Option("--out DIR", o->out, "Folder for --export (default .)");
  sub.Option(
         "--communication TEXT", o->communication,
         "Kernels with this text in their name communicate, beside those known; may be repeated")
      .OneWord();
  sub.Flag("--same-thread", o->same_thread,
           "Recorded FLOPs ranges match operators of their own thread alone");
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace ops rank0.json.gz\n"
      "  flopwatch trace ops report.sqlite --peak-tflops bf16=989.4 -o csv > operators.csv\n"
      "  flopwatch trace ops profile_ascend_pt/ --export xlsx --out results/\n"
      "  flopwatch trace ops rank0.json.gz --level module -o csv");
  *run = [o](Context& context) { return RunOps(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
