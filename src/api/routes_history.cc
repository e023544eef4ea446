// Windows of a fleet's past that are sent to us: POST /api/v1/history.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "api/answers.h"
#include "api/routes.h"
#include "base/text.h"
#include "history/server_taker.h"
#include "telemetry/remote_write.h"

namespace flopwatch::api {
namespace {

constexpr uint64_t kMaxHistoryBytes = 64ull << 20;  // unpacked
constexpr int64_t kMostMillis = 4'102'444'800'000;  // 2100
constexpr size_t kMaxSession = 64, kMaxReplicaLabels = 16;
constexpr int64_t kGapMillis = 90'000, kLongestGapMillis = 3'600'000;

constexpr Text kSession("session", "A name for this import: any, at most 64 bytes.");
constexpr OptionalInteger kFromMs("from_ms", 0, kMostMillis,
                                  "Samples after this are taken; what was before tells what the "
                                  "first of them stand for. Unix milliseconds.");
constexpr OptionalInteger kToMs("to_ms", 0, kMostMillis,
                                "Until then, at least ten minutes ago and in the same hour.");
constexpr Integer kGapMs("gap_ms", 1'000, kLongestGapMillis, kGapMillis,
                         "A longer gap of a GPU is unobserved time.");
constexpr Text kReplicaLabel("replica_label",
                             "Labels that tell replicas of one Prometheus apart, with commas.");
constexpr Flag kFirst("first", "The import begins with this window.");
constexpr Flag kMore("more", "The same window follows again, with what other exporters say.");
constexpr Flag kLast("last", "The import is over; no window.");

StatusOr<history::Intake::Part> PartOf(const Call& call) {
  history::Intake::Part part;
  part.session = std::string(call.args[kSession].value_or(""));
  part.first = call.args[kFirst];
  part.more = call.args[kMore];
  if (part.session.empty() || FaultOfName(part.session, kMaxSession) != NameFault::kNone)
    return InvalidArgument("history: 'session' is 1 to {} bytes of UTF-8", kMaxSession);
  if (call.args[kLast]) return part;
  const auto from = call.args[kFromMs], to = call.args[kToMs];
  if (!from.has_value() || !to.has_value() || *from >= *to)
    return InvalidArgument("history: 'from_ms' and 'to_ms' are given, the first before the second");
  part.window = {*from * kMicrosPerMilli, *to * kMicrosPerMilli};
  if (part.window.to > FloorTo(part.window.from, kMicrosPerHour) + kMicrosPerHour)
    return InvalidArgument("history: a window is within one hour (UTC)");
  part.options.sender = ingest::SenderOf(call.request.remote);
  part.options.max_span = call.args[kGapMs] * kMicrosPerMilli;
  if (const auto labels = call.args[kReplicaLabel]) {
    part.options.replica_labels =
        absl::StrSplit(absl::string_view(labels->data(), labels->size()), ',', absl::SkipEmpty());
    if (part.options.replica_labels.size() > kMaxReplicaLabels)
      return InvalidArgument("history: at most {} replica labels", kMaxReplicaLabels);
  }
  return part;
}

net::Response TakenResponse(const history::Taken& taken) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  json.Field("samples", taken.samples).Field("scrapes", taken.scrapes).Field("rows", taken.rows);
  json.Field("known", taken.known).Field("unnamed_series", taken.unnamed);
  json.Key("refused").BeginObject();
  for (const auto& [reason, n] : taken.refused) json.Field(reason, n);
  json.EndObject();
  WriteTexts(json, "examples", taken.examples);
  json.EndObject();
  return JsonResponse(std::move(body));
}

Result PostHistory(history::Intake* intake, const ingest::Pipeline* pipeline, const Call& call) {
  const Status can = intake == nullptr
                         ? Unavailable("no server takes history here; start flopwatch serve")
                         : pipeline->Storing();
  if (!can.ok()) {
    net::Response refusal = net::ErrorResponse(Annotate(can, "history"));
    refusal.headers.emplace_back("Retry-After", "5");
    return refusal;
  }
  FW_ASSIGN_OR_RETURN(const history::Intake::Part part, PartOf(call));
  if (call.args[kLast]) {
    FW_RETURN_IF_ERROR(intake->End(part.session));
    return TakenResponse({});
  }
  const auto fill = [&](history::Taker* taker) {
    telemetry::RemoteWriteStats stats;
    return telemetry::DecodeRemoteWrite(
        call.request.body, /*version_2=*/false, kMaxHistoryBytes,
        [&](const telemetry::MetricSeries& series) { taker->Add(series); }, &stats);
  };
  FW_ASSIGN_OR_RETURN(const history::Taken taken, intake->Take(part, fill));
  return TakenResponse(taken);
}

}  // namespace

void AddHistoryRoutes(history::Intake* intake, const ingest::Pipeline* pipeline,
                      RouteTable* table) {
  table->Add(
      Slow(Post(history::kIntakePath, "postHistory",
                "A window of a fleet's past, as Prometheus remote write 1.0 (`flopwatch import "
                "prometheus --server`)",
                {&kSession, &kFirst, &kMore, &kLast, &kFromMs, &kToMs, &kGapMs, &kReplicaLabel},
                {Gives(200,
                       "What became of the window, which is stored, with `more` with the last of "
                       "its parts. What was there already is not "
                       "added again. Windows of one import come one after the other.",
                       "HistoryTaken"),
                 BadParameter(), OtherSite(),
                 Refused(412, "Another import is under way, or this one is not known any more."),
                 Refused(503,
                         "Nothing was taken: it cannot be stored now (the message says why), or no "
                         "server takes history here. Send it again after Retry-After.")},
                {{"application/x-protobuf",
                  R"({"type": "string", "format": "binary", "description": "A snappy block of )"
                  R"(prometheus.WriteRequest."})"}})),
      {}, [intake, pipeline](const Call& call) { return PostHistory(intake, pipeline, call); });
}

}  // namespace flopwatch::api
