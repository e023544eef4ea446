// SQL of a user: one SELECT (or EXPLAIN of one, DESCRIBE, SHOW, SUMMARIZE), read only, bounded in
// rows and time.
//
// What keeps it harmless, each by itself enough for most attacks:
//   - the engine has no access outside the data directory, no extensions, and a locked
//   configuration (engine.cc);
//   - one statement, which DuckDB's own parser must accept as a SELECT: EXPLAIN ANALYZE COPY would
//   write a file;
//   - table functions from a short list: enable_logging() in a FROM clause writes files even under
//   a locked
//     configuration;
//   - a read-only transaction; streaming results; a timer that interrupts.
#pragma once

#include <string_view>

#include "store/duckdb/connection.h"
#include "store/store.h"

namespace flopwatch::store::duck {

// No timer reaches parsing, binding, optimising and the evaluation of one expression over one
// vector (2,048 rows), also that of constants while planning. So what makes these long is bounded
// by itself:
inline constexpr int kMaxNesting = 200;  // of brackets
inline constexpr int kMaxTables = 24;  // in FROM, anywhere: the search for a join order grows fast
inline constexpr int kMaxLambdas =
    1;  // one in another over long lists is any power of their length
inline constexpr size_t kMaxCellBytes = 64 * 1024;  // longer text and lists are cut with "…"

StatusOr<QueryResult> RunUserSql(Connection* c, std::string_view sql, const QueryLimits& limits);

}  // namespace flopwatch::store::duck
