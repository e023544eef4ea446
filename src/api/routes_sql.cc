// Read-only SQL on the stored tables.

#include <utility>
#include <variant>

#include "api/answers.h"
#include "api/routes.h"
#include "base/json_read.h"
#include "base/text.h"

namespace flopwatch::api {
namespace {

constexpr int64_t kDefaultSqlRows = 1000;
constexpr int64_t kMaxSqlRows = 100'000;
constexpr size_t kMaxSqlBytes = 64 * 1024;
constexpr JsonLimits kSqlBody{.max_bytes = 1 << 20, .max_depth = 4, .what = "the body"};
constexpr Text kSqlText(Parameter{.name = "q", .help = "The query.", .required = true});
constexpr Integer kSqlLimit("limit", 1, kMaxSqlRows, kDefaultSqlRows, "Rows at most.");

void WriteCell(JsonWriter& json, const Cell& cell, bool is_time) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          json.Null();
        } else if constexpr (std::is_same_v<T, int64_t>) {
          is_time ? json.Value(FormatTime(value)) : json.Value(value);
        } else {
          json.Value(value);
        }
      },
      cell);
}

Result RunSql(store::Store& store, std::string_view sql, int64_t limit) {
  if (sql.size() > kMaxSqlBytes)
    return InvalidArgument("sql: the query is longer than {} bytes", kMaxSqlBytes);
  FW_ASSIGN_OR_RETURN(const store::QueryResult result,
                      store.UserSql(sql, {.max_rows = static_cast<uint64_t>(limit)}));
  const auto& columns = result.table.columns;
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Key("columns").BeginArray();
  for (size_t k = 0; k < columns.size(); ++k) {
    json.BeginObject().Field("name", columns[k].name);
    json.Field("type", k < result.types.size() ? result.types[k] : std::string()).EndObject();
  }
  json.EndArray().Key("rows").BeginArray();
  for (const std::vector<Cell>& row : result.table.rows) {
    json.BeginArray();
    for (size_t k = 0; k < row.size(); ++k)
      WriteCell(json, row[k], k < columns.size() && columns[k].format == ColumnFormat::kTime);
    json.EndArray();
  }
  json.EndArray();
  json.Field("truncated", result.truncated).Field("elapsed_ms", result.elapsed_ms).EndObject();
  return JsonResponse(std::move(body));
}

Result GetSql(store::Store& store, const Arguments& args) {
  const auto sql = args[kSqlText];
  if (!sql.has_value()) return InvalidArgument("parameter 'q' is missing: the SELECT to run");
  return RunSql(store, *sql, args[kSqlLimit]);
}

Result PostSql(store::Store& store, std::string_view text) {
  const auto body = Json::Parse(text, kSqlBody);
  if (!body.ok())
    return Annotate(WithCode(body.status(), absl::StatusCode::kInvalidArgument), "sql");
  const auto* sql = std::get_if<std::string>(&(*body)["query"].value_);
  if (sql == nullptr) {
    return InvalidArgument(
        R"(sql: the body has no "query" string; send {{"query": "SELECT ..."}})");
  }
  int64_t limit = kDefaultSqlRows;
  for (const auto& [key, value] : body->object()) {
    if (key == "query") continue;
    if (key != "limit") {
      return InvalidArgument("sql: field '{}' is not known; known are query, limit",
                             Printable(key, 60));
    }
    const auto* number = std::get_if<int64_t>(&value.value_);
    if (number == nullptr || *number < 1 || *number > kMaxSqlRows)
      return InvalidArgument("sql: 'limit' is a whole number from 1 to {}", kMaxSqlRows);
    limit = *number;
  }
  return RunSql(store, *sql, limit);
}

}  // namespace

void AddSqlRoutes(store::Store* store, RouteTable* table) {
  const Answer offline = Refused(503, "Not ready, or offline.");
  table->Add(Slow(Get("/api/v1/sql", "getSql", "Read-only SQL on the stored tables",
                      {&kSqlText, &kSqlLimit}, {Ok("SqlResult"), BadParameter(), offline})),
             {}, [store](const Call& call) { return GetSql(*store, call.args); });
  table->Add(Slow(Post("/api/v1/sql", "postSql", "Read-only SQL on the stored tables", {},
                       {Ok("SqlResult"), BadParameter(), OtherSite(), offline},
                       {{kJsonType, "SqlRequest"}})),
             {}, [store](const Call& call) { return PostSql(*store, call.request.body); });
}

}  // namespace flopwatch::api
