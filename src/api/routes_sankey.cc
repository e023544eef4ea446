// Where the fleet's GPU time went: the levels from deployed GPUs to OFU, and each loss between
// them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "api/answers.h"
#include "api/routes.h"
#include "fleet/sankey/svg.h"
#include "net/http.h"
#include "query/sankey.h"

namespace flopwatch::api {
namespace {

enum class Form : uint8_t { kJson, kSvg };
constexpr std::string_view kForms[] = {"json", "svg"};
constexpr OneOf<Form> kForm("format", kForms, "json, or the diagram as SVG.");
constexpr Text kCluster("cluster", "Only hosts of this cluster, as the scheduler names it.");
constexpr Text kPartition("partition", "Only hosts of this partition.");
constexpr Text kModel("model", "Only hosts with GPUs of this model, as it is reported.");
constexpr Text kAccount("account", "Only what jobs of this account held.");
constexpr OneOf<fleet::HostLoss> kLoss("loss", fleet::kHostLossNames,
                                       "The loss whose hosts are asked for.");

bool IsOfHosts(const fleet::SankeyLoss& loss) {
  return loss.before <= fleet::SankeyLevel::kAllocated;
}

// What a list of who is behind a loss is asked with: the window, the loss and the part of the
// fleet.
std::string BehindQuery(const fleet::SankeyLoss& loss, store::Window window,
                        const query::SankeyFilter& part) {
  std::string out =
      fmt::format("?from={}&to={}&{}={}", FormatTime(window.from), FormatTime(window.to),
                  IsOfHosts(loss) ? "loss" : "sort", loss.name);
  const std::pair<std::string_view, const std::string*> parts[] = {
      {"cluster", &part.hardware.cluster},
      {"partition", &part.hardware.partition},
      {"model", &part.hardware.model},
      {"account", &part.account}};
  for (const auto& [name, value] : parts)
    if (!value->empty()) out += fmt::format("&{}={}", name, net::PercentEncode(*value));
  return out;
}

Result WriteSankey(const query::View& view, const fleet::Sankey& sankey,
                   const std::string& currency, const query::SankeyFilter& part) {
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
    json.Field("money", loss.money).Key("reasons").BeginArray();
    for (const auto& [reason, seconds] : loss.reasons)
      json.BeginObject().Field("reason", reason).Field("gpu_seconds", seconds).EndObject();
    json.EndArray();
    // The path of the list that shows who is behind it, largest first.
    json.Field("drill", (IsOfHosts(loss) ? "/api/v1/sankey/nodes" : "/api/v1/jobs") +
                            BehindQuery(loss, view.window, part));
    json.EndObject();
  }
  json.EndArray().Field("compound", sankey.compound);
  json.Field("draining_work_gpu_seconds", sankey.draining_work_s);
  json.Field("deployed_money", sankey.deployed_money).TextField("currency", currency);
  WriteTexts(json, "notes", sankey.notes);
  json.EndObject();
  return JsonResponse(std::move(body));
}

query::HardwareFilter HardwareOf(const Arguments& args) {
  return {.cluster = std::string(args[kCluster].value_or("")),
          .partition = std::string(args[kPartition].value_or("")),
          .model = std::string(args[kModel].value_or(""))};
}

// The hosts on which a loss was, most of it first.
Result HostsBehind(const query::Query& query, const fleet::Prices& prices, const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  const query::View view = query.Resolve(asked);
  const query::Hosts hosts = query::HostsIn(query.memory(), view.window, HardwareOf(args), prices);
  struct Row {
    const std::string* name;
    fleet::HostTime time;
    double lost = 0;
  };
  std::vector<Row> rows;
  double all = 0;
  for (const auto& [name, host] : hosts.hosts) {
    Row row{&name, fleet::TimeOf(host, {view.window.from, view.window.to})};
    row.lost = fleet::PartOf(row.time, args[kLoss]).gpu_seconds;
    all += row.lost;
    if (row.lost > 0) rows.push_back(std::move(row));
  }
  std::ranges::sort(rows, [](const Row& a, const Row& b) {
    return a.lost != b.lost ? a.lost > b.lost : *a.name < *b.name;
  });
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, view);
  json.Field("weight", "gpu_seconds");
  json.Field("loss", fleet::kHostLossNames[static_cast<size_t>(args[kLoss])]);
  json.Field("gpu_seconds", all).TextField("currency", prices.currency());
  json.Field("nodes_total", static_cast<int64_t>(rows.size())).Key("nodes").BeginArray();
  const auto [first, end] = PageOf(args, kLimit, kOffset, rows.size());
  for (size_t k = first; k < end; ++k) {
    const Row& row = rows[k];
    json.BeginObject().Field("node", *row.name).Field("gpu_seconds", row.lost);
    json.Field("of_loss", row.lost / all);
    json.Field("deployed_gpu_seconds", row.time.deployed.gpu_seconds);
    json.Field("allocated_gpu_seconds", row.time.allocated.gpu_seconds);
    const fleet::Money& money = fleet::PartOf(row.time, args[kLoss]).money;
    json.Field("money", money.priced_s > 0 ? std::optional<double>(money.amount) : std::nullopt);
    json.Key("reasons").BeginArray();
    for (const auto& [reason, seconds] : fleet::ReasonsOf(row.time, args[kLoss]))
      json.BeginObject().Field("reason", reason).Field("gpu_seconds", seconds).EndObject();
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Result SankeyOfWindow(const query::Query& query, const fleet::Prices& prices,
                      const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  const auto join = args[kJoinExactly] ? query::JobJoin::kExact : query::JobJoin::kStamped;
  query::View view = query.Resolve(asked, join);
  const query::SankeyFilter filter = {.hardware = HardwareOf(args),
                                      .account = std::string(args[kAccount].value_or(""))};
  if (!filter.account.empty() && !filter.hardware.empty()) {
    return InvalidArgument(
        "account: not together with cluster, partition or model: an account has no hardware");
  }
  FW_ASSIGN_OR_RETURN(const fleet::Sankey sankey,
                      query::SankeyOver(query, &view, join, filter, prices));
  if (args[kForm] == Form::kJson) return WriteSankey(view, sankey, prices.currency(), filter);
  // Its links are the page's own, and carry the window on.
  return net::Response{
      .content_type = "image/svg+xml",
      .body = fleet::SankeySvg(sankey, prices.currency(), [&](const fleet::SankeyLoss& loss) {
        return (IsOfHosts(loss) ? "/hosts" : "/jobs") + BehindQuery(loss, view.window, filter);
      })};
}

}  // namespace

void AddSankeyRoutes(const query::Query* query, const fleet::Prices* prices, RouteTable* table) {
  table->Add(
      Get("/api/v1/sankey", "getSankey",
          "Where GPU time went: from deployed GPUs to OFU, and each loss on the way",
          {&kFrom, &kTo, &kCluster, &kPartition, &kModel, &kAccount, &kForm, &kJoinExactly},
          {Answer{200, "The answer.", {{kJsonType, "Sankey"}, {"image/svg+xml", kAnyText}}},
           BadParameter()}),
      {}, [query, prices](const Call& call) { return SankeyOfWindow(*query, *prices, call.args); });
  table->Add(Get("/api/v1/sankey/nodes", "getSankeyNodes",
                 "The hosts behind a loss above 'allocated', with what the scheduler said of them",
                 {&kFrom, &kTo, &kLoss, &kCluster, &kPartition, &kModel, &kLimit, &kOffset},
                 {Ok("SankeyNodes"), BadParameter()}),
             {},
             [query, prices](const Call& call) { return HostsBehind(*query, *prices, call.args); });
}

}  // namespace flopwatch::api
