// The job ids that Slurm shows: "17", "2_5" (task 5 of array 2), "2_[0-3,7%2]" (what is not yet
// split off), "8+1" (component 1 of a heterogeneous job), and steps of them ("17.batch", "17.0").
// Pure; any thread.
//
// Each array task and each component has a raw id of its own, and the last task to be split off
// keeps the array's own id: show the shown id, key on the raw one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::slurm {

inline constexpr size_t kMaxArrayTasks = 4'000'001;  // Slurm's own MaxArraySize ends there

struct ShownJobId {
  int64_t job = 0;                       // before '_', '+' or '.'
  bool array = false;                    // "2_…"
  std::optional<int64_t> array_task;     // "2_5"
  std::string_view pending_tasks;        // "0-3,7" of "2_[0-3,7%2]", without the limit
  std::optional<int64_t> het_component;  // "8+1"
  std::string_view step;                 // "batch", "0"; "" = the job itself
};

StatusOr<ShownJobId> ReadJobId(std::string_view text);
// The tasks a shown id stands for, ascending: none where it is no array, one for "2_5". Bounded by
// kMaxArrayTasks; what Slurm cut off ("2_[0-9,...]") is refused.
StatusOr<std::vector<int64_t>> ArrayTasks(const ShownJobId& id);

}  // namespace flopwatch::slurm
