// What the findings of an analysed trace say that its job loses, as shares of the GPU time of its
// steps: of all ranks that the trace has, each by the length of its steps.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::uploads {

struct TraceLosses {
  struct Part {
    std::string title;  // of the finding
    double share = 0;   // 0..1 of the steps' GPU time, at most
  };
  size_t ranks = 0;
  double share = 0;         // all parts together: no moment is in two findings (trace/findings)
  std::vector<Part> parts;  // largest first; those without a share are left out
};

// `findings`: the answer findings.json of TraceLibrary. No ranks: the trace has no steps. DataLoss
// where it is no such answer.
StatusOr<TraceLosses> ReadTraceLosses(std::string_view findings);

}  // namespace flopwatch::uploads
