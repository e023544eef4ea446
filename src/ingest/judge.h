// Feeds the judge of each GPU's counters (efficiency/counters/honesty.h) from the rows of a source:
// what a row says, what the device is, and what its siblings in the same scrape show.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "efficiency/counters/honesty.h"
#include "ingest/stamp.h"
#include "telemetry/exposition.h"
#include "telemetry/field.h"

namespace flopwatch::ingest {

// What the rows of one scrape show together.
class Siblings {
 public:
  void Begin() {
    with_tensor_ = boards_ = 0;
    with_ = {};
    jobs_ = {};
    jobs_known_ = 0;
  }
  // `last_tensor`: what the GPU showed before; what does not move is no witness, nor is a GPU whose
  // own counters are `doubted`.
  void Note(const telemetry::DecodedRow& row, bool board, int32_t job_set, double last_tensor,
            bool doubted);
  bool any_tensor() const { return with_tensor_ > 0; }
  // Of the values that the board's row lacks, those that more than half of the boards have
  // (CountersRow::Beyond). Of two boards one is not most.
  uint8_t MostHave(const telemetry::DecodedRow& row) const;
  // Whether a GPU of this set of jobs shows tensor activity under load.
  bool UsesTensor(int32_t job_set) const;

 private:
  static constexpr size_t kMaxJobs = 16;  // of one scrape; more are not looked at
  int32_t with_tensor_ = 0;
  int32_t boards_ = 0;
  std::array<int32_t, 3> with_{};  // boards that have the value, in the order of kBoardValues
  std::array<int32_t, kMaxJobs> jobs_{};
  size_t jobs_known_ = 0;
};

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
                                   const Siblings& siblings, bool like_tensor);

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
