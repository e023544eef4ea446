// GET /api/v1/stragglers as a table and as sentences.
#pragma once

#include <string>

#include "base/json_read.h"
#include "base/table.h"

namespace flopwatch::cli {

Table StragglersTable(const Json& answer);
Table EarlySignsTable(const Json& answer);
// "judged 41 jobs (1,920 GPUs); 12 not: 8 with too little tensor work, …"
std::string JudgedLine(const Json& answer);

}  // namespace flopwatch::cli
