// Allocated GPU time by whom or what it was for, with what it cost.
#include <utility>

#include "api/answers.h"
#include "api/routes.h"
#include "query/usage_by.h"

namespace flopwatch::api {
namespace {

using query::UsageGroup;

constexpr OneOf<query::UsageBy> kBy("by", query::kUsageByNames,
                                    "A row for each. size: GPUs of the job.");
constexpr Integer kUsageLimit("limit", 1, kMaxPage, kMaxPage, "Rows of one page.");

// Of GPU-seconds with a price; null without any.
std::optional<double> Priced(const UsageGroup& g, double amount) {
  return g.cost.priced_s > 0 ? std::optional<double>(amount) : std::nullopt;
}

void WriteGroup(JsonWriter& json, const UsageGroup& g) {
  const store::UsageSums& s = g.usage.sums;
  const double allocated = g.usage.expected_s;
  json.BeginObject().TextField("name", g.name).Field("jobs", g.jobs);
  json.Field("gpu_seconds", allocated).Field("ofu", g.usage.Ofu());
  json.TextField("ofu_reason", query::OfuReason(s)).Field("coverage", g.usage.CoverageRatio());
  json.Field("mfu", g.Mfu()).Field("mfu_coverage", query::MeanOf(g.claimed_s, allocated));
  json.Field("sm_efficiency", query::MeanOf(s.sm_active_s, s.sm_active_span_s));
  // Warps resident (DCGM 1003) are not kept in rollups.
  json.Key("occupancy_active").Null().Key("occupancy_elapsed").Null();
  json.Field("duty", query::MeanOf(s.gpu_util_s, s.gpu_util_span_s));
  json.Field("energy_j", s.power_span_s > 0 ? std::optional<double>(s.power_j) : std::nullopt);
  json.Field("lost_gpu_seconds", g.usage.LostGpuSeconds());
  json.Field("cost", Priced(g, g.cost.amount)).Field("lost_money", Priced(g, g.lost_money));
  json.Field("cost_coverage", query::MeanOf(g.cost.priced_s, allocated)).EndObject();
}

Result UsageOverWindow(const query::Query& query, const fleet::Prices& prices,
                       const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  const auto join = args[kJoinExactly] ? query::JobJoin::kExact : query::JobJoin::kStamped;
  query::View view = query.Resolve(asked, join);
  const query::UsageBy by = args[kBy];
  FW_ASSIGN_OR_RETURN(const query::UsageByAnswer answer,
                      query::UsageOf(query, &view, join, by, prices));
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, view);
  json.Field("weight", "gpu_seconds").Field("by", query::kUsageByNames[static_cast<size_t>(by)]);
  json.TextField("currency", prices.currency()).Key("total");
  WriteGroup(json, answer.total);
  json.Field("rows_total", static_cast<int64_t>(answer.groups.size())).Key("rows").BeginArray();
  const auto [first, end] = PageOf(args, kUsageLimit, kOffset, answer.groups.size());
  for (size_t k = first; k < end; ++k) WriteGroup(json, answer.groups[k]);
  json.EndArray();
  WriteTexts(json, "notes", answer.notes);
  json.EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace

void AddUsageRoutes(const query::Query* query, const fleet::Prices* prices, RouteTable* table) {
  table->Add(
      Get("/api/v1/usage", "getUsage",
          "Allocated GPU time, its efficiency and its cost, by user, workflow, job, model or size",
          {&kFrom, &kTo, &kBy, &kJoinExactly, &kUsageLimit, &kOffset},
          {Ok("UsageBy"), BadParameter()}),
      {},
      [query, prices](const Call& call) { return UsageOverWindow(*query, *prices, call.args); });
}

}  // namespace flopwatch::api
