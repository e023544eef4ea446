#include "store/memory_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/lookup.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/user_sql.h"

namespace flopwatch::store {
namespace {

duckdb_type TypeOf(SqlType type) {
  static constexpr std::pair<SqlType, duckdb_type> kTypes[] = {
      {SqlType::kInteger, DUCKDB_TYPE_BIGINT},
      {SqlType::kDouble, DUCKDB_TYPE_DOUBLE},
      {SqlType::kBoolean, DUCKDB_TYPE_BOOLEAN}};
  return ValueOf(kTypes, type, DUCKDB_TYPE_VARCHAR);
}

// Length of the UTF-8 character at the start of `s`, 0 where there is none (RFC 3629: no
// surrogates, no overlong forms).
size_t Utf8Length(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char b = byte(0);
  if (b < 0x80) return 1;
  const size_t n = b >= 0xC2 && b < 0xE0   ? 2
                   : b >= 0xE0 && b < 0xF0 ? 3
                   : b >= 0xF0 && b < 0xF5 ? 4
                                           : 0;
  if (n == 0 || s.size() < n) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if ((b == 0xE0 && byte(1) < 0xA0) || (b == 0xED && byte(1) > 0x9F) ||
      (b == 0xF0 && byte(1) < 0x90) || (b == 0xF4 && byte(1) > 0x8F))
    return 0;
  return n;
}

// Empty where the text is sound as it is.
std::string Repaired(std::string_view text) {
  bool sound = true;
  for (size_t i = 0; i < text.size() && sound;) {
    const size_t n = Utf8Length(text.substr(i));
    sound = n > 0;
    i += n;
  }
  if (sound) return "";
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t n = Utf8Length(text.substr(i));
    n > 0 ? out.append(text.substr(i, n)) : out.append("?");
    i += std::max<size_t>(n, 1);
  }
  return out;
}

}  // namespace

void ColumnBlock::Double(size_t i, double v) {
  std::isfinite(v) ? static_cast<void>(static_cast<double*>(data_)[i] = v) : Null(i);
}

void ColumnBlock::Text(size_t i, std::string_view v) {
  const auto vector = static_cast<duckdb_vector>(vector_);
  const bool ascii = std::none_of(v.begin(), v.end(),
                                  [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (!ascii) {
    if (const std::string repaired = Repaired(v); !repaired.empty())
      return duckdb_vector_assign_string_element_len(vector, i, repaired.data(), repaired.size());
  }
  duckdb_vector_assign_string_element_len(vector, i, v.data(), v.size());
}

void ColumnBlock::Null(size_t i) {
  if (validity_ == nullptr) {
    const auto vector = static_cast<duckdb_vector>(vector_);
    duckdb_vector_ensure_validity_writable(vector);
    validity_ = duckdb_vector_get_validity(vector);
  }
  duckdb_validity_set_row_invalid(validity_, i);
}

// One scan of one table, as the engine's table function calls it.
class MemoryTableScan {
 public:
  static Status Register(duck::Connection* c, const MemoryTable* table) {
    duckdb_table_function f = duckdb_create_table_function();
    const absl::Cleanup destroy = [&] { duckdb_destroy_table_function(&f); };
    const std::string name = "fw_" + table->name;
    duckdb_table_function_set_name(f, name.c_str());
    duckdb_table_function_set_extra_info(f, const_cast<MemoryTable*>(table), nullptr);
    duckdb_table_function_set_bind(f, Bind);
    duckdb_table_function_set_init(f, Init);
    duckdb_table_function_set_function(f, Next);
    duckdb_table_function_supports_projection_pushdown(f, true);
    if (duckdb_register_table_function(c->raw(), f) != DuckDBSuccess)
      return Internal("cannot register the table {} with the SQL engine", table->name);
    return c->Execute(fmt::format("CREATE VIEW {} AS SELECT * FROM {}()",
                                  duck::QuoteName(table->name), duck::QuoteName(name)));
  }

 private:
  struct State {
    const MemoryTable* table;
    uint64_t rows = 0, next = 0;
    std::vector<size_t> columns;  // of the table, in the order of the chunk
  };

  static void Bind(duckdb_bind_info info) {
    const auto* table = static_cast<const MemoryTable*>(duckdb_bind_get_extra_info(info));
    for (const MemoryColumn& c : table->columns) {
      duckdb_logical_type type = duckdb_create_logical_type(TypeOf(c.type));
      duckdb_bind_add_result_column(info, c.name.c_str(), type);
      duckdb_destroy_logical_type(&type);
    }
    duckdb_bind_set_cardinality(info, table->rows(), true);
    duckdb_bind_set_bind_data(info, const_cast<MemoryTable*>(table), nullptr);
  }
  static void Init(duckdb_init_info info) {
    const auto* table = static_cast<const MemoryTable*>(duckdb_init_get_bind_data(info));
    auto* state = new State{table, table->rows(), 0, {}};
    for (idx_t i = 0; i < duckdb_init_get_column_count(info); ++i)
      state->columns.push_back(duckdb_init_get_column_index(info, i));
    duckdb_init_set_max_threads(info, 1);  // rows come in their order
    duckdb_init_set_init_data(info, state, [](void* p) { delete static_cast<State*>(p); });
  }
  static void Next(duckdb_function_info info, duckdb_data_chunk chunk) {
    auto* state = static_cast<State*>(duckdb_function_get_init_data(info));
    const size_t count =
        static_cast<size_t>(std::min<uint64_t>(duckdb_vector_size(), state->rows - state->next));
    for (size_t k = 0; k < state->columns.size() && count > 0; ++k) {
      if (state->columns[k] >= state->table->columns.size())
        continue;  // the engine counts rows alone
      ColumnBlock block;
      duckdb_vector vector = duckdb_data_chunk_get_vector(chunk, k);
      block.vector_ = vector;
      block.data_ = duckdb_vector_get_data(vector);
      state->table->fill(state->columns[k], state->next, count, &block);
    }
    state->next += count;
    duckdb_data_chunk_set_size(chunk, count);
  }
};

namespace {

class DuckMemoryTables final : public MemoryTables {
 public:
  DuckMemoryTables(std::vector<MemoryTable> tables, const Options& options)
      : tables_(tables.begin(), tables.end()), options_(options) {}

  Status Start() {
    FW_ASSIGN_OR_RETURN(database_, duck::Database::OpenInMemory());
    FW_ASSIGN_OR_RETURN(connection_, database_->Connect());
    for (const MemoryTable& t : tables_)
      FW_RETURN_IF_ERROR(MemoryTableScan::Register(connection_.get(), &t));
    for (const std::string& setting :
         {std::string("SET GLOBAL TimeZone = 'UTC'"),
          fmt::format("SET memory_limit = '{}MiB'",
                      std::max<uint64_t>(options_.memory_limit_mb, 64)),
          fmt::format("SET threads = {}", std::clamp(options_.threads, 1, 64)),
          std::string("SET temp_directory = ''"),
          std::string("SET autoinstall_known_extensions = false"),
          std::string("SET autoload_known_extensions = false"),
          std::string("SET allow_community_extensions = false"),
          std::string("SET enable_external_access = false"),
          std::string("SET lock_configuration = true")}) {
      FW_RETURN_IF_ERROR(connection_->Execute(setting));
    }
    return absl::OkStatus();
  }

  StatusOr<QueryResult> Query(std::string_view sql, const QueryLimits& limits) override {
    return duck::RunUserSql(connection_.get(), sql, limits);
  }

 private:
  const std::deque<MemoryTable> tables_;  // the engine keeps their addresses
  const Options options_;
  std::unique_ptr<duck::Database> database_;
  std::unique_ptr<duck::Connection> connection_;
};

}  // namespace

StatusOr<std::unique_ptr<MemoryTables>> MemoryTables::Open(std::vector<MemoryTable> tables,
                                                           const Options& options) {
  auto out = std::make_unique<DuckMemoryTables>(std::move(tables), options);
  FW_RETURN_IF_ERROR(out->Start());
  return out;
}

}  // namespace flopwatch::store
