// The share of an accelerator's SMs that kernels can have kept busy, from the shapes of their
// launches: the estimate of the PyTorch TensorBoard plugin. An upper bound: one resident block
// counts as a busy SM.
#pragma once

#include <vector>

#include "trace/intervals.h"

namespace flopwatch::trace {

struct SmLoad {
  Interval at;
  double blocks_per_sm = 0;
};

// Nanoseconds of the whole accelerator: the sum over time inside `windows` of min(1, blocks per SM
// of what runs), kernels that run together added up. Divided by the length of the windows it is the
// estimated SM efficiency. n log n.
double BusySmTime(const std::vector<SmLoad>& loads, const IntervalSet& windows);

}  // namespace flopwatch::trace
