// What both Gloo rules count: CPU events named gloo:*, and the collectives of NCCL beside them.
#pragma once

#include "trace/findings/evidence.h"

namespace flopwatch::trace::rules {

struct GlooUse {
  int64_t send = 0, receive = 0, all_gather = 0, all = 0;  // events of the whole trace
  int64_t nccl = 0;  // kernels of NCCL, or its CPU events where there are none
  IntervalSet time;  // of gloo events, merged, whole trace
  Nanos base = 0;    // what the share is of: the steps, else the trace
  TopNames names;
  double share() const { return base > 0 ? static_cast<double>(Length(time)) / base : 0; }
};

GlooUse GlooOf(const RankMeasures& m);

}  // namespace flopwatch::trace::rules
