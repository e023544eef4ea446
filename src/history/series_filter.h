// Label matchers held against series here, where no server does it. Expressions are those of
// ECMAScript (a leading "(?i)" is understood), which agree with Prometheus' own in what people
// write; they are anchored, and no value makes one take long.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "telemetry/metric_series.h"
#include "telemetry/remote_read.h"

namespace flopwatch::history {

class SeriesFilter {
 public:
  // InvalidArgument: an expression that is none.
  static StatusOr<SeriesFilter> Of(const std::vector<telemetry::ReadMatcher>& matchers);
  SeriesFilter(SeriesFilter&&) noexcept;
  ~SeriesFilter();
  // All hold. A label that is not there is "".
  bool Takes(const telemetry::SeriesLabels& series) const;

 private:
  struct One;
  explicit SeriesFilter(std::vector<One> all);
  std::vector<One> all_;
};

}  // namespace flopwatch::history
