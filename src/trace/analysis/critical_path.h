// The critical path of one rank: the chain of work, CPU and GPU, that no part of could be shortened
// without the whole getting shorter. A graph with a node at the start and the end of every
// operator, CUDA call and piece of GPU work, and edges for what follows from what; the path is its
// longest.
//
// Edges and their weights, in nanoseconds:
//  - operator: along a thread from one start or end to the next inside an operator, and of a kernel
//    from its start to its end: the time between. 0 where a call only waits for the GPU.
//  - dependency: from one top-level operator of a thread to the next: 0, the thread was idle. The
//    thread of the backward pass (autograd) continues the thread that holds the steps.
//  - kernel_launch_delay: from a launch call's start to the kernel's where the stream was idle at
//    the launch; otherwise 0.
//  - kernel_kernel_delay: from the stream's previous kernel, up to 1.5 ms; longer gaps have another
//    cause.
//  - sync_dependency: 0, from a kernel to the call that waited for it, or to the kernel of another
//    stream that did.
// Our definition (critical_path.cc): GPU work by category, every way of launching (driver API, HIP,
// graphs), nanoseconds. Where the trace has no rows of synchronisation (the usual case) they are
// inferred: a blocking call waited for the GPU work that ended last inside it, and a kernel that
// was launched before, started when the kernel that ended last before it ended. HTA 0.6's graph,
// with its rounding to microseconds, queue lengths and lock model, is in critical_path_hta.cc;
// path_builder.h has what the two share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/analysis.h"

namespace flopwatch::trace {

enum class PathEdge : uint8_t { kOperator, kDependency, kLaunchDelay, kKernelKernelDelay, kSync };
std::string_view PathEdgeName(PathEdge e);  // "critical_path_operator", ... as HTA names them

enum class PathBound : uint8_t {
  kNone,
  kCpu,
  kDataLoading,
  kGpuCompute,
  kGpuMemory,
  kGpuCommunication,
  kKernelKernel,
  kLaunch
};
std::string_view PathBoundName(
    PathBound b);  // "cpu_bound", "gpu_compute_bound", ...; "(dependency)" for kNone

// One edge of the path.
struct PathStep {
  Row from = kNoRow, to = kNoRow;
  bool from_start = false, to_start = false;  // of that row, or its end
  PathEdge edge = PathEdge::kOperator;
  PathBound bound = PathBound::kNone;
  Row row = kNoRow;    // whose time it is; kNoRow for edges without time of their own
  Nanos duration = 0;  // the edge's weight
};

struct CriticalPath {
  Interval window;
  std::vector<PathStep> steps;  // in order
  Nanos total = 0;              // sum of their durations
  size_t nodes = 0, edges = 0;  // of the graph
  bool sync_rows = false;       // the trace has rows of synchronisation (cuda_sync)
  int64_t inferred = 0;         // synchronisation edges that were inferred
  int64_t dropped = 0;          // edges that ran in a circle: times that contradict each other
};

// Finds the path in the window of the `instance`-th row whose name contains options.annotation (""
// = the whole trace). NotFound where there is no such row, FailedPrecondition ("not computable:
// ...") where the window holds nothing. n log n in the rows of the window.
StatusOr<CriticalPath> FindCriticalPath(const RankView& view);
// HTA's, whatever the options say (critical_path_hta.cc).
StatusOr<CriticalPath> FindHtaCriticalPath(const RankView& view);

}  // namespace flopwatch::trace
