// SQL over tables in memory: one connection answers one query after another, whatever ended the one
// before. What queries may do is that of the store (user_sql_test.cc) and of the fuzzer's corpus.
#include "store/memory_tables.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace flopwatch::store {
namespace {

TEST(MemoryTablesTest, ALimitThatFallsOnTheEndOfAQueryHarmsNoneAfterIt) {
  MemoryTable table;
  table.name = "t";
  table.columns = {{"a", SqlType::kInteger, ""}};
  table.rows = [] { return uint64_t{100}; };
  table.fill = [](size_t, uint64_t first, size_t count, ColumnBlock* out) {
    for (size_t i = 0; i < count; ++i) out->Integer(i, static_cast<int64_t>(first + i));
  };
  std::vector<MemoryTable> tables;
  tables.push_back(std::move(table));
  const auto opened = MemoryTables::Open(std::move(tables), {.memory_limit_mb = 64, .threads = 1});
  ASSERT_TRUE(opened.ok()) << opened.status();
  constexpr std::string_view kSql = "SELECT count(*) FROM t";
  constexpr QueryLimits kAmple = {.max_rows = 1, .timeout = kMicrosPerMinute};
  ASSERT_TRUE((*opened)->Query(kSql, kAmple).ok());
  const auto took = (*opened)->Query(kSql, kAmple);
  ASSERT_TRUE(took.ok()) << took.status();

  // Limits from a fifth of what a query takes to more than it takes, so that some fall on its end.
  constexpr int kTries = 1500;
  int late = 0, in_time = 0;
  for (int i = 0; i < kTries; ++i) {
    const double of_a_query = 0.2 + 1.8 * i / kTries;
    const auto limit = static_cast<Micros>(took->elapsed_ms * kMicrosPerMilli * of_a_query);
    const auto answer = (*opened)->Query(kSql, {.max_rows = 1, .timeout = limit});
    if (!answer.ok()) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
    }
    ++(answer.ok() ? in_time : late);
    const auto next = (*opened)->Query(kSql, kAmple);
    ASSERT_TRUE(next.ok()) << "after a limit of " << limit << " µs: " << next.status();
  }
  RecordProperty("late", late);
  RecordProperty("in_time", in_time);
}

}  // namespace
}  // namespace flopwatch::store
