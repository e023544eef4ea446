#include "cli/commands/trace_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/text.h"
#include "cli/context_impl.h"
#include "cli/progress_line.h"
#include "cli/views/style.h"
#include "trace/report/report.h"

namespace flopwatch::cli {
namespace {

constexpr std::string_view kTraceCommandNames[] = {"report", "info",  "analyze",    "findings",
                                                   "ops",    "diff",  "stragglers", "sql",
                                                   "cut",    "merge", "upload",     "list"};

std::string TextOf(const trace::LoadProgress& p) {
  const double share =
      p.bytes > 0 ? static_cast<double>(p.bytes_done) / static_cast<double>(p.bytes) : 0;
  std::string text = fmt::format("reading {:3.0f} %  {} of {}", share * 100,
                                 HumanCell(static_cast<double>(p.bytes_done), ColumnFormat::kBytes),
                                 HumanCell(static_cast<double>(p.bytes), ColumnFormat::kBytes));
  if (p.files > 1) text += fmt::format("  {} of {} files", p.files_done, p.files);
  return text;
}

// "trace repotr x.json": the first path is a mistyped subcommand.
Status CheckPaths(const TraceInputOptions& options) {
  std::error_code ec;
  for (const std::string& path : options.paths) {
    if (path.find_first_of("/.") != std::string::npos || std::filesystem::exists(path, ec))
      continue;
    const std::string_view near =
        Nearest(path, {std::begin(kTraceCommandNames), std::end(kTraceCommandNames)});
    if (near.empty()) continue;
    return InvalidArgument(
        "cannot understand the command line: flopwatch trace has no command \"{}\" and "
        "there is no such file; did you mean \"trace {}\"?",
        Printable(path, 60), near);
  }
  return absl::OkStatus();
}

}  // namespace

void AddTraceInput(Args app, TraceInputOptions* o, bool positional) {
  if (positional) {
    app.Option("PATH PATH", o->paths,
               "Trace file of PyTorch (Kineto JSON, also gzip) or Nsight Systems (sqlite), Ascend "
               "profile, or a folder of them")
        .Required();
  }
  app.Option("--rank N,N", o->ranks, "These ranks alone").Delimiter(',').OneWord().NotNegative();
  app.Option("--threads N", o->threads, "Threads to use (default: one a core)").Range(1, 1024);
}

void AddTraceAnalysisOptions(Args app, TraceAnalysisOptions* o) {
  app.Option("--compat NAME", o->compat,
             "hta: event selection, columns and kernel types of HolisticTraceAnalysis, to compare "
             "numbers")
      .OneOf({"hta", "none"});
  app.Option(
         "--communication TEXT", o->communication,
         "Kernels with this text in their name communicate, beside those known; may be repeated")
      .OneWord();
  app.Option("--annotation NAME", o->annotation,
             "critical_path: the annotation whose instance counts (default: the whole trace)");
  app.Option("--instance N", o->instance, "critical_path: which instance of it, from 0")
      .NotNegative();
  app.Option("--operator TEXT", o->operator_name,
             "frequent_patterns: operators whose name contains this")
      .ShowDefault();
  app.Option("--min-pattern N", o->min_pattern,
             "frequent_patterns: kernels in a sequence, at least")
      .Range(1, 10'000)
      .ShowDefault();
}

trace::AnalysisOptions OptionsOf(const TraceInputOptions& input, const TraceAnalysisOptions& o) {
  trace::AnalysisOptions out;
  out.hta = o.compat == "hta";
  out.threads = input.threads > 0
                    ? input.threads
                    : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  out.communication_names = o.communication;
  out.annotation = o.annotation;
  out.instance = o.instance;
  out.operator_name = o.operator_name;
  out.min_pattern = o.min_pattern;
  if (input.ranks.size() == 1) out.rank = input.ranks.front();
  return out;
}

StatusOr<std::unique_ptr<LoadedTrace>> LoadTrace(Context& context, const TraceInputOptions& options,
                                                 bool say) {
  if (options.paths.empty()) {
    return InvalidArgument(
        "no trace is named: \"flopwatch trace\" needs a file or folder; \"flopwatch trace --help\" "
        "shows how");
  }
  FW_RETURN_IF_ERROR(CheckPaths(options));
  trace::LoadOptions load;
  load.threads = options.threads;
  load.only_ranks = options.ranks;
  load.rank_of_name = options.rank_of_name;
  auto out = std::make_unique<LoadedTrace>();
  {
    ProgressLine progress(context);
    if (progress.on())
      load.progress = [&](const trace::LoadProgress& p) { progress.Show(TextOf(p)); };
    auto loaded = trace::Load(options.paths, load);
    if (!loaded.ok()) return loaded.status();
    out->loaded = *std::move(loaded);
  }
  out->losses = trace::LossesOf(out->loaded.set, out->loaded.failures);
  if (out->losses.partial()) context.SetExitCode(ExitCode::kPartial);
  if (const std::string sentence = trace::LossSentence(out->losses); say && !sentence.empty()) {
    context.Say(sentence + " \"flopwatch trace info\" has the list.");
  }
  return out;
}

Status WriteTables(Context& context, const std::vector<std::pair<std::string, Table>>& tables) {
  const OutputFormat format = context.format();
  if (format == OutputFormat::kHtml && tables.size() > 1) {
    return InvalidArgument(
        "cannot write several tables as one HTML document; use \"flopwatch trace report -o html\", "
        "or name one analysis");
  }
  bool first = true;
  for (const auto& [title, table] : tables) {
    if (tables.size() > 1) {
      std::string head = first ? "" : "\n";
      if (format == OutputFormat::kMarkdown) {
        head += fmt::format("## {}\n\n", title);
      } else if (context.for_people()) {
        ViewOptions view;
        view.color = context.color();
        head += Paint(view, Tone::kBold, title) + "\n";
      } else if (format == OutputFormat::kCsv || format == OutputFormat::kTsv ||
                 format == OutputFormat::kYaml) {
        head += fmt::format("# {}\n", title);
      } else {
        head.clear();
      }
      context.Out(head);
    }
    first = false;
    const bool people =
        context.for_people() || format == OutputFormat::kMarkdown || format == OutputFormat::kHtml;
    FW_RETURN_IF_ERROR(context.Write(people ? trace::ForPeople(table) : table));
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::cli
