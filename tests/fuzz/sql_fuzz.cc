// The input is a query in SQL over a table in memory, under the guards of every query of a user: it
// ends in an answer within its bounds or an error that can be printed, changes nothing, and leaves
// an engine that answers.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "fuzz/require.h"
#include "store/memory_tables.h"

using namespace flopwatch;         // NOLINT: a program of its own
using namespace flopwatch::store;  // NOLINT

namespace {

constexpr uint64_t kRows = 100, kMaxRows = 50;
constexpr size_t kMaxBytes = 4096;

std::unique_ptr<MemoryTables> Open() {
  MemoryTable t;
  t.name = "t";
  t.columns = {
      {"a", SqlType::kInteger, ""}, {"b", SqlType::kDouble, ""}, {"c", SqlType::kText, ""}};
  t.rows = [] { return kRows; };
  t.fill = [](size_t column, uint64_t first, size_t count, ColumnBlock* out) {
    for (size_t i = 0; i < count; ++i) {
      const auto n = static_cast<int64_t>(first + i);
      if (column == 0) out->Integer(i, n);
      if (column == 1) out->Double(i, static_cast<double>(n) / 8);
      if (column == 2) out->Text(i, std::to_string(n % 7));
    }
  };
  std::vector<MemoryTable> all;
  all.push_back(std::move(t));
  auto opened = MemoryTables::Open(std::move(all), {.memory_limit_mb = 64, .threads = 1});
  if (!opened.ok()) std::abort();
  return *std::move(opened);
}

// In a server an engine answers one query; here it answers some, because to open one takes longer
// than to ask. What thousands of queries leave in one is nobody's concern: memory that the engine
// keeps is held against its limit.
constexpr int kQueriesOfEngine = 200;

MemoryTables& Tables() {
  static std::unique_ptr<MemoryTables> tables;
  static int asked = 0;
  if (tables == nullptr) {
    std::string folder = "/tmp/flopwatch-fuzz-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr || ::chdir(folder.c_str()) != 0) std::abort();
  }
  if (tables == nullptr || ++asked % kQueriesOfEngine == 0) tables = Open();
  return *tables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kMaxBytes) return 0;
  const std::string sql(reinterpret_cast<const char*>(data), size);
  MemoryTables& tables = Tables();
  const auto answer = tables.Query(sql, {.max_rows = kMaxRows, .timeout = 200 * kMicrosPerMilli});
  if (answer.ok()) {
    Require(answer->table.rows.size() <= kMaxRows, "rows within the bound");
    for (const auto& row : answer->table.rows)
      Require(row.size() == answer->table.columns.size(), "a cell for each column");
  } else {
    Require(!answer.status().message().empty(), "a reason");
  }
  const auto alive =
      tables.Query("SELECT count(*), sum(a) FROM t", {.max_rows = 1, .timeout = kMicrosPerMinute});
  if (!alive.ok()) std::fprintf(stderr, "%s\n", std::string(alive.status().message()).c_str());
  Require(alive.ok() && std::get<int64_t>(alive->table.rows.at(0).at(0)) == kRows,
          "an engine that answers");
  return 0;
}
