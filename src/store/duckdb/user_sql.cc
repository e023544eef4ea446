#include "store/duckdb/user_sql.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "base/mutex.h"
#include "base/text.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/cell.h"
#include "store/duckdb/lock_order.h"

namespace flopwatch::store::duck {
namespace {

// Table functions that only read what is stored, or compute.
constexpr std::string_view kTableFunctions[] = {"range",
                                                "generate_series",
                                                "unnest",
                                                "repeat_row",
                                                "read_parquet",
                                                "parquet_scan",
                                                "parquet_metadata",
                                                "parquet_schema",
                                                "parquet_file_metadata",
                                                "duckdb_columns",
                                                "duckdb_tables",
                                                "duckdb_views",
                                                "duckdb_functions",
                                                "duckdb_settings",
                                                "duckdb_types",
                                                "duckdb_databases",
                                                "duckdb_schemas",
                                                "duckdb_keywords",
                                                "duckdb_memory",
                                                "pragma_table_info",
                                                "pragma_database_size",
                                                "json_each",
                                                "json_tree",
                                                "histogram",
                                                "histogram_values",
                                                "pg_timezone_names"};
// Functions whose result can be of any size from a short text: evaluated while planning, where no
// timer reaches.
constexpr std::string_view kRefusedFunctions[] = {"repeat", "lpad", "rpad", "write_log", "nextval"};
// The same, unless as a table function: rows come one vector at a time.
constexpr std::string_view kRefusedAsScalar[] = {"range", "generate_series"};

// The text after EXPLAIN [ANALYZE] [(options)], without comments before it; the whole text when it
// is no EXPLAIN.
std::string_view SkipBlank(std::string_view s) {
  for (;;) {
    s.remove_prefix(std::min(s.find_first_not_of(" \t\r\n\f\v"), s.size()));
    if (s.starts_with("--")) {
      const size_t end = s.find('\n');
      s = end == std::string_view::npos ? std::string_view() : s.substr(end + 1);
    } else if (s.starts_with("/*")) {
      const size_t end = s.find("*/", 2);
      s = end == std::string_view::npos ? std::string_view() : s.substr(end + 2);
    } else {
      return s;
    }
  }
}

bool TakeWord(std::string_view* s, std::string_view word) {
  const std::string_view rest = SkipBlank(*s);
  if (!StartsWithIgnoringCase(rest, word)) return false;
  const std::string_view after = rest.substr(word.size());
  if (!after.empty() && (absl::ascii_isalnum(after[0]) || after[0] == '_')) return false;
  *s = after;
  return true;
}

std::string_view WithoutExplain(std::string_view sql) {
  std::string_view s = sql;
  if (!TakeWord(&s, "EXPLAIN")) return sql;
  if (!TakeWord(&s, "ANALYZE")) TakeWord(&s, "ANALYSE");
  s = SkipBlank(s);
  if (s.starts_with("(")) {
    // Options in parentheses, or the SELECT itself in them: an option list never begins with
    // SELECT, WITH or FROM.
    std::string_view inside = s.substr(1);
    if (!TakeWord(&inside, "SELECT") && !TakeWord(&inside, "WITH") && !TakeWord(&inside, "FROM") &&
        !SkipBlank(inside).starts_with("(")) {
      const size_t end = s.find(')');
      s = end == std::string_view::npos ? std::string_view() : s.substr(end + 1);
    }
  }
  return s;
}

// All names in "function_name":"..." of a serialised tree, and of them those of table functions.
Status CheckFunctions(std::string_view json) {
  constexpr std::string_view kTable = "\"type\":\"TABLE_FUNCTION\"", kName = "\"function_name\":\"";
  const auto name_at = [&](size_t at) {
    const size_t begin = at + kName.size();
    return json.substr(begin, json.find('"', begin) - begin);
  };
  const auto count = [&](std::string_view part) {
    int n = 0;
    for (size_t at = json.find(part); at != std::string_view::npos; at = json.find(part, at + 1))
      ++n;
    return n;
  };
  const auto listed = [](const auto& names, const std::string& name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (const int tables = count(kTable) + count("\"type\":\"BASE_TABLE\""); tables > kMaxTables) {
    return InvalidArgument(
        "the query reads {} tables; the limit is {}: planning more takes time that nothing can end",
        tables, kMaxTables);
  }
  if (const int lambdas = count("\"class\":\"LAMBDA\""); lambdas > kMaxLambdas) {
    return InvalidArgument("the query has {} lambdas (x -> ...); the limit is {}", lambdas,
                           kMaxLambdas);
  }
  std::vector<size_t> of_tables;  // where their names are
  for (size_t at = json.find(kTable); at != std::string_view::npos;
       at = json.find(kTable, at + 1)) {
    const size_t name = json.find(kName, at);
    of_tables.push_back(name);
    const std::string_view function = name == std::string_view::npos ? "?" : name_at(name);
    if (std::find(std::begin(kTableFunctions), std::end(kTableFunctions), LowerCase(function)) ==
        std::end(kTableFunctions)) {
      return PermissionDenied(
          "table function {} is not available: queries may read the views and the "
          "files of the data directory (see SHOW TABLES)",
          Printable(function));
    }
  }
  for (size_t at = json.find(kName); at != std::string_view::npos; at = json.find(kName, at + 1)) {
    const std::string function = LowerCase(name_at(at));
    const bool as_table = std::find(of_tables.begin(), of_tables.end(), at) != of_tables.end();
    if (listed(kRefusedFunctions, function) || (!as_table && listed(kRefusedAsScalar, function))) {
      return PermissionDenied(
          "function {} is not available {}", function,
          as_table || listed(kRefusedFunctions, function)
              ? "in queries"
              : "as a value: write it in FROM, where rows come one after another");
    }
  }
  return absl::OkStatus();
}

Status CheckStatement(Connection* c, std::string_view sql) {
  if (sql.size() > kMaxSqlBytes)
    return InvalidArgument("the query has {} bytes; the limit is {}", sql.size(), kMaxSqlBytes);
  if (sql.find('\0') != std::string_view::npos) return InvalidArgument("the query has a NUL byte");
  int depth = 0, deepest = 0;
  for (char ch : sql) {
    if (ch == '(' || ch == '[' || ch == '{') deepest = std::max(deepest, ++depth);
    if (ch == ')' || ch == ']' || ch == '}') --depth;
  }
  if (deepest > kMaxNesting)
    return InvalidArgument("brackets are nested {} deep; the limit is {}", deepest, kMaxNesting);
  duckdb_extracted_statements statements = nullptr;
  const idx_t count = duckdb_extract_statements(c->raw(), std::string(sql).c_str(), &statements);
  const absl::Cleanup destroy = [&] { duckdb_destroy_extracted(&statements); };
  if (count == 0) {
    const char* error = duckdb_extract_statements_error(statements);
    return absl::InvalidArgumentError(error == nullptr ? "the query is empty" : error);
  }
  if (count > 1) return InvalidArgument("one statement at a time, these are {}", count);
  FW_ASSIGN_OR_RETURN(Result result, c->Query(fmt::format("SELECT json_serialize_sql({})",
                                                          QuoteText(WithoutExplain(sql)))));
  std::string json;
  result.ForEach([&](const Row& row) { json = row.Text(0); });
  if (!json.starts_with("{\"error\":false")) {
    return PermissionDenied(
        "only SELECT, EXPLAIN of a SELECT, DESCRIBE, SHOW and SUMMARIZE are allowed: the store is "
        "read-only to queries");
  }
  return CheckFunctions(json);
}

// Interrupts the connection at the deadline, and again until it is told that the query has ended:
// an interrupt that comes between two stages of a query is forgotten.
class Timer {
 public:
  // ResourceExhausted where the system gives no thread: the one thing here that throws, and a query
  // without its limit is not run.
  Status Start(Connection* c, Micros timeout) {
    FW_RETURN_IF_ERROR(c->FaultPoint("user_sql:timer"));
    try {
      thread_ = std::jthread([this, c, timeout](std::stop_token stop) { Run(c, timeout, stop); });
    } catch (const std::system_error& e) {
      return ResourceExhausted(
          "no thread for the time limit of the query ({}): too many threads or processes on this "
          "machine",
          e.what());
    }
    return absl::OkStatus();
  }
  bool fired() {
    MutexLock lock(mutex_);
    return fired_;
  }

 private:
  void Run(Connection* c, Micros timeout, const std::stop_token& stop) {
    MutexLock lock(mutex_);
    for (Micros wait = timeout;; wait = kInterruptAgain) {
      wake_.WaitFor(mutex_, stop, wait, [&] { return stop.stop_requested(); });
      if (stop.stop_requested()) return;
      fired_ = true;
      c->Interrupt();
    }
  }

  static constexpr Micros kInterruptAgain = 50 * kMicrosPerMilli;

  Mutex mutex_{kTimerRank};
  CondVar wake_;
  bool fired_ FW_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it ends before what it uses
};

size_t BytesOf(const Cell& cell) {
  const auto* text = std::get_if<std::string>(&cell);
  return sizeof(Cell) + (text == nullptr ? 0 : text->size());
}

Status Fetch(Connection* c, std::string_view sql, const QueryLimits& limits, QueryResult* out) {
  duckdb_prepared_statement prepared = nullptr;
  const absl::Cleanup drop = [&] { duckdb_destroy_prepare(&prepared); };
  if (duckdb_prepare(c->raw(), std::string(sql).c_str(), &prepared) != DuckDBSuccess)
    return c->Fail(DUCKDB_ERROR_BINDER, duckdb_prepare_error(prepared));
  const duckdb_statement_type type = duckdb_prepared_statement_type(prepared);
  if (type != DUCKDB_STATEMENT_TYPE_SELECT && type != DUCKDB_STATEMENT_TYPE_EXPLAIN) {
    return PermissionDenied("only SELECT and EXPLAIN of a SELECT are allowed in queries");
  }
  duckdb_pending_result pending = nullptr;
  const absl::Cleanup drop_pending = [&] { duckdb_destroy_pending(&pending); };
  if (duckdb_pending_prepared_streaming(prepared, &pending) != DuckDBSuccess)
    return c->Fail(DUCKDB_ERROR_INVALID, duckdb_pending_error(pending));
  duckdb_result result = {};
  const absl::Cleanup destroy = [&] { duckdb_destroy_result(&result); };
  const auto failed = [&] {
    const char* error = duckdb_result_error(&result);
    return c->Fail(duckdb_result_error_type(&result),
                   error == nullptr ? "the query failed" : error);
  };
  if (duckdb_execute_pending(pending, &result) != DuckDBSuccess) return failed();

  const idx_t columns = duckdb_column_count(&result);
  std::vector<duckdb_logical_type> types(columns);
  const absl::Cleanup drop_types = [&] {
    for (duckdb_logical_type& t : types) duckdb_destroy_logical_type(&t);
  };
  for (idx_t i = 0; i < columns; ++i) {
    types[i] = duckdb_column_logical_type(&result, i);
    out->table.columns.push_back({duckdb_column_name(&result, i), "", ColumnFormat::kPlain});
    out->types.push_back(TypeName(types[i]));
  }
  uint64_t bytes = 0;
  while (duckdb_data_chunk chunk = duckdb_fetch_chunk(result)) {
    const absl::Cleanup drop_chunk = [&] { duckdb_destroy_data_chunk(&chunk); };
    const idx_t size = duckdb_data_chunk_get_size(chunk);
    if (size == 0) break;
    for (idx_t r = 0; r < size; ++r) {
      if (out->table.rows.size() >= limits.max_rows || bytes >= limits.max_bytes) {
        out->truncated = true;
        return absl::OkStatus();
      }
      std::vector<Cell>& row = out->table.rows.emplace_back();
      row.reserve(columns);
      for (idx_t i = 0; i < columns; ++i) {
        row.push_back(CellOf(duckdb_data_chunk_get_vector(chunk, i), types[i], r, kMaxCellBytes));
        bytes += BytesOf(row.back());
      }
    }
  }
  if (const char* error = duckdb_result_error(&result); error != nullptr && *error != '\0')
    return failed();
  return absl::OkStatus();
}

}  // namespace

StatusOr<QueryResult> RunUserSql(Connection* c, std::string_view sql, const QueryLimits& limits) {
  const Micros start = MonotonicNow();
  QueryResult out;
  Status status;
  bool late = false;
  {
    // Outside of the timer's life: begin and end of a transaction take no time, and an end that is
    // interrupted leaves the connection in a transaction that is aborted.
    FW_ASSIGN_OR_RETURN(const Transaction transaction, Transaction::Begin(c, /*read_only=*/true));
    Timer timer;
    FW_RETURN_IF_ERROR(timer.Start(c, limits.timeout));
    const auto run = [&]() -> Status {
      FW_RETURN_IF_ERROR(CheckStatement(c, sql));
      return Fetch(c, sql, limits, &out);
    };
    status = run();
    late = timer.fired();
  }
  out.elapsed_ms = static_cast<double>(MonotonicNow() - start) / 1e3;
  if (status.ok()) return out;
  if (late && c->fault() == Fault::kInterrupted) {
    return DeadlineExceeded(
        "the query took longer than {}; narrow its window (columns day and hour skip "
        "whole files), or raise the limit",
        FormatDuration(limits.timeout));
  }
  if (c->fault() == Fault::kMemory) {
    const std::string said(MessageOf(status));
    return ResourceExhausted(
        "the query needs more memory than one may take: {}; group or filter more, or raise its "
        "limit (of a server: sql.max_memory_mb)",
        said.substr(0, said.find('\n')));
  }
  if (c->fault() == Fault::kInterrupted) return Unavailable("the query was interrupted; try again");
  return status;
}

}  // namespace flopwatch::store::duck
