// A table into an SQLite file: made when absent, replaced when there, other tables of the file left
// alone.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/table.h"

namespace flopwatch::trace {

// `types` is the declared SQL type of each column ("INTEGER", "REAL", "TEXT"). All or nothing: an
// error leaves the file's tables as they were.
Status WriteSqliteTable(const std::string& path, std::string_view name, const Table& table,
                        std::span<const std::string_view> types);

}  // namespace flopwatch::trace
