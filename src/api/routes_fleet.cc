// The fleet over a window: usage, series, GPU models, and what could not be computed.
#include <utility>

#include "api/answers.h"
#include "api/routes.h"
#include "api/usage_json.h"
#include "query/notes.h"

namespace flopwatch::api {
namespace {

JsonWriter& WriteReason(JsonWriter& json, std::string_view reason) {
  json.Field("reason", reason).Field("title", query::ReasonTitle(reason));
  return json.TextField("advice", query::ReasonAdvice(reason));
}

// The words for reasons and flags wherever they stand without them.
Result WriteReasons() {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Key("reasons").BeginArray();
  for (const query::ReasonWords& r : query::Reasons())
    WriteReason(json.BeginObject(), r.reason).EndObject();
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

net::Response WriteFleet(const query::Memory& memory, const query::View& view, query::Fleet fleet) {
  fleet.usage.ci95 = query::HalfWidth95(fleet.series);
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, view);
  json.Key("now");
  if (const auto now = memory.NowView()) {
    WriteUsage(json, memory.FleetUsage(*now));
  } else {
    json.Null();
  }
  json.Key("usage");
  WriteUsage(json, fleet.usage);
  json.Key("series");
  WriteSeries(json, fleet.series);
  json.Key("models").BeginArray();
  for (const auto& [model, of_model] : fleet.models) {
    json.BeginObject().TextField("model", model.name);
    json.Field("gpus", of_model.sums.gpus)
        .Field("tensor_clock_max_mhz", model.tensor_clock_max_mhz);
    json.Key("usage");
    WriteUsage(json, of_model);
    json.EndObject();
  }
  json.EndArray();
  json.Key("not_computable").BeginArray();
  for (const query::NotComputable& n : query::Losses(fleet.usage))
    WriteReason(json.BeginObject(), n.reason).Field("gpu_seconds", n.gpu_seconds).EndObject();
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

std::optional<Result> FleetNow(const query::Memory& memory, const Arguments& args) {
  if (args.HasWindow() || !memory.AtHand({query::Snapshot::kDeployed})) return std::nullopt;
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  const auto view = memory.LiveView(asked);
  if (!view.has_value()) return std::nullopt;
  FW_ASSIGN_OR_RETURN(const Micros step, args.Step(view->window));
  return WriteFleet(memory, *view, memory.FleetOver(*view, step));
}

Result FleetOverWindow(const query::Query& query, const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  const query::View view = query.Resolve(asked);
  FW_ASSIGN_OR_RETURN(const Micros step, args.Step(view.window));
  FW_ASSIGN_OR_RETURN(query::Fleet fleet, query.FleetOver(view, step));
  return WriteFleet(query.memory(), view, std::move(fleet));
}

}  // namespace

void AddFleetRoutes(const query::Memory* memory, const query::Query* query, RouteTable* table) {
  table->Add(
      Get("/api/v1/fleet", "getFleet", "Fleet OFU over a window, by step and by GPU model",
          {&kFrom, &kTo, &kStep}, {Ok("Fleet"), BadParameter()}),
      [memory](const Call& call) { return FleetNow(*memory, call.args); },
      [query](const Call& call) { return FleetOverWindow(*query, call.args); });
  table->Add(
      Get("/api/v1/reasons", "getReasons", "Reasons and quality flags in words, and what to do", {},
          {Ok("Reasons"), BadParameter()}),
      [](const Call&) { return WriteReasons(); }, {});
}

}  // namespace flopwatch::api
