#include "sql/answer.h"

#include <type_traits>
#include <variant>

#include "base/json_writer.h"

namespace flopwatch::sql {
namespace {

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

}  // namespace

std::string AnswerJson(const store::QueryResult& result, Micros as_of) {
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
  json.Field("truncated", result.truncated)
      .Field("elapsed_ms", result.elapsed_ms)
      .Field("as_of", FormatTime(as_of))
      .EndObject();
  return body;
}

}  // namespace flopwatch::sql
