// Gathers what the Sankey of a window is made of (fleet/sankey/sankey.h): who was there, who held
// what on which host, and what was measured of it.
#pragma once

#include "base/status.h"
#include "fleet/sankey/sankey.h"
#include "query/query.h"

namespace flopwatch::query {

// How much of the window's GPU time was on hosts with a held GPU, and held. A walk over GPUs and
// intervals: 100,000 GPUs take tens of milliseconds. nullopt where nobody has ever said of any GPU
// who holds it. A GPU whose host is not known is a host of its own.
std::optional<fleet::SankeyInput::Held> HeldTime(const Memory& memory, store::Window window);

// Measured time is that of samples stamped with a job, or joined with the intervals (`join`), as in
// the list of jobs. May read the store. `view` becomes that of the list, which may be a little
// older.
StatusOr<fleet::Sankey> SankeyOver(const Query& query, View* view, JobJoin join);

}  // namespace flopwatch::query
