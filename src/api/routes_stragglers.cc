// GPUs that hold their jobs back.
#include <utility>

#include "api/answers.h"
#include "api/routes.h"
#include "fleet/stragglers/words.h"
#include "query/stragglers.h"

namespace flopwatch::api {
namespace {

constexpr Text kStragglersOfJob("job", "Job id: stragglers of that job alone. Default: all jobs.");

void WriteStraggler(JsonWriter& json, const query::StragglerRow& row) {
  const fleet::Straggler& s = row.found;
  json.BeginObject();
  json.TextField("job", row.job.key).TextField("user", row.job.user);
  json.TextField("workflow", row.job.workflow);
  if (s.whole_host) {  // no GPU more than the others of its node
    json.Key("gpu").Null().Key("gpu_instance").Null().TextField("node", row.gpu.labels.node);
    json.Key("index").Null().TextField("model", row.gpu.labels.model);
  } else {
    WriteIdentity(json, row.gpu);
  }
  json.Field("kind", fleet::StragglerKindName(s.kind));
  json.Field("deficit", s.deficit).TextField("deficit_reason", s.deficit_reason);
  json.Field("gain", s.gain);
  json.Field("confidence", s.confidence);
  WriteSpan(json, "seen", row.seen);
  json.Key("evidence").BeginArray();
  for (const fleet::StragglerEvidence& e : s.evidence) {
    json.BeginObject().Field("measure", e.measure).Field("value", e.value);
    json.Field("peers", e.peers).Field("text", fleet::EvidenceText(e)).EndObject();
  }
  json.EndArray();
  json.Field("seen_in_jobs", row.seen_in_jobs).Field("node_seen_in_jobs", row.node_seen_in_jobs);
  json.EndObject();
}

Result FindStragglers(const query::Query& query, const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  query::StragglerQuestion question;
  FW_ASSIGN_OR_RETURN(question.window, args.Window());
  if (const auto job = args[kStragglersOfJob]) question.job = std::string(*job);
  if (!question.job.empty() && !query.memory().jobs().FindJob(question.job))
    return NoSuchJob(query.memory().jobs(), question.job);
  FW_ASSIGN_OR_RETURN(const query::StragglerAnswer answer, query::StragglersIn(query, question));
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteSpan(json, "window", answer.window);
  json.Field("jobs_judged", answer.jobs_judged).Field("gpus_judged", answer.gpus_judged);
  json.Key("jobs_not_judged").BeginArray();
  for (const auto& [reason, jobs] : answer.not_judged)
    json.BeginObject().Field("reason", reason).Field("jobs", jobs).EndObject();
  json.EndArray().Field("clock_spread", answer.clock_spread);
  json.Field("rows_total", static_cast<int64_t>(answer.rows.size())).Key("rows").BeginArray();
  const auto [first, end] = PageOf(args, kLimit, kOffset, answer.rows.size());
  for (size_t k = first; k < end; ++k) WriteStraggler(json, answer.rows[k]);
  json.EndArray().Key("early_signs").BeginArray();
  for (const query::EarlySign& sign : answer.early_signs) {
    json.BeginObject();
    WriteIdentity(json, sign.gpu);
    json.Field("measure", sign.measure).Field("growth", sign.growth).EndObject();
  }
  json.EndArray();
  WriteTexts(json, "notes", answer.notes);
  json.EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace

void AddStragglerRoutes(const query::Query* query, RouteTable* table) {
  table->Add(Slow(Get("/api/v1/stragglers", "getStragglers",
                      "GPUs that hold their synchronous jobs back, from counters alone",
                      {&kFrom, &kTo, &kStragglersOfJob, &kLimit, &kOffset},
                      {Ok("Stragglers"), BadParameter(), NoneNear()})),
             {}, [query](const Call& call) { return FindStragglers(*query, call.args); });
}

}  // namespace flopwatch::api
