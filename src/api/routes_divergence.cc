// MFU against OFU: of one job in full, of many as statistics, groups and rows.

#include <algorithm>
#include <cmath>
#include <map>

#include "api/answers.h"
#include "api/divergence_json.h"
#include "api/routes.h"
#include "query/divergence.h"

namespace flopwatch::api {
namespace {

using fleet::JobPair;
using query::JobDivergence;

enum class GroupBy : uint8_t {
  kNothing,
  kGpus,
  kGpuModel,
  kConvention,
  kUser,
  kWorkflow,
  kVerdict
};
constexpr std::string_view kGroupings[] = {"none", "gpus",     "gpu_model", "convention",
                                           "user", "workflow", "verdict"};
enum class DivergenceSort : uint8_t { kDivergence, kRatio, kMfu, kOfu, kGpus, kGpuSeconds, kJob };
constexpr std::string_view kDivergenceSorts[] = {"divergence", "ratio",       "mfu", "ofu",
                                                 "gpus",       "gpu_seconds", "job"};
constexpr OneOf<GroupBy> kGroupBy("group_by", kGroupings, "A group for each value.");
constexpr Flag kFlagged("flagged", "Rows of flagged jobs alone; statistics are over all.");
constexpr OneOf<DivergenceSort> kDivergenceSort(
    "sort", kDivergenceSorts,
    "divergence: flagged jobs first, then by how far the ratio is from the expected one.");
constexpr Flag kCutExactly("exact",
                           "OFU from raw samples cut at the ends of each job's training window. "
                           "Slow for long windows.");
constexpr Flag kStrict("strict",
                       "Alarm on the thresholds alone, also for jobs whose size scatters as much "
                       "(docs/divergence.md).");
constexpr Time kFromOrAll("from",
                          "Start: RFC 3339, YYYY-MM-DD, Unix seconds, or relative (now-2h, -2h). "
                          "Default: an hour before to; without from and to, all the time the "
                          "application reported in.");

constexpr std::string_view kNotKnown = "(not known)";

std::string GroupOf(const JobDivergence& d, GroupBy by) {
  const auto or_unknown = [](const std::string& s) {
    return s.empty() ? std::string(kNotKnown) : s;
  };
  const fleet::JobEvidence& e = d.evidence;
  switch (by) {
    case GroupBy::kGpus:
      return e.gpus ? std::to_string(*e.gpus) : std::string(kNotKnown);
    case GroupBy::kGpuModel:
      return e.gpu_models.empty() ? std::string(kNotKnown) : e.gpu_models[0];
    case GroupBy::kConvention:
      return or_unknown(e.claim.convention);
    case GroupBy::kUser:
      return or_unknown(e.user);
    case GroupBy::kWorkflow:
      return or_unknown(e.workflow);
    case GroupBy::kVerdict:
    case GroupBy::kNothing:
      break;
  }
  return std::string(fleet::VerdictName(d.diagnosis.verdict));
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

bool Computable(const JobDivergence& d) { return d.diagnosis.mfu && d.diagnosis.difference; }

JobPair PairOf(const JobDivergence& d) {
  return {*d.diagnosis.mfu, *d.evidence.ofu.ofu, d.evidence.gpu_seconds, d.diagnosis.flagged()};
}

double SortKeyOf(const JobDivergence& d, DivergenceSort sort) {
  const auto or_nan = [](const auto& v) { return v ? static_cast<double>(*v) : std::nan(""); };
  switch (sort) {
    case DivergenceSort::kRatio:
      return or_nan(d.diagnosis.ratio);
    case DivergenceSort::kMfu:
      return or_nan(d.diagnosis.mfu);
    case DivergenceSort::kOfu:
      return or_nan(d.evidence.ofu.ofu);
    case DivergenceSort::kGpus:
      return or_nan(d.evidence.gpus);
    case DivergenceSort::kGpuSeconds:
      return d.evidence.gpu_seconds;
    case DivergenceSort::kDivergence:
    case DivergenceSort::kJob:
      break;
  }
  // The order is by how far it is from what a healthy job shows.
  const auto& r = d.diagnosis.ratio_expected;
  return r && *r > 0 ? std::abs(std::log(*r)) : std::nan("");
}

void SortRows(std::vector<const JobDivergence*>& rows, DivergenceSort sort, bool ascending) {
  std::stable_sort(rows.begin(), rows.end(), [&](const JobDivergence* a, const JobDivergence* b) {
    if (sort == DivergenceSort::kJob)
      return ascending ? a->evidence.job < b->evidence.job : b->evidence.job < a->evidence.job;
    if (sort == DivergenceSort::kDivergence && a->diagnosis.flagged() != b->diagnosis.flagged())
      return ascending ? b->diagnosis.flagged() : a->diagnosis.flagged();
    const double x = SortKeyOf(*a, sort), y = SortKeyOf(*b, sort);
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return ascending ? x < y : y < x;
  });
}

void WriteBoth(JsonWriter& json, std::string_view name, const std::vector<JobPair>& pairs,
               bool without_flagged) {
  json.Key(name).BeginObject().Key("by_jobs");
  WriteSetStatistics(json, fleet::StatisticsOf(pairs, fleet::Weighting::kJobs, without_flagged));
  json.Key("by_gpu_seconds");
  WriteSetStatistics(json,
                     fleet::StatisticsOf(pairs, fleet::Weighting::kGpuSeconds, without_flagged));
  json.EndObject();
}

StatusOr<query::DivergenceQuestion> QuestionOf(const Arguments& args,
                                               StatusOr<store::Window> window) {
  query::DivergenceQuestion q;
  FW_ASSIGN_OR_RETURN(q.window, std::move(window));
  q.exact = args[kCutExactly];
  q.thresholds.allow_scatter = !args[kStrict];
  return q;
}

// What the answer says of all the jobs together.
struct DivergenceSet {
  std::vector<JobPair> pairs;  // of jobs that can be compared
  std::map<std::string, std::vector<JobPair>, decltype(&GroupBefore)> groups{&GroupBefore};
  std::map<std::string_view, int64_t> verdicts;
};

DivergenceSet SetOf(const std::vector<JobDivergence>& all, GroupBy by) {
  DivergenceSet set;
  for (const JobDivergence& d : all) {
    ++set.verdicts[fleet::VerdictName(d.diagnosis.verdict)];
    // What cannot be compared is in no statistic; how many there are is said.
    if (!Computable(d)) continue;
    set.pairs.push_back(PairOf(d));
    if (by != GroupBy::kNothing) set.groups[GroupOf(d, by)].push_back(set.pairs.back());
  }
  return set;
}

void WriteSet(JsonWriter& json, const DivergenceSet& set, size_t jobs, GroupBy by) {
  json.Field("jobs_with_claim", jobs).Field("jobs_compared", set.pairs.size());
  json.Key("verdicts").BeginObject();
  for (const auto& [verdict, n] : set.verdicts) json.Field(verdict, n);
  json.EndObject();
  WriteBoth(json, "all", set.pairs, false);
  WriteBoth(json, "without_flagged", set.pairs, true);
  json.Field("group_by", kGroupings[static_cast<size_t>(by)]).Key("groups").BeginArray();
  for (const auto& [name, members] : set.groups) {
    json.BeginObject().Field("group", name);
    json.Field("flagged", std::count_if(members.begin(), members.end(),
                                        [](const JobPair& p) { return p.flagged; }));
    json.Key("by_jobs");
    WriteSetStatistics(json, fleet::StatisticsOf(members, fleet::Weighting::kJobs));
    json.EndObject();
  }
  json.EndArray();
}

Result GetDivergence(const query::Query& query, const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  FW_ASSIGN_OR_RETURN(const query::DivergenceQuestion question, QuestionOf(args, args.Window()));
  FW_ASSIGN_OR_RETURN(const std::vector<JobDivergence> all,
                      query::GatherDivergence(query, question));
  std::vector<const JobDivergence*> rows;
  for (const JobDivergence& d : all)
    if (!args[kFlagged] || d.diagnosis.flagged()) rows.push_back(&d);
  const DivergenceSort sort = args[kDivergenceSort];
  const Order order =
      args[kOrder].value_or(sort == DivergenceSort::kJob ? Order::kAscending : Order::kDescending);
  SortRows(rows, sort, order == Order::kAscending);
  const auto [first, end] = PageOf(args, kLimit, kOffset, rows.size());

  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteSpan(json, "window", question.window);
  WriteSet(json, SetOf(all, args[kGroupBy]), all.size(), args[kGroupBy]);
  json.Field("total", rows.size()).Key("jobs").BeginArray();
  for (size_t k = first; k < end; ++k) WriteDivergenceRow(json, *rows[k]);
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Result GetJobDivergence(const query::Query& query, const Call& call) {
  const query::Memory& memory = query.memory();
  FW_RETURN_IF_ERROR(memory.ready());
  FW_ASSIGN_OR_RETURN(query::DivergenceQuestion question,
                      QuestionOf(call.args, call.args.WindowOrAll()));
  question.job = std::string(call.name);
  FW_ASSIGN_OR_RETURN(const std::vector<JobDivergence> found,
                      query::GatherDivergence(query, question));
  // Applications may speak of a job that no telemetry names; what neither knows does not exist.
  if (found[0].samples == 0 && !memory.jobs().FindJob(call.name).has_value())
    return NoSuchJob(memory.jobs(), call.name);
  // Without a window the answer is about the time the application reported in.
  if (!call.args.HasWindow()) question.window = found[0].window.value_or(question.window);
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteSpan(json, "window", question.window);
  json.Key("divergence");
  WriteDivergence(json, found[0]);
  json.EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace

void AddDivergenceRoutes(const query::Query* query, RouteTable* table) {
  table->Add(Get("/api/v1/divergence", "getDivergence",
                 "MFU as jobs claim it against OFU: statistics, groups, jobs",
                 {&kFrom, &kTo, &kGroupBy, &kFlagged, &kDivergenceSort, &kOrder, &kLimit, &kOffset,
                  &kCutExactly, &kStrict},
                 {Ok("DivergenceSet"), BadParameter()}),
             {}, [query](const Call& call) { return GetDivergence(*query, call.args); });
  table->Add(Get("/api/v1/jobs/{job}/divergence", "getJobDivergence",
                 "One job: its MFU claim against its OFU, ranked causes, corrected MFU",
                 {&kJobName, &kFromOrAll, &kTo, &kCutExactly, &kStrict},
                 {Ok("JobDivergence"), BadParameter(), NoneNear()}),
             {}, [query](const Call& call) { return GetJobDivergence(*query, call); });
}

}  // namespace flopwatch::api
