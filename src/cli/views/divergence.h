// MFU against OFU for people: a card of one job, tables of many. Everything comes from the API's
// answer (docs/divergence.md).
#pragma once

#include <string>

#include "base/json_read.h"
#include "base/table.h"
#include "cli/views/style.h"

namespace flopwatch::cli {

// `divergence`: the member of that name of GET /api/v1/jobs/{job}/divergence.
std::string DivergenceCard(const Json& divergence, const ViewOptions& view);
// One row a ranked explanation of it.
Table ExplanationsTable(const Json& divergence);

// These show an answer of GET /api/v1/divergence.
std::string DivergenceSummary(const Json& answer,
                              const ViewOptions& view);  // text above the tables
Table DivergenceStatisticsTable(const Json& answer);  // one row a weighting, with/without flagged
Table DivergenceGroupsTable(const Json& answer);
Table DivergenceJobsTable(const Json& answer);

}  // namespace flopwatch::cli
