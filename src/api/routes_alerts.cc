// Alerts: what fires, what fired, silences, what services did about them, the rules and their
// replay, and how a job is doing in one answer.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "alerts/replay.h"
#include "alerts/service.h"
#include "api/answers.h"
#include "api/routes.h"
#include "base/text.h"

namespace flopwatch::api {
namespace {

using alerts::Alert;

constexpr JsonLimits kAlertBody{.max_bytes = 64 << 10, .max_depth = 6, .what = "the body"};
constexpr JsonLimits kReplayBody{.max_bytes = 1 << 20, .max_depth = 4, .what = "the body"};
constexpr std::string_view kWhichNames[] = {"open", "all", "pending", "resolved"};
enum class Which : uint8_t { kOpen, kAll, kPending, kResolved };

constexpr OneOf<Which> kAlertState(
    "state", kWhichNames,
    "Those that fire (open), those that were resolved, both (all), or those whose condition holds "
    "and that do not fire yet (pending).");
constexpr OptionalOneOf<alerts::Severity> kAlertSeverity("severity", alerts::kSeverityNames,
                                                         "Only of this severity.");
constexpr Text kAlertRule("rule", "Only of this rule; * is any text.");
constexpr Text kAlertJob("job", "Only of this job; * is any text.");
constexpr Text kAlertNode("node", "Only of this node; * is any text.");
constexpr Integer kAlertLimit("limit", 1, 100'000, 100'000, "Alerts at most.");
constexpr Integer kAlertOffset("offset", 0, 1 << 30, 0, "Leave out so many.");
constexpr PathName kAlertId("id", "Id of the alert.");
constexpr PathName kSilenceId("id", "Id of the silence.");
constexpr Text kReplayRule("rule", "Only this rule; all that are on where none is given.");
constexpr Integer kReplayEvery("every_s", 1, 3600, 15, "Seconds between two rounds.");
constexpr std::string_view kNoServer =
    "there are no alerts here: either alerts.enabled is false, or only what is stored is open; "
    "start "
    "flopwatch serve with alerts, or ask for a replay with flopwatch alerts test";

// What is no JSON is the sender's fault. A key that is not known would be taken for one that is not
// given: a silence without its end.
StatusOr<Json> BodyOf(const Call& call, const JsonLimits& limits,
                      std::initializer_list<std::string_view> keys) {
  auto body = Json::Parse(call.request.body, limits);
  if (!body.ok()) return WithCode(body.status(), absl::StatusCode::kInvalidArgument);
  if (!body->is_object()) return InvalidArgument("the body is a JSON object");
  for (const auto& [key, value] : body->object()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    const std::string_view near = Nearest(key, std::vector<std::string_view>(keys));
    return InvalidArgument("field \"{}\" is not known; {}", Printable(key, 60),
                           near.empty() ? fmt::format("known are {}", fmt::join(keys, ", "))
                                        : fmt::format("did you mean {}?", near));
  }
  return body;
}

Status HasService(const alerts::Service* service) {
  return service == nullptr ? Unavailable("{}", kNoServer) : absl::OkStatus();
}

// Also where it is of several.
bool IsOf(const Alert& alert, std::string_view job) {
  return alert.subject.job == job ||
         std::ranges::binary_search(alert.subject.jobs, job, std::less<>());
}

bool IsAsked(const Alert& alert, const Arguments& args) {
  const auto rule = args[kAlertRule], job = args[kAlertJob], node = args[kAlertNode];
  const auto severity = args[kAlertSeverity];
  return (!severity || alert.severity == *severity) && (!rule || alerts::Like(alert.rule, *rule)) &&
         (!job || alerts::Like(alert.subject.job, *job) ||
          std::ranges::any_of(alert.subject.jobs,
                              [&](const std::string& of) { return alerts::Like(of, *job); })) &&
         (!node || std::ranges::any_of(alert.subject.nodes, [&](const std::string& name) {
           return alerts::Like(name, *node);
         }));
}

// What fires before what was resolved, pages first, the newest of each first.
bool Before(const Alert& a, const Alert& b) {
  const auto rank = [](const Alert& x) {
    const bool over = x.state == alerts::AlertState::kResolved;
    return std::tuple(over, over ? 0 : -static_cast<int>(x.severity), -(over ? x.until : x.since));
  };
  return std::tuple(rank(a), std::string_view(a.id)) < std::tuple(rank(b), std::string_view(b.id));
}

std::vector<Alert> AlertsOf(const alerts::Service* service, const Arguments& args) {
  const Which which = args[kAlertState];
  std::vector<Alert> out =
      which == Which::kPending ? service->Pending() : service->Alerts(which != Which::kOpen);
  std::erase_if(out, [&](const Alert& alert) {
    const bool over = alert.state == alerts::AlertState::kResolved;
    return (which == Which::kResolved && !over) || !IsAsked(alert, args);
  });
  std::ranges::sort(out, Before);
  return out;
}

void WriteEngine(JsonWriter& json, const alerts::Service::Stats& s) {
  json.Key("engine").BeginObject().Field("rounds", s.engine.rounds);
  json.TextField("last_round", s.engine.last_round == 0 ? "" : FormatTime(s.engine.last_round));
  json.Field("last_round_s", s.last_round_s).Field("open", s.open).Field("outbox", s.outbox);
  json.TextField("grace_until", s.engine.grace_until == 0 ? "" : FormatTime(s.engine.grace_until));
  json.Field("fired", s.engine.fired).Field("resolved", s.engine.resolved);
  json.Field("silenced", s.engine.silenced).Field("inhibited", s.engine.inhibited);
  json.Field("refused", s.engine.refused_alerts).Field("state_errors", s.state_errors);
  json.Key("receivers").BeginArray();
  for (const alerts::ReceiverStats& r : s.receivers) {
    json.BeginObject().Field("name", r.name).Field("kind", r.kind).Field("sent", r.sent);
    json.Field("failed", r.failed).Field("refused", r.refused).Field("queued", r.queued);
    json.TextField("last_error", r.last_error);
    json.TextField("last_sent", r.last_sent == 0 ? "" : FormatTime(r.last_sent)).EndObject();
  }
  json.EndArray().EndObject();
}

Result ListAlerts(const alerts::Service* service, const Arguments& args) {
  FW_RETURN_IF_ERROR(HasService(service));
  std::string body;
  JsonWriter json(&body);
  const std::vector<Alert> all = AlertsOf(service, args);
  json.BeginObject().Field("total", all.size()).Key("alerts").BeginArray();
  const auto first = std::min(all.size(), static_cast<size_t>(args[kAlertOffset]));
  const auto count = std::min(all.size() - first, static_cast<size_t>(args[kAlertLimit]));
  for (const Alert& alert : absl::MakeConstSpan(all).subspan(first, count))
    alerts::WriteJson(alert, &json);
  json.EndArray();
  WriteEngine(json, service->stats());
  json.EndObject();
  return JsonResponse(std::move(body));
}

Result OneAlert(const alerts::Service* service, std::string_view id) {
  FW_RETURN_IF_ERROR(HasService(service));
  const auto alert = service->Find(id);
  if (!alert) return NotFound("there is no alert \"{}\"", Printable(id, 60));
  std::string body;
  JsonWriter json(&body);
  alerts::WriteJson(*alert, &json);
  return JsonResponse(std::move(body));
}

StatusOr<alerts::Deed> DeedOf(const std::string& name) {
  const std::vector<std::string_view> names(std::begin(alerts::kDeedNames) + 1,
                                            std::end(alerts::kDeedNames));
  const auto at = std::ranges::find(names, name);
  if (at != names.end()) return static_cast<alerts::Deed>(at - names.begin() + 1);
  const std::string_view near = Nearest(name, names);
  return InvalidArgument("\"did\" is \"{}\"; {}", Printable(name, 40),
                         near.empty() ? fmt::format("known are {}", fmt::join(names, ", "))
                                      : fmt::format("did you mean {}?", near));
}

Result Note(alerts::Service* service, const Call& call) {
  FW_RETURN_IF_ERROR(HasService(service));
  FW_ASSIGN_OR_RETURN(const Json body, BodyOf(call, kAlertBody, {"text", "by", "did", "close"}));
  alerts::Report report{
      .text = body["text"].text(), .by = body["by"].text(), .close = body["close"].boolean()};
  if (report.text.empty() || report.by.empty() || report.text.size() > 2000 ||
      report.by.size() > 200)
    return InvalidArgument(
        "a note needs \"text\" (what was done, at most 2000 bytes) and \"by\" (who, at most 200)");
  if (!body["did"].is_null()) {
    FW_ASSIGN_OR_RETURN(report.deed, DeedOf(body["did"].text()));
  }
  FW_RETURN_IF_ERROR(service->Note(call.name, report));
  return OneAlert(service, call.name);
}

Result ListSilences(const alerts::Service* service, Micros now) {
  FW_RETURN_IF_ERROR(HasService(service));
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Key("silences").BeginArray();
  const std::vector<Alert> firing = service->Alerts(/*resolved=*/false);
  for (const alerts::Silence& silence : service->Silences())
    if (silence.until > now) alerts::WriteJson(silence, now, firing, &json);
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Result PostSilence(alerts::Service* service, Micros now, const Call& call) {
  FW_RETURN_IF_ERROR(HasService(service));
  FW_ASSIGN_OR_RETURN(
      const Json body,
      BodyOf(call, kAlertBody, {"matchers", "owner", "comment", "from", "until", "for", "weekly"}));
  alerts::Silence silence;
  for (const Json& text : body["matchers"].array()) {
    FW_ASSIGN_OR_RETURN(alerts::Matcher matcher, alerts::ParseMatcher(text.text()));
    silence.matchers.push_back(std::move(matcher));
  }
  silence.owner = body["owner"].text();
  silence.comment = body["comment"].text();
  silence.weekly = body["weekly"].text();
  silence.from = now;
  if (const std::string from = body["from"].text(); !from.empty()) {
    FW_ASSIGN_OR_RETURN(silence.from, ParseTime(from, now));
  }
  const std::string until = body["until"].text(), length = body["for"].text();
  if (until.empty() == length.empty())
    return InvalidArgument("a silence needs an end: \"until\" (a time) or \"for\" (as 2h), one");
  if (until.empty()) {
    FW_ASSIGN_OR_RETURN(const Micros lasts, ParseDuration(length));
    silence.until = silence.from + std::min(lasts, alerts::kLongestSilence + kMicrosPerDay);
  } else {
    FW_ASSIGN_OR_RETURN(silence.until, ParseTime(until, now));
  }
  FW_ASSIGN_OR_RETURN(silence.id, service->Silence(silence));
  std::string out;
  JsonWriter json(&out);
  alerts::WriteJson(silence, now, service->Alerts(/*resolved=*/false), &json);
  return JsonResponse(std::move(out));
}

Result EndSilence(alerts::Service* service, Micros now, std::string_view id) {
  FW_RETURN_IF_ERROR(HasService(service));
  FW_RETURN_IF_ERROR(service->Unsilence(id));
  return ListSilences(service, now);
}

void WriteRule(const alerts::Rule& rule, JsonWriter& json) {
  json.BeginObject().Field("rule", rule.name).Field("scope", alerts::ScopeName(rule.scope));
  json.Field("severity", alerts::SeverityName(rule.severity)).TextField("owner", rule.owner);
  json.Field("when", rule.when->text());
  json.TextField("while", rule.while_ ? rule.while_->text() : "");
  json.Field("for_s", ToSeconds(rule.hold));
  json.Field("keep_firing_s", ToSeconds(rule.keep_firing));
  json.Field("keep_unknown_s", ToSeconds(rule.keep_unknown));
  json.Field("enabled", rule.enabled).Field("shipped", rule.shipped);
  json.Field("summary", rule.summary).TextField("action", rule.action);
  json.TextField("source", rule.source).EndObject();
}

Result ListRules(const alerts::Service* service) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Key("rules").BeginArray();
  for (const alerts::Rule& rule : service == nullptr ? alerts::ShippedRules() : service->rules())
    WriteRule(rule, json);
  json.EndArray().Key("quantities").BeginArray();
  for (const alerts::QuantitySpec& q : alerts::Quantities()) {
    json.BeginObject().Field("scope", alerts::ScopeName(q.scope)).Field("name", q.name);
    json.Field("unit", q.unit).Field("help", q.help).EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Result ReplayRules(const query::Query& query, const alerts::Service* service, const Call& call) {
  const Arguments& args = call.args;
  FW_ASSIGN_OR_RETURN(const store::Window window, args.Window());
  alerts::ReplayOptions options{.window = window};
  if (service != nullptr) {
    options.rules = service->rules();
    options.racks = service->racks();
  }
  if (!call.request.body.empty()) {
    FW_ASSIGN_OR_RETURN(const Json body, BodyOf(call, kReplayBody, {"rules"}));
    FW_RETURN_IF_ERROR(alerts::AddRules(body["rules"].text(), "rules", &options.rules));
  }
  options.engine.grace = 0;
  options.interval = args[kReplayEvery] * kMicrosPerSecond;
  if (const auto name = args[kReplayRule]) {
    const auto rule = std::ranges::find(options.rules, *name, &alerts::Rule::name);
    if (rule == options.rules.end()) {
      std::vector<std::string_view> names;
      for (const alerts::Rule& r : options.rules) names.push_back(r.name);
      const std::string_view near = Nearest(*name, names);
      return NotFound("there is no rule \"{}\"; {}", Printable(*name, 60),
                      near.empty() ? "`flopwatch alerts rules` lists them"
                                   : "did you mean " + std::string(near) + "?");
    }
    // Alone, what stands before it is not asked.
    alerts::Rule one = *rule;
    one.enabled = true;
    one.inhibited_by.clear();
    options.rules = {one};
  }
  FW_ASSIGN_OR_RETURN(const alerts::Replayed replayed, alerts::Replay(query, options));
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("from", FormatTime(window.from)).Field("to", FormatTime(window.to));
  json.Field("rows", replayed.rows).Field("rounds", replayed.rounds);
  json.TextField("first_row", replayed.first == 0 ? "" : FormatTime(replayed.first));
  json.Key("alerts").BeginArray();
  for (const Alert& alert : replayed.alerts) alerts::WriteJson(alert, &json);
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

// What was done to a job, by its alerts of which any is kept, the oldest first.
void WriteMarks(const alerts::Service& service, std::string_view job, JsonWriter& json) {
  struct Done {
    alerts::Mark mark;
    std::string alert;
  };
  std::vector<Done> done;
  for (const Alert& alert : service.Alerts(/*resolved=*/true))
    if (IsOf(alert, job))
      for (const alerts::Mark& mark : alert.marks) done.push_back({mark, alert.id});
  std::ranges::stable_sort(done, {}, [](const Done& d) { return d.mark.ts; });
  json.Key("marks").BeginArray();
  for (const auto& [mark, alert] : done) {
    json.BeginObject().Field("ts", FormatTime(mark.ts)).Field("did", DeedName(mark.deed));
    json.Field("by", mark.by).Field("text", mark.text).Field("alert", alert).EndObject();
  }
  json.EndArray();
}

// For recovery services: how a job is doing, in one answer.
Result JobHealth(const query::Memory& memory, const alerts::Service* service,
                 std::string_view name) {
  FW_RETURN_IF_ERROR(HasService(service));
  const auto job = memory.jobs().FindJob(name);
  if (!job) return NotFound("there is no job \"{}\"", Printable(name, 100));
  const Micros now = memory.now();
  const store::UsageSums sums = memory.live()->JobSince(job->id, now - alerts::kWindow + 1);
  Micros newest = 0;
  int64_t gpus = 0, silent = 0;
  memory.live()->ForEachGpu(job->id, [&](const ingest::GpuNow& gpu) {
    newest = std::max(newest, gpu.ts);
    ++gpus;
    silent += now - gpu.ts > memory.silent_after() ? 1 : 0;
  });
  std::vector<std::string> suspects;
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("job", job->key);
  json.TextField("user", job->user).TextField("workflow", job->workflow);
  json.TextField("cluster", job->cluster).Field("window_s", ToSeconds(alerts::kWindow));
  json.Field("ofu", sums.ofu.Ofu());
  json.TextField("ofu_reason", query::OfuReason(sums));
  json.Field("baseline_ofu", service->BaselineOf(job->key));
  json.Field("gpu_util", query::MeanOf(sums.gpu_util_s, sums.gpu_util_span_s));
  json.Field("gpus", gpus).Field("gpus_silent", silent);
  json.Key("age_s");
  newest == 0 ? json.Null() : json.Value(ToSeconds(std::max<Micros>(now - newest, 0)));
  json.Key("alerts").BeginArray();
  for (const Alert& alert : service->Alerts(/*resolved=*/false)) {
    if (!IsOf(alert, job->key)) continue;
    alerts::WriteJson(alert, &json);
    for (const std::string& node : alert.subject.nodes)
      if (std::ranges::find(suspects, node) == suspects.end()) suspects.push_back(node);
  }
  json.EndArray();
  WriteTexts(json, "suspect_nodes", suspects);
  WriteMarks(*service, job->key, json);
  json.EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace

void AddAlertRoutes(const query::Query* query, alerts::Service* service, RouteTable* table) {
  const query::Memory* const memory = &query->memory();
  const Answer none = Refused(503, "No server has alerts here: only what is stored is open.");
  table->Add(Get("/api/v1/alerts", "listAlerts", "What fires now, and what fired",
                 {&kAlertState, &kAlertSeverity, &kAlertRule, &kAlertJob, &kAlertNode, &kAlertLimit,
                  &kAlertOffset},
                 {Ok("Alerts"), BadParameter(), none}),
             {}, [service](const Call& call) { return ListAlerts(service, call.args); });
  table->Add(Slow(OptionalBody(Post("/api/v1/alerts/replay", "replayAlerts",
                                    "The rules over what is stored: what would have fired",
                                    {&kFrom, &kTo, &kReplayRule, &kReplayEvery},
                                    {Ok("AlertReplay"), BadParameter(), OtherSite(), NoneNear()},
                                    {{kJsonType, "NewRules"}}))),
             {}, [query, service](const Call& call) { return ReplayRules(*query, service, call); });
  table->Add(Get("/api/v1/alerts/rules", "listAlertRules",
                 "The rules, and the quantities that a rule may name", {}, {Ok("AlertRules")}),
             {}, [service](const Call&) { return ListRules(service); });
  table->Add(Get("/api/v1/alerts/{id}", "getAlert", "One alert", {&kAlertId},
                 {Ok("Alert"), NoneNear(), none}),
             {}, [service](const Call& call) { return OneAlert(service, call.name); });
  table->Add(Post("/api/v1/alerts/{id}/notes", "noteAlert",
                  "What somebody did about it: it stands with the alert, and may close it",
                  {&kAlertId}, {Ok("Alert"), BadParameter(), OtherSite(), NoneNear(), none},
                  {{kJsonType, "AlertNote"}}),
             {}, [service](const Call& call) { return Note(service, call); });
  table->Add(Get("/api/v1/silences", "listSilences", "Silences", {}, {Ok("Silences"), none}), {},
             [service, memory](const Call&) { return ListSilences(service, memory->now()); });
  table->Add(
      Post("/api/v1/silences", "postSilence", "Nobody is told of some alerts for a while", {},
           {Ok("Silence"), BadParameter(), OtherSite(), none}, {{kJsonType, "NewSilence"}}),
      {},
      [service, memory](const Call& call) { return PostSilence(service, memory->now(), call); });
  table->Add(Post("/api/v1/silences/{id}/end", "endSilence", "Ends a silence; gives the others",
                  {&kSilenceId}, {Ok("Silences"), OtherSite(), NoneNear(), none},
                  {{kJsonType, R"({"type": "object"})"}}),
             {}, [service, memory](const Call& call) {
               return EndSilence(service, memory->now(), call.name);
             });
  table->Add(
      Get("/api/v1/jobs/{job}/health", "getJobHealth",
          "How a job is doing now, for recovery services: OFU, baseline, open alerts, "
          "suspects and the age of the data",
          {&kJobName}, {Ok("JobHealth"), NoneNear(), none}),
      {}, [memory, service](const Call& call) { return JobHealth(*memory, service, call.name); });
}

}  // namespace flopwatch::api
