// A new rule is one file in rules/, one declaration in rules/rules.h and one line here.
#include <algorithm>
#include <cmath>

#include "trace/findings/finding.h"
#include "trace/findings/measures.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace {
namespace {

// The rule of a check that looks at one rank.
template <RankCheck (*check)(const RankMeasures&)>
RuleResult Each(const Measures& measures) {
  return EachRank(measures, check);
}

constexpr Rule kRules[] = {
    {"straggler", "One rank makes the others wait", rules::Straggler},
    {"data-starvation", "The GPU waits for the data loader", Each<rules::DataStarvation>},
    {"cpu-bound", "The host cannot feed the GPU", Each<rules::CpuBound>},
    {"io-at-step-end", "Files or logs are written while the GPU waits at the end of steps",
     Each<rules::IoAtStepEnd>},
    {"sync-storm", "The host waits for the GPU so often that the GPU runs dry",
     Each<rules::SyncStorm>},
    {"alloc-storm", "Memory is allocated from the driver in steady steps", Each<rules::AllocStorm>},
    {"gc-pause", "Long pauses in which the host does nothing that the trace can see",
     Each<rules::GcPause>},
    {"tiny-kernels", "Kernels are shorter than the cost of launching them",
     Each<rules::TinyKernels>},
    {"tiny-copies", "Many small copies one by one", Each<rules::TinyCopies>},
    {"pageable-copy", "Copies from or to memory that is not pinned", Each<rules::PageableCopy>},
    {"comm-dominated", "Communication that no computation hides", Each<rules::CommDominated>},
    {"poor-overlap", "Communication and computation take turns", Each<rules::PoorOverlap>},
    {"small-collectives", "Many small collectives", Each<rules::SmallCollectives>},
    {"gloo-validation", "Every collective is checked over Gloo first", rules::GlooValidation},
    {"gloo-backend", "A GPU job communicates over Gloo", Each<rules::GlooBackend>},
    {"dataparallel", "DataParallel drives several GPUs from one process",
     Each<rules::DataParallel>},
    {"no-tensor-core", "Matrix products in FP32 outside the tensor cores",
     Each<rules::NoTensorCore>},
    {"low-parallelism", "Kernels with fewer blocks than the GPU has SMs",
     Each<rules::LowParallelism>},
    {"coarse-grain", "Few long blocks: too much work a thread", Each<rules::CoarseGrain>},
    {"low-occupancy", "Kernels that keep few warps resident", Each<rules::LowOccupancy>},
    {"memory-access", "Computing time goes into moving data within the GPU",
     Each<rules::MemoryAccess>},
    {"single-stream", "Copies wait in the queue of the computation", Each<rules::SingleStream>},
    {"step-variance", "Steps take different times", Each<rules::StepVariance>},
    {"memory-limit", "Device memory is nearly full", Each<rules::MemoryLimit>, Severity::kWarning},
    {"profiler-overhead", "The profiler itself slows the job", Each<rules::ProfilerOverhead>,
     Severity::kInfo},
    {"queue-full", "The launch queue is full: the GPU is the limit", Each<rules::QueueFull>,
     Severity::kInfo}};

}  // namespace

std::string_view SeverityName(Severity s) {
  static constexpr std::string_view kNames[] = {"info", "warning", "critical"};
  static_assert(std::size(kNames) == static_cast<size_t>(Severity::kCritical) + 1);
  return kNames[static_cast<size_t>(s)];
}

Severity SeverityOf(double gain) {
  if (gain >= 0.20) return Severity::kCritical;
  if (gain >= 0.10) return Severity::kWarning;
  return Severity::kInfo;
}

std::span<const Rule> Rules() { return kRules; }

Findings FindAll(const AnalysisInput& input) {
  const Measures measures(input);
  Findings out;
  for (const Rule& rule : kRules) {
    if (input.options().ended()) break;
    RuleResult result = rule.check(measures);
    for (Finding& f : result.findings) {
      f.id = rule.id;
      if (f.title.empty()) f.title = rule.title;
      f.severity = rule.severity.value_or(SeverityOf(f.gain));
      out.findings.push_back(std::move(f));
    }
    if (result.not_checked.has_value())
      out.not_checked.push_back({std::string(rule.id), *std::move(result.not_checked)});
  }
  const auto gain = [](const Finding& f) { return std::isnan(f.gain) ? 0.0 : f.gain; };
  std::ranges::stable_sort(out.findings, [&](const Finding& a, const Finding& b) {
    return a.severity != b.severity ? a.severity > b.severity : gain(a) > gain(b);
  });
  return out;
}

}  // namespace flopwatch::trace
