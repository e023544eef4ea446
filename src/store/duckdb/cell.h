// Values of any SQL type as table cells: numbers as numbers, times as RFC 3339, nested values as
// text.
#pragma once

#include <string>

#include "base/table.h"
#include "store/duckdb/connection.h"

namespace flopwatch::store::duck {

// "INTEGER", "DECIMAL(18,3)", "VARCHAR[]", "STRUCT(a INTEGER)".
std::string TypeName(duckdb_logical_type type);
// Text is cut to max_bytes with "…".
Cell CellOf(duckdb_vector vector, duckdb_logical_type type, idx_t row, size_t max_bytes);

}  // namespace flopwatch::store::duck
