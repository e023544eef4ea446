// SQLite files from strangers, read only: tables by name, columns by name, one pass each. The only
// place that reads SQLite.
//
// The file is data, never a program: views, triggers and virtual tables are not touched, no
// function of SQL runs (an authorizer refuses everything but reading columns of plain tables), the
// schema is untrusted, page cells are checked, nothing is mapped into memory, and a value, a row
// count and the number of tables have limits. The file is opened immutable, so that read-only
// folders work and nothing is written beside it; a write-ahead log beside it is then not read and
// unread_log() says so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "trace/work_guard.h"

struct sqlite3;
struct sqlite3_stmt;

namespace flopwatch::trace {

inline constexpr size_t kMaxSqliteValueBytes = 16 << 20;
inline constexpr size_t kMaxSqliteTables = 4096;
inline constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};

// One thread.
class SqliteReader {
 public:
  // The current row of a Scan(), by position in the columns asked for. Columns that the table lacks
  // are NULL.
  class Record {
   public:
    bool null(int column) const;
    // INTEGER, REAL without a fraction, or TEXT that is wholly a decimal integer; nullopt for
    // anything else.
    std::optional<int64_t> integer(int column) const;
    int64_t integer_or(int column, int64_t fallback) const {
      return integer(column).value_or(fallback);
    }
    std::optional<double> number(int column) const;
    // Valid until the next row; "" for NULL and blobs.
    std::string_view text(int column) const;

   private:
    friend class SqliteReader;
    sqlite3_stmt* statement_ = nullptr;
    std::span<const int> position_;  // asked -> column of the statement, -1 = absent
  };

  // InvalidArgument where the file is no database, DataLoss where its schema cannot be read.
  // `guard` (may be null, outlives the reader) ends a scan between two rows.
  static StatusOr<std::unique_ptr<SqliteReader>> Open(const std::string& path,
                                                      const WorkGuard* guard = nullptr);
  ~SqliteReader();
  SqliteReader(const SqliteReader&) = delete;

  bool has_table(std::string_view table) const { return tables_.contains(table); }
  bool has_column(std::string_view table, std::string_view column) const;
  uint64_t file_bytes() const { return file_bytes_; }
  bool unread_log() const { return unread_log_; }

  // Every row in the order of the file; `each` returns false to stop. A table that does not exist
  // gives no rows. DataLoss where the file breaks off: the rows before it were given.
  Status Scan(std::string_view table, std::span<const std::string_view> columns,
              const std::function<bool(const Record&)>& each);
  Status Scan(std::string_view table, std::initializer_list<std::string_view> columns,
              const std::function<bool(const Record&)>& each) {
    return Scan(table, std::span(columns.begin(), columns.size()), each);
  }

 private:
  SqliteReader() = default;
  Status ReadSchema();

  sqlite3* db_ = nullptr;
  std::string path_;
  uint64_t file_bytes_ = 0;
  const WorkGuard* guard_ = nullptr;
  bool unread_log_ = false;
  std::map<std::string, std::vector<std::string>, std::less<>> tables_;  // columns
};

}  // namespace flopwatch::trace
