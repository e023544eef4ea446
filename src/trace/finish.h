// The step between an importer and everything else: sorts the rows, links operators, launch calls
// and GPU work, finds the parent of every CPU row and the steps.
#pragma once

#include "trace/event_table.h"

namespace flopwatch::trace {

// Linking, in this order; what links nothing is counted as a loss of the rank:
//  - launch: GPU row <-> launch call of the same correlation (both within this rank: importers of
//    multi-process files make a rank a process). The first GPU row of a call is the call's.
//  - op: the innermost of RankTrace::op_links where the trace has them; else the innermost kCpuOp
//    row on the launch call's thread that encloses the call's start; without a launch call, the
//    operator of the same external id.
//  - parent: innermost enclosing row of the same thread among kCpuOp, kUserAnnotation,
//    kPythonFunction, kRuntime, kDriver. Of two rows with equal times the first of the file
//    encloses the other; rows that only overlap do not enclose.
//  - steps: user annotations ProfilerStep#N (Step has the definition); rows get the index of their
//    step.
// Safe to call once, from any thread, `names` not interning meanwhile.
void Finish(const StringPool& names, RankTrace* rank);

}  // namespace flopwatch::trace
