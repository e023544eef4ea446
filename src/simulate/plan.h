// The plan: where and when every job runs, and when every host can be used. Built once,
// single-threaded and fast (a FIFO queue with backfill over whole GPUs); everything later is
// computed from it for any host and time alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/demand.h"
#include "simulate/model.h"

namespace flopwatch::simulate {

inline constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

enum class JobState : uint8_t {
  kPending,
  kRunning,
  kCompleted,
  kCancelled,
  kFailed,
  kNodeFail,
  // Jobs end so with Faults::kScheduler alone.
  kTimeout,
  kOutOfMemory,
  kPreempted,
  kRequeued,
};
std::string_view JobStateName(JobState s);

enum class JobKind : uint8_t { kSingle, kSynchronous, kIndependent, kSession, kService };

// An attempt of a job: a job that its host's failure, another job or an administrator ends and that
// is requeued runs again as the next attempt, with the same number.
struct Job {
  int32_t number = 0;  // what the scheduler calls it
  int32_t workflow = 0;
  int32_t run = 0;  // of its workflow, from 1
  int32_t submit = 0, start = kNever,
          end = kNever;  // seconds since the window's start; end may lie beyond it
  int32_t duration = 0;  // as submitted; kNever = a service
  int32_t gpus = 0;
  int16_t cluster = 0;
  JobKind kind = JobKind::kSingle;
  JobState state = JobState::kPending;
  int16_t attempt = 0;
  int32_t previous = -1;                               // attempt, in Plan::jobs
  int32_t suspend_from = kNever, suspend_to = kNever;  // holds its GPUs, nothing runs
  int32_t reservation = -1;                            // that it runs in, in Plan::reservations

  // Seconds of [from, to) for which it is suspended.
  int32_t Suspended(int32_t from, int32_t to) const {
    if (suspend_from == kNever) return 0;
    return std::max(0, std::min(to, suspend_to) - std::max(from, suspend_from));
  }
  // A requeued job waits until its nodes are surely free of it.
  int32_t eligible() const { return attempt > 0 ? submit + kRequeueDelay : submit; }
  static constexpr int32_t kRequeueDelay = 121;
};

// A job on one lane. A lane is a GPU that runs one job at a time, or one MIG instance of a GPU.
struct Placement {
  int32_t lane = 0;
  int32_t job = 0;
  int32_t rank = 0;
};

struct Host {
  int32_t first_gpu = 0;
  int16_t gpus = 0;
  int16_t cluster = 0;
  int32_t rack = 0;      // within the cluster
  int32_t number = 0;    // within the cluster
  int16_t mig_gpus = 0;  // the first so many GPUs are partitioned
  bool shared = false;   // the last GPU takes two jobs at once
};

enum class HostCondition : uint8_t {
  kNotDeployed,  // not there yet
  kDraining,     // takes no new job, those on it run on
  kDown,         // nothing runs, the exporter does not answer
  kDrained,      // nothing runs, the exporter answers
  kMaintenance,  // in a maintenance reservation: nothing runs, the exporter does not answer
};
// Whether the exporter answers.
inline bool Answers(HostCondition condition) {
  return condition == HostCondition::kDraining || condition == HostCondition::kDrained;
}
// Why, as the scheduler has it; texts are static.
struct HostReason {
  std::string_view text = "Not responding";
  std::string_view user = "slurm(64030)";  // who set it
  bool powered = false;                    // the exporter answers once the host is drained
  bool drained = false;  // took no new jobs any more, and the last one has ended in peace
};
struct HostPeriod {
  int32_t host = 0;
  int32_t from = 0, to = 0;
  HostCondition condition = HostCondition::kDown;
  HostReason reason;
};

// Hosts that are set aside for an account's jobs, or for maintenance.
struct Reservation {
  std::string name;
  int16_t cluster = 0;
  int32_t from = 0, to = 0;
  bool maintenance = false;
  std::string account;         // "" = maintenance
  std::vector<int32_t> hosts;  // in Plan::hosts, ascending
};

struct GpuSwap {  // a new device in the slot
  int32_t gpu = 0;
  int32_t at = 0;
};
struct XidEvent {
  int32_t gpu = 0;
  int32_t at = 0;
  int32_t code = 0;
};

struct Plan {
  int32_t horizon = 0;  // seconds
  std::vector<Host> hosts;
  std::vector<int32_t> cluster_first_host;  // and one past the end
  int32_t gpus = 0;
  int32_t lanes = 0;  // GPUs, then MIG instances
  struct MigGpu {
    int32_t gpu;
    int32_t first_lane;
    MigLayout layout;  // one lane an instance
  };
  // The partitioned GPU that a lane is an instance of; lane >= gpus.
  const MigGpu& MigOfLane(int32_t lane) const;
  // The GPU is one that is partitioned.
  const MigGpu& MigOfGpu(int32_t gpu) const;
  std::vector<MigGpu> mig;  // by gpu
  std::vector<Job> jobs;    // by submission
  std::vector<Placement> placements;
  std::vector<HostPeriod> periods;  // by host, then time; do not overlap
  std::vector<GpuSwap> swaps;       // by gpu, then time
  std::vector<XidEvent> xids;       // by gpu, then time
  std::vector<Reservation> reservations;
};

struct FailureOptions {
  bool enabled = false;
  // Large training clusters report 2.3 to 6.5.
  double node_failures_per_1000_days = 5;
  double repair_median_s = 4 * 3600, repair_sigma = 1.5;
  double out_at_start = 0.025;  // hosts waiting for parts when the window begins
  double late_hosts = 0.01;     // installed during the window
  bool scheduler = false;       // Faults::kScheduler
};

// `planted`: requests by cluster that come beside the demand and go before it in the queue.
Plan BuildPlan(const PresetSpec& spec, DemandModel* demand, uint64_t seed, int total_gpus,
               int32_t horizon, const FailureOptions& failures,
               std::span<const std::vector<Request>> planted = {});

}  // namespace flopwatch::simulate
