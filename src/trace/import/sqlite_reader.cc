#include "trace/import/sqlite_reader.h"

#include <sqlite3.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include "absl/strings/ascii.h"
#include "base/text.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMaxColumns = 512;
constexpr int kGuardedSteps = 10'000;  // of SQLite's machine, between two looks at the guard

// SQLite's progress handler: anything but 0 interrupts the statement.
int HasEnded(void* guard) { return static_cast<const WorkGuard*>(guard)->ended() ? 1 : 0; }

// "file:" URIs give ?, # and % a meaning.
std::string UriOf(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%')
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      uri += c;
  }
  return uri + "?immutable=1";
}

// It allows reading columns of tables and nothing else: no function, no pragma, no attached file,
// no transaction.
int OnlyReads(void*, int action, const char*, const char*, const char*, const char* trigger) {
  if (trigger != nullptr) return SQLITE_DENY;  // from inside a view or a trigger
  return action == SQLITE_SELECT || action == SQLITE_READ ? SQLITE_OK : SQLITE_DENY;
}

std::string Quoted(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    out += c;
    if (c == '"') out += c;
  }
  return out + "\"";
}

struct Statement {
  ~Statement() { sqlite3_finalize(handle); }
  sqlite3_stmt* handle = nullptr;
};

}  // namespace

bool SqliteReader::Record::null(int column) const {
  const int at = position_[static_cast<size_t>(column)];
  return at < 0 || sqlite3_column_type(statement_, at) == SQLITE_NULL;
}

std::optional<int64_t> SqliteReader::Record::integer(int column) const {
  const int at = position_[static_cast<size_t>(column)];
  if (at < 0) return std::nullopt;
  switch (sqlite3_column_type(statement_, at)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(statement_, at);
    case SQLITE_FLOAT: {
      const double v = sqlite3_column_double(statement_, at);
      if (!(v >= -9.2e18 && v <= 9.2e18) || v != std::floor(v)) return std::nullopt;
      return static_cast<int64_t>(v);
    }
    case SQLITE_TEXT: {
      const std::string_view t = text(column);
      int64_t v = 0;
      const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), v);
      if (error != std::errc() || end != t.data() + t.size()) return std::nullopt;
      return v;
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> SqliteReader::Record::number(int column) const {
  const int at = position_[static_cast<size_t>(column)];
  if (at < 0) return std::nullopt;
  const int type = sqlite3_column_type(statement_, at);
  if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) {
    const double v = sqlite3_column_double(statement_, at);
    if (std::isfinite(v)) return v;
  } else if (const auto whole = integer(column)) {
    return static_cast<double>(*whole);
  }
  return std::nullopt;
}

std::string_view SqliteReader::Record::text(int column) const {
  const int at = position_[static_cast<size_t>(column)];
  if (at < 0) return {};
  const int type = sqlite3_column_type(statement_, at);
  if (type == SQLITE_NULL || type == SQLITE_BLOB) return {};
  const auto* const data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, at));
  if (data == nullptr) return {};
  return {data, static_cast<size_t>(sqlite3_column_bytes(statement_, at))};
}

StatusOr<std::unique_ptr<SqliteReader>> SqliteReader::Open(const std::string& path,
                                                           const WorkGuard* guard) {
  std::unique_ptr<SqliteReader> reader(new SqliteReader());
  reader->path_ = path;
  reader->guard_ = guard;
  std::error_code error;
  reader->file_bytes_ = static_cast<uint64_t>(std::filesystem::file_size(path, error));
  if (error) return NotFound("cannot open {}: {}", path, error.message());
  reader->unread_log_ = std::filesystem::file_size(path + "-wal", error) > 0 && !error;
  const int opened = sqlite3_open_v2(
      UriOf(path).c_str(), &reader->db_,
      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
      nullptr);
  if (opened != SQLITE_OK)
    return InvalidArgument("cannot open {} as an SQLite database: {}", path,
                           sqlite3_errstr(opened));
  sqlite3* const db = reader->db_;
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, static_cast<int>(kMaxSqliteValueBytes));
  sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, 1 << 20);
  sqlite3_limit(db, SQLITE_LIMIT_COLUMN, 2000);
  sqlite3_limit(db, SQLITE_LIMIT_EXPR_DEPTH, 16);
  sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
  for (const char* pragma :
       {"PRAGMA cell_size_check = ON", "PRAGMA mmap_size = 0", "PRAGMA cache_size = -8192"}) {
    sqlite3_exec(db, pragma, nullptr, nullptr, nullptr);
  }
  sqlite3_set_authorizer(db, OnlyReads, nullptr);
  // The handler only reads.
  if (guard != nullptr)
    sqlite3_progress_handler(db, kGuardedSteps, HasEnded, const_cast<WorkGuard*>(guard));
  if (Status status = reader->ReadSchema(); !status.ok()) return status;
  return reader;
}

SqliteReader::~SqliteReader() { sqlite3_close(db_); }

Status SqliteReader::ReadSchema() {
  const auto broken = [&](int code) {
    return code == SQLITE_NOTADB
               ? InvalidArgument("{} is no SQLite database", path_)
               : DataLoss(
                     "cannot read the tables of {}: {}; export it again, or repair it with "
                     "'sqlite3 FILE .recover'",
                     path_, sqlite3_errstr(code));
  };
  std::vector<std::string> names;
  {
    Statement list;
    int code = sqlite3_prepare_v2(db_, "SELECT name, sql FROM sqlite_master WHERE type = 'table'",
                                  -1, &list.handle, nullptr);
    if (code != SQLITE_OK) return broken(code);
    while ((code = sqlite3_step(list.handle)) == SQLITE_ROW && names.size() < kMaxSqliteTables) {
      const auto* const name = reinterpret_cast<const char*>(sqlite3_column_text(list.handle, 0));
      const auto* const sql = reinterpret_cast<const char*>(sqlite3_column_text(list.handle, 1));
      if (name == nullptr || sql == nullptr) continue;
      // A virtual table is a program behind a table's name.
      const std::string head = absl::AsciiStrToUpper(std::string(sql).substr(0, 64));
      if (head.find("VIRTUAL") == std::string::npos) names.emplace_back(name);
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE) return broken(code);
  }
  for (const std::string& name : names) {
    // A statement that never runs: its columns are those of the table.
    Statement all;
    const std::string sql = "SELECT * FROM " + Quoted(name);
    if (sqlite3_prepare_v2(db_, sql.c_str(), -1, &all.handle, nullptr) != SQLITE_OK) continue;
    std::vector<std::string>& columns = tables_[name];
    const int count = std::min(sqlite3_column_count(all.handle), static_cast<int>(kMaxColumns));
    for (int i = 0; i < count; ++i) {
      const char* const column = sqlite3_column_name(all.handle, i);
      columns.emplace_back(column == nullptr ? "" : column);
    }
  }
  return absl::OkStatus();
}

bool SqliteReader::has_column(std::string_view table, std::string_view column) const {
  const auto it = tables_.find(table);
  return it != tables_.end() && std::ranges::find(it->second, column) != it->second.end();
}

Status SqliteReader::Scan(std::string_view table, std::span<const std::string_view> columns,
                          const std::function<bool(const Record&)>& each) {
  if (!has_table(table)) return absl::OkStatus();
  std::string sql = "SELECT ";
  std::vector<int> position;
  int used = 0;
  for (const std::string_view column : columns) {
    if (!has_column(table, column)) {
      position.push_back(-1);
      continue;
    }
    position.push_back(used++);
    sql += Quoted(column) + ", ";
  }
  sql += "NULL FROM " + Quoted(table) + " NOT INDEXED";
  const auto broken = [&](int64_t rows, std::string_view why) {
    return DataLoss("{}: table {} cannot be read beyond row {}: {}", path_, table, rows, why);
  };
  Statement scan;
  int code = sqlite3_prepare_v2(db_, sql.c_str(), -1, &scan.handle, nullptr);
  if (code != SQLITE_OK) return broken(0, sqlite3_errmsg(db_));
  Record record;
  record.statement_ = scan.handle;
  record.position_ = position;
  // The smallest row takes four bytes: pages that point at each other would give more rows than the
  // file can hold.
  const auto most = static_cast<int64_t>(file_bytes_ / 4 + 1);
  int64_t rows = 0;
  while ((code = sqlite3_step(scan.handle)) == SQLITE_ROW) {
    if (++rows > most) return broken(rows, "it has more rows than the file has room for");
    if (!each(record)) return absl::OkStatus();
  }
  if (code == SQLITE_INTERRUPT && guard_ != nullptr && guard_->ended()) return guard_->status();
  return code == SQLITE_DONE ? absl::OkStatus() : broken(rows, Printable(sqlite3_errmsg(db_)));
}

}  // namespace flopwatch::trace
