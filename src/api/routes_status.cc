// The server itself: its state, health and readiness, this API's document, and the page.
#include <fmt/format.h>

#include <utility>

#include "api/answers.h"
#include "api/api.h"
#include "api/plain_page.h"
#include "api/routes.h"

namespace flopwatch::api {
namespace {

void WriteIngest(JsonWriter& json, const ingest::PipelineStats& s) {
  json.BeginObject();
  json.Field("samples_per_s", s.samples_per_s).Field("scrapes", s.scrapes).Field("rows", s.rows);
  json.Field("samples", s.samples).Field("narrow_samples", s.narrow).Field("sources", s.sources);
  json.Field("queued_rows", s.queued_rows).Field("queued_bytes", s.queued_bytes);
  json.Field("dropped_rows", s.dropped_rows).Field("late_rows", s.late_rows);
  json.Field("zero_weight_rows", s.zero_weight_rows);
  json.Field("flushes", s.flushes).Field("flush_errors", s.flush_errors);
  json.Field("last_flush_ms", s.last_flush_ms);
  WriteTime(json, "last_flush", s.last_flush);
  WriteCounts(json, "refused", s.refused);
  json.EndObject();
}

void WriteRetention(JsonWriter& json, const store::RetentionStats& s) {
  json.Key("retention").BeginObject();
  WriteTime(json, "mark", s.mark);
  WriteTime(json, "as_of", s.as_of);
  json.Field("behind_s", ToSeconds(s.behind));
  json.TextField("waits_for", s.waits_for);
  json.Field("deleted_files", s.files).Field("deleted_rows", s.rows);
  json.Field("deleted_intervals", s.intervals);
  json.Field("deleted_jobs", s.jobs).Field("deleted_jobs_early", s.jobs_early);
  json.Field("deleted_job_sets", s.job_sets).Field("deleted_claims", s.claims);
  json.Field("deleted_entities", s.entities).Field("deleted_models", s.models);
  json.Field("deleted_series", s.series);
  json.EndObject();
}

void WriteStore(JsonWriter& json, const store::StoreStats& s) {
  json.BeginObject();
  json.Field("hot_bytes", s.hot_bytes).Field("sealed_bytes", s.sealed_bytes);
  json.Field("meta_bytes", s.meta_bytes);
  json.Field("hot_segments", s.hot_segments).Field("sealed_files", s.sealed_files);
  json.Field("rows_appended", s.rows_appended).Field("samples_appended", s.samples_appended);
  WriteTime(json, "oldest", s.oldest_ts);
  WriteTime(json, "newest", s.newest_ts);
  WriteTime(json, "rolled_up_to", s.rolled_up_to_arrival);
  WriteRetention(json, s.retention);
  json.Key("damaged");
  if (s.damaged_files > 0) {
    json.BeginObject().Field("files", s.damaged_files).Field("rows", s.damaged_rows);
    WriteTime(json, "from", s.damaged_from);
    WriteTime(json, "to", s.damaged_to);
    json.EndObject();
  } else {
    json.Null();
  }
  WriteTime(json, "meta_copied", s.meta_copied);
  json.Field("append_errors", s.append_errors);
  json.TextField("last_error", s.last_error);
  json.EndObject();
}

void WriteScheduler(JsonWriter& json, const discovery::SchedulerHealth& s, Micros now) {
  json.BeginObject();
  json.TextField("cluster", s.cluster);
  WriteTime(json, "last_look", s.last_look);
  json.Key("last_look_age_s");
  s.last_look > 0 ? json.Value(ToSeconds(now - s.last_look)) : json.Null();
  json.TextField("error", s.error);
  json.Field("looks", s.looks).Field("failures", s.failures).Field("look_s", s.look_s);
  json.Field("attempts", s.told.attempts).Field("placed", s.told.placed);
  json.Field("not_placed", s.told.not_placed).Field("waiting", s.told.waiting);
  json.Field("nodes", s.told.nodes).Field("vanished", s.vanished);
  json.Key("refused").BeginObject();
  for (const auto& [reason, count] : s.refused) json.Field(reason, count);
  json.EndObject();
  json.Key("accounting").BeginObject();
  json.Field("kept", !s.no_accounting);
  WriteTime(json, "last_answer", s.last_accounting);
  json.TextField("error", s.accounting_error);
  json.Field("failures", s.accounting_failures).Field("windows_waiting", s.accounting_waiting);
  json.EndObject();
  json.EndObject();
}

Result GetStatus(const StatusSources& from) {
  const query::Memory& memory = *from.memory;
  FW_RETURN_IF_ERROR(memory.ready());
  std::string body;
  JsonWriter json(&body);
  const Micros now = memory.now();
  json.BeginObject();
  json.Field("version", from.version).Field("started", FormatTime(from.started));
  json.Field("uptime_s", static_cast<double>(Now() - from.started) / kMicrosPerSecond)
      .Field("now", FormatTime(now));
  json.Field("mode", from.pipeline != nullptr ? "live" : "offline");
  json.Field("gpus", memory.deployed()->Gpus(now));
  json.Key("gpus_reporting");
  const ingest::LiveState* live = memory.live();
  live != nullptr ? json.Value(live->GpusReporting(now - memory.silent_after())) : json.Null();
  json.Field("nodes", memory.registry().node_count());
  json.Field("jobs_running", memory.RunningJobCount());
  json.Key("ingest");
  if (from.pipeline != nullptr) {
    WriteIngest(json, from.pipeline->stats());
  } else {
    json.Null();
  }
  json.Key("store");
  WriteStore(json, from.store_stats());
  json.Key("scheduler");
  if (from.scheduler != nullptr) {
    WriteScheduler(json, from.scheduler->Health(), Now());
  } else {
    json.Null();
  }
  json.EndObject();
  return JsonResponse(std::move(body));
}

net::Response GetReady(const StatusSources& from) {
  std::vector<std::string> reasons;
  if (const Status ready = from.memory->ready(); !ready.ok())
    reasons.emplace_back(MessageOf(ready));
  if (from.pipeline != nullptr) {
    const ingest::PipelineStats s = from.pipeline->stats();
    if (!s.last_store_error.empty())
      reasons.push_back(fmt::format("store: {}", s.last_store_error));
    if (s.queued_rows > from.limits.max_queued_rows / 2 ||
        s.queued_bytes > from.limits.max_queued_bytes / 2) {
      reasons.push_back(fmt::format("queue: {} rows wait to be stored", s.queued_rows));
    }
  }
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("ready", reasons.empty());
  WriteTexts(json, "reasons", reasons);
  json.EndObject();
  net::Response r = JsonResponse(std::move(body));
  r.status = reasons.empty() ? 200 : 503;
  return r;
}

net::Response GetPage(const PageFiles& files, const net::Request& request) {
  if (files) {
    if (auto page = files(request.path); page.has_value()) return *std::move(page);
  }
  net::Response r;
  r.content_type = "text/html; charset=utf-8";
  r.static_body = kPlainPage;
  return r;
}

}  // namespace

void AddStatusRoutes(const StatusSources& sources, RouteTable* table) {
  table->Add(
      Get("/api/v1/status", "getStatus", "State of this server", {},
          {Ok("Status"), BadParameter()}),
      [sources](const Call&) -> std::optional<Result> {
        if (!sources.memory->AtHand({query::Snapshot::kDeployed, query::Snapshot::kJobsNow}))
          return std::nullopt;
        return GetStatus(sources);
      },
      [sources](const Call&) { return GetStatus(sources); });
  Route health = Get("/healthz", "healthz", "Whether the process answers", {}, {Ok("Health")});
  Route ready{"GET",    "/readyz",
              "readyz", "Whether it can store what arrives",
              {},       {Ok("Ready"), Gives(503, "Not ready, with the reasons.", "Ready")}};
  health.any_parameters = ready.any_parameters = true;
  table->Add(health, [](const Call&) { return JsonResponse(R"({"status":"ok"})"); }, {});
  table->Add(ready, [sources](const Call&) { return GetReady(sources); }, {});
}

void AddPageRoutes(const PageFiles& files, RouteTable* table) {
  Route document{
      "GET", "/openapi.json", "openapi", "This document", {}, {Ok(R"({"type": "object"})")}};
  Route page = Get("/", "page", "The page", {}, {{200, "The answer.", {{"text/html", kAnyText}}}});
  document.any_parameters = page.any_parameters = true;
  const auto open_api = [](const Call&) {
    net::Response r;
    r.static_body = OpenApiDocument();
    return r;
  };
  table->Add(document, open_api, {});
  table->Add(page, [files](const Call& call) { return GetPage(files, call.request); }, {});
}

}  // namespace flopwatch::api
