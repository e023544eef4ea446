// GPU-seconds by job, added up. Private to the folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "jobs/owned_times.h"

namespace flopwatch::jobs {

class JobSeconds {
 public:
  // `us` microseconds that these jobs had together.
  void Add(Micros us, absl::Span<const int32_t> jobs) {
    for (const int32_t job : jobs) {
      Sum& sum = sums_[job];
      if (jobs.size() == 1) {
        sum.alone_us += us;
      } else {
        sum.shared_us += static_cast<double>(us) / static_cast<double>(jobs.size());
      }
    }
  }
  void Add(size_t entities, absl::Span<const OwnedStretch> stretches) {
    for (const OwnedStretch& s : stretches)
      Add((s.to - s.from) * static_cast<Micros>(entities), s.jobs);
  }
  std::vector<GpuSeconds> Sorted() const {
    std::vector<GpuSeconds> out;
    out.reserve(sums_.size());
    for (const auto& [job, sum] : sums_)
      out.push_back({job, (static_cast<double>(sum.alone_us) + sum.shared_us) / kMicrosPerSecond});
    std::ranges::sort(out, {}, &GpuSeconds::job);
    return out;
  }

 private:
  // Time a job had to itself is summed in whole microseconds: no rounding grows with the fleet.
  struct Sum {
    int64_t alone_us = 0;
    double shared_us = 0;
  };
  absl::flat_hash_map<int32_t, Sum> sums_;
};

}  // namespace flopwatch::jobs
