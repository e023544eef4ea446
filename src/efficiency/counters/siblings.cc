#include "efficiency/counters/siblings.h"

#include <algorithm>

namespace flopwatch::efficiency {
namespace {

constexpr double kUsesTensor = 0.02, kUnderLoad = 0.5;

}  // namespace

void Siblings::Begin() { *this = {}; }

void Siblings::Note(const Sibling& row) {
  if (row.board) {
    ++boards_;
    for (size_t k = 0; k < kBits.size(); ++k) with_[k] += (row.listed & kBits[k]) != 0;
  }
  if (std::isnan(row.tensor)) return;
  ++with_tensor_;
  if (row.job_set == 0 || jobs_known_ == kMaxJobs || row.doubted) return;
  if (row.tensor < kUsesTensor || row.tensor == row.last_tensor || !(row.duty >= kUnderLoad) ||
      UsesTensor(row.job_set))
    return;
  jobs_[jobs_known_++] = row.job_set;
}

uint8_t Siblings::MostHave(uint8_t listed) const {
  uint8_t most = 0;
  for (size_t k = 0; k < kBits.size(); ++k)
    if ((listed & kBits[k]) == 0 && 2 * with_[k] > boards_) most |= kBits[k];
  return most;
}

bool Siblings::UsesTensor(int32_t job_set) const {
  const auto end = jobs_.begin() + jobs_known_;
  return job_set != 0 && std::find(jobs_.begin(), end, job_set) != end;
}

void TellOfSiblings(const Siblings& siblings, uint8_t listed, int32_t job_set, CountersRow* row) {
  if (row->board) row->most_have = siblings.MostHave(listed);
  row->others_have_tensor = siblings.any_tensor() && std::isnan(row->tensor);
  row->job_uses_tensor = row->tensor == 0 && siblings.UsesTensor(job_set);
}

}  // namespace flopwatch::efficiency
