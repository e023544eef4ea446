#include "store/duckdb/connection.h"

#include <limits>

#include "absl/cleanup/cleanup.h"
#include "store/duckdb/cat.h"

namespace flopwatch::store::duck {
namespace {

// Errors that end the engine carry a stack trace of its own; nobody outside can use it.
std::string_view WithoutStackTrace(std::string_view message) {
  const size_t at = message.find("\n\nStack Trace");
  return at == std::string_view::npos ? message : message.substr(0, at);
}

bool IsDiskFull(std::string_view message) {
  return Contains(message, "No space left on device") || Contains(message, "File too large") ||
         Contains(message, "Disk quota exceeded") || Contains(message, "disk is full");
}

bool IsFileTrouble(std::string_view message) {
  return IsDiskFull(message) || Contains(message, "Could not write file") ||
         Contains(message, "Could not read from file") || Contains(message, "Input/output error");
}

// Quotes inside quotes are written twice.
std::string Doubled(std::string_view text, char quote) {
  std::string out;
  for (char ch : text) out.append(ch == quote ? 2 : 1, ch);
  return out;
}

template <typename T>
T Load(const void* data, uint64_t at) {
  return static_cast<const T*>(data)[at];
}

}  // namespace

std::string QuoteName(std::string_view name) { return Cat("\"", Doubled(name, '"'), "\""); }
std::string QuoteText(std::string_view text) { return Cat("'", Doubled(text, '\''), "'"); }
std::string TimeLiteral(Micros t) {
  // 1677 to 2262, what every type of time stamp holds.
  constexpr Micros kFar = std::numeric_limits<int64_t>::max() / 1000;
  if (t % kMicrosPerMilli != 0 || t < -kFar || t > kFar) return Cat("make_timestamp(", t, ")");
  return Cat("epoch_ms(", t / kMicrosPerMilli, ")::TIMESTAMP_MS");
}

// --- Row ---

bool Row::IsNull(size_t column) const {
  const uint64_t* validity = vectors_[column].validity;
  return validity != nullptr && ((validity[at_ >> 6] >> (at_ & 63)) & 1) == 0;
}

int64_t Row::Int64(size_t column) const {
  if (IsNull(column)) return 0;
  const Vector& v = vectors_[column];
  switch (v.type) {
    case DUCKDB_TYPE_BOOLEAN:
      return Load<bool>(v.data, at_) ? 1 : 0;
    case DUCKDB_TYPE_TINYINT:
      return Load<int8_t>(v.data, at_);
    case DUCKDB_TYPE_SMALLINT:
      return Load<int16_t>(v.data, at_);
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_DATE:
      return Load<int32_t>(v.data, at_);
    case DUCKDB_TYPE_UTINYINT:
      return Load<uint8_t>(v.data, at_);
    case DUCKDB_TYPE_USMALLINT:
      return Load<uint16_t>(v.data, at_);
    case DUCKDB_TYPE_UINTEGER:
      return Load<uint32_t>(v.data, at_);
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_UBIGINT:
    case DUCKDB_TYPE_TIMESTAMP:
    case DUCKDB_TYPE_TIMESTAMP_TZ:
      return Load<int64_t>(v.data, at_);
    case DUCKDB_TYPE_TIMESTAMP_MS:
      return Load<int64_t>(v.data, at_) * kMicrosPerMilli;
    case DUCKDB_TYPE_HUGEINT:
    case DUCKDB_TYPE_FLOAT:
    case DUCKDB_TYPE_DOUBLE:
      return static_cast<int64_t>(Double(column));
    default:
      return 0;
  }
}

double Row::Double(size_t column) const {
  if (IsNull(column)) return 0;
  const Vector& v = vectors_[column];
  switch (v.type) {
    case DUCKDB_TYPE_FLOAT:
      return Load<float>(v.data, at_);
    case DUCKDB_TYPE_DOUBLE:
      return Load<double>(v.data, at_);
    case DUCKDB_TYPE_HUGEINT:
      return duckdb_hugeint_to_double(Load<duckdb_hugeint>(v.data, at_));
    default:
      return static_cast<double>(Int64(column));
  }
}

std::string_view Row::Text(size_t column) const {
  const Vector& v = vectors_[column];
  if (IsNull(column) || v.type != DUCKDB_TYPE_VARCHAR) return {};
  auto* s = const_cast<duckdb_string_t*>(static_cast<const duckdb_string_t*>(v.data) + at_);
  return {duckdb_string_t_data(s), duckdb_string_t_length(*s)};
}

// --- Result ---

Result::Result(Result&& other) noexcept : result_(std::exchange(other.result_, {})) {}
Result& Result::operator=(Result&& other) noexcept {
  std::swap(result_, other.result_);
  return *this;
}
Result::~Result() {
  if (result_.internal_data != nullptr) duckdb_destroy_result(&result_);
}

size_t Result::columns() const { return duckdb_column_count(const_cast<duckdb_result*>(&result_)); }
void Result::ForEach(absl::FunctionRef<void(const Row&)> f) {
  Row row;
  row.vectors_.resize(columns());
  while (duckdb_data_chunk chunk = duckdb_fetch_chunk(result_)) {
    const absl::Cleanup destroy = [&] { duckdb_destroy_data_chunk(&chunk); };
    const uint64_t size = duckdb_data_chunk_get_size(chunk);
    if (size == 0) break;
    for (size_t c = 0; c < row.vectors_.size(); ++c) {
      duckdb_vector v = duckdb_data_chunk_get_vector(chunk, c);
      row.vectors_[c] = {duckdb_column_type(&result_, c), duckdb_vector_get_data(v),
                         duckdb_vector_get_validity(v)};
    }
    for (row.at_ = 0; row.at_ < size; ++row.at_) f(row);
  }
}

// --- Database and Connection ---

StatusOr<std::unique_ptr<Database>> Database::OpenInMemory(FaultPoints* faults) {
  auto database = std::unique_ptr<Database>(new Database);
  database->faults_ = faults;
  char* error = nullptr;
  if (duckdb_open_ext(nullptr, &database->database_, nullptr, &error) != DuckDBSuccess) {
    const std::string message = error == nullptr ? "unknown error" : error;
    duckdb_free(error);
    return Internal("starting the database engine: {}", message);
  }
  return database;
}

Database::~Database() {
  if (database_ != nullptr) duckdb_close(&database_);
}

StatusOr<std::unique_ptr<Connection>> Database::Connect() {
  auto connection = std::unique_ptr<Connection>(new Connection);
  connection->faults_ = faults_;
  if (duckdb_connect(database_, &connection->connection_) != DuckDBSuccess)
    return Internal("the database engine refused a connection");
  return connection;
}

Connection::~Connection() {
  if (connection_ != nullptr) duckdb_disconnect(&connection_);
}

Status Connection::Fail(duckdb_error_type type, std::string_view text) {
  const std::string message(WithoutStackTrace(text));
  // Writes that fail inside a commit are reported as transaction errors: the text tells them apart.
  if (type == DUCKDB_ERROR_FATAL || Contains(message, "database has been invalidated")) {
    fault_ = Fault::kFatal;
  } else if (type == DUCKDB_ERROR_INTERRUPT) {
    fault_ = Fault::kInterrupted;
    return absl::CancelledError(message);
  } else if (type == DUCKDB_ERROR_OUT_OF_MEMORY) {
    fault_ = Fault::kMemory;
    return absl::ResourceExhaustedError(message);
  } else if (type == DUCKDB_ERROR_IO || IsFileTrouble(message)) {
    fault_ = Fault::kDisk;
  } else {
    switch (type) {
      case DUCKDB_ERROR_TRANSACTION:
      case DUCKDB_ERROR_INTERNAL:
      case DUCKDB_ERROR_CONNECTION:
      case DUCKDB_ERROR_NULL_POINTER:
      case DUCKDB_ERROR_INVALID:
        fault_ = Fault::kOther;
        break;
      case DUCKDB_ERROR_PERMISSION:
        fault_ = Fault::kStatement;
        return absl::PermissionDeniedError(message);
      default:
        fault_ = Fault::kStatement;
        return absl::InvalidArgumentError(message);
    }
  }
  return IsDiskFull(message) ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

StatusOr<Result> Connection::Query(std::string_view sql) {
  Result result;
  fault_ = Fault::kNone;
  if (duckdb_query(connection_, std::string(sql).c_str(), &result.result_) != DuckDBSuccess) {
    const char* error = duckdb_result_error(&result.result_);
    return Fail(duckdb_result_error_type(&result.result_),
                error == nullptr ? "unknown error" : error);
  }
  return result;
}

Status Connection::Execute(std::string_view sql) { return Query(sql).status(); }

StatusOr<int64_t> Connection::QueryInt64(std::string_view sql) {
  FW_ASSIGN_OR_RETURN(Result result, Query(sql));
  int64_t value = 0;
  bool first = true;
  result.ForEach([&](const Row& row) {
    if (std::exchange(first, false)) value = row.Int64(0);
  });
  return value;
}

// --- Transaction ---

StatusOr<Transaction> Transaction::Begin(Connection* connection, bool read_only) {
  FW_RETURN_IF_ERROR(
      connection->Execute(read_only ? "BEGIN TRANSACTION READ ONLY" : "BEGIN TRANSACTION"));
  return Transaction(connection);
}

Transaction::~Transaction() {
  if (connection_ == nullptr) return;
  // The caller asks for the fault of the statement that failed, not of the rollback that follows
  // it.
  const Fault fault = connection_->fault_;
  // An interrupt (Engine::InterruptBelow) may come while it runs, and then nothing has ended.
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    const Status ignored = connection_->Execute("ROLLBACK");
    if (connection_->fault_ != Fault::kInterrupted) break;
  }
  // Still in its transaction it serves nobody else: no lease gives back what was interrupted.
  if (connection_->fault_ != Fault::kInterrupted) connection_->fault_ = fault;
}

Status Transaction::Commit() { return std::exchange(connection_, nullptr)->Execute("COMMIT"); }

// --- ChunkColumns and Appender ---

void ChunkColumns::Bind(duckdb_data_chunk chunk) {
  for (size_t c = 0; c < columns_.size(); ++c) {
    duckdb_vector vector = duckdb_data_chunk_get_vector(chunk, c);
    columns_[c] = {vector, duckdb_vector_get_data(vector), nullptr};
  }
}

void ChunkColumns::MakeValidity(size_t column) {
  duckdb_vector_ensure_validity_writable(columns_[column].vector);
  columns_[column].validity = duckdb_vector_get_validity(columns_[column].vector);
}

void ChunkColumns::SetText(size_t column, size_t row, std::string_view text) {
  duckdb_vector_assign_string_element_len(columns_[column].vector, row, text.data(), text.size());
}

StatusOr<std::unique_ptr<Appender>> Appender::Create(Connection* connection,
                                                     const std::string& catalog,
                                                     const std::string& table,
                                                     const std::vector<std::string>& columns) {
  if (duckdb_vector_size() != kVectorRows)
    return Internal("the database library has another vector size");
  auto appender = std::unique_ptr<Appender>(new Appender(columns.size()));
  appender->connection_ = connection;
  if (duckdb_appender_create_ext(connection->raw(), catalog.c_str(), "main", table.c_str(),
                                 &appender->appender_) != DuckDBSuccess)
    return appender->Error();
  for (const std::string& column : columns) {
    if (duckdb_appender_add_column(appender->appender_, column.c_str()) != DuckDBSuccess)
      return appender->Error();
  }
  std::vector<duckdb_logical_type> types(columns.size());
  for (size_t c = 0; c < types.size(); ++c)
    types[c] = duckdb_appender_column_type(appender->appender_, c);
  appender->chunk_ = duckdb_create_data_chunk(types.data(), types.size());
  for (duckdb_logical_type& type : types) duckdb_destroy_logical_type(&type);
  appender->Bind(appender->chunk_);
  return appender;
}

Appender::~Appender() {
  if (chunk_ != nullptr) duckdb_destroy_data_chunk(&chunk_);
  if (appender_ != nullptr) duckdb_appender_destroy(&appender_);
}

Status Appender::Send(size_t rows) {
  duckdb_data_chunk_set_size(chunk_, rows);
  if (duckdb_append_data_chunk(appender_, chunk_) != DuckDBSuccess) return Error();
  duckdb_data_chunk_reset(chunk_);
  Bind(chunk_);
  return absl::OkStatus();
}

Status Appender::Close() {
  if (duckdb_appender_close(appender_) != DuckDBSuccess) return Error();
  return absl::OkStatus();
}

Status Appender::Error() {
  duckdb_error_data error = appender_ == nullptr ? nullptr : duckdb_appender_error_data(appender_);
  if (error == nullptr)
    return connection_->Fail(DUCKDB_ERROR_INVALID, "the appender could not be made");
  const Status status =
      connection_->Fail(duckdb_error_data_error_type(error), duckdb_error_data_message(error));
  duckdb_destroy_error_data(&error);
  return status;
}

}  // namespace flopwatch::store::duck
