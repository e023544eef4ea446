// DuckDB's C API behind RAII and absl::Status; the only header that shows duckdb.h, and only to
// this folder.
//
// Threads: a Database may be used from any thread, a Connection and what it made from one thread at
// a time, except Interrupt().
#pragma once

#include <duckdb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "base/time.h"
#include "store/fault_points.h"

namespace flopwatch::store::duck {

// What an error means for the caller, beyond its absl code.
enum class Fault : uint8_t {
  kNone,
  kStatement,    // the statement's own fault: syntax, names, types, conversion
  kDisk,         // a write or read of a file failed; disk full is also ResourceExhausted
  kMemory,       // over the memory limit
  kInterrupted,  // duckdb_interrupt
  kFatal,        // the engine has shut itself: it must be closed and opened again
  kOther,
};

// "seg.main.\"a b\"" quoting for identifiers, '' for text.
std::string QuoteName(std::string_view name);
std::string QuoteText(std::string_view text);
// Folded to a constant by the planner, so it prunes; in whole milliseconds where t is, so that it
// does so beside a column of them too (compared with one of microseconds the constant is cast, the
// other way round the column would be).
std::string TimeLiteral(Micros t);

// One row of a result. Conversions widen: any numeric type reads as Int64 or Double.
class Row {
 public:
  bool IsNull(size_t column) const;
  int64_t Int64(size_t column)
      const;  // 0 where NULL; TIMESTAMP and TIMESTAMP_MS as microseconds, DATE as days
  double Double(size_t column) const;          // 0 where NULL
  std::string_view Text(size_t column) const;  // VARCHAR only; valid until the next row

 private:
  friend class Result;
  struct Vector {
    duckdb_type type;
    const void* data;
    const uint64_t* validity;
  };
  std::vector<Vector> vectors_;
  uint64_t at_ = 0;
};

class Result {
 public:
  Result(Result&& other) noexcept;
  Result& operator=(Result&& other) noexcept;
  ~Result();

  size_t columns() const;
  // Reads every row. The result can be read once.
  void ForEach(absl::FunctionRef<void(const Row&)> f);

 private:
  friend class Connection;
  Result() = default;
  duckdb_result result_ = {};
};

class Connection;

class Database {
 public:
  // The database is in memory; files are attached to it. `faults`, where there is one, outlives it.
  static StatusOr<std::unique_ptr<Database>> OpenInMemory(FaultPoints* faults = nullptr);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  StatusOr<std::unique_ptr<Connection>> Connect();
  duckdb_database raw() { return database_; }

 private:
  Database() = default;
  duckdb_database database_ = nullptr;
  FaultPoints* faults_ = nullptr;
};

class Connection {
 public:
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Status Execute(std::string_view sql);
  StatusOr<Result> Query(std::string_view sql);
  StatusOr<int64_t> QueryInt64(
      std::string_view sql);  // first column of the first row; 0 where none or NULL
  // Any thread may call this: the running statement ends with an error (Fault::kInterrupted).
  void Interrupt() { duckdb_interrupt(connection_); }
  // Why the last call failed; kNone after a success.
  Fault fault() const { return fault_; }
  duckdb_connection raw() { return connection_; }
  // A place where a test may end the process or make the step fail (fault_points.h).
  Status FaultPoint(std::string_view point) const {
    return faults_ == nullptr ? absl::OkStatus() : faults_->At(point);
  }
  // Turns an error text and type of the C API into a Status, and remembers its fault.
  Status Fail(duckdb_error_type type, std::string_view message);

 private:
  friend class Database;
  friend class Transaction;
  Connection() = default;
  duckdb_connection connection_ = nullptr;
  FaultPoints* faults_ = nullptr;
  Fault fault_ = Fault::kNone;
};

// A transaction that rolls back unless committed.
class Transaction {
 public:
  static StatusOr<Transaction> Begin(Connection* connection, bool read_only = false);
  Transaction(Transaction&& other) noexcept
      : connection_(std::exchange(other.connection_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status Commit();

 private:
  explicit Transaction(Connection* connection) : connection_(connection) {}
  Connection* connection_;
};

inline constexpr size_t kVectorRows =
    2048;  // duckdb_vector_size() of every build; checked in Appender::Create

// The columns of a chunk of the engine, to be written: rows 0..kVectorRows-1.
class ChunkColumns {
 public:
  explicit ChunkColumns(size_t columns) : columns_(columns) {}
  void Bind(duckdb_data_chunk chunk);  // one with these columns; all valid

  template <typename T>
  T* Data(size_t column) {
    return static_cast<T*>(columns_[column].data);
  }
  void SetText(size_t column, size_t row, std::string_view text);
  void SetNull(size_t column, size_t row) {
    if (columns_[column].validity == nullptr) MakeValidity(column);
    columns_[column].validity[row >> 6] &= ~(uint64_t{1} << (row & 63));
  }
  size_t size() const { return columns_.size(); }

 private:
  struct Column {
    duckdb_vector vector = nullptr;
    void* data = nullptr;
    uint64_t* validity = nullptr;  // null = no NULL in this chunk yet
  };
  void MakeValidity(size_t column);
  std::vector<Column> columns_;
};

// Fills a table by whole column vectors. Columns not named in Create() become NULL. For few rows;
// insert.h is for many.
class Appender : public ChunkColumns {
 public:
  static StatusOr<std::unique_ptr<Appender>> Create(Connection* connection,
                                                    const std::string& catalog,
                                                    const std::string& table,
                                                    const std::vector<std::string>& columns);
  ~Appender();
  Appender(const Appender&) = delete;
  Appender& operator=(const Appender&) = delete;

  // Takes rows 0..rows-1 of the columns, which are all valid again afterwards.
  Status Send(size_t rows);
  Status Close();  // flushes into the transaction

 private:
  explicit Appender(size_t columns) : ChunkColumns(columns) {}
  Status Error();

  Connection* connection_ = nullptr;
  duckdb_appender appender_ = nullptr;
  duckdb_data_chunk chunk_ = nullptr;
};

}  // namespace flopwatch::store::duck
