// A TraceSet as SQL tables (store/memory_tables.h): nothing is copied, columns are read from the
// event tables as a query asks for them.
#ifndef FLOPWATCH_CLI_TRACE_TABLES_H_
#define FLOPWATCH_CLI_TRACE_TABLES_H_

#include <functional>
#include <string_view>
#include <vector>

#include "base/table.h"
#include "store/memory_tables.h"
#include "trace/analysis/analysis.h"

namespace flopwatch::cli {

// All tables; lists of rows, and the findings, are only made when a query names their table.
// `input` outlives the result. A row is named by rank and row in every table, so tables join on
// them.
std::vector<store::MemoryTable> TraceTables(const trace::AnalysisInput& input);

// One row a column of every table: for --schema. The same whatever the trace.
Table TraceSchema();

}  // namespace flopwatch::cli

#endif  // FLOPWATCH_CLI_TRACE_TABLES_H_
