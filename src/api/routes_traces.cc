// Uploaded traces: POST, list, one, report, findings, analyses, DELETE. Everything heavy was done
// by TraceLibrary's thread; a handler reads a file.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "absl/functional/function_ref.h"
#include "api/answers.h"
#include "api/routes.h"

namespace flopwatch::api {
namespace {

using net::Request;
using net::Response;
using uploads::TraceLibrary;

constexpr int64_t kDefaultWaitS = 20, kMaxWaitS = 60;
constexpr std::string_view kTracesPath = "/api/v1/traces";

constexpr PathName kTraceId("id", "Id of the trace, as the upload answered.");
constexpr Text kTraceName(Parameter{.name = "name",
                                    .help = "Name of the file or trace, for people.",
                                    .max_length = uploads::kMaxTraceText});
constexpr Text kTraceJob(Parameter{
    .name = "job", .help = "Job it belongs to.", .max_length = uploads::kMaxTraceText});
constexpr OptionalInteger kRank("rank", 0, 1 << 30, "Rank, where the file does not say it.");
constexpr Text kAddTo("trace", "Add the file to this trace: one file a rank.");
constexpr Text kTracesOfJob("job", "Traces of this job alone.");
constexpr Integer kTraceLimit("limit", 1, kMaxPage, kDefaultPage, "At most so many.");
constexpr Integer kTraceOffset("offset", 0, int64_t{1} << 40, 0, "Leave out the first so many.");
constexpr Integer kWait("wait", 0, kMaxWaitS, kDefaultWaitS,
                        "Seconds to wait for the analysis, where it has not ended; one request at "
                        "a time waits.");
enum class ReportFormat : uint8_t { kJson, kHtml, kMarkdown };
constexpr std::string_view kReportFormats[] = {"json", "html", "md"};
constexpr OneOf<ReportFormat> kReportFormat("format", kReportFormats,
                                            "json, html (one document) or md.");
constexpr Text kAnalyses(Parameter{
    .name = "names", .help = "Analyses, separated by commas, or all.", .text_fallback = "all"});
enum class TraceCompat : uint8_t { kNone, kHta };
constexpr std::string_view kTraceCompats[] = {"none", "hta"};
constexpr OneOf<TraceCompat> kTraceCompat(
    "compat", kTraceCompats, "hta: as HolisticTraceAnalysis selects events and names columns.");

void WriteRecord(JsonWriter& json, const uploads::TraceRecord& r) {
  json.Field("id", r.id);
  json.TextField("name", r.name);
  json.TextField("job", r.job);
  WriteTime(json, "created", r.created);
  json.Field("bytes", r.bytes)
      .Field("files", r.files.size())
      .Field("state", uploads::TraceStateName(r.state));
  json.TextField("progress", r.progress);
  json.TextField("error", r.error);
  json.TextField("headline", r.headline);
  json.TextField("verdict", r.verdict);
}

// What stands behind the id is another path.
bool IsOneName(std::string_view name) { return name.find('/') == std::string_view::npos; }

Response RecordResponse(const uploads::TraceRecord& r, int status) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteRecord(json, r);
  json.EndObject();
  Response response = JsonResponse(std::move(body));
  response.status = status;
  response.headers.emplace_back("Location", fmt::format("{}/{}", kTracesPath, r.id));
  return response;
}

// What stands in the URL of an upload.
TraceLibrary::UploadRequest UploadRequestOf(const Call& call) {
  TraceLibrary::UploadRequest out;
  out.name = call.args[kTraceName].value_or("");
  out.job = call.args[kTraceJob].value_or("");
  out.trace = call.args[kAddTo].value_or("");
  out.rank = call.args[kRank];
  if (const auto length = call.request.Header("content-length")) {
    uint64_t bytes = 0;
    const auto [end, error] =
        std::from_chars(length->data(), length->data() + length->size(), bytes);
    if (error == std::errc() && end == length->data() + length->size()) out.bytes = bytes;
  }
  return out;
}

Result PostTrace(TraceLibrary& traces, const Call& call) {
  auto upload = std::dynamic_pointer_cast<TraceLibrary::Upload>(call.request.sink);
  if (upload == nullptr) {
    // The body came in process, or from a client that sent it before anyone asked.
    TraceLibrary::UploadRequest wanted = UploadRequestOf(call);
    wanted.bytes = call.request.body.size();
    FW_ASSIGN_OR_RETURN(upload, traces.Begin(wanted));
    FW_RETURN_IF_ERROR(upload->Write(call.request.body));
  }
  FW_ASSIGN_OR_RETURN(const uploads::TraceRecord record, traces.Finish(upload.get()));
  return RecordResponse(record, 201);
}

Result GetTraces(const TraceLibrary& traces, const Call& call) {
  std::vector<uploads::TraceRecord> all = traces.List();
  if (const auto job = call.args[kTracesOfJob])
    std::erase_if(all, [&](const uploads::TraceRecord& r) { return r.job != *job; });
  const auto [first, end] = PageOf(call.args, kTraceLimit, kTraceOffset, all.size());
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("total", all.size()).Key("traces").BeginArray();
  for (size_t i = first; i < end; ++i) {
    json.BeginObject();
    WriteRecord(json, all[i]);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Result GetTrace(const TraceLibrary& traces, const Call& call) {
  const std::string_view id = call.name;
  FW_ASSIGN_OR_RETURN(const uploads::TraceRecord record, traces.Find(id));
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteRecord(json, record);
  json.Key("info");
  if (const auto info = traces.Answer(id, "info.json");
      record.state == uploads::TraceState::kReady && info.ok()) {
    json.Raw(std::string_view(*info).substr(0, info->find_last_not_of('\n') + 1));
  } else {
    json.Null();
  }
  json.EndObject();
  return JsonResponse(std::move(body));
}

// The answer once the trace is ready; its state with 202 before that, with 422 where it cannot be.
Result TraceAnswer(TraceLibrary& traces, const Call& call,
                   absl::FunctionRef<StatusOr<std::string>()> read) {
  FW_ASSIGN_OR_RETURN(const uploads::TraceRecord record,
                      traces.WaitFor(call.name, call.args[kWait] * kMicrosPerSecond));
  if (record.state == uploads::TraceState::kFailed) {
    Response r = net::ErrorResponse(absl::InvalidArgumentError(record.error));
    r.status = 422;
    return r;
  }
  if (record.state != uploads::TraceState::kReady) {
    Response r = RecordResponse(record, 202);
    r.headers.emplace_back("Retry-After", "2");
    return r;
  }
  FW_ASSIGN_OR_RETURN(std::string text, read());
  return JsonResponse(std::move(text));
}

Result GetTraceReport(TraceLibrary& traces, const Call& call) {
  static constexpr std::string_view kFiles[] = {"report.json", "report.html", "report.md"};
  static constexpr std::string_view kTypes[] = {"application/json", "text/html; charset=utf-8",
                                                "text/markdown; charset=utf-8"};
  const auto format = static_cast<size_t>(call.args[kReportFormat]);
  FW_ASSIGN_OR_RETURN(Response r, TraceAnswer(traces, call, [&] {
                        return traces.Answer(call.name, kFiles[format]);
                      }));
  if (r.status == 200) r.content_type = kTypes[format];
  return r;
}

Result GetTraceFindings(TraceLibrary& traces, const Call& call) {
  return TraceAnswer(traces, call, [&] { return traces.Answer(call.name, "findings.json"); });
}

Result GetTraceAnalyses(TraceLibrary& traces, const Call& call) {
  return TraceAnswer(traces, call, [&] {
    return traces.Analyses(call.name, call.args[kAnalyses].value_or(kAnalyses.text_fallback),
                           call.args[kTraceCompat] == TraceCompat::kHta);
  });
}

Result DeleteTrace(TraceLibrary& traces, const Call& call) {
  FW_RETURN_IF_ERROR(traces.Delete(call.name));
  Response r;
  r.status = 204;
  return r;
}

StatusOr<TraceLibrary*> OrNone(TraceLibrary* traces) {
  if (traces == nullptr)
    return Unavailable("this server keeps no traces: it has no data directory for them");
  return traces;
}

// A handler of a server that keeps traces; without a place for them it says so.
template <typename F>
OnWorker OfTraces(TraceLibrary* traces, F handler) {
  return [traces, handler](const Call& call) -> Result {
    FW_ASSIGN_OR_RETURN(TraceLibrary * kept, OrNone(traces));
    return handler(*kept, call);
  };
}

// What is said of a trace once it is analysed, with the answers that all of that have.
Route OfOneTrace(std::string_view path, std::string_view operation, std::string_view summary,
                 Parameters parameters, Answer ok) {
  return Get(path, operation, summary, std::move(parameters),
             {std::move(ok),
              Gives(202, "Not analysed yet: the record with its state. Ask again in a moment.",
                    "TraceRecord"),
              BadParameter(), Refused(404, "No such trace."),
              Refused(422, "The files could not be read or analysed; the message says why."),
              Refused(503, "This server keeps no traces.")});
}

}  // namespace

bool IsTraceUpload(std::string_view method, std::string_view target) {
  return method == "POST" && target.substr(0, target.find('?')) == kTracesPath;
}

StatusOr<std::shared_ptr<net::UploadSink>> OpenTraceUpload(TraceLibrary* traces, const Call& call) {
  FW_ASSIGN_OR_RETURN(TraceLibrary * kept, OrNone(traces));
  FW_ASSIGN_OR_RETURN(std::shared_ptr<TraceLibrary::Upload> sink,
                      kept->Begin(UploadRequestOf(call)));
  return std::shared_ptr<net::UploadSink>(std::move(sink));
}

void AddTraceRoutes(TraceLibrary* traces, RouteTable* table) {
  const Answer none = Refused(404, "No such trace.");
  const Answer keeps_none = Refused(503, "This server keeps no traces.");
  const Answer read_only = Refused(403, "A page of another site, or a server that only reads.");
  table->Add(
      Post(kTracesPath, "uploadTrace",
           "Upload one file of a trace; it is analysed in the background. The body goes to disk "
           "as it arrives",
           {&kTraceName, &kTraceJob, &kRank, &kAddTo},
           {Gives(201, "Stored; the analysis is queued.", "TraceRecord"),
            Refused(400, "A parameter is wrong, or the body is no trace."), read_only,
            Refused(404, "No such trace to add to."),
            Refused(429, "Too large, no room on disk, or too many traces."),
            Refused(503, "Too many uploads at once, or no place for traces.")},
           {{"application/octet-stream", R"({"type": "string", "format": "binary"})"}},
           "The file as it is: Kineto JSON, plain or gzip, or an Nsight Systems SQLite export."),
      {}, OfTraces(traces, PostTrace));
  table->Add(
      Get(kTracesPath, "listTraces", "Uploaded traces, newest first",
          {&kTracesOfJob, &kTraceLimit, &kTraceOffset}, {Ok("Traces"), BadParameter(), keeps_none}),
      {}, OfTraces(traces, GetTraces));
  table->Add(Get("/api/v1/traces/{id}", "getTrace", "One uploaded trace, and what is in it",
                 {&kTraceId}, {Ok("TraceDetail"), none, keeps_none}),
             {}, OfTraces(traces, GetTrace));
  table->Add(Delete("/api/v1/traces/{id}", "deleteTrace",
                    "Delete an uploaded trace and its answers", {&kTraceId},
                    {{204, "Deleted."},
                     read_only,
                     none,
                     Refused(503, "It is being analysed, or this server keeps no traces.")}),
             {}, OfTraces(traces, DeleteTrace), IsOneName);
  table->Add(
      OfOneTrace(
          "/api/v1/traces/{id}/report", "getTraceReport",
          "The report: verdict, where time went, findings, stragglers, operators",
          {&kTraceId, &kReportFormat, &kWait},
          {200,
           "The answer.",
           {{kJsonType, "TraceReport"}, {"text/html", kAnyText}, {"text/markdown", kAnyText}}}),
      {}, OfTraces(traces, GetTraceReport));
  table->Add(OfOneTrace("/api/v1/traces/{id}/findings", "getTraceFindings",
                        "Findings by expected gain, what was not checked, what was left out",
                        {&kTraceId, &kWait}, Ok("TraceFindings")),
             {}, OfTraces(traces, GetTraceFindings));
  table->Add(OfOneTrace("/api/v1/traces/{id}/analyses", "getTraceAnalyses", "Tables of analyses",
                        {&kTraceId, &kAnalyses, &kTraceCompat, &kWait}, Ok("TraceAnalyses")),
             {}, OfTraces(traces, GetTraceAnalyses));
}

}  // namespace flopwatch::api
