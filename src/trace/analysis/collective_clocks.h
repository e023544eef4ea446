// The two steps of collectives.cc that compare ends: which grouped send/recv kernels are
// all-to-alls, and how far apart the clocks of the ranks are. Internal to collectives.cc.
#pragma once

#include <vector>

#include "trace/analysis/collectives.h"

namespace flopwatch::trace {

// Marks as synchronising the send/recv and unknown operations that all ranks of their group enter
// and leave together: ends that agree in nine of ten, after each rank's median difference is taken
// off. `paired`: one a collective, a send with its recv, where the receiver waits by design.
void JudgePointToPoint(const std::vector<bool>& paired, Collectives* all);

// Fills clocks (one a rank must be there) from the ends of synchronising collectives, sets
// one_clock, and moves the parts to the common clock.
void AlignClocks(Collectives* all);

}  // namespace flopwatch::trace
