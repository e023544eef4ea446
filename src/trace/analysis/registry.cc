#include "base/text.h"
#include "trace/analysis/analyses.h"
#include "trace/parallel.h"

namespace flopwatch::trace {

std::span<const Analysis> Analyses() {
  static const Analysis kAnalyses[] = {kTemporalBreakdown,
                                       kStepSummary,
                                       kGpuKernelBreakdown,
                                       kGpuKernelBreakdownAll,
                                       kCommCompOverlap,
                                       kCollectiveSkew,
                                       kCollectives,
                                       kStragglers,
                                       kPotentialStragglers,
                                       kExposedCommunication,
                                       kIdleTimeBreakdown,
                                       kTopOperators,
                                       kOpLaunchDelay,
                                       kCudaKernelLaunchStats,
                                       kQueueLengthSummary,
                                       kBlockedOnFullQueue,
                                       kMemoryBwSummary,
                                       kGpuUserAnnotationBreakdown,
                                       kUserAnnotationBreakdownCpu,
                                       kProfilerSteps,
                                       kFrequentPatterns,
                                       kCuptiCounters,
                                       kCriticalPath,
                                       kHotspots,
                                       kStepRoles,
                                       kTraceMetrics};
  return kAnalyses;
}

StatusOr<const Analysis*> FindAnalysis(std::string_view name) {
  const std::string_view base = name.substr(0, name.find(':'));
  std::vector<std::string_view> known;
  for (const Analysis& analysis : Analyses()) {
    if (analysis.name == base) return &analysis;
    known.push_back(analysis.name);
  }
  std::string all;
  for (const std::string_view n : known) all += (all.empty() ? "" : ", ") + std::string(n);
  const std::string_view near = Nearest(base, known);
  if (near.empty()) return InvalidArgument("no analysis is named '{}'; there are {}", name, all);
  return InvalidArgument("no analysis is named '{}'; did you mean '{}'? There are {}", name, near,
                         all);
}

std::vector<AnalysisRun> RunAnalyses(const AnalysisInput& input,
                                     std::span<const Analysis* const> analyses) {
  std::vector<AnalysisRun> out(analyses.size());
  ForEachOnThreads(analyses.size(), input.options().threads, [&](size_t i) {
    out[i] = {analyses[i], analyses[i]->run(input)};
  });
  return out;
}

}  // namespace flopwatch::trace
