// Allocated GPU time by whom or what it was for, with what it cost.
#include <algorithm>
#include <utility>
#include <vector>

#include "api/answers.h"
#include "api/routes.h"
#include "query/usage_by.h"

namespace flopwatch::api {
namespace {

using query::UsageGroup;

constexpr OneOf<query::UsageBy> kBy(
    "by", query::kUsageByNames,
    "A row for each. size: GPUs of the job; account, cluster, partition, qos, state: as the "
    "scheduler's books say.");
constexpr Duration kUsageStep(
    "step", "A point of each row for every so long, whole hours; at most 100. Default: none.");
constexpr Time kCompareFrom(
    "compare_from",
    "Beside each row the same of a window as long that begins here, and what changed.");
constexpr int64_t kMaxUsagePoints = 100;
constexpr Integer kUsageLimit("limit", 1, kMaxPage, kMaxPage, "Rows of one page.");

// Of GPU-seconds with a price; null without any.
std::optional<double> Priced(const UsageGroup& g, double amount) {
  return g.cost.priced_s > 0 ? std::optional<double>(amount) : std::nullopt;
}

// Null where OFU is known of none of the time.
std::optional<double> Lost(const UsageGroup& g) {
  return g.usage.sums.ofu.computable_s > 0 ? std::optional(g.usage.LostGpuSeconds()) : std::nullopt;
}

void WriteGroupFields(JsonWriter& json, const UsageGroup& g) {
  const store::UsageSums& s = g.usage.sums;
  const double allocated = g.usage.expected_s;
  json.TextField("name", g.name).Field("jobs", g.jobs);
  json.Field("gpu_seconds", allocated).Field("ofu", g.usage.Ofu());
  json.TextField("ofu_reason", query::OfuReason(s)).Field("coverage", g.usage.CoverageRatio());
  json.Field("mfu", g.Mfu()).Field("mfu_coverage", query::MeanOf(g.claimed_s, allocated));
  json.Field("sm_efficiency", query::MeanOf(s.sm_active_s, s.sm_active_span_s));
  json.Field("occupancy_active", query::OccupancyActive(s));
  json.Field("occupancy_elapsed", query::OccupancyElapsed(s));
  json.Field("duty", query::MeanOf(s.gpu_util_s, s.gpu_util_span_s));
  json.Field("energy_j", s.power_span_s > 0 ? std::optional<double>(s.power_j) : std::nullopt);
  json.Field("kwh_per_eflop_bf16", g.work.KwhPerEflop());
  json.Field("kwh_per_eflop_coverage", query::MeanOf(g.work.gpu_seconds, allocated));
  json.Field("lost_gpu_seconds", Lost(g));
  json.Field("cost", Priced(g, g.cost.amount));
  json.Field("lost_money", Lost(g) ? Priced(g, g.lost_money) : std::nullopt);
  json.Field("cost_coverage", query::MeanOf(g.cost.priced_s, allocated));
}

// What of a row changes over time, or between two windows.
struct Figure {
  std::string_view name;
  std::optional<double> (*of)(const UsageGroup& g);
};
constexpr Figure kFigures[] = {
    {"gpu_seconds", [](const UsageGroup& g) { return std::optional(g.usage.expected_s); }},
    {"ofu", [](const UsageGroup& g) { return g.usage.Ofu(); }},
    {"mfu", [](const UsageGroup& g) { return g.Mfu(); }},
    {"duty",
     [](const UsageGroup& g) {
       return query::MeanOf(g.usage.sums.gpu_util_s, g.usage.sums.gpu_util_span_s);
     }},
    {"sm_efficiency",
     [](const UsageGroup& g) {
       return query::MeanOf(g.usage.sums.sm_active_s, g.usage.sums.sm_active_span_s);
     }},
    {"lost_gpu_seconds", Lost},
    {"cost", [](const UsageGroup& g) { return Priced(g, g.cost.amount); }},
};

// The row of the same name, null where the other window has none.
const UsageGroup* Counterpart(const query::UsageByAnswer& other, const std::string& name) {
  const auto it = std::ranges::find(other.groups, name, &UsageGroup::name);
  return it == other.groups.end() ? nullptr : &*it;
}

// The figures of the other window, and by how much these differ from them.
void WriteCompared(JsonWriter& json, const UsageGroup& now, const UsageGroup* before) {
  json.Key("before");
  if (before == nullptr) {
    json.Null().Key("change").Null();
    return;
  }
  json.BeginObject().Field("jobs", before->jobs);
  for (const Figure& f : kFigures) json.Field(f.name, f.of(*before));
  json.EndObject().Key("change").BeginObject();
  for (const Figure& f : kFigures) {
    const auto a = f.of(*before), b = f.of(now);
    json.Field(f.name, a && b ? std::optional<double>(*b - *a) : std::nullopt);
  }
  json.EndObject();
}

// Points of a row, one a step; null where it has none in it.
void WritePoints(JsonWriter& json, const std::string& name,
                 const std::vector<query::UsageByAnswer>& steps) {
  json.Key("points").BeginObject();
  for (const Figure& f : kFigures) {
    json.Key(f.name).BeginArray();
    for (const query::UsageByAnswer& step : steps) {
      const UsageGroup* g = Counterpart(step, name);
      json.Value(g == nullptr ? std::nullopt : f.of(*g));
    }
    json.EndArray();
  }
  json.EndObject();
}

// The answers of each step of the window; none where no step was asked for.
StatusOr<std::vector<query::UsageByAnswer>> StepsOf(const query::Query& query,
                                                    const fleet::Prices& prices,
                                                    store::Window window, Micros step,
                                                    query::JobJoin join, query::UsageBy by) {
  std::vector<query::UsageByAnswer> out;
  if (step <= 0) return out;
  if (step % kMicrosPerHour != 0 || (window.to - window.from + step - 1) / step > kMaxUsagePoints) {
    return InvalidArgument(
        "step: {}: expected whole hours that make at most {} points of this window",
        FormatDuration(step), kMaxUsagePoints);
  }
  for (Micros from = window.from; from < window.to; from += step) {
    query::View view = query.memory().StoredView({from, std::min(from + step, window.to)});
    FW_ASSIGN_OR_RETURN(query::UsageByAnswer answer,
                        query::UsageOf(query, &view, join, by, prices));
    out.push_back(std::move(answer));
  }
  return out;
}

Result UsageOverWindow(const query::Query& query, const fleet::Prices& prices,
                       const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  const auto join = args[kJoinExactly] ? query::JobJoin::kExact : query::JobJoin::kStamped;
  query::View view = query.Resolve(asked, join);
  const query::UsageBy by = args[kBy];
  FW_ASSIGN_OR_RETURN(query::UsageByAnswer answer, query::UsageOf(query, &view, join, by, prices));
  FW_ASSIGN_OR_RETURN(const std::vector<query::UsageByAnswer> steps,
                      StepsOf(query, prices, view.window, args[kUsageStep].value_or(0), join, by));
  std::optional<query::UsageByAnswer> before;
  query::View before_view;
  if (const auto from = args[kCompareFrom]) {
    before_view = query.memory().StoredView({*from, *from + (asked.to - asked.from)});
    FW_ASSIGN_OR_RETURN(before, query::UsageOf(query, &before_view, join, by, prices));
    // What is gone is a change too.
    for (const UsageGroup& g : before->groups)
      if (Counterpart(answer, g.name) == nullptr) answer.groups.emplace_back().name = g.name;
  }
  const auto write = [&](JsonWriter& json, const UsageGroup& g, const UsageGroup* other) {
    json.BeginObject();
    WriteGroupFields(json, g);
    if (before) WriteCompared(json, g, other);
    if (!steps.empty() && &g != &answer.total) WritePoints(json, g.name, steps);
    json.EndObject();
  };
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, view);
  json.Field("weight", "gpu_seconds").Field("by", query::kUsageByNames[static_cast<size_t>(by)]);
  json.TextField("currency", prices.currency());
  if (before) {
    json.Key("compared_with").BeginObject();
    WriteWindow(json, before_view);
    json.EndObject();
  }
  if (!steps.empty()) json.Field("step_s", args[kUsageStep].value_or(0) / kMicrosPerSecond);
  json.Key("total");
  write(json, answer.total, before ? &before->total : nullptr);
  json.Field("rows_total", static_cast<int64_t>(answer.groups.size())).Key("rows").BeginArray();
  const auto [first, end] = PageOf(args, kUsageLimit, kOffset, answer.groups.size());
  for (size_t k = first; k < end; ++k) {
    const UsageGroup& g = answer.groups[k];
    write(json, g, before ? Counterpart(*before, g.name) : nullptr);
  }
  json.EndArray();
  WriteTexts(json, "notes", answer.notes);
  json.EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace

void AddUsageRoutes(const query::Query* query, const fleet::Prices* prices, RouteTable* table) {
  table->Add(
      Get("/api/v1/usage", "getUsage",
          "Allocated GPU time, its efficiency and its cost, by user, account, node and so on",
          {&kFrom, &kTo, &kBy, &kUsageStep, &kCompareFrom, &kJoinExactly, &kUsageLimit, &kOffset},
          {Ok("UsageBy"), BadParameter()}),
      {},
      [query, prices](const Call& call) { return UsageOverWindow(*query, *prices, call.args); });
}

}  // namespace flopwatch::api
