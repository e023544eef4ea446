// What the rows of one scrape show together, for the judge of each GPU's counters (honesty.h): what
// a GPU lacks is told by those beside it that have it. One scrape at a time; one thread.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "efficiency/counters/honesty.h"

namespace flopwatch::efficiency {

// One row of the scrape. NaN = absent.
struct Sibling {
  double tensor = CountersRow::kAbsent, duty = CountersRow::kAbsent;  // ratios 0..1
  // CountersRow::Beyond bits of power, clock and duty cycle that it has, whether or not the value
  // was refused.
  uint8_t listed = 0;
  bool board = true;
  int32_t job_set = 0;  // 0 = nobody's
  // What the GPU showed before; what does not move is no witness, nor is a GPU whose own counters
  // are `doubted`.
  double last_tensor = CountersRow::kAbsent;
  bool doubted = false;
};

class Siblings {
 public:
  void Begin();
  void Note(const Sibling& row);
  bool any_tensor() const { return with_tensor_ > 0; }
  // Of the values that a board's row with these lacks, those that more than half of the boards have
  // (CountersRow::Beyond). Of two boards one is not most.
  uint8_t MostHave(uint8_t listed) const;
  // Whether a GPU of this set of jobs shows tensor activity under load.
  bool UsesTensor(int32_t job_set) const;

 private:
  static constexpr size_t kMaxJobs = 16;  // of one scrape; more are not looked at
  static constexpr std::array<uint8_t, 3> kBits = {CountersRow::kPower, CountersRow::kClock,
                                                   CountersRow::kDuty};
  int32_t with_tensor_ = 0;
  int32_t boards_ = 0;
  std::array<int32_t, kBits.size()> with_{};  // boards that have the value
  std::array<int32_t, kMaxJobs> jobs_{};
  size_t jobs_known_ = 0;
};

// Fills in what a row's siblings tell of it. `job_set` is the row's.
void TellOfSiblings(const Siblings& siblings, uint8_t listed, int32_t job_set, CountersRow* row);

}  // namespace flopwatch::efficiency
