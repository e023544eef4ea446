// What got worse, as a table and as a line where nothing did.
#pragma once

#include <string>

#include "base/json_read.h"
#include "base/table.h"

namespace flopwatch::cli {

Table RegressionsTable(const Json& answer);  // GET /api/v1/regressions
// GET /api/v1/compare: a row for each figure, then one for what else differs.
Table CompareTable(const Json& answer);
// One line for when there is nothing to show: how much was judged, and what was not.
std::string NothingGotWorse(const Json& answer);

}  // namespace flopwatch::cli
