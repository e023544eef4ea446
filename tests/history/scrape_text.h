// A scrape's samples as the lines that they mean.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "telemetry/exposition.h"
#include "telemetry/metric_series.h"

namespace flopwatch::history {

inline std::string TextOf(absl::Span<const telemetry::SeriesSample> samples) {
  std::string text;
  for (const telemetry::SeriesSample& s : samples) {
    text += s.name;
    text += s.labels;
    telemetry::AppendNumber(s.value, &text);
    if (s.with_point) text += ".0";
    text += '\n';
  }
  return text;
}

}  // namespace flopwatch::history
