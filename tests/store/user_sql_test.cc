// SQL of users: what works, what is refused, what is bounded.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using namespace telemetry;  // NOLINT: field names

class UserSqlTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    BatchBuilder b(fields_);
    for (int i = 1; i <= 100; ++i) b.Row(kT0 + i * kSecond, 1, {{kSmClockMhz, double(i)}});
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  }
  absl::Status Refused(const std::string& sql) { return store_->UserSql(sql, {}).status(); }
};

TEST_F(UserSqlTest, Reads) {
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "100");
  EXPECT_EQ(Sql("SELECT count(*) FROM samples;"), "100");
  EXPECT_EQ(Sql("-- a comment\nWITH s AS (FROM samples) SELECT max(sm_clock_mhz) FROM s"), "100");
  EXPECT_EQ(Sql("FROM range(3) t(i) SELECT sum(i)"), "3");
  EXPECT_EQ(Sql("VALUES (1), (2)"), "1;2");
  EXPECT_NE(Sql("EXPLAIN SELECT 1").find("PROJECTION"), std::string::npos);
  EXPECT_NE(Sql("explain /* x */ (analyze, format text) select sum(flags) from samples")
                .find("AGGREGATE"),
            std::string::npos);
  EXPECT_NE(Sql("EXPLAIN ANALYZE SELECT sum(flags) FROM samples").find("AGGREGATE"),
            std::string::npos);
  EXPECT_NE(Sql("EXPLAIN (SELECT 1)").find("PROJECTION"), std::string::npos);
  EXPECT_NE(Sql("DESCRIBE samples").find("tensor_active"), std::string::npos);
  EXPECT_NE(Sql("SHOW TABLES").find("job_minutes"), std::string::npos);
  EXPECT_NE(Sql("SUMMARIZE (SELECT sm_clock_mhz FROM samples)").find("sm_clock_mhz"),
            std::string::npos);
}

TEST_F(UserSqlTest, CellsOfEveryType) {
  const auto result = store_->UserSql(
      "SELECT true, 1::TINYINT, 2::SMALLINT, 3, 4::BIGINT, 5::UTINYINT, "
      "18446744073709551615::UBIGINT, 6::HUGEINT, "
      "170141183460469231731687303715884105727::HUGEINT, 0.5::FLOAT, 0.25, 1.125::DECIMAL(9,3), "
      "'text', "
      "'\\x01\\xff'::BLOB, DATE '2026-01-02', TIME '01:02:03.5', TIMESTAMP '2026-01-02 "
      "03:04:05.25', "
      "TIMESTAMPTZ '2026-01-02 03:04:05+02', INTERVAL '1 month 2 days 3 seconds', [1, NULL, 3], "
      "{'a': 1, 'b': [2]}, "
      "MAP {'k': 7}, 'x'::ENUM('w', 'x'), '00112233-4455-6677-8899-aabbccddeeff'::UUID, NULL, [1, "
      "2]::INTEGER[2], "
      "'infinity'::TIMESTAMP, 'nan'::DOUBLE",
      {});
  ASSERT_FW_OK(result);
  EXPECT_EQ(Sql("SELECT true, 1::TINYINT, 2::SMALLINT, 3, 4::BIGINT, 5::UTINYINT, "
                "18446744073709551615::UBIGINT, 6::HUGEINT, "
                "170141183460469231731687303715884105727::HUGEINT, 0.5::FLOAT, 0.25, "
                "1.125::DECIMAL(9,3), 'text', "
                "'\\x01\\xff'::BLOB, DATE '2026-01-02', TIME '01:02:03.5', TIMESTAMP '2026-01-02 "
                "03:04:05.25', "
                "TIMESTAMPTZ '2026-01-02 03:04:05+02', INTERVAL '1 month 2 days 3 seconds', [1, "
                "NULL, 3], {'a': 1, 'b': [2]}, "
                "MAP {'k': 7}, 'x'::ENUM('w', 'x'), '00112233-4455-6677-8899-aabbccddeeff'::UUID, "
                "NULL, [1, 2]::INTEGER[2], "
                "'infinity'::TIMESTAMP"),
            "true|1|2|3|4|5|18446744073709551615|6|170141183460469231731687303715884105727|0.5|0."
            "25|1.125|text|0x01ff|2026-01-02|"
            "01:02:03.500000|2026-01-02T03:04:05.250Z|2026-01-02T01:04:05Z|1 months 2 days "
            "00:00:03|[1, NULL, 3]|{a: 1, b: [2]}|"
            "{{key: k, value: 7}}|x|00112233-4455-6677-8899-aabbccddeeff|NULL|[1, 2]|infinity");
  const std::vector<std::string> types = {
      "BOOLEAN",  "TINYINT",      "SMALLINT",
      "INTEGER",  "BIGINT",       "UTINYINT",
      "UBIGINT",  "HUGEINT",      "HUGEINT",
      "FLOAT",    "DECIMAL(3,2)", "DECIMAL(9,3)",
      "VARCHAR",  "BLOB",         "DATE",
      "TIME",     "TIMESTAMP",    "TIMESTAMP WITH TIME ZONE",
      "INTERVAL", "INTEGER[]",    "STRUCT(a INTEGER, b INTEGER[])",
      "MAP",      "ENUM",         "UUID",
      "INTEGER",  "INTEGER[2]",   "TIMESTAMP",
      "DOUBLE"};
  EXPECT_EQ(result->types, types);
}

TEST_F(UserSqlTest, RowsAreBounded) {
  const auto result = store_->UserSql("SELECT * FROM range(1000000)", {.max_rows = 10});
  ASSERT_FW_OK(result);
  EXPECT_EQ(result->table.rows.size(), 10u);
  EXPECT_TRUE(result->truncated);
  EXPECT_FALSE(store_->UserSql("SELECT * FROM range(10)", {.max_rows = 10})->truncated);
}

TEST_F(UserSqlTest, TimeIsBounded) {
  const QueryLimits limits = {.max_rows = 10, .timeout = 200 * kMicrosPerMilli};
  for (const char* sql :
       {"WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT max(i) FROM t",
        "SELECT count(*) FROM range(100000) a, range(100000) b WHERE (a.range * b.range) % 7 = 3",
        "EXPLAIN ANALYZE SELECT count(*) FROM range(100000) a, range(100000) b WHERE (a.range * "
        "b.range) % 7 = 3"}) {
    const auto result = store_->UserSql(sql, limits);
    EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << sql << ": " << result.status();
  }
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "100");
}

TEST_F(UserSqlTest, MemoryIsBounded) {
  options_.memory_limit_mb = 512;
  Open();
  const auto result =
      store_->UserSql("SELECT list(range::VARCHAR || '0123456789abcdef') FROM range(200000000)",
                      {.max_rows = 10, .timeout = 60 * kMicrosPerSecond});
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "100");
}

TEST_F(UserSqlTest, NothingCanBeWritten) {
  const std::string evil = dir_.path() + "/evil";
  for (const std::string& sql : std::vector<std::string>{
           "INSERT INTO meta.trash VALUES ('x')",
           "DELETE FROM meta.files",
           "UPDATE meta.jobs SET key = 'x'",
           "CREATE TABLE t(i INT)",
           "CREATE TEMP TABLE t(i INT)",
           "CREATE OR REPLACE VIEW samples AS SELECT 1",
           "DROP VIEW samples",
           "ALTER TABLE meta.files ADD COLUMN x INT",
           "COPY (SELECT 1) TO '" + evil + ".csv'",
           "COPY samples TO '" + evil + ".parquet'",
           "EXPORT DATABASE '" + evil + "'",
           "ATTACH '" + evil + ".duckdb' AS e",
           "DETACH meta",
           "USE meta",
           "SET threads = 1",
           "SET memory_limit = '100GB'",
           "RESET memory_limit",
           "PRAGMA disable_checkpoint_on_shutdown",
           "PRAGMA enable_profiling",
           "CHECKPOINT meta",
           "VACUUM",
           "LOAD parquet",
           "INSTALL httpfs",
           "CALL enable_logging('QueryLog', storage = 'file', storage_path = '" + evil + "')",
           "BEGIN TRANSACTION",
           "COMMIT",
           "PREPARE p AS SELECT 1",
           "EXECUTE p",
           "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
           "EXPLAIN ANALYZE INSERT INTO meta.trash VALUES ('x')",
           "EXPLAIN ANALYZE COPY (SELECT 1) TO '" + evil + ".csv'",
           "explain analyze (format json) COPY (SELECT 1) TO '" + evil + ".csv'",
           "EXPLAIN /* SELECT */ ANALYZE -- SELECT\n COPY (SELECT 1) TO '" + evil + ".csv'",
           "SELECT * FROM enable_logging('QueryLog', storage = 'file', storage_path = '" + evil +
               "')",
           "SELECT (SELECT count(*) FROM checkpoint('meta'))",
           "WITH x AS (FROM force_checkpoint('meta')) FROM x",
           "SELECT * FROM query('SELECT * FROM checkpoint()')",
           "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
           "SELECT * FROM read_csv('" + evil + "')",
           "SELECT repeat('x', 1000000000)",
       }) {
    const absl::Status status = Refused(sql);
    EXPECT_FALSE(status.ok()) << sql;
    EXPECT_TRUE(absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status))
        << sql << ": " << status;
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    EXPECT_EQ(entry.path().string().find("evil"), std::string::npos) << entry.path();
  }
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "100");
}

TEST_F(UserSqlTest, NothingOutsideTheDirectoryCanBeRead) {
  for (const char* sql :
       {"SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'", "SELECT * FROM '/etc/passwd.csv'",
        "SELECT * FROM glob('/etc/*')", "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM parquet_schema('/etc/passwd')", "SELECT * FROM read_json('/etc/passwd')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('https://example.com/x.parquet')", "SELECT getenv('HOME')"}) {
    const absl::Status status = Refused(sql);
    EXPECT_FALSE(status.ok()) << sql;
    EXPECT_EQ(status.message().find("root:"), absl::string_view::npos) << sql;
  }
}

TEST_F(UserSqlTest, BadQueriesAreExplained) {
  EXPECT_EQ(Refused("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused("  -- nothing\n").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused("SELECT 1; SELECT 2").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused("SELECT 1; DROP VIEW samples").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused("SELEC 1").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused(std::string("SELECT 1\0 + 1", 13)).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status unknown = Refused("SELECT tensor_activ FROM samples");
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.message().find("tensor_active"), absl::string_view::npos)
      << "the engine names what is near";
  EXPECT_EQ(Refused("SELECT " + std::string(70'000, '1')).code(),
            absl::StatusCode::kInvalidArgument);
  // Deep nesting neither crashes nor hangs.
  for (const auto& [open, close] :
       std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                        {"SELECT * FROM (", ")"},
                                                        {"[", "]"},
                                                        {"NOT ", ""},
                                                        {"- ", ""},
                                                        {"CASE WHEN true THEN ", " END"}}) {
    for (int depth : {150, 500, 3000}) {
      std::string sql = open.starts_with("SELECT") ? "" : "SELECT ";
      for (int i = 0; i < depth; ++i) sql += open;
      sql += open.starts_with("SELECT") ? "SELECT 1" : "1";
      for (int i = 0; i < depth; ++i) sql += close;
      const absl::Status status = Refused(sql);
      EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status) ||
                  absl::IsPermissionDenied(status))
          << status;
    }
  }
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "100");
}

TEST_F(UserSqlTest, WhatNoTimerCanEndIsBoundedByItself) {
  const auto tables = [](int n) {
    std::string sql = "SELECT count(*) FROM range(1) t0";
    for (int i = 1; i < n; ++i) sql += " JOIN range(1) t" + std::to_string(i) + " ON true";
    return sql;
  };
  EXPECT_EQ(Sql(tables(12)), "1");
  EXPECT_NE(Refused(tables(25)).message().find("reads 25 tables"), absl::string_view::npos);
  for (const char* sql :
       {"SELECT list_sum(range(100000000))", "SELECT len(generate_series(1, 100000000))",
        "SELECT list_transform([1, 2], x -> list_transform([1, 2], y -> x + y))"}) {
    EXPECT_FALSE(Refused(sql).ok()) << sql;
  }
  EXPECT_EQ(Sql("SELECT list_sum(list_transform([1, 2], x -> x * 2))"), "6");
  EXPECT_EQ(Sql("SELECT sum(r) FROM range(4) t(r), generate_series(1, 2) u(s)"), "12");
}

TEST_F(UserSqlTest, WithoutATimerNothingRuns) {
  // Where the system gives no more threads the query is refused; nothing is thrown.
  faults_.Set([](std::string_view point) {
    return point == "user_sql:timer" ? absl::ResourceExhaustedError("no thread") : absl::OkStatus();
  });
  const auto result = store_->UserSql("SELECT 1", {});
  faults_.Clear();
  EXPECT_TRUE(absl::IsResourceExhausted(result.status())) << result.status();
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "100");
}

TEST_F(UserSqlTest, LongTextIsCut) {
  const auto result = store_->UserSql("SELECT string_agg(range::VARCHAR) FROM range(100000)", {});
  ASSERT_FW_OK(result);
  EXPECT_LE(std::get<std::string>(result->table.rows[0][0]).size(), 64u * 1024 + 3);
}

TEST_F(UserSqlTest, ManyAtOnceBesideAppends) {
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0}, done{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto result = store_->UserSql("SELECT count(*) % 10 FROM samples", {});
        if (!result.ok() || std::get<int64_t>(result->table.rows[0][0]) != 0) ++failures;
        ++done;
      }
    });
  }
  for (int n = 1; n <= 50; ++n) {
    BatchBuilder b(fields_);
    for (int i = 1; i <= 10; ++i) b.Row(kT0 + n * 1000 + i, i, {{kSmClockMhz, double(i)}});
    EXPECT_FW_OK(store_->Append(b.batch(), fields_, kT0 + n * kSecond));
    if (n % 10 == 0) EXPECT_FW_OK(store_->RollUp());
  }
  stop = true;
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(failures, 0);
  EXPECT_GT(done, 0);
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "600");
}

}  // namespace
}  // namespace flopwatch::store::testing
