// Which job held which physical GPU when, out of attempts whose GPUs are known: what the job index
// takes (jobs/job_index.h). Pure; any thread.
//
// Slurm's accounting has counts and nodes, never which GPUs. They are known where a prolog noted
// them or a look at the running job has them, and where the attempt held all GPUs of its node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "jobs/job_index.h"
#include "jobs/slurm/attempts.h"

namespace flopwatch::slurm {

struct AssignmentList {
  // By attempt, then node and device. `gpu` is NODE:nvidiaN, by the device's minor number.
  std::vector<jobs::StaticAssignment> assignments;
  // When attempts ran of which it is not known which GPUs they held; `gpu` is "".
  std::vector<jobs::StaticAssignment> times_only;
  std::vector<bool> placed;            // of each attempt of the list: all of its GPUs are above
  std::vector<std::string> gpu_lists;  // of each attempt: those above (jobs/gpu_list.h)
  double gpu_seconds = 0;              // of them, as far as attempts say until when
  // Attempts left out, and what they held: it is known how many GPUs, not which.
  uint64_t not_placed = 0;
  int64_t not_placed_gpu_seconds = 0;
  // It holds MIG instances: a device's index does not say which of them, and it has no whole GPU.
  uint64_t on_instances = 0;
  uint64_t partly_placed = 0;  // some nodes' devices are known, of others not: those are in
  uint64_t no_time = 0;        // its start or end is not known (Attempt::no_gpu_time)
};

// `books` say how many GPUs their nodes have. A running attempt has no end. The job's key is its
// raw id, which exporters' labels carry; its workflow the comment, else the wckey, else the name.
AssignmentList AssignmentsOf(const AttemptList& list, absl::Span<const Books> books);

// The key that the job goes by (jobs::JobRecord::key), and what it belongs to.
std::string KeyOf(const JobRecord& job);
const std::string& WorkflowOf(const JobRecord& job);

// As the file `serve --jobs-file` reads (jobs::ParseStaticFile), with its header. A job whose id
// another cluster's has too is named with its cluster.
std::string AssignmentsCsv(absl::Span<const jobs::StaticAssignment> assignments);

}  // namespace flopwatch::slurm
