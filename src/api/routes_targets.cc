// Exporters and nodes that push: their health, and what of theirs was refused.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "api/answers.h"
#include "api/counters_json.h"
#include "api/routes.h"

namespace flopwatch::api {
namespace {

constexpr int64_t kMaxTargets = 1'000'000;  // one page: there are never more
enum class TargetFilter : uint8_t { kAll, kPending, kUp, kDown, kBackOff };
constexpr std::string_view kTargetFilters[] = {"all", "pending", "up", "down", "back_off"};
constexpr OneOf<TargetFilter> kTargetState("state", kTargetFilters, "Only these.");
constexpr Text kTargetText("q", "Only where the address or node contains this.");
constexpr Integer kTargetLimit("limit", 1, kMaxTargets, kDefaultPage, "Rows of one page.");

struct TargetRow {
  net::TargetHealth health;
  bool pushed = false;
};

std::string_view StateName(const TargetRow& row) { return net::TargetStateName(row.health.state); }
bool IsUp(const TargetRow& row) { return row.health.state == net::TargetState::kUp; }

std::vector<TargetRow> AllTargets(const TargetSources& from, Micros now) {
  std::vector<TargetRow> rows;
  if (from.scraper != nullptr) {
    for (net::TargetHealth& h : from.scraper->Health()) rows.push_back({std::move(h), false});
  }
  if (from.pipeline == nullptr) return rows;
  // Nodes that push are targets too: they are up while they do.
  for (const ingest::SourceInfo& s : from.pipeline->Sources()) {
    if (s.kind == ingest::SourceKind::kExporter) continue;
    TargetRow row;
    row.pushed = true;
    row.health.target.url = s.source;
    row.health.target.node = s.node;
    row.health.last_scrape = row.health.last_success = s.stats.last_ingest;
    row.health.scrapes = s.stats.scrapes;
    row.health.state = now - s.stats.last_ingest <= from.memory->silent_after()
                           ? net::TargetState::kUp
                           : net::TargetState::kDown;
    if (!IsUp(row)) row.health.last_error = "no push any more";
    rows.push_back(std::move(row));
  }
  return rows;
}

// Leaves those that are asked for, trouble first, then by address.
void SelectTargets(const Arguments& args, std::vector<TargetRow>* rows) {
  const std::string_view state = kTargetFilters[static_cast<size_t>(args[kTargetState])];
  const std::string needle = absl::AsciiStrToLower(std::string(args[kTargetText].value_or("")));
  const auto has = [&](const std::string& text) {
    return absl::StrContains(absl::AsciiStrToLower(text), needle);
  };
  std::erase_if(*rows, [&](const TargetRow& r) {
    if (args[kTargetState] != TargetFilter::kAll && StateName(r) != state) return true;
    return !needle.empty() && !has(r.health.target.url) && !has(r.health.target.node);
  });
  std::sort(rows->begin(), rows->end(), [](const TargetRow& a, const TargetRow& b) {
    if (IsUp(a) != IsUp(b)) return IsUp(b);
    return a.health.target.url < b.health.target.url;
  });
}

void WriteConflicts(JsonWriter& json, const std::vector<ingest::TargetConflict>& conflicts) {
  json.Key("conflicts").BeginArray();
  for (const ingest::TargetConflict& c : conflicts) {
    json.BeginObject().Field("kind", c.kind).Field("gpu", c.gpu);
    WriteIndex(json, "gpu_instance", c.gpu_instance);
    json.Field("other", c.other).Field("holds", c.holds).Field("refused_rows", c.refused);
    WriteTime(json, "since", c.since);
    WriteTime(json, "last", c.last);
    json.EndObject();
  }
  json.EndArray();
}

void WriteTarget(JsonWriter& json, const TargetRow& row, const TargetSources& from, Micros now) {
  const std::string& source = row.health.target.url;
  const ingest::TargetStats s =
      from.pipeline == nullptr ? ingest::TargetStats{} : from.pipeline->StatsOf(source);
  const net::TargetHealth& h = row.health;
  json.BeginObject();
  json.Field("url", h.target.url).Field("node", h.target.node).Field("state", StateName(row));
  json.Field("pushed", row.pushed);
  WriteTime(json, "last_scrape", h.last_scrape);
  WriteTime(json, "last_success", h.last_success);
  json.Key("age_s");
  h.last_success > 0 ? json.Value(ToSeconds(std::max<Micros>(0, now - h.last_success)))
                     : json.Null();
  json.Key("last_duration_ms");
  row.pushed || h.last_scrape == 0 ? json.Null() : json.Value(h.last_duration_ms);
  json.Field("last_bytes", h.last_bytes).Field("scrapes", h.scrapes).Field("failures", h.failures);
  json.Field("timeouts", h.timeouts).Field("oversized", h.oversized).Field("skipped", h.skipped);
  json.Field("samples", s.samples).Field("rows", s.rows).Field("entities", s.entities);
  WriteCounts(json, "refused", s.refused);
  json.TextField("error", h.last_error);
  json.TextField("last_failure", h.last_failure);
  WriteTime(json, "last_failure_at", h.last_failure_at);
  WriteTexts(json, "examples", s.examples);
  json.Field("frozen_gpus", s.frozen);
  WriteConflicts(json, s.conflicts);
  WriteCounters(json, from.memory->registry(),
                from.pipeline == nullptr ? std::vector<ingest::GpuCounters>{}
                                         : from.pipeline->CountersOf(source));
  json.EndObject();
}

Result GetTargets(const TargetSources& from, const Arguments& args) {
  const Micros now = from.memory->now();
  std::vector<TargetRow> rows = AllTargets(from, now);
  const size_t total = rows.size();
  const auto up = std::count_if(rows.begin(), rows.end(), IsUp);
  SelectTargets(args, &rows);
  const auto [first, end] = PageOf(args, kTargetLimit, kOffset, rows.size());
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("total", total).Field("up", up).Field("matching", rows.size());
  json.Key("targets").BeginArray();
  for (size_t k = first; k < end; ++k) WriteTarget(json, rows[k], from, now);
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace

void AddTargetRoutes(const TargetSources& sources, RouteTable* table) {
  table->Add(
      Get("/api/v1/targets", "listTargets", "Scrape targets and pushing nodes, trouble first",
          {&kTargetState, &kTargetText, &kTargetLimit, &kOffset}, {Ok("Targets"), BadParameter()}),
      {}, [sources](const Call& call) { return GetTargets(sources, call.args); });
}

}  // namespace flopwatch::api
