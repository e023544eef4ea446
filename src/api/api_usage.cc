// Fleet, jobs and one job: usage over a window.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "api/api_impl.h"
#include "api/usage_json.h"
#include "base/text.h"

namespace flopwatch::api {
namespace {

using net::Request;

constexpr size_t kMaxJobsCompared = 20'000;  // job keys compared for "did you mean"
constexpr double kLowCoverage = 0.9;

std::vector<std::string_view> JobFlags(const query::JobRow& row) {
  std::vector<std::string_view> flags;
  const store::UsageSums& s = row.usage.sums;
  if (s.dead_counter_s > 0) flags.push_back("dead_counter");
  if (s.out_of_range_s > 0) flags.push_back("out_of_range");
  if (s.tensor_missing_s > 0) flags.push_back("tensor_missing");
  if (s.clock_missing_s > 0) flags.push_back("clock_missing");
  if (s.model_unknown_s > 0) flags.push_back("model_unknown");
  if (s.stale_s > 0) flags.push_back("stale_repeat");
  if (s.frozen_s > 0) flags.push_back("frozen");
  if (const auto c = row.usage.CoverageRatio(); c.has_value() && *c < kLowCoverage)
    flags.push_back("low_coverage");
  if (row.exact) flags.push_back("exact");
  return flags;
}

// The members of a job object, without the braces.
void WriteJobFields(JsonWriter& json, const query::JobRow& row) {
  json.Field("job", row.record.key.empty() ? fmt::format("#{}", row.id) : row.record.key);
  json.TextField("name", row.record.name);
  json.TextField("user", row.record.user);
  json.TextField("workflow", row.record.workflow);
  json.Field("running", row.running);
  json.Key("usage");
  WriteUsage(json, row.usage);
  json.Key("flags").BeginArray();
  for (const std::string_view flag : JobFlags(row)) json.Value(flag);
  json.EndArray();
}

enum JobSort {
  kByGpuSeconds,
  kByOfu,
  kByLost,
  kByCoverage,
  kByPower,
  kByUtil,
  kByGpus,
  kByJob,
  kByUser
};
const std::vector<std::string_view> kJobSorts = {"gpu_seconds", "ofu",     "lost_gpu_seconds",
                                                 "coverage",    "power_w", "gpu_util",
                                                 "gpus",        "job",     "user"};

// NaN = absent: last in either order.
double JobSortKey(const query::JobRow& row, int sort) {
  const store::UsageSums& s = row.usage.sums;
  const auto or_nan = [](std::optional<double> v) { return v.value_or(std::nan("")); };
  switch (sort) {
    case kByOfu:
      return or_nan(row.usage.Ofu());
    case kByLost:
      return row.usage.LostGpuSeconds();
    case kByCoverage:
      return or_nan(row.usage.CoverageRatio());
    case kByPower:
      return or_nan(query::MeanOf(s.power_j, s.power_span_s));
    case kByUtil:
      return or_nan(query::MeanOf(s.gpu_util_s, s.gpu_util_span_s));
    case kByGpus:
      return s.gpus;
    default:
      return row.usage.expected_s;
  }
}

// Puts the first `end` of them in order.
void SortJobs(std::vector<const query::JobRow*>& rows, size_t end, int sort, bool ascending) {
  const auto before = [&](const query::JobRow* a, const query::JobRow* b) {
    if (sort == kByJob || sort == kByUser) {
      const std::string& x = sort == kByJob ? a->record.key : a->record.user;
      const std::string& y = sort == kByJob ? b->record.key : b->record.user;
      if (x != y) return ascending ? x < y : y < x;
      return a->id < b->id;
    }
    const double x = JobSortKey(*a, sort), y = JobSortKey(*b, sort);
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    if (!std::isnan(x) && x != y) return ascending ? x < y : y < x;
    return a->id < b->id;
  };
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(end), rows.end(),
                    before);
}

}  // namespace

Api::Impl::Result Api::Impl::GetFleet(const Request& request, std::string_view) {
  FW_ASSIGN_OR_RETURN(const Params params, Params::Parse(request, {"from", "to", "step"}));
  FW_RETURN_IF_ERROR(query.ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, params.Window(query.now()));
  const query::View view = query.Resolve(asked, /*allow_live=*/true);
  FW_ASSIGN_OR_RETURN(const Micros step, params.Step(view.window));
  FW_ASSIGN_OR_RETURN(query::Fleet fleet, query.FleetOver(view, step));
  query::Usage& usage = fleet.usage;
  usage.ci95 = query::HalfWidth95(fleet.series);

  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, view);
  json.Key("now");
  if (const auto now = query.NowView()) {
    WriteUsage(json, query.FleetUsage(*now));
  } else {
    json.Null();
  }
  json.Key("usage");
  WriteUsage(json, usage);
  json.Key("series");
  WriteSeries(json, fleet.series);
  json.Key("models").BeginArray();
  for (const auto& [model, of_model] : fleet.models) {
    json.BeginObject();
    json.Key("model");
    model.name.empty() ? json.Null() : json.Value(model.name);
    json.Field("gpus", of_model.sums.gpus)
        .Field("tensor_clock_max_mhz", model.tensor_clock_max_mhz);
    json.Key("usage");
    WriteUsage(json, of_model);
    json.EndObject();
  }
  json.EndArray();
  json.Key("not_computable").BeginArray();
  for (const query::NotComputable& n : query::Losses(usage)) {
    json.BeginObject().Field("reason", n.reason).Field("gpu_seconds", n.gpu_seconds).EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Api::Impl::Result Api::Impl::GetJobs(const Request& request, std::string_view) {
  FW_ASSIGN_OR_RETURN(const Params params,
                      Params::Parse(request, {"from", "to", "sort", "order", "limit", "offset",
                                              "user", "workflow", "q", "running", "exact", "ci"}));
  FW_RETURN_IF_ERROR(query.ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, params.Window(query.now()));
  FW_ASSIGN_OR_RETURN(const int sort, params.OneOf("sort", kJobSorts));
  const bool text_sort = sort == kByJob || sort == kByUser;
  FW_ASSIGN_OR_RETURN(const int order, params.OneOf("order", {text_sort ? "asc" : "desc",
                                                              text_sort ? "desc" : "asc"}));
  FW_ASSIGN_OR_RETURN(const int64_t limit, params.Int("limit", kDefaultPage, 1, kMaxPage));
  FW_ASSIGN_OR_RETURN(const int64_t offset, params.Int("offset", 0, 0, INT32_MAX));
  FW_ASSIGN_OR_RETURN(const bool exact, params.Bool("exact", false));
  FW_ASSIGN_OR_RETURN(const bool ci, params.Bool("ci", false));
  FW_ASSIGN_OR_RETURN(const bool running, params.Bool("running", false));
  query::View view = query.Resolve(asked, /*allow_live=*/!exact);
  if (exact) view.source = query::UsageSource::kRaw;
  FW_ASSIGN_OR_RETURN(std::shared_ptr<const query::JobList> list, query.Jobs(view, exact));

  const auto user = params.Text("user"), workflow = params.Text("workflow"), q = params.Text("q");
  if (!list->described &&
      (user.has_value() || workflow.has_value() || q.has_value() || text_sort)) {
    auto described = std::make_shared<query::JobList>(*list);
    query.Describe(absl::MakeSpan(described->rows));
    list = std::move(described);
  }
  const std::string needle = absl::AsciiStrToLower(std::string(q.value_or("")));
  const auto wanted = [&](const query::JobRow& row) {
    if (user.has_value() && row.record.user != *user) return false;
    if (workflow.has_value() && row.record.workflow != *workflow) return false;
    if (running && !row.running) return false;
    if (needle.empty()) return true;
    const auto has = [&](const std::string& text) {
      return absl::StrContains(absl::AsciiStrToLower(text), needle);
    };
    return has(row.record.key) || has(row.record.name) || has(row.record.user) ||
           has(row.record.workflow);
  };
  std::vector<const query::JobRow*> rows;
  rows.reserve(list->rows.size());
  for (const query::JobRow& row : list->rows) {
    if (wanted(row)) rows.push_back(&row);
  }
  const size_t first = std::min(rows.size(), static_cast<size_t>(offset));
  const size_t end = std::min(rows.size(), first + static_cast<size_t>(limit));
  SortJobs(rows, end, sort, text_sort == (order == 0));

  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, list->view);
  json.Field("total", rows.size());
  json.Key("jobs").BeginArray();
  for (size_t k = first; k < end; ++k) {
    query::JobRow row = *rows[k];
    query.Describe(absl::MakeSpan(&row, 1));
    if (ci) {
      FW_ASSIGN_OR_RETURN(const Micros step, params.Step(list->view.window));
      FW_ASSIGN_OR_RETURN(const query::Series series, query.JobSeries(row.id, list->view, step));
      row.usage.ci95 = query::HalfWidth95(series);
    }
    json.BeginObject();
    WriteJobFields(json, row);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Status Api::Impl::NoSuchJob(std::string_view key) const {
  std::vector<jobs::JobRecord> all = query.jobs().AllJobs();
  if (all.size() > kMaxJobsCompared) all.erase(all.begin(), all.end() - kMaxJobsCompared);
  std::vector<std::string_view> keys;
  for (const jobs::JobRecord& j : all) keys.push_back(j.key);
  const std::string_view near = Nearest(key, keys);
  return absl::NotFoundError(fmt::format("no job '{}'; {}", Printable(key, 100),
                                         near.empty()
                                             ? std::string("/api/v1/jobs lists those of a window")
                                             : fmt::format("did you mean '{}'?", near)));
}

Api::Impl::Result Api::Impl::GetJob(const Request& request, std::string_view arg) {
  FW_ASSIGN_OR_RETURN(const Params params, Params::Parse(request, {"from", "to", "step", "exact"}));
  FW_RETURN_IF_ERROR(query.ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, params.Window(query.now()));
  FW_ASSIGN_OR_RETURN(const bool exact, params.Bool("exact", false));
  const auto record = query.jobs().FindJob(arg);
  if (!record.has_value() && !query.applications().ClaimsOf(arg).empty()) {
    return absl::NotFoundError(
        fmt::format("job '{0}' was never seen on a GPU; what it reports itself is at "
                    "/api/v1/jobs/{0}/application",
                    Printable(arg, 100)));
  }
  if (!record.has_value()) return NoSuchJob(arg);
  query::View view = query.Resolve(asked, /*allow_live=*/!exact);
  if (exact) view.source = query::UsageSource::kRaw;
  FW_ASSIGN_OR_RETURN(const Micros step, params.Step(view.window));
  FW_ASSIGN_OR_RETURN(query::JobRow row, query.Job(view, *record, exact));
  FW_ASSIGN_OR_RETURN(const query::Series series, query.JobSeries(record->id, view, step));
  // Its GPUs from memory where that has all of them, else from the store: in whole slots, or whole
  // minutes.
  store::Window gpu_window = query.Resolve(asked, /*allow_live=*/false).window;
  std::vector<store::GpuUsage> gpus;
  if (auto live = query.LiveJobGpus(record->id, view); live.has_value()) {
    gpu_window = live->window;
    gpus = std::move(live->gpus);
  } else if (parts.store != nullptr) {
    FW_ASSIGN_OR_RETURN(gpus, parts.store->UsageByGpu(gpu_window, record->id));
  }
  row.usage.ci95 = query::HalfWidth95(series);
  if (row.usage.sums.gpus == 0) row.usage.sums.gpus = static_cast<int32_t>(gpus.size());

  Micros first = 0, last = 0;
  absl::flat_hash_map<int32_t, int32_t> rank_of;
  absl::flat_hash_map<int32_t, double> allocated;
  for (const jobs::IntervalRecord& i :
       query.jobs().Intervals(0, query.now() + kMicrosPerMinute, record->id)) {
    first = first == 0 ? i.from : std::min(first, i.from);
    last = std::max(last, i.to);
    if (i.rank >= 0) rank_of[i.entity] = i.rank;
    const Micros overlap = std::min(gpu_window.to, i.to) - std::max(gpu_window.from, i.from);
    if (overlap > 0) allocated[i.entity] += static_cast<double>(overlap) / kMicrosPerSecond;
  }

  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, view);
  json.Key("job").BeginObject();
  WriteJobFields(json, row);
  WriteTime(json, "started", first);
  WriteTime(json, "ended", row.running || last == jobs::kOpenEnd ? 0 : last);
  json.EndObject();
  // What it says itself, over the same time.
  FW_ASSIGN_OR_RETURN(const std::vector<query::ClaimUsage> claims,
                      query.Application(record->key, view.window));
  json.Key("application");
  WriteApplicationSummary(json, claims, parts.catalog,
                          claims.empty() ? std::string() : query.ModelOfJob(record->key));
  json.Key("application_reason");
  if (query::MainClaim(claims) != nullptr) {
    json.Null();
  } else {
    json.Value(claims.empty() ? "nothing_reported" : "nothing_in_window");
  }
  json.Key("series");
  WriteSeries(json, series);
  json.Key("gpus_window").BeginObject();
  json.Field("from", FormatTime(gpu_window.from))
      .Field("to", FormatTime(gpu_window.to))
      .EndObject();
  json.Key("gpus").BeginArray();
  for (const store::GpuUsage& g : gpus) {
    const store::EntityRecord e = query.registry().entity(g.entity).value_or(store::EntityRecord{});
    json.BeginObject();
    json.Field("gpu", e.key.uuid);
    json.Key("gpu_instance");
    e.key.gpu_instance >= 0 ? json.Value(e.key.gpu_instance) : json.Null();
    json.TextField("node", e.labels.node);
    json.Key("index");
    e.labels.index >= 0 ? json.Value(e.labels.index) : json.Null();
    json.TextField("model", e.labels.model);
    json.Key("rank");
    const auto rank = rank_of.find(g.entity);
    rank != rank_of.end() ? json.Value(rank->second) : json.Null();
    query::Usage usage;
    usage.sums = g.sums;
    const auto expected = allocated.find(g.entity);
    usage.expected_s = expected == allocated.end() ? 0 : expected->second;
    json.Key("usage");
    WriteUsage(json, usage);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace flopwatch::api
