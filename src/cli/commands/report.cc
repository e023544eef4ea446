// flopwatch report: the fleet over a window as one document.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/json_read.h"
#include "base/time.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"
#include "cli/output_formats.h"
#include "cli/views/report.h"

namespace flopwatch::cli {
namespace {

constexpr int kJobsPage = 10'000;      // the server's largest page
constexpr int64_t kMaxJobs = 100'000;  // read for the sums by user; beyond, the report says so

struct ReportOptions {
  WindowOptions window{.from = "-1d", .to = ""};
  std::string step, format, output;
  int top = 10;
};

StatusOr<std::string> ReportFormat(const Context& context, const ReportOptions& o) {
  if (!o.format.empty()) return o.format;
  if (context.format_given()) {
    const std::string_view format = DocumentFormat(context.format());
    if (!format.empty()) return std::string(format);
    return InvalidArgument(
        "report: it is a document, not a table; choose -o table, md, html or json, or take the "
        "rows from \"flopwatch jobs\"");
  }
  return o.output.ends_with(".html")   ? "html"
         : o.output.ends_with(".md")   ? "md"
         : o.output.ends_with(".json") ? "json"
                                       : "text";
}

// What the API answers, put together.
StatusOr<Report> AskForReport(Context& context, const ReportOptions& o) {
  const auto get = [&](const QueryString& query) -> StatusOr<Json> {
    FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
    return Json::Parse(body);
  };
  FW_ASSIGN_OR_RETURN(const Json fleet, get(QueryString("/api/v1/fleet")
                                                .Add("from", o.window.from)
                                                .Add("to", o.window.to)
                                                .Add("step", o.step)));
  // The other questions are about the very window the first answer covers, not about another "now".
  const std::string from = fleet["window"]["from"].text(), to = fleet["window"]["to"].text();
  FW_ASSIGN_OR_RETURN(const Json worst, get(QueryString("/api/v1/jobs")
                                                .Add("from", from)
                                                .Add("to", to)
                                                .Add("sort", "lost_gpu_seconds")
                                                .Add("limit", std::to_string(o.top))));
  UserSums users;
  for (int64_t offset = 0; offset < std::min<int64_t>(kMaxJobs, worst["total"].integer_or(0));
       offset += kJobsPage) {
    FW_ASSIGN_OR_RETURN(const Json page, get(QueryString("/api/v1/jobs")
                                                 .Add("from", from)
                                                 .Add("to", to)
                                                 .Add("limit", std::to_string(kJobsPage))
                                                 .Add("offset", std::to_string(offset))));
    if (page["jobs"].array().empty()) break;
    users.Add(page);
  }
  FW_ASSIGN_OR_RETURN(const Json targets,
                      get(QueryString("/api/v1/targets").Add("limit", std::to_string(o.top))));

  // Flagged jobs come first: a page of them is enough to mark those that lost most. A server of an
  // earlier version has no such answer; the report is then as it was.
  StatusOr<Json> divergence = get(QueryString("/api/v1/divergence")
                                      .Add("from", from)
                                      .Add("to", to)
                                      .Add("limit", std::to_string(kJobsPage)));
  if (!divergence.ok() && !absl::IsNotFound(divergence.status())) return divergence.status();

  Report report = MakeReport(fleet, worst, users, targets, static_cast<size_t>(o.top),
                             divergence.ok() ? *divergence : Json());
  StatusOr<Json> advice = get(QueryString("/api/v1/advise").Add("from", from).Add("to", to));
  if (advice.ok()) {
    report.advice = *std::move(advice);
  } else if (!absl::IsNotFound(advice.status())) {
    context.Say(fmt::format("report: without what to do first: {}", MessageOf(advice.status())));
  }
  report.source = context.ApiSource();
  report.written = FormatTime(FloorTo(Now(), kMicrosPerSecond));
  return report;
}

Status RunReport(Context& context, const ReportOptions& o) {
  FW_ASSIGN_OR_RETURN(const std::string format, ReportFormat(context, o));
  FW_ASSIGN_OR_RETURN(const Report report, AskForReport(context, o));
  ViewOptions view = context.view();
  view.color &= o.output.empty();
  return context.WriteDocument(o.output, format == "html"   ? ReportHtml(report)
                                         : format == "md"   ? ReportMarkdown(report)
                                         : format == "json" ? ReportJson(report)
                                                            : ReportText(report, view));
}

}  // namespace

Args AddReport(Args app, Run* run) {
  Args sub = app.Command("report",
                         "The fleet over a window as a document: terminal, Markdown, HTML or JSON");
  auto o = std::make_shared<ReportOptions>();
  AddWindowOptions(sub, &o->window, "-1d");
  sub.Option("--step DURATION", o->step, "Step of the trend: 10m, 1h, 1d");
  sub.Option("--format FORMAT", o->format, "text, md, html or json; -o does the same")
      .OneOf({"text", "md", "html", "json"});
  sub.Option("--write FILE", o->output,
             "Write to this file; its ending (.html, .md, .json) chooses the format");
  sub.Option("--top N", o->top, "Lines of each ranking").Range(1, 1000).ShowDefault();
  sub.Footer(
      "Examples:\n"
      "  flopwatch report                               the last day, in this terminal\n"
      "  flopwatch report --from -7d --write week.html  one file to send; nothing is loaded from "
      "elsewhere\n"
      "  flopwatch report --from 2026-11-01 --to 2026-12-01 -o md > november.md\n"
      "  flopwatch report -o json | jq .usage.ofu");
  *run = [o](Context& context) { return RunReport(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
