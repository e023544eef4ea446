// The check functions of the rules, for registry.cc. One file a rule; what each looks for, and why
// with these numbers, is said there. Thresholds without another source are the project's own,
// calibrated on public traces; docs/traces.md, "How findings are judged", lists them all.
#pragma once

#include "trace/findings/finding.h"

namespace flopwatch::trace::rules {

RuleResult AllocStorm(const Measures& measures);
RuleResult CoarseGrain(const Measures& measures);
RuleResult CommDominated(const Measures& measures);
RuleResult CpuBound(const Measures& measures);
RuleResult DataParallel(const Measures& measures);
RuleResult DataStarvation(const Measures& measures);
RuleResult GcPause(const Measures& measures);
RuleResult GlooBackend(const Measures& measures);
RuleResult GlooValidation(const Measures& measures);
RuleResult IoAtStepEnd(const Measures& measures);
RuleResult LowOccupancy(const Measures& measures);
RuleResult LowParallelism(const Measures& measures);
RuleResult MemoryAccess(const Measures& measures);
RuleResult MemoryLimit(const Measures& measures);
RuleResult NoTensorCore(const Measures& measures);
RuleResult PageableCopy(const Measures& measures);
RuleResult PoorOverlap(const Measures& measures);
RuleResult ProfilerOverhead(const Measures& measures);
RuleResult QueueFull(const Measures& measures);
RuleResult SingleStream(const Measures& measures);
RuleResult SmallCollectives(const Measures& measures);
RuleResult StepVariance(const Measures& measures);
RuleResult Straggler(const Measures& measures);
RuleResult SyncStorm(const Measures& measures);
RuleResult TinyCopies(const Measures& measures);
RuleResult TinyKernels(const Measures& measures);

}  // namespace flopwatch::trace::rules
