#include "store/duckdb/insert.h"

#include "absl/cleanup/cleanup.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/handle.h"

namespace flopwatch::store::duck {
namespace {

constexpr const char* kFunction = "fw_source";

// One scan of a source: the columns of the engine's chunk, found anew with every chunk.
struct Scan {
  explicit Scan(size_t columns) : chunk(columns) {}
  ChunkColumns chunk;
};

template <typename T>
void Delete(void* object) {
  delete static_cast<T*>(object);
}

void Bind(duckdb_bind_info info) {
  duckdb_value parameter = duckdb_bind_get_parameter(info, 0);
  RowSource* source = Handle<RowSource>::Find(duckdb_get_int64(parameter));
  duckdb_destroy_value(&parameter);
  if (source == nullptr)
    return duckdb_bind_set_error(info, "fw_source: no such source; it is for the store's own use");
  for (const RowSource::Column& column : source->columns()) {
    duckdb_logical_type type =
        column.type == DUCKDB_TYPE_DECIMAL
            ? duckdb_create_decimal_type(static_cast<uint8_t>(column.digits), /*scale=*/0)
            : duckdb_create_logical_type(column.type);
    duckdb_bind_add_result_column(info, std::string(column.name).c_str(), type);
    duckdb_destroy_logical_type(&type);
  }
  duckdb_bind_set_cardinality(info, source->rows(), /*is_exact=*/true);
  duckdb_bind_set_bind_data(info, source, nullptr);
}

void Init(duckdb_init_info info) {
  duckdb_init_set_max_threads(info, 1);
  duckdb_init_set_init_data(info, new Scan(duckdb_init_get_column_count(info)), Delete<Scan>);
}

void Next(duckdb_function_info info, duckdb_data_chunk chunk) {
  auto* source = static_cast<RowSource*>(duckdb_function_get_bind_data(info));
  auto* scan = static_cast<Scan*>(duckdb_function_get_init_data(info));
  scan->chunk.Bind(chunk);
  duckdb_data_chunk_set_size(chunk, source->Next(&scan->chunk));
}

}  // namespace

Status Insert(Connection* c, std::string_view table, RowSource* rows) {
  const Handle<RowSource> handle(rows);
  std::string names;
  for (const RowSource::Column& column : rows->columns())
    CatTo(&names, names.empty() ? "" : ", ", QuoteName(column.name));
  return c->Execute(
      Cat("INSERT INTO ", table, " (", names, ") FROM ", kFunction, "(", handle.id(), ")"));
}

Status RegisterInsert(Connection* c) {
  duckdb_table_function f = duckdb_create_table_function();
  const absl::Cleanup destroy = [&] { duckdb_destroy_table_function(&f); };
  duckdb_table_function_set_name(f, kFunction);
  duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
  duckdb_table_function_add_parameter(f, number);
  duckdb_destroy_logical_type(&number);
  duckdb_table_function_set_bind(f, Bind);
  duckdb_table_function_set_init(f, Init);
  duckdb_table_function_set_function(f, Next);
  if (duckdb_register_table_function(c->raw(), f) != DuckDBSuccess)
    return Internal("the database engine refused the function {}", kFunction);
  return absl::OkStatus();
}

}  // namespace flopwatch::store::duck
