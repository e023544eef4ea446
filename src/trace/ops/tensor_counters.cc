#include "trace/ops/tensor_counters.h"

#include <algorithm>

#include "base/text.h"
#include "efficiency/ofu.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {
namespace {

enum class CounterKind : uint8_t { kOther, kTensorActive, kClock };

// Names vary by chip and version: "Tensor Active [Throughput %]", "Tensor Active / FP16 Active";
// "GPC Clock Frequency [MHz]".
CounterKind CounterKindOf(std::string_view name) {
  if (StartsWithIgnoringCase(name, "tensor active")) return CounterKind::kTensorActive;
  return StartsWithIgnoringCase(name, "gpc clock") ? CounterKind::kClock : CounterKind::kOther;
}

}  // namespace

TensorCounters TensorCounters::Of(const StringPool& names, const RankTrace& rank, int32_t device,
                                  std::optional<double> tensor_clock_mhz) {
  TensorCounters out;
  if (rank.counters.empty() || !tensor_clock_mhz) return out;
  NameKinds<CounterKind> kinds(names);
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
    const CounterKind kind = kinds.Of(sample.counter, CounterKindOf);
    if (kind == CounterKind::kOther) continue;
    if (kind == CounterKind::kTensorActive && tensor_metric == kNoName)
      tensor_metric = sample.counter;
    if (sample.ts != at) close();
    at = sample.ts;
    if (kind == CounterKind::kClock) {
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
