// Targets and pushes, and read-only SQL.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "api/api_impl.h"
#include "base/text.h"

namespace flopwatch::api {
namespace {

using net::Request;
using net::Response;

constexpr int64_t kDefaultSqlRows = 1000;
constexpr int64_t kMaxSqlRows = 100'000;
constexpr size_t kMaxSqlBytes = 64 * 1024;
// Shards of pushes; scraper threads use the lower ones.
constexpr int kFirstPushShard = ingest::kMaxShards / 2;
const std::vector<std::string_view> kTargetStates = {"all", "pending", "up", "down", "back_off"};

struct TargetRow {
  net::TargetHealth health;
  bool pushed = false;
};

std::string_view StateName(const TargetRow& row) { return net::TargetStateName(row.health.state); }

}  // namespace

Api::Impl::Result Api::Impl::GetTargets(const Request& request, std::string_view) {
  FW_ASSIGN_OR_RETURN(const Params params,
                      Params::Parse(request, {"state", "q", "limit", "offset"}));
  FW_ASSIGN_OR_RETURN(const int state, params.OneOf("state", kTargetStates));
  FW_ASSIGN_OR_RETURN(const int64_t limit, params.Int("limit", kDefaultPage, 1, kMaxTargets));
  FW_ASSIGN_OR_RETURN(const int64_t offset, params.Int("offset", 0, 0, INT32_MAX));
  const Micros now = query.now();

  std::vector<TargetRow> rows;
  if (parts.scraper != nullptr) {
    for (net::TargetHealth& h : parts.scraper->Health()) rows.push_back({std::move(h), false});
  }
  if (parts.ingest != nullptr) {
    // Nodes that push are targets too: they are up while they do.
    for (const ingest::SourceInfo& s : parts.ingest->pipeline.Sources()) {
      if (s.kind == ingest::SourceKind::kExporter) continue;
      TargetRow row;
      row.pushed = true;
      row.health.target.url = s.source;
      row.health.target.node = s.node;
      row.health.last_scrape = row.health.last_success = s.stats.last_ingest;
      row.health.scrapes = s.stats.scrapes;
      row.health.state = now - s.stats.last_ingest <= query.silent_after()
                             ? net::TargetState::kUp
                             : net::TargetState::kDown;
      if (row.health.state == net::TargetState::kDown) row.health.last_error = "no push any more";
      rows.push_back(std::move(row));
    }
  }
  const auto up = std::count_if(rows.begin(), rows.end(), [](const TargetRow& r) {
    return r.health.state == net::TargetState::kUp;
  });
  const size_t total = rows.size();
  const std::string needle = absl::AsciiStrToLower(std::string(params.Text("q").value_or("")));
  std::erase_if(rows, [&](const TargetRow& r) {
    if (state != 0 && StateName(r) != kTargetStates[state]) return true;
    return !needle.empty() &&
           absl::AsciiStrToLower(r.health.target.url).find(needle) == std::string::npos &&
           absl::AsciiStrToLower(r.health.target.node).find(needle) == std::string::npos;
  });
  // Trouble first, then by address.
  std::sort(rows.begin(), rows.end(), [](const TargetRow& a, const TargetRow& b) {
    const auto rank = [](const TargetRow& r) {
      return r.health.state == net::TargetState::kUp ? 1 : 0;
    };
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return a.health.target.url < b.health.target.url;
  });

  std::string body;
  JsonWriter json(&body);
  json.BeginObject()
      .Field("total", total)
      .Field("up", up)
      .Field("matching", rows.size())
      .Key("targets")
      .BeginArray();
  const size_t end = std::min(rows.size(), static_cast<size_t>(offset + limit));
  for (size_t k = static_cast<size_t>(offset); k < end; ++k) {
    const net::TargetHealth& h = rows[k].health;
    const ingest::TargetStats s = parts.ingest == nullptr
                                      ? ingest::TargetStats{}
                                      : parts.ingest->pipeline.StatsOf(h.target.url);
    json.BeginObject();
    json.Field("url", h.target.url).Field("node", h.target.node).Field("state", StateName(rows[k]));
    json.Field("pushed", rows[k].pushed);
    WriteTime(json, "last_scrape", h.last_scrape);
    WriteTime(json, "last_success", h.last_success);
    json.Key("age_s");
    h.last_success > 0 ? json.Value(static_cast<double>(std::max<Micros>(0, now - h.last_success)) /
                                    kMicrosPerSecond)
                       : json.Null();
    json.Key("last_duration_ms");
    rows[k].pushed || h.last_scrape == 0 ? json.Null() : json.Value(h.last_duration_ms);
    json.Field("last_bytes", h.last_bytes)
        .Field("scrapes", h.scrapes)
        .Field("failures", h.failures);
    json.Field("timeouts", h.timeouts).Field("oversized", h.oversized).Field("skipped", h.skipped);
    json.Field("samples", s.samples).Field("rows", s.rows).Field("entities", s.entities);
    WriteCounts(json, "refused", s.refused);
    json.Key("error");
    h.last_error.empty() ? json.Null() : json.Value(h.last_error);
    json.Key("last_failure");
    h.last_failure.empty() ? json.Null() : json.Value(h.last_failure);
    WriteTime(json, "last_failure_at", h.last_failure_at);
    json.Key("examples").BeginArray();
    for (const std::string& example : s.examples) json.Value(example);
    json.EndArray();
    json.Field("frozen_gpus", s.frozen);
    json.Key("conflicts").BeginArray();
    for (const ingest::TargetConflict& c : s.conflicts) {
      json.BeginObject().Field("kind", c.kind).Field("gpu", c.gpu);
      json.Key("gpu_instance");
      c.gpu_instance >= 0 ? json.Value(c.gpu_instance) : json.Null();
      json.Field("other", c.other).Field("holds", c.holds).Field("refused_rows", c.refused);
      WriteTime(json, "since", c.since);
      WriteTime(json, "last", c.last);
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Api::Impl::Result Api::Impl::PostPush(const Request& request, std::string_view node) {
  FW_RETURN_IF_ERROR(Params::Parse(request, {}).status());
  if (parts.ingest == nullptr) {
    return absl::UnavailableError("push: no server takes samples here; start flopwatch serve");
  }
  if (node.empty() || node.size() > kMaxNodeName ||
      std::any_of(node.begin(), node.end(), [](char c) { return c <= ' ' || c == 0x7f; })) {
    return absl::InvalidArgumentError(
        fmt::format("push: the node name '{}' is not 1 to {} printable bytes without blanks",
                    Printable(node, 60), kMaxNodeName));
  }
  const ingest::Origin origin = {node, node, ingest::SourceKind::kPush};
  const int shard = kFirstPushShard + static_cast<int>(absl::HashOf(origin.Text()) %
                                                       (ingest::kMaxShards - kFirstPushShard));
  const ingest::TargetStats stats =
      parts.ingest->pipeline.Ingest(origin, request.body, Now(), shard);
  std::string body;
  JsonWriter json(&body);
  json.BeginObject()
      .Field("samples", stats.samples)
      .Field("narrow_samples", stats.narrow)
      .Field("rows", stats.rows);
  WriteCounts(json, "refused", stats.refused);
  json.Key("examples").BeginArray();
  for (const std::string& example : stats.examples) json.Value(example);
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

Api::Impl::Result Api::Impl::GetSql(const Request& request, std::string_view) {
  FW_ASSIGN_OR_RETURN(const Params params, Params::Parse(request, {"q", "limit"}));
  FW_ASSIGN_OR_RETURN(const int64_t limit, params.Int("limit", kDefaultSqlRows, 1, kMaxSqlRows));
  const auto sql = params.Text("q");
  if (!sql.has_value())
    return absl::InvalidArgumentError("parameter 'q' is missing: the SELECT to run");
  return RunSql(*sql, limit);
}

Api::Impl::Result Api::Impl::PostSql(const Request& request, std::string_view) {
  FW_RETURN_IF_ERROR(Params::Parse(request, {}).status());
  boost::system::error_code ec;
  const boost::json::value body = boost::json::parse(request.body, ec);
  if (ec)
    return absl::InvalidArgumentError(fmt::format("sql: the body is not JSON: {}", ec.message()));
  const boost::json::object* object = body.if_object();
  const boost::json::value* sql = object == nullptr ? nullptr : object->if_contains("query");
  if (sql == nullptr || !sql->is_string()) {
    return absl::InvalidArgumentError(
        R"(sql: the body has no "query" string; send {"query": "SELECT ..."})");
  }
  int64_t limit = kDefaultSqlRows;
  for (const auto& [key, value] : *object) {
    if (key == "query") continue;
    if (key != "limit") {
      return absl::InvalidArgumentError(
          fmt::format("sql: field '{}' is not known; known are query, limit",
                      Printable(std::string_view(key.data(), key.size()), 60)));
    }
    const std::int64_t* number = value.if_int64();
    if (number == nullptr || *number < 1 || *number > kMaxSqlRows) {
      return absl::InvalidArgumentError(
          fmt::format("sql: 'limit' is a whole number from 1 to {}", kMaxSqlRows));
    }
    limit = *number;
  }
  return RunSql(std::string_view(sql->get_string().data(), sql->get_string().size()), limit);
}

Api::Impl::Result Api::Impl::RunSql(std::string_view sql, int64_t limit) {
  if (parts.store == nullptr) return absl::UnavailableError("sql: there is no store");
  if (sql.size() > kMaxSqlBytes) {
    return absl::InvalidArgumentError(
        fmt::format("sql: the query is longer than {} bytes", kMaxSqlBytes));
  }
  FW_ASSIGN_OR_RETURN(const store::QueryResult result,
                      parts.store->UserSql(sql, {.max_rows = static_cast<uint64_t>(limit)}));
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Key("columns").BeginArray();
  for (size_t k = 0; k < result.table.columns.size(); ++k) {
    json.BeginObject().Field("name", result.table.columns[k].name);
    json.Field("type", k < result.types.size() ? result.types[k] : std::string()).EndObject();
  }
  json.EndArray().Key("rows").BeginArray();
  for (const std::vector<Cell>& row : result.table.rows) {
    json.BeginArray();
    for (size_t k = 0; k < row.size(); ++k) {
      const bool is_time =
          k < result.table.columns.size() && result.table.columns[k].format == ColumnFormat::kTime;
      std::visit(
          [&](const auto& cell) {
            using T = std::decay_t<decltype(cell)>;
            if constexpr (std::is_same_v<T, std::monostate>) {
              json.Null();
            } else if constexpr (std::is_same_v<T, int64_t>) {
              is_time ? json.Value(FormatTime(cell)) : json.Value(cell);
            } else {
              json.Value(cell);
            }
          },
          row[k]);
    }
    json.EndArray();
  }
  json.EndArray()
      .Field("truncated", result.truncated)
      .Field("elapsed_ms", result.elapsed_ms)
      .EndObject();
  return JsonResponse(std::move(body));
}

}  // namespace flopwatch::api
