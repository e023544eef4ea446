// SQL over tables that stay in the caller's memory: the engine asks for the columns a query needs,
// a few thousand rows at a time, so nothing is copied or loaded before. For traces; the data
// directory is no part of it. The same guards as for queries on the store (duckdb/user_sql.h): one
// SELECT, no files, no extensions, bounded rows, time and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/store.h"

namespace flopwatch::store {

enum class SqlType : uint8_t { kInteger, kDouble, kBoolean, kText };

// Where the values of one column go; index 0 is the first row asked for. Every row is set once.
class ColumnBlock {
 public:
  void Integer(size_t i, int64_t v) { static_cast<int64_t*>(data_)[i] = v; }
  void Double(size_t i, double v);  // NaN and infinity become NULL
  void Boolean(size_t i, bool v) { static_cast<bool*>(data_)[i] = v; }
  void Text(size_t i, std::string_view v);  // bytes that are no UTF-8 become '?'
  void Null(size_t i);

 private:
  friend class MemoryTableScan;
  void* vector_ = nullptr;
  void* data_ = nullptr;
  uint64_t* validity_ = nullptr;
};

struct MemoryColumn {
  std::string name;
  SqlType type = SqlType::kInteger;
  std::string help;  // one line, with the unit
};

struct MemoryTable {
  std::string name, help;
  std::vector<MemoryColumn> columns;
  std::function<uint64_t()>
      rows;  // asked when a query names the table, before any fill; may be costly the first time
  // Rows [first, first + count) of one column. Called from one thread at a time a scan; several
  // scans of a query may run beside each other.
  std::function<void(size_t column, uint64_t first, size_t count, ColumnBlock* out)> fill;
};

class MemoryTables {
 public:
  struct Options {
    uint64_t memory_limit_mb = 1024;  // of the engine, beside the tables themselves
    int threads = 2;
  };
  // The tables outlive the object.
  static StatusOr<std::unique_ptr<MemoryTables>> Open(std::vector<MemoryTable> tables,
                                                      const Options& options);
  virtual ~MemoryTables() = default;
  virtual StatusOr<QueryResult> Query(std::string_view sql, const QueryLimits& limits) = 0;
};

}  // namespace flopwatch::store
