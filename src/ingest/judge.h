// Feeds the judge of each GPU's counters (efficiency/counters/honesty.h) from the rows of a source:
// what a row says, what the device is, and what its siblings in the same scrape show.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "efficiency/counters/honesty.h"
#include "efficiency/counters/siblings.h"
#include "ingest/stamp.h"
#include "telemetry/exposition.h"
#include "telemetry/field.h"

namespace flopwatch::ingest {

// What the row shows to the judges of the others in its scrape. `last_tensor`: what the GPU showed
// before; `doubted`: its own counters are.
efficiency::Sibling SiblingOf(const telemetry::DecodedRow& row, bool board, int32_t job_set,
                              double last_tensor, bool doubted);

// Fields met at run time that are named like tensor activity: what it was renamed to.
class LikeTensor {
 public:
  // The first that the row has; "" = none.
  std::string_view In(const telemetry::FieldRegistry& fields, const telemetry::DecodedRow& row);

 private:
  int known_ = 0;  // so many fields have been looked at
  std::vector<std::pair<telemetry::FieldId, std::string>> fields_;
};

// The row as the judge takes it. `stamp` is of the row; `like_tensor` may be empty.
efficiency::CountersRow CountersOf(const RowToStamp& in, const Stamp& stamp,
                                   const efficiency::Siblings& siblings, bool like_tensor);

// What is known of the counters of one GPU of a source.
struct GpuCounters {
  int32_t entity = 0;
  efficiency::CounterVerdict verdict;
  efficiency::CounterVendor vendor = efficiency::CounterVendor::kUnknown;
  std::string renamed;  // of kTensorRenamed: the name it has
};
// The remedy of a finding as one exact line; "" where the verdict has none.
std::string RemedyLine(const GpuCounters& gpu);

}  // namespace flopwatch::ingest
