// OFU of any set of intervals from the counters that a trace holds (Nsight GPU_METRICS): the mean
// over the samples inside of tensor activity x clock / tensor clock, the mean of products and not
// the product of means. A sample counts where its moment lies inside; at 10 kHz one stands for 100
// us, so that under some ten samples a figure is rough. Pure.
#pragma once

#include <optional>
#include <vector>

#include "trace/event_table.h"

namespace flopwatch::trace {

struct OfuSum {
  double sum = 0;
  int64_t samples = 0;
  OfuSum& operator+=(const OfuSum& o) {
    sum += o.sum;
    samples += o.samples;
    return *this;
  }
  std::optional<double> Ofu() const {
    return samples == 0 ? std::nullopt : std::optional(sum / static_cast<double>(samples));
  }
};

class TensorCounters {
 public:
  // The counters of one device. Empty where the trace has no tensor activity or no clock, or
  // `tensor_clock_mhz` is not known.
  static TensorCounters Of(const StringPool& names, const RankTrace& rank, int32_t device,
                           std::optional<double> tensor_clock_mhz);
  bool empty() const { return ts_.empty(); }
  // Samples that could not be (activity above 1, no clock, an OFU above what is credible): left
  // out.
  int64_t refused() const { return refused_; }
  OfuSum Over(Nanos begin, Nanos end) const;

 private:
  std::vector<Nanos> ts_;
  std::vector<double> before_;  // sum of the OFU of the samples before; one more than ts_
  int64_t refused_ = 0;
};

}  // namespace flopwatch::trace
