// The Sankey of GPU time as a card for a terminal, and as a table. Pure.
#pragma once

#include <string>

#include "base/json_read.h"
#include "base/table.h"
#include "cli/views/style.h"

namespace flopwatch::cli {

// `sankey`: the answer of /api/v1/sankey.
std::string SankeyCard(const Json& sankey, const ViewOptions& view);
// A row a level and a row a loss, in the order of the levels.
Table SankeyTable(const Json& sankey);
Table SankeyHostsTable(const Json& answer);  // GET /api/v1/sankey/nodes

}  // namespace flopwatch::cli
