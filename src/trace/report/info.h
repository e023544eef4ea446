// What is in a trace: ranks, steps, devices, formats, events by category. Pure; any thread.
#pragma once

#include <string>

#include "base/json_writer.h"
#include "base/table.h"
#include "trace/event_table.h"
#include "trace/losses.h"

namespace flopwatch::trace {

Table InfoRanks(const TraceSet& set);       // one row a rank
Table InfoCategories(const TraceSet& set);  // events and their summed time by category, over ranks
Table InfoGroups(const TraceSet& set);      // process groups of the first rank that names some
// The same as {"ranks": [...], "categories": {...}, "losses": {...}}.
std::string InfoJson(const TraceSet& set, const LossReport& losses);

}  // namespace flopwatch::trace
