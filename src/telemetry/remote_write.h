// Prometheus remote write, 1.0 (prometheus.WriteRequest) and 2.0 (io.prometheus.write.v2.Request):
// a snappy block of protobuf. Values are taken from floats; native histograms, exemplars and
// metadata are counted and left out, staleness markers too. Everything is hostile: the unpacked
// size is bounded before anything is unpacked, and so are labels and symbols. Source of the
// numbers: prometheus/prompb/remote.proto, types.proto; prompb/io/prometheus/write/v2/types.proto.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "telemetry/metric_series.h"

namespace flopwatch::telemetry {

struct RemoteWriteStats {
  uint64_t series = 0, samples = 0;
  uint64_t stale_markers = 0;
  uint64_t histograms = 0, exemplars = 0;  // left out
  uint64_t not_finite = 0, bad_timestamps = 0;
  uint64_t unnamed_series = 0, too_many_labels = 0;
};

// Calls `series` for each series with at least one usable sample. InvalidArgument: not snappy, not
// protobuf, a reference to a symbol that is not there; ResourceExhausted: more than `max_bytes`
// come out. What was given before an error stands.
Status DecodeRemoteWrite(std::string_view body, bool version_2, uint64_t max_bytes,
                         absl::FunctionRef<void(const MetricSeries&)> series,
                         RemoteWriteStats* stats);

// A WriteRequest of version 1.0 that is made series by series.
class RemoteWriteBody {
 public:
  void Add(const MetricSeries& series);
  size_t bytes() const { return plain_.size(); }  // unpacked
  std::string Pack() const;                       // the body, a snappy block
  void Clear() { plain_.clear(); }

 private:
  std::string plain_;
};

}  // namespace flopwatch::telemetry
