// flopwatch trace upload and trace list: traces on a server, for those who have no files at hand
// and for the page.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/json_read.h"
#include "cli/commands/list_options.h"
#include "cli/commands/query_string.h"
#include "cli/commands/trace.h"
#include "cli/commands/trace_input.h"
#include "cli/context_impl.h"
#include "cli/progress_line.h"
#include "cli/views/columns.h"
#include "net/http.h"

namespace flopwatch::cli {
namespace {

namespace fs = std::filesystem;

constexpr Micros kUploadTimeout = kMicrosPerHour;
constexpr Micros kPoll = 500 * kMicrosPerMilli;

struct UploadOptions {
  TraceInputOptions input;
  std::string name, job;
  bool wait = false;
};

StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    std::error_code ec;
    if (fs::is_directory(path, ec)) {
      std::vector<std::string> inside;
      for (fs::directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec)) {
        const std::string name = it->path().filename().string();
        const bool trace =
            name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".sqlite");
        if (it->is_regular_file(ec) && trace) inside.push_back(it->path().string());
      }
      std::sort(inside.begin(), inside.end());
      if (inside.empty())
        return NotFound(
            "cannot upload {}: there is no *.json, *.json.gz or *.sqlite file in it; "
            "name the files",
            path);
      out.insert(out.end(), inside.begin(), inside.end());
    } else if (fs::is_regular_file(path, ec)) {
      out.push_back(path);
    } else {
      return NotFound("cannot upload {}: there is no such file", path);
    }
  }
  return out;
}

Table RecordsTable(const std::vector<Json>& records) {
  Table t;
  t.columns = ColumnsOf(Column{"id", "id"}, Column{"state", "state"}, Column{"created", "uploaded"},
                        Column{"name", "name"}, Column{"job", "job"}, Column{"files", "files"},
                        Column{"bytes", "size", ColumnFormat::kBytes}, Column{"headline", "what"},
                        Column{"error", "error"}, Column{"verdict", "verdict"});
  const auto text = [](const Json& j) -> Cell { return j.is_null() ? Cell{} : Cell(j.text()); };
  const auto number = [](const Json& j) -> Cell {
    return j.integer() ? Cell(*j.integer()) : Cell{};
  };
  for (const Json& r : records) {
    t.rows.push_back({text(r["id"]), text(r["state"]), text(r["created"]), text(r["name"]),
                      text(r["job"]), number(r["files"]), number(r["bytes"]), text(r["headline"]),
                      text(r["error"]), text(r["verdict"])});
  }
  return t;
}

Status RunUpload(Context& context, const UploadOptions& o) {
  FW_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(o.input.paths));
  FW_ASSIGN_OR_RETURN(ApiClient * client, context.impl()->Api());
  if (client->offline()) {
    return Unavailable(
        "cannot upload: no server answers; start one with \"flopwatch serve\", name one with "
        "--server, or run \"flopwatch trace report\" on the files themselves");
  }
  std::string id;
  Json record;
  for (size_t i = 0; i < files.size(); ++i) {
    QueryString query("/api/v1/traces");
    query.Add("name", i == 0 && !o.name.empty() ? o.name : fs::path(files[i]).filename().string())
        .Add("job", o.job)
        .Add("trace", id);
    net::FetchOptions fetch;
    fetch.method = "POST";
    fetch.body_file = files[i];
    fetch.timeout = kUploadTimeout;
    fetch.headers = {{"content-type", "application/octet-stream"}};
    const auto result = net::Fetch(client->Source() + query.text(), fetch);
    if (!result.ok()) {
      return Annotate(WithCode(result.status(), absl::StatusCode::kUnavailable),
                      fmt::format("cannot upload {} to {}", files[i], client->Source()));
    }
    if (result->status / 100 != 2)
      return Annotate(FromHttp(result->status, result->body, client->Source()),
                      fmt::format("cannot upload {}", files[i]));
    FW_ASSIGN_OR_RETURN(record, Json::Parse(result->body));
    id = record["id"].text();
    if (id.empty())
      return DataLoss("{} answered an upload without an id: is it a flopwatch server?",
                      client->Source());
    context.Say(fmt::format("{} of {}: {}", i + 1, files.size(), files[i]));
  }
  if (o.wait) {
    ProgressLine progress(context);
    for (;;) {
      FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet("/api/v1/traces/" + id));
      FW_ASSIGN_OR_RETURN(record, Json::Parse(body));
      const std::string state = record["state"].text();
      if (state != "queued" && state != "analysing") break;
      const std::string now = record["progress"].text();
      progress.Show(now.empty() ? state : state + ": " + now);
      ::usleep(static_cast<useconds_t>(kPoll));
    }
    if (record["state"].text() == "failed") context.SetExitCode(ExitCode::kError);
  }
  context.Say(
      fmt::format("the report: {}/api/v1/traces/{}/report?format=html", client->Source(), id));
  return context.Write(RecordsTable({record}));
}

struct ListOptions {
  std::string job;
  int limit = 50;
};

Status RunList(Context& context, const ListOptions& o) {
  QueryString query("/api/v1/traces");
  query.Add("job", o.job).Add("limit", std::to_string(o.limit));
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  Table t = RecordsTable(answer["traces"].array());
  const auto total = static_cast<size_t>(answer["total"].integer_or(0));
  if (total > t.rows.size())
    t.notes.push_back(fmt::format("{} of {} traces; --limit gives more", t.rows.size(), total));
  if (total == 0) t.notes.push_back("no trace was uploaded yet: \"flopwatch trace upload PATH…\"");
  return context.Write(t);
}

}  // namespace

Args AddTraceUpload(Args trace, Run* run) {
  Args sub = trace.Command("upload", "Give trace files to a server, which analyses and keeps them");
  auto o = std::make_shared<UploadOptions>();
  sub.Option("PATH PATH", o->input.paths, "Trace files of one job, one a rank, or a folder of them")
      .Required();
  sub.Option("--name NAME", o->name, "Name of the trace (default: of the first file)");
  sub.Option("--job ID", o->job, "Job it belongs to");
  sub.Flag("--wait", o->wait, "Wait until it is analysed");
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace upload rank0.json.gz --job 2115078\n"
      "  flopwatch trace upload traces/ --name nightly --wait --server head:9530");
  *run = [o](Context& context) { return RunUpload(context, *o); };
  return sub;
}

Args AddTraceList(Args trace, Run* run) {
  Args sub = trace.Command("list", "Traces that were uploaded to the server");
  auto o = std::make_shared<ListOptions>();
  sub.Option("--job ID", o->job, "Traces of this job alone");
  sub.Option("--limit N", o->limit, "At most so many").Range(1, 10'000).ShowDefault();
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace list\n"
      "  flopwatch trace list --job 2115078 -o json");
  *run = [o](Context& context) { return RunList(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
