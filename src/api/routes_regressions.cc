// What got worse: changes of level across the runs of a workflow and within one.
#include <algorithm>
#include <utility>

#include "api/answers.h"
#include "api/routes.h"
#include "query/compare.h"
#include "query/regressions.h"

namespace flopwatch::api {
namespace {

using fleet::Regression;

constexpr Time kSinceTwoWeeks("from",
                              "Start: RFC 3339, YYYY-MM-DD, Unix seconds, or relative (now-2h, "
                              "-2h). Default: 14 days before to.");
constexpr Text kWorkflowName("workflow", "Runs of this workflow alone.");
constexpr Text kUserAlone("user", "Workflows of this user alone.");
constexpr Text kRunOf("job",
                      "What began at this run; it is measured against the runs of its workflow.");
constexpr Integer kMinPercent("min_percent", 1, 99, 2, "Changes of less per cent are left out.");
constexpr Integer kFindingsLimit("limit", 1, kMaxPage, 1000, "Rows of one page.");

void WriteFactors(JsonWriter& json, std::string_view name, const fleet::OfuFactors& f) {
  json.Key(name).BeginObject();
  json.Field("duty", f.duty).Field("sm_per_duty", f.sm_per_duty);
  json.Field("tensor_per_sm", f.tensor_per_sm).Field("clock", f.clock).Field("power_w", f.power_w);
  json.Field("dram_active", f.dram_active).Field("nvlink_bytes_per_s", f.nvlink_bytes_per_s);
  json.Field("pcie_bytes_per_s", f.pcie_bytes_per_s);
  json.EndObject();
}

void WriteFinding(JsonWriter& json, const query::RegressionAnswer& answer, size_t k) {
  const Regression& f = answer.judgement.findings[k];
  const fleet::WorkflowRuns& w = answer.set.workflows[f.workflow];
  json.BeginObject();
  json.Field("kind", fleet::IsRegression(f.cause) ? "regression" : "change");
  json.TextField("workflow", w.name).TextField("user", w.user);
  json.TextField("job", f.within_run ? w.runs[f.at].job : "");
  json.Field("run", w.runs[f.at].job);
  WriteTime(json, "from", f.from);
  json.Field("metric", fleet::kChangeMetricNames[static_cast<size_t>(f.metric)]);
  json.Field("before", f.before).Field("after", f.after).Field("change", f.change);
  json.Field("scatter", f.scatter).Field("confidence", f.confidence);
  json.Field("cause", fleet::ChangeCauseName(f.cause));
  json.Field("measured_before", static_cast<int64_t>(f.runs_before));
  json.Field("measured_after", static_cast<int64_t>(f.runs_after));
  json.Field("gpu_seconds", f.gpu_seconds).Field("lost_gpu_seconds", f.lost_gpu_seconds);
  json.TextField("set_before", f.set_before).TextField("set_after", f.set_after);
  WriteFactors(json, "factors_before", f.factors_before);
  WriteFactors(json, "factors_after", f.factors_after);
  json.Field("evidence", answer.evidence[k]);
  json.EndObject();
}

Result Regressions(const query::Query& query, const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  query::RegressionQuestion question;
  FW_ASSIGN_OR_RETURN(question.window, args.Window(query::kRegressionWindow));
  question.filter.workflow = std::string(args[kWorkflowName].value_or(""));
  question.filter.user = std::string(args[kUserAlone].value_or(""));
  question.filter.job = std::string(args[kRunOf].value_or(""));
  question.options.min_change = static_cast<double>(args[kMinPercent]) / 100;
  if (!question.filter.job.empty() && !query.memory().jobs().FindJob(question.filter.job))
    return NoSuchJob(query.memory().jobs(), question.filter.job);
  FW_ASSIGN_OR_RETURN(const query::RegressionAnswer answer,
                      query::FindRegressions(query, question));
  const fleet::RegressionJudgement& j = answer.judgement;
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteSpan(json, "window", answer.set.window);
  json.Field("weight", "gpu_seconds").Field("step_s", answer.set.step / kMicrosPerSecond);
  json.Field("workflows", j.workflows).Field("workflows_judged", j.judged);
  json.Key("without_verdict").BeginObject();
  json.Field("too_few_runs", j.too_few_runs).Field("not_measured", j.not_measured);
  json.EndObject();
  json.Field("runs", j.runs).Field("runs_judged", j.runs_judged);
  json.Field("jobs_without_workflow", answer.set.without_workflow);
  json.Field("usual_scatter",
             j.usual_scatter > 0 ? std::optional<double>(j.usual_scatter) : std::nullopt);
  json.Field("rows_total", j.findings.size()).Key("rows").BeginArray();
  const auto [first, end] = PageOf(args, kFindingsLimit, kOffset, j.findings.size());
  for (size_t k = first; k < end; ++k) WriteFinding(json, answer, k);
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

constexpr Text kSideA("a", "A job id, or a window FROM/TO of any times that from and to take.");
constexpr Text kSideB("b", "The other one, likewise.");
constexpr Text kComparedWorkflow("workflow", "Of windows: runs of this workflow alone.");
constexpr Text kComparedUser("user", "Of windows: runs of this user alone.");

void WriteSide(JsonWriter& json, std::string_view key, const query::ComparedSide& side) {
  json.Key(key).BeginObject().Field("name", side.name);
  json.Field("kind", side.is_job ? "job" : "window");
  WriteSpan(json, "window", side.window);
  json.TextField("workflow", side.workflow).TextField("user", side.user);
  json.Field("runs", static_cast<int64_t>(side.runs)).EndObject();
}

Result CompareSides(const query::Query& query, const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  const auto text = [](const std::optional<std::string_view>& v) {
    return std::string(v.value_or(""));
  };
  query::CompareQuestion question{.a = text(args[kSideA]),
                                  .b = text(args[kSideB]),
                                  .workflow = text(args[kComparedWorkflow]),
                                  .user = text(args[kComparedUser])};
  if (question.a.empty() || question.b.empty())
    return InvalidArgument("parameters 'a' and 'b': two jobs or windows are compared; give both");
  FW_ASSIGN_OR_RETURN(const query::Comparison c, query::Compare(query, question));
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("weight", "gpu_seconds");
  WriteSide(json, "a", c.a);
  WriteSide(json, "b", c.b);
  json.Key("figures").BeginArray();
  for (const query::ComparedFigure& f : c.figures) {
    json.BeginObject().Field("figure", f.name);
    json.Field("unit", query::kFigureUnitNames[static_cast<size_t>(f.unit)]);
    json.Field("a", f.a).Field("b", f.b).Field("change", f.change).Field("scatter", f.scatter);
    json.Field("scatter_runs", static_cast<int64_t>(f.scatter_runs)).Key("unusual");
    f.unusual ? json.Value(*f.unusual) : json.Null();
    json.EndObject();
  }
  json.EndArray().Key("differences").BeginArray();
  for (const query::ComparedText& d : c.differences) {
    json.BeginObject().Field("what", d.what).TextField("a", d.a).TextField("b", d.b).EndObject();
  }
  json.EndArray();
  WriteTexts(json, "notes", c.notes);
  json.EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace

void AddRegressionRoutes(const query::Query* query, RouteTable* table) {
  table->Add(Slow(Get("/api/v1/regressions", "getRegressions",
                      "What got worse: changes across the runs of a workflow and within one run",
                      {&kSinceTwoWeeks, &kTo, &kWorkflowName, &kUserAlone, &kRunOf, &kMinPercent,
                       &kFindingsLimit, &kOffset},
                      {Ok("Regressions"), BadParameter(), NoneNear()})),
             {}, [query](const Call& call) { return Regressions(*query, call.args); });
  table->Add(Slow(Get("/api/v1/compare", "compare",
                      "Two runs or windows side by side: figures, their scatter, what else differs",
                      {&kSideA, &kSideB, &kComparedWorkflow, &kComparedUser},
                      {Ok("Comparison"), BadParameter(), NoneNear()})),
             {}, [query](const Call& call) { return CompareSides(*query, call.args); });
}

}  // namespace flopwatch::api
