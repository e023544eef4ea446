// Read-only SQL on the stored tables.

#include <utility>
#include <variant>

#include "api/answers.h"
#include "api/routes.h"
#include "base/json_read.h"
#include "base/text.h"
#include "sql/runner.h"

namespace flopwatch::api {
namespace {

constexpr int64_t kDefaultSqlRows = 1000;
constexpr int64_t kMaxSqlRows = 100'000;
constexpr JsonLimits kSqlBody{.max_bytes = 1 << 20, .max_depth = 4, .what = "the body"};
constexpr Text kSqlText(Parameter{.name = "q", .help = "The query.", .required = true});
constexpr Integer kSqlLimit("limit", 1, kMaxSqlRows, kDefaultSqlRows, "Rows at most.");

Result RunSql(sql::Runner& runner, std::string_view text, int64_t limit, std::stop_token gone) {
  StatusOr<std::string> body =
      runner.Run({.text = text, .max_rows = static_cast<uint64_t>(limit)}, std::move(gone));
  // Nobody reads this, but the log of a proxy.
  if (absl::IsCancelled(body.status())) return Unavailable("{}", MessageOf(body.status()));
  FW_RETURN_IF_ERROR(body.status());
  return JsonResponse(*std::move(body));
}

Result GetSql(sql::Runner& runner, const Call& call) {
  const auto sql = call.args[kSqlText];
  if (!sql.has_value()) return InvalidArgument("parameter 'q' is missing: the SELECT to run");
  return RunSql(runner, *sql, call.args[kSqlLimit], call.request.gone);
}

Result PostSql(sql::Runner& runner, const Call& call) {
  const std::string_view text = call.request.body;
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
  return RunSql(runner, *sql, limit, call.request.gone);
}

}  // namespace

void AddSqlRoutes(sql::Runner* runner, RouteTable* table) {
  const Answer busy =
      Refused(429, "The query needs more memory than one may take, or too many run and wait.");
  const Answer offline = Refused(503, "Not ready, or its process died.");
  const Answer late = Refused(504, "It took too long.");
  table->Add(Apart(Get("/api/v1/sql", "getSql", "Read-only SQL on the stored tables",
                       {&kSqlText, &kSqlLimit},
                       {Ok("SqlResult"), BadParameter(), OtherSite(), busy, offline, late})),
             {}, [runner](const Call& call) { return GetSql(*runner, call); });
  table->Add(Apart(Post("/api/v1/sql", "postSql", "Read-only SQL on the stored tables", {},
                        {Ok("SqlResult"), BadParameter(), OtherSite(), busy, offline, late},
                        {{kJsonType, "SqlRequest"}})),
             {}, [runner](const Call& call) { return PostSql(*runner, call); });
}

}  // namespace flopwatch::api
