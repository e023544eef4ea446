// flopwatch trace diff: what changed between two traces of one program.

#include <memory>

#include "cli/commands/trace.h"
#include "cli/commands/trace_input.h"
#include "cli/views/style.h"
#include "trace/analysis/diff.h"
#include "trace/analysis/run.h"

namespace flopwatch::cli {
namespace {

struct TraceDiffOptions {
  std::string a, b;
  trace::DiffOptions diff;
  std::string compat, device = "all";
  int threads = 0, top = 15;
};

void WriteSide(JsonWriter& json, std::string_view name, const std::string& path,
               const trace::DiffSide& side) {
  json.Key(name)
      .BeginObject()
      .Field("path", path)
      .Field("ranks", side.ranks)
      .Field("steps", side.steps)
      .Field("steps_marked", side.marked);
  json.Field("step_us", side.step_us).EndObject();
}

void WriteParts(JsonWriter& json, const trace::AnalysisTables& tables) {
  for (const trace::AnalysisTables::Part& part : tables.parts) {
    json.Key(part.name.empty() ? "step" : part.name).BeginObject();
    trace::WriteTableJson(json, part.table);
    json.EndObject();
  }
}

Status RunHta(Context& context, const TraceDiffOptions& o, const LoadedTrace& a,
              const LoadedTrace& b) {
  static constexpr std::pair<std::string_view, trace::DiffDevice> kDevices[] = {
      {"CPU", trace::DiffDevice::kCpu},
      {"GPU", trace::DiffDevice::kGpu},
      {"ALL", trace::DiffDevice::kAll}};
  const bool json = context.format() == OutputFormat::kJson && !context.picks_columns();
  std::string out;
  JsonWriter writer(&out);
  writer.BeginObject();
  for (const auto& [name, device] : kDevices) {
    const bool asked = (name == "CPU" && o.device == "cpu") ||
                       (name == "GPU" && o.device == "gpu") || (name == "ALL" && o.device == "all");
    if (!json && !asked) continue;
    FW_ASSIGN_OR_RETURN(const Table table, trace::HtaTraceDiff(a.set(), b.set(), o.diff, device));
    if (!json) return context.Write(table);
    writer.Key(name).BeginObject();
    trace::WriteTableJson(writer, table);
    writer.EndObject();
  }
  writer.EndObject();
  context.Out(out + "\n");
  return absl::OkStatus();
}

Status RunDiff(Context& context, const TraceDiffOptions& o) {
  FW_ASSIGN_OR_RETURN(const auto a,
                      LoadTrace(context, {.paths = {o.a}, .ranks = {}, .threads = o.threads}));
  FW_ASSIGN_OR_RETURN(const auto b,
                      LoadTrace(context, {.paths = {o.b}, .ranks = {}, .threads = o.threads}));
  if (o.compat == "hta") return RunHta(context, o, *a, *b);
  FW_ASSIGN_OR_RETURN(const trace::TraceDiff diff, trace::DiffTraces(a->set(), b->set(), o.diff));
  if (context.format() == OutputFormat::kJson && !context.picks_columns()) {
    std::string out;
    JsonWriter json(&out);
    json.BeginObject().Field("verdict", diff.sentence);
    WriteSide(json, "a", o.a, diff.a);
    WriteSide(json, "b", o.b, diff.b);
    WriteParts(json, trace::DiffTables(diff));
    json.Key("notes").BeginArray();
    for (const std::string& note : diff.notes) json.Value(note);
    json.EndArray();
    trace::WriteLosses(json, a->losses);
    json.EndObject();
    context.Out(out + "\n");
    return absl::OkStatus();
  }
  if (context.for_people())
    context.Out(Wrap(diff.sentence, context.width() > 0 ? context.width() : 100, "", "") + "\n\n");
  std::vector<std::pair<std::string, Table>> tables;
  const bool document = context.for_people() || context.format() == OutputFormat::kMarkdown;
  for (trace::AnalysisTables::Part& part :
       trace::DiffTables(diff, document ? static_cast<size_t>(o.top) : 0).parts) {
    tables.emplace_back(part.name.empty() ? "step" : part.name, std::move(part.table));
  }
  FW_RETURN_IF_ERROR(WriteTables(context, tables));
  for (const std::string& note : diff.notes) context.Say(note);
  return absl::OkStatus();
}

}  // namespace

Args AddTraceDiff(Args trace, Run* run) {
  Args sub = trace.Command(
      "diff", "What changed between two traces: the step and its parts, kernels, operators");
  auto o = std::make_shared<TraceDiffOptions>();
  sub.Option("A A", o->a, "Before: a trace file or a folder of ranks").Required();
  sub.Option("B B", o->b, "After").Required();
  sub.Option("--rank-a N", o->diff.rank_a, "This rank of A alone").NotNegative();
  sub.Option("--rank-b N", o->diff.rank_b, "This rank of B alone").NotNegative();
  sub.Option("--step-a N", o->diff.step_a,
             "This step of A alone (default: the mean of the complete ones)");
  sub.Option("--step-b N", o->diff.step_b, "This step of B alone");
  sub.Flag("--short-names", o->diff.short_names, "Kernels of one template together");
  sub.Option(
         "--communication TEXT", o->diff.communication_names,
         "Kernels with this text in their name communicate, beside those known; may be repeated")
      .OneWord();
  sub.Option("--top N", o->top, "Lines of each list for people").Range(1, 100'000).ShowDefault();
  sub.Option("--compat NAME", o->compat,
             "hta: the table of HolisticTraceAnalysis, A being the control")
      .OneOf({"hta", "none"});
  sub.Option("--device WHAT", o->device, "With --compat hta: cpu, gpu or all (JSON has all three)")
      .OneOf({"cpu", "gpu", "all"})
      .ShowDefault();
  sub.Option("--threads N", o->threads, "Threads to use (default: one a core)").Range(1, 1024);
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace diff before/ after/\n"
      "  flopwatch trace diff workers0.json.gz workers4.json.gz --short-names\n"
      "  flopwatch trace diff a.json b.json --compat hta -o json");
  *run = [o](Context& context) { return RunDiff(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
