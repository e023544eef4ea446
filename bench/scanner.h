// A plain scan of a store's sealed rollups: what the answers of benchmarks are held against.
#pragma once

#include <duckdb.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "jobs/job_index.h"
#include "store/store.h"

namespace flopwatch {

// DuckDB as it comes, on the files alone.
class Scanner {
 public:
  Scanner(const std::string& directory, int threads) : directory_(directory) {
    if (duckdb_open(nullptr, &database_) != DuckDBSuccess ||
        duckdb_connect(database_, &connection_) != DuckDBSuccess)
      Fail("cannot open");
    Run(fmt::format("SET threads = {}", threads));
    Run(fmt::format("SET memory_limit = '{}MB'", store::kDefaultMemoryMb));
  }
  ~Scanner() {
    duckdb_disconnect(&connection_);
    duckdb_close(&database_);
  }
  Scanner(const Scanner&) = delete;
  Scanner& operator=(const Scanner&) = delete;

  // SUM over every column of a table of rollups, and its rows, from a time on; by job and model
  // where `grouped`.
  std::string SumsOf(std::string_view table, bool grouped, Micros from = 0) {
    const std::string files =
        fmt::format("read_parquet('{}/sealed/{}/day=*/**/*.parquet', hive_partitioning = false)",
                    directory_, table);
    std::string sums = "count(*)";
    duckdb_result result;
    if (duckdb_query(connection_, fmt::format("SELECT * FROM {} LIMIT 0", files).c_str(),
                     &result) != DuckDBSuccess)
      Fail(duckdb_result_error(&result));
    for (idx_t c = 0; c < duckdb_column_count(&result); ++c) {
      const std::string name = duckdb_column_name(&result, c);
      const duckdb_type type = duckdb_column_type(&result, c);
      const bool time = type == DUCKDB_TYPE_TIMESTAMP || type == DUCKDB_TYPE_TIMESTAMP_MS ||
                        type == DUCKDB_TYPE_TIMESTAMP_TZ;
      sums += time ? fmt::format(", max({})", name) : fmt::format(", sum({})", name);
    }
    duckdb_destroy_result(&result);
    return fmt::format("SELECT {} FROM {}{}{}", sums, files,
                       from > 0 ? fmt::format(" WHERE ts >= make_timestamp({})", from) : "",
                       grouped ? " GROUP BY job_set, model" : "");
  }
  // What a server has in memory of who held what, as a table of DuckDB's own, in memory too.
  void Hold(const std::vector<jobs::IntervalRecord>& intervals) {
    Run("CREATE TABLE held(entity INTEGER, job INTEGER, from_ts BIGINT, to_ts BIGINT)");
    duckdb_appender rows = nullptr;
    if (duckdb_appender_create(connection_, nullptr, "held", &rows) != DuckDBSuccess)
      Fail("cannot append");
    for (const jobs::IntervalRecord& i : intervals) {
      duckdb_append_int32(rows, i.entity);
      duckdb_append_int32(rows, i.job);
      duckdb_append_int64(rows, i.from);
      duckdb_append_int64(rows, i.to);
      duckdb_appender_end_row(rows);
    }
    if (duckdb_appender_destroy(&rows) != DuckDBSuccess) Fail("cannot append");
  }
  static std::string SumsOfHeld() { return "SELECT sum(to_ts - from_ts) FROM held GROUP BY job"; }
  // The first value.
  int64_t Run(const std::string& sql) {
    duckdb_result result;
    if (duckdb_query(connection_, sql.c_str(), &result) != DuckDBSuccess)
      Fail(duckdb_result_error(&result));
    const int64_t value = duckdb_row_count(&result) > 0 ? duckdb_value_int64(&result, 0, 0) : 0;
    duckdb_destroy_result(&result);
    return value;
  }

 private:
  [[noreturn]] static void Fail(std::string_view why) {
    fmt::print(stderr, "DuckDB: {}\n", why);
    std::exit(1);
  }
  const std::string directory_;
  duckdb_database database_ = nullptr;
  duckdb_connection connection_ = nullptr;
};

}  // namespace flopwatch
