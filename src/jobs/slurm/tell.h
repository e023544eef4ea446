// From what Slurm's commands wrote to the books (jobs/books.h) and to who held which GPU
// (jobs/job_index.h). The one way for files that are imported and for a cluster that is asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "jobs/books.h"
#include "jobs/job_index.h"
#include "jobs/slurm/attempts.h"

namespace flopwatch::slurm {

struct TellOptions {
  // When the files were written, for sources that do not say; absent = not known.
  std::optional<Micros> as_of;
  // They are one look, at as_of, at all jobs that wait or run, and at all nodes, of `cluster`.
  bool whole_look = false;
  // Of a whole look: raw ids of jobs that are there and could not be read; they stay what they
  // were.
  std::vector<std::string> unread;
  // Not all of the nodes could be read: those that are not there stay what they were.
  bool nodes_missing = false;
  std::string cluster;  // of nodes and events that do not name theirs
  // Since when nodes were there that are looked at for the first time; absent = since the first
  // start of an attempt, or the first event. Meaningful where there are nodes or events.
  std::optional<Micros> nodes_since;
};

struct Told {
  uint64_t attempts = 0, waiting = 0, nodes = 0, events = 0;
  uint64_t placed = 0;      // attempts whose GPUs are known
  uint64_t not_placed = 0;  // only how many, and on which nodes at most
  uint64_t vanished = 0;    // of a whole look: ran or waited before it, and are not there any more
};

// Threads: as its targets; `index` may be null (nobody's samples are stamped).
Told Tell(absl::Span<const Books> books, const TellOptions& options, jobs::Books* to,
          jobs::JobIndex* index);

jobs::Service ServiceOf(const NodeState& state);

}  // namespace flopwatch::slurm
