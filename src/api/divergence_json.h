// The divergence objects of the API; `flopwatch divergence` on numbers by hand writes the same.
#pragma once

#include "base/json_writer.h"
#include "fleet/divergence/diagnose.h"
#include "fleet/divergence/evidence.h"
#include "fleet/divergence/set.h"
#include "query/divergence.h"

namespace flopwatch::api {

// Everything, as GET /api/v1/jobs/{job}/divergence has it.
void WriteDivergence(JsonWriter& json, const query::JobDivergence& job);
// A row of GET /api/v1/divergence.
void WriteDivergenceRow(JsonWriter& json, const query::JobDivergence& job);
void WriteSetStatistics(JsonWriter& json, const fleet::SetStatistics& statistics);

}  // namespace flopwatch::api
