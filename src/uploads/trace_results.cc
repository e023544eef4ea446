#include "uploads/trace_results.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>

#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "trace/analysis/run.h"
#include "trace/import/load.h"
#include "trace/losses.h"
#include "trace/report/info.h"
#include "trace/report/report.h"
#include "uploads/memory_watch.h"

namespace flopwatch::uploads {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTraceSummaryBytes = 4 << 20;

Status MakeFolder(const std::string& path) {
  std::error_code ec;
  fs::create_directories(path, ec);
  return ec ? Unavailable("cannot make {}: {}", path, ec.message()) : absl::OkStatus();
}

std::string Summary(const TraceWork& work, const TraceSummary& summary) {
  std::string out;
  JsonWriter(&out)
      .BeginObject()
      .Field("files", work.paths.size())
      .Field("headline", summary.headline)
      .Field("verdict", summary.verdict)
      .Field("error", summary.error)
      .EndObject();
  return out;
}

void Tell(const TraceWork& work, std::string_view what) {
  if (work.progress) work.progress(what);
}

// Why the work has to end; ok while it may go on.
Status GuardOf(const TraceWork& work) {
  return work.guard == nullptr ? absl::OkStatus() : work.guard->status();
}

// The folder is complete when it has its name.
Status Replace(const std::string& made, const std::string& name) {
  std::error_code ec;
  fs::remove_all(name, ec);
  fs::rename(made, name, ec);
  return ec ? Unavailable("cannot rename {}: {}", made, ec.message()) : absl::OkStatus();
}

// Names of analyses have letters, digits and underscores alone; an argument behind a colon is left
// out, there is one file for each.
std::string FileOf(const std::string& folder, std::string_view key) {
  return fmt::format("{}/{}.json", folder, key.substr(0, key.find(':')));
}

// The text with the names of the files alone.
std::string WithoutFolder(const TraceWork& work, absl::string_view text) {
  if (work.paths.empty()) return std::string(text);
  const std::string folder = fs::path(work.paths.front()).parent_path().string() + "/";
  return absl::StrReplaceAll(text, {{folder, ""}});
}

Status WriteAnalyses(const trace::TraceSet& set, const TraceWork& work, bool hta,
                     const std::string& folder) {
  FW_RETURN_IF_ERROR(MakeFolder(folder));
  trace::AnalysisOptions options;
  options.hta = hta;
  options.threads = work.threads;
  options.guard = work.guard;
  const trace::AnalysisInput input(set, options);
  FW_ASSIGN_OR_RETURN(const auto requests, trace::ParseAnalyses("all", options));
  for (const trace::AnalysisAnswer& a : trace::RunAnalyses(input, requests, work.threads)) {
    std::string text;
    JsonWriter json(&text);
    json.BeginObject().Key(a.key);
    trace::WriteAnalysisJson(json, a.key, a.tables);
    json.EndObject();
    if (text.size() > kMaxTraceAnswerBytes)
      return ResourceExhausted("the table of {} has {} bytes: too many to keep", a.key,
                               text.size());
    FW_RETURN_IF_ERROR(WriteFileAtomically(FileOf(folder, a.key), text));
  }
  return absl::OkStatus();
}

}  // namespace

trace::WorkGuard::Limits GuardLimits(const TraceLimits& limits) {
  return {.text_bytes = limits.max_text_bytes,
          .rows = limits.max_events,
          .names = limits.max_names,
          .name_bytes = limits.max_name_bytes};
}

Status WriteTraceFailure(const TraceWork& work, const Status& why) {
  const std::string made = work.results + ".new";
  std::error_code ec;
  fs::remove_all(made, ec);
  FW_RETURN_IF_ERROR(MakeFolder(made));
  FW_RETURN_IF_ERROR(WriteFileAtomically(
      made + "/summary.json", Summary(work, {.error = WithoutFolder(work, why.message())})));
  return Replace(made, work.results);
}

StatusOr<TraceSummary> ReadTraceSummary(const std::string& results, size_t files) {
  FW_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(results + "/summary.json", kMaxTraceSummaryBytes));
  FW_ASSIGN_OR_RETURN(const Json json, Json::Parse(text, {.what = "the summary of a trace"}));
  if (json["files"].integer_or(-1) != static_cast<int64_t>(files))
    return NotFound("what was written is of other files");
  return TraceSummary{json["headline"].text(), json["verdict"].text(), json["error"].text()};
}

namespace {

StatusOr<TraceSummary> Analyse(const TraceWork& work) {
  trace::LoadOptions load;
  load.threads = work.threads;
  load.import.threads = work.threads;
  load.import.max_events = work.limits.max_events;
  load.import.max_text_bytes = work.limits.max_text_bytes;
  load.import.guard = work.guard;
  load.progress = [&work](const trace::LoadProgress& p) {
    const uint64_t percent = p.bytes == 0 ? 0 : 100 * p.bytes_done / p.bytes;
    Tell(work, fmt::format("reading: {} of {} files, {} %", p.files_done, p.files, percent));
  };
  FW_ASSIGN_OR_RETURN(trace::Loaded loaded, trace::Load(work.paths, load));
  // Answers name the files that were sent, not where this server keeps them.
  for (trace::RankTrace& rank : loaded.set.ranks) rank.path = WithoutFolder(work, rank.path);
  for (trace::LoadFailure& failure : loaded.failures) {
    failure = {WithoutFolder(work, failure.path),
               Status(failure.status.code(), WithoutFolder(work, failure.status.message()))};
  }
  const std::string made = work.results + ".new";
  std::error_code ec;
  fs::remove_all(made, ec);
  FW_RETURN_IF_ERROR(MakeFolder(made));
  const auto write = [&](std::string_view name, const std::string& text) {
    return WriteFileAtomically(fmt::format("{}/{}", made, name), text);
  };
  const trace::LossReport losses = trace::LossesOf(loaded.set, loaded.failures);
  FW_RETURN_IF_ERROR(write("info.json", trace::InfoJson(loaded.set, losses)));
  TraceSummary summary;
  {
    trace::AnalysisOptions options;
    options.threads = work.threads;
    options.guard = work.guard;
    Tell(work, "looking for findings");
    const trace::AnalysisInput input(loaded.set, options);
    trace::ReportOptions report_options;
    report_options.written = work.written;
    report_options.catalog = work.catalog;
    const trace::TraceReport report =
        trace::MakeTraceReport(input, loaded.failures, report_options);
    FW_RETURN_IF_ERROR(GuardOf(work));
    FW_RETURN_IF_ERROR(write("report.json", trace::ReportJson(report)));
    FW_RETURN_IF_ERROR(write("report.html", trace::ReportHtml(report)));
    FW_RETURN_IF_ERROR(write("report.md", trace::ReportMarkdown(report)));
    std::string findings;
    JsonWriter json(&findings);
    json.BeginObject();
    trace::WriteFindings(json, report.findings, report.origin);
    trace::WriteLosses(json, losses);
    json.EndObject();
    FW_RETURN_IF_ERROR(write("findings.json", findings));
    summary.headline = trace::Headline(report);
    for (const std::string& s : report.verdict)
      summary.verdict += (summary.verdict.empty() ? "" : " ") + s;
  }
  Tell(work, "making the tables");
  FW_RETURN_IF_ERROR(WriteAnalyses(loaded.set, work, false, made + "/analyses"));
  Tell(work, "making the tables of HolisticTraceAnalysis");
  FW_RETURN_IF_ERROR(WriteAnalyses(loaded.set, work, true, made + "/analyses-hta"));
  FW_RETURN_IF_ERROR(GuardOf(work));
  FW_RETURN_IF_ERROR(write("summary.json", Summary(work, summary)));
  FW_RETURN_IF_ERROR(Replace(made, work.results));
  return summary;
}

}  // namespace

StatusOr<TraceSummary> AnalyseTrace(const TraceWork& work) {
  StatusOr<TraceSummary> summary = TraceSummary();
  try {
    const MemoryWatch watch(work.limits.max_memory_bytes, work.guard);
    summary = Analyse(work);
  } catch (const std::exception& e) {
    // Out of memory is what is expected here: the limits are set by experience, not by proof.
    summary = ResourceExhausted(
        "the analysis needs more than this server gives it ({}): record fewer steps, or run "
        "\"flopwatch trace report\" on a larger machine",
        e.what());
  }
  if (!summary.ok() && !absl::IsCancelled(GuardOf(work)))
    FW_RETURN_IF_ERROR(WriteTraceFailure(work, summary.status()));
  return summary;
}

StatusOr<std::string> CollectAnalyses(const std::string& results, std::string_view names,
                                      bool hta) {
  trace::AnalysisOptions options;
  options.hta = hta;
  FW_ASSIGN_OR_RETURN(const auto requests, trace::ParseAnalyses(names, options));
  std::string out = "{\"analyses\":{";
  bool first = true;
  for (const trace::AnalysisRequest& r : requests) {
    if (!r.argument.empty() && r.argument != options.operator_name) {
      return InvalidArgument(
          "{}: uploaded traces are analysed once, with the operator {}; run "
          "\"flopwatch trace analyze\" on the file for another",
          r.key, options.operator_name);
    }
    auto read = ReadFile(FileOf(results + (hta ? "/analyses-hta" : "/analyses"), r.key),
                         kMaxTraceAnswerBytes);
    std::string text;
    if (read.ok() && read->size() >= 2) {
      text = *std::move(read);
    } else {
      JsonWriter(&text)
          .BeginObject()
          .Key(r.key)
          .BeginObject()
          .Field("error", "not computable: an earlier version analysed this trace; upload it again")
          .EndObject()
          .EndObject();
    }
    if (out.size() + text.size() > kMaxTraceAnswerBytes)
      return ResourceExhausted("all analyses together are too much for one answer: name fewer");
    // Each file is an object of one member.
    out += (first ? "" : ",") + text.substr(1, text.size() - 2);
    first = false;
  }
  return out + "}}\n";
}

}  // namespace flopwatch::uploads
