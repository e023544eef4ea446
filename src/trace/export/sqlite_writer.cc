#include "trace/export/sqlite_writer.h"

#include <sqlite3.h>

#include <fmt/format.h>

namespace flopwatch::trace {
namespace {

struct Connection {
  ~Connection() { sqlite3_close(handle); }
  sqlite3* handle = nullptr;
};
struct Statement {
  ~Statement() { sqlite3_finalize(handle); }
  sqlite3_stmt* handle = nullptr;
};

void Bind(sqlite3_stmt* statement, int at, const Cell& cell) {
  if (const auto* integer = std::get_if<int64_t>(&cell)) {
    sqlite3_bind_int64(statement, at, *integer);
  } else if (const auto* number = std::get_if<double>(&cell)) {
    sqlite3_bind_double(statement, at, *number);
  } else if (const auto* boolean = std::get_if<bool>(&cell)) {
    sqlite3_bind_int64(statement, at, *boolean);
  } else if (const auto* text = std::get_if<std::string>(&cell)) {
    sqlite3_bind_text64(statement, at, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
  } else {
    sqlite3_bind_null(statement, at);
  }
}

}  // namespace

Status WriteSqliteTable(const std::string& path, std::string_view name, const Table& table,
                        std::span<const std::string_view> types) {
  Connection db;
  const auto failed = [&](std::string_view doing) {
    return Unavailable(
        "cannot {} table {} of {}: {}; check that the folder is writable, that the disk has room "
        "and that no other program holds the file",
        doing, name, path, db.handle == nullptr ? "out of memory" : sqlite3_errmsg(db.handle));
  };
  if (sqlite3_open_v2(path.c_str(), &db.handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                      nullptr) != SQLITE_OK)
    return failed("open");
  sqlite3_busy_timeout(db.handle, 2000);
  std::string create = fmt::format("CREATE TABLE \"{}\" (", name),
              insert = fmt::format("INSERT INTO \"{}\" VALUES (", name);
  for (size_t i = 0; i < table.columns.size(); ++i) {
    create += fmt::format("{}\"{}\" {}", i == 0 ? "" : ", ", table.columns[i].name, types[i]);
    insert += i == 0 ? "?" : ",?";
  }
  const std::string begin =
      fmt::format("BEGIN IMMEDIATE; DROP TABLE IF EXISTS \"{}\"; {});", name, create);
  if (sqlite3_exec(db.handle, begin.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return failed("replace");
  {
    Statement row;
    if (sqlite3_prepare_v2(db.handle, (insert + ")").c_str(), -1, &row.handle, nullptr) !=
        SQLITE_OK)
      return failed("fill");
    for (const std::vector<Cell>& cells : table.rows) {
      for (size_t i = 0; i < cells.size(); ++i) Bind(row.handle, static_cast<int>(i) + 1, cells[i]);
      if (sqlite3_step(row.handle) != SQLITE_DONE) return failed("fill");  // closing rolls back
      sqlite3_reset(row.handle);
    }
  }
  if (sqlite3_exec(db.handle, "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK)
    return failed("commit");
  return absl::OkStatus();
}

}  // namespace flopwatch::trace
