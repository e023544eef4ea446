// What to do first: at most ten actions, each with what it brings and its evidence.
#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/answers.h"
#include "api/routes.h"
#include "fleet/advice/words.h"
#include "net/http.h"
#include "query/advise.h"
#include "uploads/trace_losses.h"
#include "uploads/traces.h"

namespace flopwatch::api {
namespace {

constexpr Integer kMostActions("limit", 1, static_cast<int64_t>(fleet::kMostActions),
                               static_cast<int64_t>(fleet::kMostActions), "Actions at most.");

// Traces whose findings one answer reads, the newest of each job.
constexpr size_t kMostTraces = 200;

// The list that shows more of it.
std::string LinkOf(const fleet::Action& action, store::Window window) {
  const auto path = [&](std::string_view of) {
    return fmt::format("/api/v1/{}from={}&to={}", of, FormatTime(window.from),
                       FormatTime(window.to));
  };
  const auto traces_of = [](const fleet::Action& of) {
    return of.jobs == 1 ? fmt::format("/api/v1/traces?job={}", net::PercentEncode(of.job_keys[0]))
                        : std::string("/api/v1/traces");
  };
  switch (action.cause) {
    case fleet::ActionCause::kIdleHeld:
      return path(action.users == 1 && action.user_names.front() == action.subject
                      ? fmt::format("idle?user={}&", net::PercentEncode(action.subject))
                      : "idle?");
    case fleet::ActionCause::kRegression:
      return path(fmt::format("regressions?workflow={}&", net::PercentEncode(action.subject)));
    case fleet::ActionCause::kStraggler:
      return path("stragglers?");
    case fleet::ActionCause::kTrace:
      return traces_of(action);
    case fleet::ActionCause::kBelowPeers:
      return path(fmt::format("jobs?workflow={}&", net::PercentEncode(action.subject)));
    case fleet::ActionCause::kHostsOut:
      return path(fmt::format("sankey/nodes?loss={}&", action.subject));
    case fleet::ActionCause::kStranded:
      return path("sankey?");
    case fleet::ActionCause::kNoMfu:
      return path("usage?by=workflow&");
  }
  return "";
}

void WriteSubjects(JsonWriter& json, std::string_view name, const std::vector<std::string>& names,
                   int64_t total) {
  WriteTexts(json, name, names);
  json.Field(std::string(name) + "_total", total);
}

void WriteAction(JsonWriter& json, const fleet::Action& a, double allocated_s,
                 store::Window window) {
  json.BeginObject().Field("action", fleet::ActionText(a));
  json.Field("cause", fleet::kActionCauseNames[static_cast<size_t>(a.cause)]);
  json.TextField("subject", a.subject).Field("gpu_seconds", a.gpu_seconds);
  json.Field("at_most", fleet::IsAtMost(a.cause));
  json.Field("of_allocated",
             a.gpu_seconds ? query::MeanOf(*a.gpu_seconds, allocated_s) : std::nullopt);
  json.Field("money", a.money);
  json.Field("money_coverage",
             a.gpu_seconds ? query::MeanOf(a.priced_s, *a.gpu_seconds) : std::nullopt);
  json.Field("basis", fleet::BasisOf(a.cause)).Key("subjects").BeginObject();
  WriteSubjects(json, "jobs", a.job_keys, a.jobs);
  WriteSubjects(json, "users", a.user_names, a.users);
  WriteSubjects(json, "nodes", a.node_names, a.nodes);
  WriteSubjects(json, "gpus", a.gpu_names, a.gpus);
  json.EndObject();
  WriteTexts(json, "evidence", a.evidence);
  json.Field("link", LinkOf(a, window)).EndObject();
}

// The newest analysed trace of each job.
std::vector<query::TracedJob> TracedIn(const uploads::TraceLibrary& traces,
                                       absl::FunctionRef<bool(const std::string&)> is_wanted) {
  std::vector<query::TracedJob> out;
  std::set<std::string> seen;
  for (const uploads::TraceRecord& r : traces.List()) {
    if (out.size() >= kMostTraces) break;
    if (r.state != uploads::TraceState::kReady || r.job.empty() || seen.contains(r.job) ||
        !is_wanted(r.job))
      continue;
    // One that was deleted meanwhile, or cannot be read, takes nothing from the others.
    const auto findings = traces.Answer(r.id, "findings.json");
    if (!findings.ok()) continue;
    const auto losses = uploads::ReadTraceLosses(*findings);
    if (!losses.ok()) continue;
    seen.insert(r.job);
    query::TracedJob& job = out.emplace_back();
    job.job = r.job;
    job.trace = r.id;
    job.taken = r.created;
    job.ranks = losses->ranks;
    job.share = losses->share;
    for (const auto& part : losses->parts) job.findings.emplace_back(part.title, part.share);
  }
  return out;
}

Result AdviseOverWindow(const query::Query& query, const fleet::Prices& prices,
                        const uploads::TraceLibrary* traces, const Arguments& args) {
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  query::TracedJobs traced;
  if (traces != nullptr) {
    traced = [traces](absl::FunctionRef<bool(const std::string&)> is_wanted) {
      return TracedIn(*traces, is_wanted);
    };
  }
  FW_ASSIGN_OR_RETURN(
      const query::AdviseAnswer answer,
      query::AdviseOn(query, asked, prices, static_cast<size_t>(args[kMostActions]), traced));
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, answer.view);
  json.Field("weight", "gpu_seconds").Field("allocated_gpu_seconds", answer.allocated_s);
  json.Field("coverage", query::MeanOf(answer.observed_s, answer.allocated_s));
  json.TextField("currency", prices.currency()).Key("actions").BeginArray();
  for (const fleet::Action& a : answer.actions)
    WriteAction(json, a, answer.allocated_s, answer.view.window);
  json.EndArray();
  WriteTexts(json, "notes", answer.notes);
  json.EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace

void AddAdviseRoutes(const query::Query* query, const fleet::Prices* prices,
                     const uploads::TraceLibrary* traces, RouteTable* table) {
  table->Add(
      Slow(Get(
          "/api/v1/advise", "getAdvice",
          "What to do first: at most ten actions, each with the GPU-seconds and the money that it "
          "brings, what that is reckoned from, and its evidence; no GPU-second stands in two",
          {&kFrom, &kTo, &kMostActions}, {Ok("Advice"), BadParameter()})),
      {}, [query, prices, traces](const Call& call) {
        return AdviseOverWindow(*query, *prices, traces, call.args);
      });
}

}  // namespace flopwatch::api
