// What applications report of themselves: reports in (POST .../mfu), answers out.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/answers.h"
#include "api/application_json.h"
#include "api/routes.h"
#include "base/text.h"

namespace flopwatch::api {
namespace {

constexpr int64_t kDefaultApplicationPoints = 300;
constexpr size_t kMaxRefusedShown = 8;
constexpr ptrdiff_t kMaxJobNames = 10'000;  // compared for "did you mean"

constexpr Time kReportsFrom(
    "from", "Start, as elsewhere. Default: without from and to everything that is kept.");
constexpr Integer kPoints("points", 1, kMaxPoints, kDefaultApplicationPoints,
                          "At most so many points in the series.");

// A job may be called ".../application" itself.
bool IsApplicationOf(const query::Memory& memory, std::string_view job) {
  return !memory.applications().ClaimsOf(job).empty() ||
         !memory.jobs().FindJob(fmt::format("{}/application", job)).has_value();
}

Status NothingReported(const ingest::ApplicationIntake& applications, std::string_view job) {
  const std::vector<std::string> known = applications.Jobs();
  const std::vector<std::string_view> keys(
      known.begin(), known.begin() + std::min<ptrdiff_t>(kMaxJobNames, std::ssize(known)));
  const std::string_view near = Nearest(job, keys);
  if (near.empty())
    return NotFound("no job '{}' and nothing was reported under that name", Printable(job, 100));
  return NotFound("no job '{}'; did you mean '{}'?", Printable(job, 100), near);
}

Result GetApplication(const query::Query& query, const Call& call) {
  const query::Memory& memory = query.memory();
  FW_RETURN_IF_ERROR(memory.ready());
  const std::string gpu_seen = memory.ModelOfJob(call.name);
  FW_ASSIGN_OR_RETURN(store::Window window, call.args.WindowOrAll());
  FW_ASSIGN_OR_RETURN(const std::vector<query::ClaimUsage> claims,
                      query.Application(call.name, window));
  if (claims.empty() && !memory.jobs().FindJob(call.name).has_value())
    return NothingReported(memory.applications(), call.name);
  store::ApplicationSums all;
  std::vector<int32_t> ids;
  for (const query::ClaimUsage& c : claims) {
    all += c.sums;
    ids.push_back(c.claim.id);
  }
  const bool bounded = call.args.HasWindow();
  if (!bounded && all.samples > 0) window = {all.first_ts, all.last_ts + 1};
  const Micros step =
      FloorTo((window.to - window.from) / call.args[kPoints], kMicrosPerSecond) + kMicrosPerSecond;
  std::vector<store::ApplicationPoint> series;
  if (all.samples > 0) {
    FW_ASSIGN_OR_RETURN(series, query.store().ApplicationSeries(window, ids, step));
  }
  const hardware::Catalog* catalog = &memory.catalog();
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("job", call.name);
  if (bounded || all.samples > 0) {
    WriteSpan(json, "window", window);
  } else {
    json.Key("window").Null();
  }
  json.TextField("reason", all.samples > 0  ? ""
                           : claims.empty() ? "nothing_reported"
                                            : "nothing_in_window");
  json.Key("application");
  WriteApplicationSummary(json, claims, catalog, gpu_seen);
  json.Key("claims").BeginArray();
  for (const query::ClaimUsage& c : claims)
    if (c.sums.samples > 0) WriteClaim(json, c, catalog, gpu_seen);
  json.EndArray();
  json.Key("series");
  WriteApplicationSeries(json, claims, series, step, catalog, gpu_seen);
  json.EndObject();
  return JsonResponse(std::move(body));
}

Result PostMfu(const query::Memory& memory, ingest::ApplicationIntake* reports_to,
               const Call& call) {
  if (reports_to == nullptr)
    return Unavailable("reports: no server takes them here; start flopwatch serve");
  FW_ASSIGN_OR_RETURN(const std::vector<ApplicationReport> reports,
                      ParseReports(call.request.body, call.name, memory.now()));
  ingest::ApplicationOutcome total;
  for (const ApplicationReport& report : reports) {
    FW_ASSIGN_OR_RETURN(const ingest::ApplicationOutcome one,
                        reports_to->Add(report.claim, report.samples));
    total.accepted += one.accepted;
    total.duplicates += one.duplicates;
    total.claim_completed |= one.claim_completed;
    for (size_t k = 0; k < ingest::kApplicationRefusals; ++k) total.refused[k] += one.refused[k];
    for (const std::string& e : one.examples)
      if (total.examples.size() < kMaxRefusedShown) total.examples.push_back(e);
  }
  // One report that is wrong is an error; of many, those that are right count.
  if (total.accepted + total.duplicates == 0 &&
      total.refused[static_cast<size_t>(ingest::ApplicationRefusal::kInvalid)] == 1 &&
      !total.examples.empty())
    return InvalidArgument("report: {}", total.examples.front());
  std::string body;
  JsonWriter json(&body);
  WriteOutcome(json, total);
  return JsonResponse(std::move(body));
}

}  // namespace

void AddApplicationRoutes(const query::Query* query, ingest::ApplicationIntake* reports,
                          RouteTable* table) {
  table->Add(
      Get("/api/v1/jobs/{job}/application", "getApplication",
          "What a job reports of itself: MFU with what it means, throughput, loss",
          {&kJobName, &kReportsFrom, &kTo, &kPoints},
          {Ok("Application"), BadParameter(),
           Refused(404, "No such job, and nothing was reported under that name.")}),
      {}, [query](const Call& call) { return GetApplication(*query, call); },
      [query](std::string_view job) { return IsApplicationOf(query->memory(), job); });
  table->Add(
      Post("/api/v1/jobs/{job}/mfu", "reportMfu",
           "Report a job's MFU, throughput and loss. Answered when it is on disk; a sample that "
           "is there already is a duplicate",
           {&kJobName},
           {Gives(200, "What was taken.", "MfuOutcome"),
            Refused(400, "A field is wrong; the message names it. Nothing was stored."),
            OtherSite(), Refused(503, "Offline, or the store cannot take it now; send it again.")},
           {{kJsonType, "MfuReports"}}),
      {}, [query, reports](const Call& call) { return PostMfu(query->memory(), reports, call); });
}

}  // namespace flopwatch::api
