// The check functions of the rules, for registry.cc. One file a rule; what each looks for, and why
// with these numbers, is said there. Thresholds without another source are the project's own,
// calibrated on public traces; docs/traces.md, "How findings are judged", lists them all.
#pragma once

#include "trace/findings/evidence.h"

namespace flopwatch::trace::rules {

RankCheck AllocStorm(const RankMeasures& m);
RankCheck CoarseGrain(const RankMeasures& m);
RankCheck CommDominated(const RankMeasures& m);
RankCheck CpuBound(const RankMeasures& m);
RankCheck DataParallel(const RankMeasures& m);
RankCheck DataStarvation(const RankMeasures& m);
RankCheck ExposedCopies(const RankMeasures& m);
RankCheck GcPause(const RankMeasures& m);
RankCheck GlooBackend(const RankMeasures& m);
RuleResult GlooValidation(const Measures& measures);
RankCheck IoAtStepEnd(const RankMeasures& m);
RankCheck LowOccupancy(const RankMeasures& m);
RankCheck LowParallelism(const RankMeasures& m);
RankCheck MemoryAccess(const RankMeasures& m);
RankCheck MemoryLimit(const RankMeasures& m);
RankCheck NoTensorCore(const RankMeasures& m);
RankCheck PageableCopy(const RankMeasures& m);
RankCheck PoorOverlap(const RankMeasures& m);
RankCheck ProfilerOverhead(const RankMeasures& m);
RankCheck QueueFull(const RankMeasures& m);
RankCheck SingleStream(const RankMeasures& m);
RankCheck SmallCollectives(const RankMeasures& m);
RankCheck StepVariance(const RankMeasures& m);
RuleResult Straggler(const Measures& measures);
RankCheck SyncStorm(const RankMeasures& m);
RankCheck TinyCopies(const RankMeasures& m);
RankCheck TinyKernels(const RankMeasures& m);

}  // namespace flopwatch::trace::rules
