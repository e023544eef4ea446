// The views a user's SQL sees (docs/store.md lists them): canonical units, names instead of ids,
// hot and sealed together.
#pragma once

#include "store/duckdb/connection.h"
#include "store/duckdb/dimensions.h"
#include "store/duckdb/layout.h"

namespace flopwatch::store::duck {

// Makes or replaces all of them, in one transaction of the in-memory catalogue.
Status CreateViews(Connection* c, const Layout& layout, const DimensionTables& dimensions);

}  // namespace flopwatch::store::duck
