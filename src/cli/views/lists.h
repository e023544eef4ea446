// Lists of the API as tables: one row an item, columns with stable names.
#pragma once

#include "base/json_read.h"
#include "base/table.h"
#include "cli/views/below.h"

namespace flopwatch::cli {

Table JobsTable(const Json& answer);     // GET /api/v1/jobs
Table UsageByTable(const Json& answer);  // GET /api/v1/usage
// The same with step: a row for each group and step that has GPU time; with compare_from: both
// windows.
Table UsageStepsTable(const Json& answer);
Table UsageComparedTable(const Json& answer);
Table GpusTable(const Json& answer);     // GET /api/v1/gpus
Table JobGpusTable(const Json& answer);  // the GPUs of GET /api/v1/jobs/{job}
Table TargetsTable(const Json& answer);
// What is wrong with an exporter.
inline constexpr BelowText kOfTargets[] = {{"error", "error: "},
                                           {"refused_reasons", "refused: "},
                                           {"counters", "counters: ", false, "ok"},
                                           {"counter_faults", "because: "}};  // GET /api/v1/targets
Table SqlTable(const Json& answer);                                           // POST /api/v1/sql

}  // namespace flopwatch::cli
