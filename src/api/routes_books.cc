// The scheduler's files that are sent to us: POST /api/v1/books/slurm.
#include <fmt/format.h>

#include <map>
#include <utility>

#include "api/answers.h"
#include "api/routes.h"
#include "base/json_read.h"
#include "base/text.h"
#include "base/time_zone.h"
#include "jobs/slurm/tell_files.h"

namespace flopwatch::api {
namespace {

constexpr size_t kMaxBookName = 4096;
constexpr int kBooksTryAgainS = 5;

struct SlurmRequest {
  std::vector<slurm::NamedText> files;
  slurm::ReadOptions reading;
  std::optional<Micros> as_of;
};

// A member that is not there reads as "".
StatusOr<std::string> TextOf(const Json& of, std::string_view key) {
  const Json& value = of[key];
  if (value.is_null()) return std::string();
  const auto* text = std::get_if<std::string>(&value.value_);
  if (text == nullptr) return InvalidArgument("books: '{}' is a text", key);
  return *text;
}

Status ReadFilesOf(const Json& list, std::vector<slurm::NamedText>* out) {
  if (!list.is_array() || list.array().empty() || list.array().size() > slurm::kMaxToldFiles)
    return InvalidArgument("books: 'files' is a list of 1 to {} {{name, text}}",
                           slurm::kMaxToldFiles);
  for (const Json& file : list.array()) {
    if (!file.is_object()) return InvalidArgument("books: a file is an object {{name, text}}");
    slurm::NamedText& named = out->emplace_back();
    FW_ASSIGN_OR_RETURN(named.name, TextOf(file, "name"));
    FW_ASSIGN_OR_RETURN(named.text, TextOf(file, "text"));
    if (named.name.empty() || FaultOfName(named.name, kMaxBookName) != NameFault::kNone)
      return InvalidArgument(
          "books: a file's name is 1 to {} bytes of UTF-8 without control characters",
          kMaxBookName);
  }
  return absl::OkStatus();
}

StatusOr<SlurmRequest> ReadSlurmRequest(std::string_view body, Micros now) {
  auto parsed = Json::Parse(body, {.what = "the body"});
  if (!parsed.ok())
    return Annotate(WithCode(parsed.status(), absl::StatusCode::kInvalidArgument), "books");
  const Json& json = *parsed;
  if (!json.is_object())
    return InvalidArgument(R"(books: the body is an object {{"files": [{{name, text}}, ...]}})");
  static constexpr std::string_view kKnown[] = {"files",     "time_zone", "cluster", "node",
                                                "delimiter", "fields",    "as_of"};
  for (const auto& [key, value] : json.object()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), key) == std::end(kKnown))
      return InvalidArgument("books: field '{}' is not known; known are {}", Printable(key, 60),
                             fmt::join(kKnown, ", "));
  }
  SlurmRequest out;
  FW_RETURN_IF_ERROR(ReadFilesOf(json["files"], &out.files));
  FW_ASSIGN_OR_RETURN(out.reading.cluster, TextOf(json, "cluster"));
  FW_ASSIGN_OR_RETURN(out.reading.node, TextOf(json, "node"));
  FW_ASSIGN_OR_RETURN(out.reading.delimiter, TextOf(json, "delimiter"));
  for (const Json& field : json["fields"].array()) out.reading.fields.push_back(field.text());
  FW_ASSIGN_OR_RETURN(const std::string zone, TextOf(json, "time_zone"));
  if (!zone.empty()) {
    auto loaded = TimeZone::Load(zone);
    if (!loaded.ok())
      return Annotate(WithCode(loaded.status(), absl::StatusCode::kInvalidArgument),
                      "books: time_zone");
    out.reading.time_zone = *std::move(loaded);
  }
  FW_ASSIGN_OR_RETURN(const std::string as_of, TextOf(json, "as_of"));
  if (!as_of.empty()) {
    const auto time = ParseTime(as_of, now);
    if (!time.ok())
      return Annotate(WithCode(time.status(), absl::StatusCode::kInvalidArgument), "books: as_of");
    out.as_of = *time;
  }
  return out;
}

void WriteLosses(JsonWriter& json, std::string_view name, const slurm::LossCounts& losses) {
  json.Key(name).BeginObject();
  for (const auto& [reason, loss] : losses) {
    json.Key(reason).BeginObject().Field("count", loss.count);
    WriteTexts(json, "examples", loss.examples);
    json.EndObject();
  }
  json.EndObject();
}

net::Response ToldResponse(const slurm::ToldFiles& all) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  json.TextField("cluster", all.cluster);
  json.Field("attempts", all.told.attempts).Field("placed", all.told.placed);
  json.Field("not_placed", all.told.not_placed).Field("waiting", all.told.waiting);
  json.Field("nodes", all.told.nodes).Field("events", all.told.events);
  json.Field("refused", all.refused());
  json.Key("files").BeginArray();
  for (const slurm::ToldFile& file : all.files) {
    json.BeginObject().Field("name", file.name).Field("kind", file.kind);
    json.Field("jobs", file.jobs).Field("nodes", file.nodes).Field("events", file.events);
    json.Field("gpu_lines", file.gpu_lines).Field("steps_left_out", file.steps_left_out);
    WriteLosses(json, "refused", file.refused);
    WriteLosses(json, "noted", file.noted);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Result PostSlurmBooks(const BookSources& to, const net::Request& request) {
  Status can = to.pipeline == nullptr
                   ? Unavailable("no server takes books here; start flopwatch serve")
                   : to.pipeline->Storing();
  if (!can.ok()) {
    net::Response refusal = net::ErrorResponse(Annotate(can, "books"));
    refusal.headers.emplace_back("Retry-After", std::to_string(kBooksTryAgainS));
    return refusal;
  }
  FW_ASSIGN_OR_RETURN(const SlurmRequest read,
                      ReadSlurmRequest(request.body, to.pipeline->Clock()));
  const auto told = slurm::TellFiles(read.files, read.reading, read.as_of, to.books, to.index);
  if (!told.ok())
    return Annotate(WithCode(told.status(), absl::StatusCode::kInvalidArgument), "books");
  return ToldResponse(*told);
}

}  // namespace

void AddBookRoutes(const BookSources& to, RouteTable* table) {
  table->Add(
      Post("/api/v1/books/slurm", "postSlurmBooks",
           "Files of Slurm's commands into the books: attempts of jobs, nodes, who held which GPU",
           {},
           {Gives(200,
                  "What was taken, into memory. Stored within about a second; a process that is "
                  "killed loses that second. The same again changes nothing.",
                  "SlurmBooksTaken"),
            BadParameter(), OtherSite(),
            Refused(503,
                    "Nothing was taken: it cannot be stored now (the message says why), or no "
                    "server takes books here. Send it again after Retry-After.")},
           {{kJsonType, "SlurmBooks"}},
           "Files that belong together: attempts of one, GPUs of another, nodes of a third."),
      {}, [to](const Call& call) { return PostSlurmBooks(to, call.request); });
}

}  // namespace flopwatch::api
