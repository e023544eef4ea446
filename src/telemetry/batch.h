// Rows on their way from the decoder to the store: row-major, fixed stride, no allocation per
// sample once warm.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "telemetry/sample.h"

namespace flopwatch::telemetry {

struct RowHeader {
  Micros ts = 0;
  int32_t entity = 0;   // store-wide id of the GPU or instance (EntityRecord::id)
  int32_t job_set = 0;  // who owned it: 0 = nobody; else a set of one or more jobs (JobSetRecord)
  int32_t model = 0;    // ModelRecord::id; 0 = unknown
  // Time this sample stands for, (ts - span, ts]: its weight. 0 = unknown. With kFrozen, the time
  // in which the exporter said nothing new: no weight.
  int32_t span_ms = 0;
  uint32_t flags = 0;  // SampleFlag bits
  float tensor_mhz =
      0;  // cycle path only: MMA-active cycles a second, in MHz; meaningful with kCyclePath
  FieldMask present;
};

// Rows of one entity kind. values[r * stride + f] is field f of row r.
struct SampleBatch {
  EntityKind kind = EntityKind::kGpu;
  int stride = 0;  // fields per row = FieldRegistry::size() when the batch was begun
  std::vector<RowHeader> rows;
  std::vector<double> values;

  size_t size() const { return rows.size(); }
  void Clear() {
    rows.clear();
    values.clear();
  }
};

// Narrow side table: metrics that are not wide GPU fields.
struct MetricRow {
  Micros ts = 0;
  int32_t series = 0;  // id of (target, name, labels), see store
  double value = 0;
};

}  // namespace flopwatch::telemetry
