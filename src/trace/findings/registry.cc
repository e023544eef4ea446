// A new rule is one file in rules/, one declaration in rules/rules.h and one line here.
#include <iterator>

#include "trace/findings/finding.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace {
namespace {

constexpr Rule kRules[] = {
    {.id = "straggler", .title = "One rank makes the others wait", .all = rules::Straggler},
    {"data-starvation", "The GPU waits for the data loader", rules::DataStarvation},
    {"cpu-bound", "The host cannot feed the GPU", rules::CpuBound},
    {"io-at-step-end", "Files or logs are written while the GPU waits at the end of steps",
     rules::IoAtStepEnd},
    {"sync-storm", "The host waits for the GPU so often that the GPU runs dry", rules::SyncStorm},
    {"alloc-storm", "Memory is allocated from the driver in steady steps", rules::AllocStorm},
    {"gc-pause", "Long pauses in which the host does nothing that the trace can see",
     rules::GcPause},
    {"tiny-kernels", "Kernels are shorter than the cost of launching them", rules::TinyKernels},
    {"tiny-copies", "Many small copies one by one", rules::TinyCopies},
    {"pageable-copy", "Copies from or to memory that is not pinned", rules::PageableCopy},
    {"comm-dominated", "Communication that no computation hides", rules::CommDominated},
    {"poor-overlap", "Communication and computation take turns", rules::PoorOverlap},
    {"small-collectives", "Many small collectives", rules::SmallCollectives},
    {.id = "gloo-validation",
     .title = "Every collective is checked over Gloo first",
     .all = rules::GlooValidation},
    {"gloo-backend", "A GPU job communicates over Gloo", rules::GlooBackend},
    {"dataparallel", "DataParallel drives several GPUs from one process", rules::DataParallel},
    {"no-tensor-core", "Matrix products in FP32 outside the tensor cores", rules::NoTensorCore},
    {"low-parallelism", "Kernels with fewer blocks than the GPU has SMs", rules::LowParallelism},
    {"coarse-grain", "Few long blocks: too much work a thread", rules::CoarseGrain},
    {"low-occupancy", "Kernels that keep few warps resident", rules::LowOccupancy},
    {"memory-access", "Computing time goes into moving data within the GPU", rules::MemoryAccess},
    {"single-stream", "Copies wait in the queue of the computation", rules::SingleStream},
    {"exposed-copies", "Copies that no kernel hides", rules::ExposedCopies},
    {"step-variance", "Steps take different times", rules::StepVariance},
    {"memory-limit", "Device memory is nearly full", rules::MemoryLimit, nullptr,
     Severity::kWarning},
    {"profiler-overhead", "The profiler itself slows the job", rules::ProfilerOverhead, nullptr,
     Severity::kInfo},
    {"queue-full", "The launch queue is full: the GPU is the limit", rules::QueueFull, nullptr,
     Severity::kInfo}};

// Whoever comes first has the time that several explain. First what names its cause (a block, a
// call or a variable that the trace shows by name), then what was measured against other ranks or
// is one kind of GPU work, then what only says how the idle or computing time looks, and last the
// symptoms that any of the others may lie under. Copies before collectives and collectives before
// idle time, because they do not overlap anyhow. docs/traces.md has the reasons one by one.
constexpr std::string_view kClaimOrder[] = {
    // Blocks and calls by name, with the GPU idle under them.
    "gloo-validation", "gloo-backend", "data-starvation", "io-at-step-end", "alloc-storm",
    "gc-pause",
    // Small copies to the GPU wait as a storm of waits does; the copies are the narrower cause.
    "tiny-copies", "sync-storm", "dataparallel",
    // Waiting for another rank, measured from arrivals.
    "straggler",
    // Copies and collectives that nothing hides: the narrower kind first.
    "pageable-copy", "single-stream", "exposed-copies", "small-collectives", "poor-overlap",
    "comm-dominated",
    // Idle time by how it looks: a launch before a short kernel, then any busy host.
    "tiny-kernels", "cpu-bound",
    // Computing time that could be shorter: the type of the numbers, the grid, then estimates.
    "no-tensor-core", "coarse-grain", "low-parallelism", "low-occupancy", "memory-access",
    // A symptom.
    "step-variance",
    // These explain no time.
    "memory-limit", "profiler-overhead", "queue-full"};
static_assert(std::size(kClaimOrder) == std::size(kRules));
static_assert(std::size(kRules) <= static_cast<size_t>(Ledger::kMaxOwners));

}  // namespace

std::string_view SeverityName(Severity s) {
  static constexpr std::string_view kNames[] = {"info", "warning", "critical"};
  static_assert(std::size(kNames) == static_cast<size_t>(Severity::kCritical) + 1);
  return kNames[static_cast<size_t>(s)];
}

Severity SeverityOf(double claimed) {
  if (claimed >= 0.20) return Severity::kCritical;
  if (claimed >= 0.10) return Severity::kWarning;
  return Severity::kInfo;
}

bool SharedGain(const Finding& f) { return f.gain > 0 && f.claimed < f.gain - 0.005; }

std::span<const Rule> Rules() { return kRules; }
std::span<const std::string_view> ClaimOrder() { return kClaimOrder; }

}  // namespace flopwatch::trace
