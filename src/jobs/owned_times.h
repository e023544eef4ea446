// Who owned what over a window, as JobIndex::ForEachOwned() says it, kept: neighbours that the same
// jobs owned at the same times are there once. One thread while it is made, then any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/time.h"

namespace flopwatch::jobs {

struct GpuSeconds {
  int32_t job = 0;
  double gpu_seconds = 0;
};

// A time in which the same jobs owned a GPU; each has an equal share of it.
struct OwnedStretch {
  Micros from = 0, to = 0;
  absl::Span<const int32_t> jobs;  // sorted
};

// Entities that the same jobs owned at the same times, and these times in order. Both are valid
// during the call.
using VisitOwned = absl::FunctionRef<void(absl::Span<const int32_t> entities,
                                          absl::Span<const OwnedStretch> stretches)>;

class OwnedTimes {
 public:
  // A stretch of the entity that is added, whose jobs end there among those that are added with it.
  struct Part {
    Micros from = 0, to = 0;
    size_t jobs_end = 0;
  };
  void Add(int32_t entity, absl::Span<const Part> parts, absl::Span<const int32_t> jobs);
  void clear();
  size_t stretches() const { return parts_.size(); }

  // In the order in which they were added.
  void ForEach(VisitOwned f) const;
  // Sorted by job; shared time is divided. Every entity counts as a whole GPU.
  std::vector<GpuSeconds> SecondsByJob() const;

 private:
  struct Group {
    size_t entities_end = 0, parts_end = 0;
  };
  bool IsLikeLast(absl::Span<const Part> parts, absl::Span<const int32_t> jobs) const;

  std::vector<int32_t> entities_, jobs_;
  std::vector<Part> parts_;  // whose jobs end there among all
  std::vector<Group> groups_;
};

}  // namespace flopwatch::jobs
