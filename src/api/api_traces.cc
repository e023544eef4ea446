// Uploaded traces: POST, list, one, report, findings, analyses, DELETE. Everything heavy was done
// by TraceLibrary's thread; a handler reads a file.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/api_impl.h"
#include "base/text.h"
#include "uploads/traces.h"

namespace flopwatch::api {
namespace {

using net::Request;
using net::Response;

constexpr int64_t kDefaultWaitS = 20, kMaxWaitS = 60;
constexpr std::string_view kPath = "/api/v1/traces";

void WriteRecord(JsonWriter& json, const uploads::TraceRecord& r) {
  const auto text = [&](std::string_view name, const std::string& value) {
    json.Key(name);
    value.empty() ? json.Null() : json.Value(value);
  };
  json.Field("id", r.id);
  text("name", r.name);
  text("job", r.job);
  WriteTime(json, "created", r.created);
  json.Field("bytes", r.bytes)
      .Field("files", r.files.size())
      .Field("state", uploads::TraceStateName(r.state));
  text("error", r.error);
  text("headline", r.headline);
  text("verdict", r.verdict);
}

Response RecordResponse(const uploads::TraceRecord& r, int status) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteRecord(json, r);
  json.EndObject();
  Response response = JsonResponse(std::move(body));
  response.status = status;
  response.headers.emplace_back("Location", fmt::format("{}/{}", kPath, r.id));
  return response;
}

// What stands in the URL of an upload.
StatusOr<uploads::TraceLibrary::UploadRequest> UploadRequestOf(const Request& request) {
  FW_ASSIGN_OR_RETURN(const Params params,
                      Params::Parse(request, {"name", "job", "rank", "trace"}));
  uploads::TraceLibrary::UploadRequest out;
  out.name = params.Text("name").value_or("");
  out.job = params.Text("job").value_or("");
  out.trace = params.Text("trace").value_or("");
  if (params.Has("rank")) {
    FW_ASSIGN_OR_RETURN(out.rank, params.Int("rank", 0, 0, 1 << 30));
  }
  if (const auto length = request.Header("content-length")) {
    uint64_t bytes = 0;
    const auto [end, error] =
        std::from_chars(length->data(), length->data() + length->size(), bytes);
    if (error == std::errc() && end == length->data() + length->size()) out.bytes = bytes;
  }
  return out;
}

}  // namespace

StatusOr<uploads::TraceLibrary*> Api::Impl::Traces() const {
  if (parts.traces == nullptr)
    return absl::UnavailableError("this server keeps no traces: it has no data directory for them");
  return parts.traces;
}

net::Uploads Api::Uploads() {
  net::Uploads out;
  out.is_upload = [](std::string_view method, std::string_view target) {
    return method == "POST" && target.substr(0, target.find('?')) == kPath;
  };
  out.open =
      [impl = impl_.get()](const Request& request) -> StatusOr<std::shared_ptr<net::UploadSink>> {
    FW_RETURN_IF_ERROR(impl->CheckOrigin(request));
    FW_ASSIGN_OR_RETURN(const uploads::TraceLibrary::UploadRequest upload,
                        UploadRequestOf(request));
    FW_ASSIGN_OR_RETURN(uploads::TraceLibrary * traces, impl->Traces());
    FW_ASSIGN_OR_RETURN(std::shared_ptr<uploads::TraceLibrary::Upload> sink, traces->Begin(upload));
    return std::shared_ptr<net::UploadSink>(std::move(sink));
  };
  return out;
}

Api::Impl::Result Api::Impl::PostTrace(const Request& request, std::string_view) {
  FW_RETURN_IF_ERROR(UploadRequestOf(request).status());
  FW_ASSIGN_OR_RETURN(uploads::TraceLibrary * traces, Traces());
  auto upload = std::dynamic_pointer_cast<uploads::TraceLibrary::Upload>(request.sink);
  if (upload == nullptr) {
    // In process, or by a client that sent the body before anyone asked.
    FW_ASSIGN_OR_RETURN(uploads::TraceLibrary::UploadRequest wanted, UploadRequestOf(request));
    wanted.bytes = request.body.size();
    FW_ASSIGN_OR_RETURN(upload, traces->Begin(wanted));
    FW_RETURN_IF_ERROR(upload->Write(request.body));
  }
  FW_ASSIGN_OR_RETURN(const uploads::TraceRecord record, traces->Finish(upload.get()));
  return RecordResponse(record, 201);
}

Api::Impl::Result Api::Impl::GetTraces(const Request& request, std::string_view) {
  FW_ASSIGN_OR_RETURN(const Params params, Params::Parse(request, {"job", "limit", "offset"}));
  FW_ASSIGN_OR_RETURN(uploads::TraceLibrary * traces, Traces());
  FW_ASSIGN_OR_RETURN(const int64_t limit, params.Int("limit", kDefaultPage, 1, kMaxPage));
  FW_ASSIGN_OR_RETURN(const int64_t offset, params.Int("offset", 0, 0, int64_t{1} << 40));
  std::vector<uploads::TraceRecord> all = traces->List();
  if (const auto job = params.Text("job"))
    std::erase_if(all, [&](const uploads::TraceRecord& r) { return r.job != *job; });
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("total", all.size()).Key("traces").BeginArray();
  for (size_t i = static_cast<size_t>(offset);
       i < all.size() && i < static_cast<size_t>(offset + limit); ++i) {
    json.BeginObject();
    WriteRecord(json, all[i]);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Api::Impl::Result Api::Impl::GetTrace(const Request& request, std::string_view id) {
  FW_RETURN_IF_ERROR(Params::Parse(request, {}).status());
  FW_ASSIGN_OR_RETURN(uploads::TraceLibrary * traces, Traces());
  FW_ASSIGN_OR_RETURN(const uploads::TraceRecord record, traces->Find(id));
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteRecord(json, record);
  json.Key("info");
  if (const auto info = traces->Answer(id, "info.json");
      record.state == uploads::TraceState::kReady && info.ok()) {
    json.Raw(std::string_view(*info).substr(0, info->find_last_not_of('\n') + 1));
  } else {
    json.Null();
  }
  json.EndObject();
  return JsonResponse(std::move(body));
}

// The answer once the trace is ready; its state with 202 while it is not, and 422 where it never
// will be.
Api::Impl::Result Api::Impl::TraceAnswer(
    const Params& params, std::string_view id,
    const std::function<StatusOr<std::string>(uploads::TraceLibrary&)>& read) {
  FW_ASSIGN_OR_RETURN(uploads::TraceLibrary * traces, Traces());
  FW_ASSIGN_OR_RETURN(const int64_t wait, params.Int("wait", kDefaultWaitS, 0, kMaxWaitS));
  FW_ASSIGN_OR_RETURN(const uploads::TraceRecord record,
                      traces->WaitFor(id, wait * kMicrosPerSecond));
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
  FW_ASSIGN_OR_RETURN(std::string text, read(*traces));
  return JsonResponse(std::move(text));
}

Api::Impl::Result Api::Impl::GetTraceReport(const Request& request, std::string_view id) {
  FW_ASSIGN_OR_RETURN(const Params params, Params::Parse(request, {"format", "wait"}));
  FW_ASSIGN_OR_RETURN(const int format, params.OneOf("format", {"json", "html", "md"}));
  static constexpr std::string_view kFiles[] = {"report.json", "report.html", "report.md"};
  static constexpr std::string_view kTypes[] = {"application/json", "text/html; charset=utf-8",
                                                "text/markdown; charset=utf-8"};
  FW_ASSIGN_OR_RETURN(Response r, TraceAnswer(params, id, [&](uploads::TraceLibrary& t) {
                        return t.Answer(id, kFiles[format]);
                      }));
  if (r.status == 200) r.content_type = kTypes[format];
  return r;
}

Api::Impl::Result Api::Impl::GetTraceFindings(const Request& request, std::string_view id) {
  FW_ASSIGN_OR_RETURN(const Params params, Params::Parse(request, {"wait"}));
  return TraceAnswer(params, id,
                     [&](uploads::TraceLibrary& t) { return t.Answer(id, "findings.json"); });
}

Api::Impl::Result Api::Impl::GetTraceAnalyses(const Request& request, std::string_view id) {
  FW_ASSIGN_OR_RETURN(const Params params, Params::Parse(request, {"names", "compat", "wait"}));
  FW_ASSIGN_OR_RETURN(const int compat, params.OneOf("compat", {"none", "hta"}));
  return TraceAnswer(params, id, [&](uploads::TraceLibrary& t) {
    return t.Analyses(id, params.Text("names").value_or("all"), compat == 1);
  });
}

Api::Impl::Result Api::Impl::DeleteTrace(const Request& request, std::string_view id) {
  FW_RETURN_IF_ERROR(Params::Parse(request, {}).status());
  FW_ASSIGN_OR_RETURN(uploads::TraceLibrary * traces, Traces());
  FW_RETURN_IF_ERROR(traces->Delete(id));
  Response r;
  r.status = 204;
  return r;
}

}  // namespace flopwatch::api
