// Where the fleet's GPU time went: the levels from deployed GPUs to OFU, and each loss between
// them.
#include <fmt/format.h>

#include <utility>

#include "api/answers.h"
#include "api/routes.h"
#include "fleet/sankey/svg.h"
#include "query/sankey.h"

namespace flopwatch::api {
namespace {

enum class Form : uint8_t { kJson, kSvg };
constexpr std::string_view kForms[] = {"json", "svg"};
constexpr OneOf<Form> kForm("format", kForms, "json, or the diagram as SVG.");

// The path of the list that shows who is behind a loss, largest first.
std::string DrillOf(const fleet::SankeyLoss& loss, store::Window window) {
  if (loss.before <= fleet::SankeyLevel::kAllocated) return "/api/v1/gpus?sort=gpu_util&order=asc";
  return fmt::format("/api/v1/jobs?from={}&to={}&sort={}", FormatTime(window.from),
                     FormatTime(window.to), loss.name);
}

Result WriteSankey(const query::View& view, const fleet::Sankey& sankey) {
  std::string body;
  JsonWriter json(&body);
  const double deployed = sankey.deployed_s;
  const auto of_deployed = [&](double seconds) {
    return deployed > 0 ? std::optional<double>(seconds / deployed) : std::nullopt;
  };
  json.BeginObject();
  WriteWindow(json, view);
  json.Field("weight", "gpu_seconds").Field("deployed_gpu_seconds", deployed);
  json.Field("deployed_from", fleet::DeployedFromName(sankey.deployed_from));
  json.Key("levels").BeginArray();
  for (const fleet::SankeyRow& row : sankey.levels) {
    json.BeginObject().Field("name", fleet::SankeyLevelName(row.level));
    json.Field("title", fleet::SankeyLevelTitle(row.level));
    json.Field("gpu_seconds", row.gpu_seconds);
    json.Field("of_deployed", row.gpu_seconds ? of_deployed(*row.gpu_seconds) : std::nullopt);
    json.Field("of_previous", row.of_previous).Field("coverage", row.coverage);
    json.Field("excess_gpu_seconds", row.excess_s).TextField("reason", row.why_unknown);
    json.EndObject();
  }
  json.EndArray().Key("losses").BeginArray();
  for (const fleet::SankeyLoss& loss : sankey.losses) {
    json.BeginObject().Field("name", loss.name).Field("title", loss.title);
    json.Field("before", fleet::SankeyLevelName(loss.before));
    json.Field("gpu_seconds", loss.gpu_seconds);
    json.Field("of_deployed", of_deployed(loss.gpu_seconds));
    json.Key("money").Null();  // prices are by model, and the levels are not split by it
    json.Field("drill", DrillOf(loss, view.window)).EndObject();
  }
  json.EndArray().Field("compound", sankey.compound);
  WriteTexts(json, "notes", sankey.notes);
  json.EndObject();
  return JsonResponse(std::move(body));
}

Result SankeyOfWindow(const query::Query& query, const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  const auto join = args[kJoinExactly] ? query::JobJoin::kExact : query::JobJoin::kStamped;
  query::View view = query.Resolve(asked, join);
  FW_ASSIGN_OR_RETURN(const fleet::Sankey sankey, query::SankeyOver(query, &view, join));
  if (args[kForm] == Form::kJson) return WriteSankey(view, sankey);
  // Its links are the page's own, and carry the window on.
  return net::Response{.content_type = "image/svg+xml",
                       .body = fleet::SankeySvg(sankey, [&](const fleet::SankeyLoss& loss) {
                         if (loss.before <= fleet::SankeyLevel::kAllocated) return std::string();
                         return fmt::format("/jobs?from={}&to={}&sort={}",
                                            FormatTime(view.window.from),
                                            FormatTime(view.window.to), loss.name);
                       })};
}

}  // namespace

void AddSankeyRoutes(const query::Query* query, RouteTable* table) {
  table->Add(Get("/api/v1/sankey", "getSankey",
                 "Where GPU time went: from deployed GPUs to OFU, and each loss on the way",
                 {&kFrom, &kTo, &kForm, &kJoinExactly},
                 {Answer{200, "The answer.", {{kJsonType, "Sankey"}, {"image/svg+xml", kAnyText}}},
                  BadParameter()}),
             {}, [query](const Call& call) { return SankeyOfWindow(*query, call.args); });
}

}  // namespace flopwatch::api
