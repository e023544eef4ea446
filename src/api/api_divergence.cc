// MFU against OFU: of one job in full, of many as statistics, groups and rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "api/api_impl.h"
#include "api/divergence_json.h"
#include "base/text.h"
#include "query/divergence.h"

namespace flopwatch::api {
namespace {

using fleet::JobPair;
using net::Request;

enum GroupBy {
  kGroupByNothing,
  kGroupByGpus,
  kGroupByGpuModel,
  kGroupByConvention,
  kGroupByUser,
  kGroupByWorkflow,
  kGroupByVerdict
};
const std::vector<std::string_view> kGroupings = {"none", "gpus",     "gpu_model", "convention",
                                                  "user", "workflow", "verdict"};

enum DivergenceSort {
  kSortDivergence,
  kSortRatio,
  kSortMfu,
  kSortOfu,
  kSortGpus,
  kSortGpuSeconds,
  kSortJobKey
};
const std::vector<std::string_view> kSorts = {"divergence", "ratio",       "mfu", "ofu",
                                              "gpus",       "gpu_seconds", "job"};

constexpr std::string_view kNotKnown = "(not known)";

std::string GroupOf(const query::JobDivergence& d, int by) {
  const auto or_unknown = [](const std::string& s) {
    return s.empty() ? std::string(kNotKnown) : s;
  };
  const fleet::JobEvidence& e = d.evidence;
  switch (by) {
    case kGroupByGpus:
      return e.gpus ? std::to_string(*e.gpus) : std::string(kNotKnown);
    case kGroupByGpuModel:
      return e.gpu_models.empty() ? std::string(kNotKnown) : e.gpu_models[0];
    case kGroupByConvention:
      return or_unknown(e.claim.convention);
    case kGroupByUser:
      return or_unknown(e.user);
    case kGroupByWorkflow:
      return or_unknown(e.workflow);
    default:
      return std::string(fleet::VerdictName(d.diagnosis.verdict));
  }
}

// Numbers by size, text by alphabet, what is not known last.
bool GroupBefore(const std::string& a, const std::string& b) {
  const auto rank = [](const std::string& s) {
    const bool number =
        !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
    return std::tuple(s == kNotKnown, !number, number ? s.size() : 0, s);
  };
  return rank(a) < rank(b);
}

bool Computable(const query::JobDivergence& d) { return d.diagnosis.mfu && d.diagnosis.difference; }

JobPair PairOf(const query::JobDivergence& d) {
  return {*d.diagnosis.mfu, *d.evidence.ofu.ofu, d.evidence.gpu_seconds, d.diagnosis.flagged()};
}

double DivergenceSortKey(const query::JobDivergence& d, int sort) {
  const auto or_nan = [](const auto& v) { return v ? static_cast<double>(*v) : std::nan(""); };
  switch (sort) {
    case kSortRatio:
      return or_nan(d.diagnosis.ratio);
    case kSortMfu:
      return or_nan(d.diagnosis.mfu);
    case kSortOfu:
      return or_nan(d.evidence.ofu.ofu);
    case kSortGpus:
      return or_nan(d.evidence.gpus);
    case kSortGpuSeconds:
      return d.evidence.gpu_seconds;
    default: {
      // By how far it is from what a healthy job shows.
      const auto& r = d.diagnosis.ratio_expected;
      return r && *r > 0 ? std::abs(std::log(*r)) : std::nan("");
    }
  }
}

void WriteBoth(JsonWriter& json, const std::vector<JobPair>& pairs, bool without_flagged) {
  json.BeginObject().Key("by_jobs");
  WriteSetStatistics(json, fleet::StatisticsOf(pairs, fleet::Weighting::kJobs, without_flagged));
  json.Key("by_gpu_seconds");
  WriteSetStatistics(json,
                     fleet::StatisticsOf(pairs, fleet::Weighting::kGpuSeconds, without_flagged));
  json.EndObject();
}

StatusOr<query::DivergenceQuestion> QuestionOf(const Params& params,
                                               StatusOr<store::Window> window) {
  query::DivergenceQuestion q;
  FW_ASSIGN_OR_RETURN(q.window, std::move(window));
  FW_ASSIGN_OR_RETURN(q.exact, params.Bool("exact", false));
  FW_ASSIGN_OR_RETURN(const bool strict, params.Bool("strict", false));
  q.thresholds.allow_scatter = !strict;
  return q;
}

void WriteAsked(JsonWriter& json, const query::DivergenceQuestion& q) {
  json.Key("window")
      .BeginObject()
      .Field("from", FormatTime(q.window.from))
      .Field("to", FormatTime(q.window.to))
      .EndObject();
}

}  // namespace

Api::Impl::Result Api::Impl::GetDivergence(const Request& request, std::string_view) {
  FW_ASSIGN_OR_RETURN(const Params params,
                      Params::Parse(request, {"from", "to", "group_by", "flagged", "sort", "order",
                                              "limit", "offset", "exact", "strict"}));
  FW_RETURN_IF_ERROR(query.ready());
  FW_ASSIGN_OR_RETURN(const query::DivergenceQuestion question,
                      QuestionOf(params, params.Window(query.now())));
  FW_ASSIGN_OR_RETURN(const int group_by, params.OneOf("group_by", kGroupings));
  FW_ASSIGN_OR_RETURN(const int sort, params.OneOf("sort", kSorts));
  const bool text = sort == kSortJobKey;
  FW_ASSIGN_OR_RETURN(const int order,
                      params.OneOf("order", {text ? "asc" : "desc", text ? "desc" : "asc"}));
  FW_ASSIGN_OR_RETURN(const bool flagged_only, params.Bool("flagged", false));
  FW_ASSIGN_OR_RETURN(const int64_t limit, params.Int("limit", kDefaultPage, 1, kMaxPage));
  FW_ASSIGN_OR_RETURN(const int64_t offset, params.Int("offset", 0, 0, INT32_MAX));
  FW_ASSIGN_OR_RETURN(const std::vector<query::JobDivergence> all,
                      query::GatherDivergence(query, question));

  std::vector<JobPair> pairs;
  std::map<std::string, std::vector<JobPair>, decltype(&GroupBefore)> groups(&GroupBefore);
  std::map<std::string_view, int64_t> verdicts;
  std::vector<const query::JobDivergence*> rows;
  for (const query::JobDivergence& d : all) {
    ++verdicts[fleet::VerdictName(d.diagnosis.verdict)];
    if (!flagged_only || d.diagnosis.flagged()) rows.push_back(&d);
    // What cannot be compared is in no statistic; how many there are is said.
    if (!Computable(d)) continue;
    pairs.push_back(PairOf(d));
    if (group_by != kGroupByNothing) groups[GroupOf(d, group_by)].push_back(pairs.back());
  }
  const bool ascending = text == (order == 0);
  std::stable_sort(
      rows.begin(), rows.end(), [&](const query::JobDivergence* a, const query::JobDivergence* b) {
        if (text)
          return ascending ? a->evidence.job < b->evidence.job : b->evidence.job < a->evidence.job;
        if (sort == kSortDivergence && a->diagnosis.flagged() != b->diagnosis.flagged()) {
          return ascending ? b->diagnosis.flagged() : a->diagnosis.flagged();
        }
        const double x = DivergenceSortKey(*a, sort), y = DivergenceSortKey(*b, sort);
        if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
        return ascending ? x < y : y < x;
      });
  const size_t first = std::min(rows.size(), static_cast<size_t>(offset));
  const size_t end = std::min(rows.size(), first + static_cast<size_t>(limit));

  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteAsked(json, question);
  json.Field("jobs_with_claim", all.size()).Field("jobs_compared", pairs.size());
  json.Key("verdicts").BeginObject();
  for (const auto& [verdict, n] : verdicts) json.Field(verdict, n);
  json.EndObject();
  json.Key("all");
  WriteBoth(json, pairs, false);
  json.Key("without_flagged");
  WriteBoth(json, pairs, true);
  json.Field("group_by", kGroupings[static_cast<size_t>(group_by)]).Key("groups").BeginArray();
  for (const auto& [name, members] : groups) {
    json.BeginObject().Field("group", name);
    json.Field("flagged", std::count_if(members.begin(), members.end(),
                                        [](const JobPair& p) { return p.flagged; }));
    json.Key("by_jobs");
    WriteSetStatistics(json, fleet::StatisticsOf(members, fleet::Weighting::kJobs));
    json.EndObject();
  }
  json.EndArray().Field("total", rows.size()).Key("jobs").BeginArray();
  for (size_t k = first; k < end; ++k) WriteDivergenceRow(json, *rows[k]);
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Api::Impl::Result Api::Impl::GetJobDivergence(const Request& request, std::string_view arg) {
  FW_ASSIGN_OR_RETURN(const Params params,
                      Params::Parse(request, {"from", "to", "exact", "strict"}));
  FW_RETURN_IF_ERROR(query.ready());
  FW_ASSIGN_OR_RETURN(query::DivergenceQuestion question,
                      QuestionOf(params, params.WindowOrAll(query.now())));
  question.job = std::string(arg);
  FW_ASSIGN_OR_RETURN(const std::vector<query::JobDivergence> found,
                      query::GatherDivergence(query, question));
  // Applications may speak of a job that no telemetry names; what neither knows does not exist.
  if (found[0].samples == 0 && !query.jobs().FindJob(arg).has_value()) return NoSuchJob(arg);
  // Without a window the answer is about the time the application reported in.
  if (!params.Has("from") && !params.Has("to"))
    question.window = found[0].window.value_or(question.window);
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteAsked(json, question);
  json.Key("divergence");
  WriteDivergence(json, found[0]);
  json.EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace flopwatch::api
