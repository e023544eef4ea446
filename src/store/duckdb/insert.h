// Many rows into a table: INSERT ... SELECT from a function of ours that hands the engine one chunk
// after the other.
//
// Why not the Appender: it keeps a copy of the rows (204,800 at a time) before the table gets any
// of them, a tenth of what storing a sample costs. For a handful of rows it is the simpler one.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "store/duckdb/connection.h"

namespace flopwatch::store::duck {

// Rows of one Insert(), read once, from one thread (the engine's).
class RowSource {
 public:
  struct Column {
    std::string_view name;  // of the table's column; those not named become NULL
    duckdb_type type;       // of the values; converted to the column's where it has another
    int digits = 0;         // of a decimal, which has no fraction
  };
  virtual ~RowSource() = default;
  virtual std::vector<Column> columns() const = 0;
  virtual size_t rows() const = 0;
  // Fills a chunk with the next rows; returns how many, at most kVectorRows, and 0 at the end.
  virtual size_t Next(ChunkColumns* chunk) = 0;
};

// Inserts every row, in order, as part of the connection's transaction. `table` as it stands in
// SQL.
Status Insert(Connection* c, std::string_view table, RowSource* rows);

// Called once for each instance of the engine. Harmless in the SQL of a user: without the number of
// a source there is nothing to read.
Status RegisterInsert(Connection* c);

}  // namespace flopwatch::store::duck
