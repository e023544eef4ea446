// GET /api/v1/idle as tables and text.
#pragma once

#include <string>

#include "base/json_read.h"
#include "base/table.h"

namespace flopwatch::cli {

// A row a job and state; the notes say the totals.
Table IdleTable(const Json& answer);
// One line where nothing is held idle.
std::string NothingIdle(const Json& answer);

}  // namespace flopwatch::cli
