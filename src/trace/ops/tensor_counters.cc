#include "trace/ops/tensor_counters.h"

#include <algorithm>

#include "base/text.h"
#include "efficiency/ofu.h"

namespace flopwatch::trace {

TensorCounters TensorCounters::Of(const StringPool& names, const RankTrace& rank, int32_t device,
                                  std::optional<double> tensor_clock_mhz) {
  TensorCounters out;
  if (rank.counters.empty() || !tensor_clock_mhz) return out;
  std::vector<uint8_t> kind(names.size(), 0);  // 0 not judged, 1 neither, 2 tensor, 3 clock
  NameId tensor_metric = kNoName;
  // The samples of one moment stand together; the one metric that is named "tensor active" counts.
  Nanos at = 0;
  std::optional<double> tensor, clock;
  const auto close = [&] {
    if (tensor && clock) {
      const StatusOr<double> ofu =
          efficiency::OfuFromRatio(*tensor / 100, *clock, *tensor_clock_mhz);
      if (ofu.ok()) {
        out.before_.push_back((out.before_.empty() ? 0 : out.before_.back()) + *ofu);
        out.ts_.push_back(at);
      } else {
        ++out.refused_;
      }
    }
    tensor.reset();
    clock.reset();
  };
  for (const CounterSample& sample : rank.counters) {
    if (sample.device != device) continue;
    uint8_t& k = kind[sample.counter];
    if (k == 0) {
      // Names vary by chip and version: "Tensor Active [Throughput %]", "Tensor Active / FP16
      // Active"; "GPC Clock Frequency [MHz]".
      const std::string_view name = names.Text(sample.counter);
      k = StartsWithIgnoringCase(name, "tensor active") ? 2
          : StartsWithIgnoringCase(name, "gpc clock")   ? 3
                                                        : 1;
      if (k == 2 && tensor_metric == kNoName) tensor_metric = sample.counter;
    }
    if (k == 1) continue;
    if (sample.ts != at) close();
    at = sample.ts;
    if (k == 3) {
      clock = sample.value;
    } else if (sample.counter == tensor_metric) {
      tensor = sample.value;
    }
  }
  close();
  out.before_.insert(out.before_.begin(), 0.0);
  return out;
}

OfuSum TensorCounters::Over(Nanos begin, Nanos end) const {
  if (ts_.empty() || end <= begin) return {};
  const auto from = std::lower_bound(ts_.begin(), ts_.end(), begin) - ts_.begin();
  const auto to = std::lower_bound(ts_.begin() + from, ts_.end(), end) - ts_.begin();
  return {before_[static_cast<size_t>(to)] - before_[static_cast<size_t>(from)], to - from};
}

}  // namespace flopwatch::trace
