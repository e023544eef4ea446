// GPU time that jobs held and did not use, by job and state.
#include <cmath>
#include <utility>
#include <vector>

#include "api/answers.h"
#include "api/routes.h"
#include "query/idle.h"

namespace flopwatch::api {
namespace {

using fleet::IdleState;
using query::IdleAnswer;
using query::IdleRow;

constexpr OptionalOneOf<IdleState> kIdleState("state", fleet::kIdleStateNames,
                                              "Only this state (docs/idle.md).");
constexpr Text kIdleUser("user", "Only jobs of this user.");
constexpr Text kIdleJob("job", "Only this job; with it comes a notice to whoever holds it.");
constexpr Integer kIdleLeast("min_gpu_seconds", 0, INT32_MAX, 0,
                             "Leave out rows with less GPU time.");
constexpr Integer kIdleLimit("limit", 1, kMaxPage, kMaxPage, "Rows of one page.");

// Of time with a price; null without any.
std::optional<double> MoneyOf(const fleet::Money& money) {
  return money.priced_s > 0 ? std::optional<double>(money.amount) : std::nullopt;
}

void WriteIdleRow(JsonWriter& json, const IdleRow& row) {
  const fleet::IdleHeld& held = row.held;
  json.BeginObject().Field("job", row.job).TextField("name", row.name);
  json.TextField("user", row.user).TextField("account", row.account);
  json.TextField("workflow", row.workflow).TextField("cluster", row.cluster);
  json.Field("state", fleet::IdleStateName(held.state));
  json.Field("gpus", held.gpus).Field("gpu_seconds", held.gpu_s);
  json.Field("coverage", row.coverage).Field("money", MoneyOf(row.money));
  WriteTime(json, "since", held.since);
  json.Field("began_before", held.began_before);
  WriteTime(json, "until", held.goes_on ? 0 : held.until);
  json.Field("stretches", held.stretches).Field("duty", held.duty);
  json.Field("sm_active", held.sm_active).Field("power_w", held.power_w);
  json.Field("work_power_w", held.work_power_w).Field("memory_mib", held.memory_mib);
  json.Field("evidence", fleet::IdleEvidence(held));
  WriteTexts(json, "nodes", row.nodes);
  json.Field("nodes_total", row.nodes_total).EndObject();
}

// Of the rows that were asked for.
void WriteTotals(JsonWriter& json, const std::vector<const IdleRow*>& rows) {
  double all = 0;
  fleet::Money all_money;
  json.Key("totals").BeginArray();
  for (size_t s = 0; s < fleet::kIdleStates; ++s) {
    double gpu_s = 0;
    fleet::Money money;
    int64_t jobs = 0;
    for (const IdleRow* row : rows) {
      if (static_cast<size_t>(row->held.state) != s) continue;
      gpu_s += row->held.gpu_s;
      money += row->money;
      ++jobs;
    }
    all += gpu_s;
    all_money += money;
    json.BeginObject().Field("state", fleet::kIdleStateNames[s]).Field("gpu_seconds", gpu_s);
    json.Field("money", MoneyOf(money)).Field("jobs", jobs).EndObject();
  }
  json.EndArray().Field("gpu_seconds", all).Field("money", MoneyOf(all_money));
}

void WriteStranded(JsonWriter& json, const IdleAnswer& answer) {
  fleet::PricedTime all = answer.stranded;
  all += answer.stranded_queued;
  json.Key("stranded").BeginObject().Field("gpu_seconds", all.gpu_seconds);
  json.Field("queued_gpu_seconds", answer.stranded_queued.gpu_seconds);
  json.Field("money", MoneyOf(all.money)).EndObject();
}

Result IdleOverWindow(const query::Query& query, const fleet::Prices& prices,
                      const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  FW_ASSIGN_OR_RETURN(const IdleAnswer answer, query::IdleOf(query, asked, prices));
  std::vector<const IdleRow*> rows;
  for (const IdleRow& row : answer.rows) {
    if (args[kIdleState] && row.held.state != *args[kIdleState]) continue;
    if (args[kIdleUser] && row.user != *args[kIdleUser]) continue;
    if (args[kIdleJob] && row.job != *args[kIdleJob]) continue;
    if (row.held.gpu_s < static_cast<double>(args[kIdleLeast])) continue;
    rows.push_back(&row);
  }
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, answer.view);
  json.Field("weight", "gpu_seconds").TextField("currency", prices.currency());
  json.Field("held_gpu_seconds", answer.held_s);
  json.Field("observed_gpu_seconds", answer.observed_s);
  json.Field("coverage", query::MeanOf(answer.observed_s, answer.held_s));
  json.Field("pauses_gpu_seconds", answer.pauses_s);
  json.Field("contradicted_gpu_seconds", answer.contradicted_s);
  WriteTotals(json, rows);
  WriteStranded(json, answer);
  json.Field("rows_total", static_cast<int64_t>(rows.size())).Key("rows").BeginArray();
  const auto [first, end] = PageOf(args, kIdleLimit, kOffset, rows.size());
  for (size_t k = first; k < end; ++k) WriteIdleRow(json, *rows[k]);
  json.EndArray();
  const bool one = args[kIdleJob].has_value() && !rows.empty();
  json.TextField("notice", one ? query::NoticeOf(rows, prices.currency()) : "");
  WriteTexts(json, "notes", answer.notes);
  json.EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace

void AddIdleRoutes(const query::Query* query, const fleet::Prices* prices, RouteTable* table) {
  table->Add(
      Slow(Get(
          "/api/v1/idle", "getIdle",
          "GPU time that jobs held and did not use, by job and state, and GPUs that nobody held on "
          "busy hosts",
          {&kFrom, &kTo, &kIdleState, &kIdleUser, &kIdleJob, &kIdleLeast, &kIdleLimit, &kOffset},
          {Ok("Idle"), BadParameter()})),
      {}, [query, prices](const Call& call) { return IdleOverWindow(*query, *prices, call.args); });
}

}  // namespace flopwatch::api
