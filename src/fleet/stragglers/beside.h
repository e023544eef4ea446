// A rank beside its peers: those of its NVLink domain where there are enough of them, else those of
// the job; or those of the job on other hosts. Private to the folder.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "fleet/stragglers/ranks.h"

namespace flopwatch::fleet {

using WorkMeasure = std::function<std::optional<double>(const GpuWork&)>;

class Beside {
 public:
  enum class Peer : uint8_t { kDomain, kOtherHosts };
  // `rank`: index into JobEstimate::ranks.
  Beside(const StragglerJob& job, const JobEstimate& estimate, size_t rank,
         Peer peer = Peer::kDomain);

  const GpuWork& own() const { return own_; }
  // Their median.
  std::optional<double> Peers(const WorkMeasure& of) const;
  // By how much more it has than they do; 0 where it is not known.
  double More(const WorkMeasure& of) const;
  // Adds what is known of a measure.
  void Tell(std::string_view name, const WorkMeasure& of, Straggler* s) const;

 private:
  const GpuWork& own_;
  std::vector<const GpuWork*> peers_;
};

WorkMeasure MeanOfField(WorkField f);
WorkMeasure ShareOf(HeldDown why);
WorkMeasure GrowthOf(WorkField f);
// The share of its time of work that a total of nanoseconds grew by.
WorkMeasure ViolationShare(WorkField f);

}  // namespace flopwatch::fleet
