// The analyses by HolisticTraceAnalysis 0.6's definitions, each in NAME_hta.cc beside the file of
// ours that it differs from: its rows (hta.h), its columns, its rounding to decimals.
#pragma once

#include "trace/analysis/analysis.h"

namespace flopwatch::trace {

StatusOr<AnalysisTables> HtaTemporalBreakdown(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaKernelBreakdown(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaKernelBreakdownAll(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaCommCompOverlap(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaIdleTimeBreakdown(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaQueueLengthSummary(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaBlockedOnFullQueue(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaMemoryBwSummary(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaCudaKernelLaunchStats(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaGpuUserAnnotationBreakdown(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaUserAnnotationBreakdownCpu(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaProfilerSteps(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaFrequentPatterns(const AnalysisInput& input);
StatusOr<AnalysisTables> HtaPotentialStragglers(const AnalysisInput& input);

}  // namespace flopwatch::trace
