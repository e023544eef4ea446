// One list of attempts out of what several sources say: sacct's rows (which have the ends, and
// never a GPU index), squeue or scontrol while jobs ran (which have the indices), and what prologs
// noted. An attempt is (cluster, raw id, start): a requeued job has several, and an array's own id
// is that of its last task. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "jobs/slurm/read.h"

namespace flopwatch::slurm {

// Why the GPU-seconds of an attempt are not computable.
enum class NoGpuTime : uint8_t {
  kNone,           // they are
  kOnlyShards,     // it holds parts of GPUs (shards, MPS): which part of them is not said
  kOnlyRequested,  // what it asked for is known, not what it was given (exclusive nodes give more)
  kNoEnd,          // it runs and no source says when it looked, or it ended and none says when
  kUnknownState,   // its state does not say whether it has ended
};
std::string_view NoGpuTimeName(NoGpuTime why);

struct Attempt {
  JobRecord job;                   // of all sources; `job.source` is the one that knows most
  std::vector<JobSource> sources;  // that told of it, each once
  bool from_prolog = false;        // indices came from a prolog or a map file

  std::optional<int64_t> gpus;  // held at a time, of all nodes; MIG instances count one each
  // Until when it is counted: its end, or of a running one the newest look.
  std::optional<Micros> until;
  bool running = false;  // no end yet
  // A later attempt of the same job is known, so this one has ended, at a time nobody wrote down:
  // counted until it was last seen.
  bool end_unseen = false;
  // GPUs x (until - start): what nobody else could have, suspended time included.
  std::optional<int64_t> held_gpu_seconds;
  // The part of it in which the job was suspended. Slurm's own elapsed time leaves it out.
  std::optional<int64_t> suspended_gpu_seconds;
  NoGpuTime no_gpu_time = NoGpuTime::kNone;
};

struct AttemptCounts {
  uint64_t records = 0;        // job records of all sources
  uint64_t attempts = 0;       // that the list has
  uint64_t same_attempt = 0;   // records that told of an attempt another one told of
  uint64_t waiting = 0;        // no start yet
  uint64_t never_started = 0;  // over without a start: cancelled in the queue
  uint64_t no_start = 0;       // holds or held GPUs, and no source says since when
  uint64_t without_gpus = 0;   // attempts of jobs that asked for none
  uint64_t map_lines = 0;      // of prologs and map files
  uint64_t map_lines_placed = 0;
  uint64_t map_lines_unplaced = 0;   // no attempt of that job on that node at that time
  uint64_t map_lines_ambiguous = 0;  // several attempts, and the line has no time
  bool operator==(const AttemptCounts&) const = default;
};

struct AttemptList {
  std::vector<Attempt> attempts;  // those with GPUs, by start, then cluster and raw id
  AttemptCounts counts;
  // What a reader should know: for example that no record at all names a GPU.
  std::vector<std::string> notes;
};

// `as_of`: when the files were written, for running attempts whose source does not say; absent =
// not known.
AttemptList MergeAttempts(absl::Span<const Books> books, std::optional<Micros> as_of);

}  // namespace flopwatch::slurm
