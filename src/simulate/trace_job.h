// A transformer training job as its profiler traces show it: one Kineto JSON file a rank,
// believable enough that a tool cannot tell (steps, Python frames, operators with shapes and types,
// launches, kernels with grid and occupancy, collectives with metadata, copies, waits, data loader,
// optimizer, memory events, arrows), with exact truth, and one switch for each way of wasting a
// GPU.
//
// Ranks are simulated together, step by step: a collective ends when its last rank has arrived and
// the data have moved, and the optimizer waits for it. Deterministic by seed, on any thread, ranks
// in any order; written as a stream (memory does not grow with the file).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::simulate {

// The patterns that can be planted: the ids of the findings they lead to, and two controls that
// lead to none: "hidden-communication" (communication for most of the step, all of it under
// computation) and "graphs" (every step one CUDA graph).
std::span<const std::string_view> TracePatterns();

struct TraceJobOptions {
  int ranks = 1;  // 1..4096
  int steps = 5;  // 1..100000
  uint64_t seed = 1;
  int64_t events_per_step = 2500;  // of a rank, about; at least some hundred
  std::set<std::string, std::less<>> plant;
};

// What really happened on one rank, from the simulation, in nanoseconds; GPU times are of all
// streams together.
struct TraceRankTruth {
  int rank = 0;
  int64_t events = 0;  // with a duration
  int64_t kernels = 0, copies = 0, collectives = 0;
  int64_t first_gpu = 0, last_gpu = 0;  // since the Unix epoch
  int64_t busy = 0, compute = 0, communication = 0, exposed_communication = 0;  // merged
  int64_t data_loading = 0, blocking_calls = 0;               // nanoseconds; a count
  std::vector<std::pair<int64_t, int64_t>> step_annotations;  // begin, end
  int64_t late_collectives = 0;  // of which this rank is the last to arrive
};

struct TraceJobTruth {
  std::vector<std::string> planted;
  int straggler = -1;  // -1 = none
  std::vector<TraceRankTruth> ranks;
};

class TraceJob {
 public:
  // InvalidArgument for numbers out of range, or an unknown pattern (with those that are known).
  static StatusOr<TraceJob> Create(const TraceJobOptions& options);

  // The file of a rank, in pieces of some 100 KiB, up to an error of `write`. `truth` may be null.
  Status Write(int rank, const std::function<Status(std::string_view)>& write,
               TraceRankTruth* truth) const;
  const TraceJobOptions& options() const { return options_; }
  int straggler() const { return straggler_; }

 private:
  explicit TraceJob(TraceJobOptions options) : options_(std::move(options)) {}
  void SimulateCollectives();

  TraceJobOptions options_;
  int straggler_ = -1;
  // For each step and collective of a step these say when it ends on all ranks, and which rank
  // comes last.
  std::vector<int64_t> ends_;
  std::vector<int> last_;
  size_t collectives_per_step_ = 0;
};

std::string TraceTruthJson(const TraceJobTruth& truth);

// "rank0.json", or "rank0.json.gz".
std::string TraceFileName(int rank, bool gzip);
// Writes every rank's file into the directory (made if missing); truth. `progress` may be empty.
StatusOr<TraceJobTruth> WriteTraceFiles(const TraceJob& job, const std::string& directory,
                                        bool gzip,
                                        const std::function<void(int ranks_done)>& progress);

inline constexpr int kMaxTraceRanks = 4096, kMaxTraceSteps = 100'000;
inline constexpr int64_t kMinTraceEvents = 500, kMaxTraceEvents = 50'000'000;

}  // namespace flopwatch::simulate
