// The list behind registry.cc: a new analysis is one file, one line here and one line there.
#pragma once

#include "trace/analysis/analysis.h"

namespace flopwatch::trace {

extern const Analysis kTemporalBreakdown;
extern const Analysis kStepSummary;
extern const Analysis kGpuKernelBreakdown;
extern const Analysis kGpuKernelBreakdownAll;
extern const Analysis kCommCompOverlap;
extern const Analysis kExposedCommunication;
extern const Analysis kIdleTimeBreakdown;
extern const Analysis kTopOperators;
extern const Analysis kOpLaunchDelay;
extern const Analysis kCudaKernelLaunchStats;
extern const Analysis kQueueLengthSummary;
extern const Analysis kBlockedOnFullQueue;
extern const Analysis kMemoryBwSummary;
extern const Analysis kGpuUserAnnotationBreakdown;
extern const Analysis kUserAnnotationBreakdownCpu;
extern const Analysis kProfilerSteps;
extern const Analysis kFrequentPatterns;
extern const Analysis kCuptiCounters;

extern const Analysis kCollectiveSkew;
extern const Analysis kCollectives;
extern const Analysis kStragglers;
extern const Analysis kPotentialStragglers;
extern const Analysis kCriticalPath;

extern const Analysis kHotspots;
extern const Analysis kStepRoles;
extern const Analysis kTraceMetrics;

}  // namespace flopwatch::trace
