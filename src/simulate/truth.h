// What really happened in a window, as integers. Computed from the model's integrals, so neither
// sampling nor telemetry faults are in it. Every ratio is a quotient of two of these integers; the
// levels of a cluster multiply to its compound efficiency exactly because each level's numerator is
// the next one's denominator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace flopwatch::simulate {

using Int128 = __int128;

// GPU time in GPU-microseconds. In a cluster's MIG part the unit is SM-microseconds (each instance
// counts its SMs).
struct WorkCounters {
  int64_t allocated_us = 0;      // a job holds the GPU (shared: counted once)
  int64_t gpu_busy_us = 0;       // a kernel ran
  int64_t sm_active_us = 0;      // SM activity x time
  int64_t tensor_active_us = 0;  // tensor-pipe activity x time
  Int128 tensor_cycles = 0;      // tensor-pipe active cycles (of one SM; all SMs of a GPU alike)
  Int128 peak_cycles = 0;        // tensor clock x allocated time: OFU = tensor_cycles / peak_cycles
  int64_t energy_mj = 0;         // above the idle boards
  WorkCounters& operator+=(const WorkCounters& o);
};

struct ClusterTruth {
  std::string cluster, model;
  bool mig = false;
  int tensor_max_mhz = 0;
  int sms_per_gpu = 0;  // the unit of the MIG part
  int32_t gpus = 0;
  // deployed >= schedulable >= provisioned_on_busy >= work.allocated >= work.gpu_busy ...
  int64_t deployed_us = 0;
  int64_t schedulable_us = 0;          // on hosts that take jobs
  int64_t provisioned_on_busy_us = 0;  // of these, on hosts with at least one job
  WorkCounters work;                   // on schedulable hosts
  // Work on draining hosts is not on schedulable ones and so stands apart; job totals contain both.
  int64_t draining_us = 0;
  WorkCounters draining;
};

// A GPU of a synchronous job that is slower than a GPU of its model is, and would hold it up by
// that factor if the others were not slow. Where several hold for a time, each has an entry, and a
// planted one contains what the GPU is by itself.
struct SlowGpuTruth {
  std::string gpu, node;
  std::string_view kind;  // clock, power_cap, thermal, stall, link, host
  Micros from = 0, to = 0;
  double factor = 1;
  bool planted = false;
};

// A time for which GPUs are held idle.
struct IdleTruth {
  std::string_view state;  // no_process, no_work, startup, barrier, hung, ...
  Micros from = 0, to = 0;
  int32_t gpus = 0;
  std::vector<std::string> which;  // empty = all of the job's
  bool planted = false;
};

struct JobTruth {
  std::string key, name, user, workflow, cluster, model, state;
  std::vector<std::string> pods;
  int32_t gpus = 0;
  int32_t run = 0;            // of its workflow, from 1
  int32_t attempt = 0;        // > 0: requeued, the key is that of the attempts before it
  Micros start = 0, end = 0;  // 0 = not over within the fleet's window
  bool mig = false;
  int sms = 0, gpu_sms = 0;  // of the instance and its GPU (MIG only)
  int tensor_max_mhz = 0;
  WorkCounters work;        // of a shared GPU an equal share
  double reported_mfu = 0;  // what the application would claim; 0 = nothing
  // How the application comes to it; set with reported_mfu alone.
  std::string app_model, convention;
  std::string miscount;  // the error in its FLOPs, as the detector calls the cause; "" = none
  double inflation = 1;  // by it: reported MFU over a right one's beside this OFU
  bool full_recompute = false;                // whether or not the application says so
  double counted_flops = 0, exact_flops = 0;  // training FLOPs a token, as claimed and as they are
  int32_t app_gpus = 0;  // that it works on: fewer than gpus where some are never used
  // With --incidents alone.
  std::vector<SlowGpuTruth> slow;  // factors of 1.01 and more
  std::vector<IdleTruth> idle;
};

// A user or workflow: sums over its jobs on whole GPUs. Clocks differ between models, so its OFU is
// ofu_numerator / ofu_denominator with the least common multiple of the fleet's tensor clocks.
struct GroupTruth {
  std::string name;
  int32_t jobs = 0;
  WorkCounters work;
  Int128 ofu_numerator = 0, ofu_denominator = 0;
};

struct EventTruth {
  std::string_view kind;
  std::string entity;  // GPU, job, workflow or node it befell
  std::string job, node;
  Micros start = 0, end = 0;
  double size = 0;
  // Of what --incidents planted.
  bool planted = false;
  std::vector<std::string> gpus;  // that it befell; empty = all of the job's
  std::string_view sign;          // how the counters tell
  // Of a workflow: the first changed run, the runs before and after (of ten minutes and more) and
  // the relative standard deviation of the OFU of those before.
  int32_t run = 0, runs_before = 0, runs_after = 0;
  double scatter = 0;
  std::string commit;  // that the changed run is the first of; "" = it is not
};

// What the books of a cluster under Slurm should come to, in whole seconds. GPU-seconds are those
// of gres/gpu on whole GPUs; MIG instances and halves of a shared GPU (gres/shard) are counted
// apart, in seconds of one.

// An attempt of a job: a requeued job has several.
struct AttemptTruth {
  std::string key, cluster, account, user, partition, qos, reservation, state;
  std::string hold;  // "gpu", "mig" or "shard"
  int32_t attempt = 0;
  int32_t gpus = 0;  // instances or shards where it holds those
  // Seconds since 1970; 0 = not yet, or never.
  int64_t submit = 0, eligible = 0, start = 0, end = 0;
  int64_t elapsed_s = 0, total_suspended_s = 0;  // since its start, also before the window
  int64_t running_s = 0, suspended_s = 0;        // within the window; it holds its GPUs in both
};

// An account, a partition, a node or a cluster.
struct UsageTruth {
  std::string name, parent;  // the account above an account
  int32_t attempts = 0;      // that held something in the window
  int64_t running_gpu_s = 0, suspended_gpu_s = 0;
  int64_t mig_s = 0, shard_s = 0;  // suspended or not
  int64_t allocated_gpu_s() const { return running_gpu_s + suspended_gpu_s; }
};

struct NodeStateTruth {
  std::string state, reason, user;  // ABSENT, DOWN*, DOWN, DRAINING, DRAIN, MAINT, RESERVED
  int64_t from = 0, to = 0;         // seconds since 1970
};

// Node time in seconds, or GPU time (that, times the whole GPUs of the node), by the node's state.
// deployed = schedulable + draining + drained + down + maintenance; with absent, the window.
struct StateSeconds {
  int64_t absent = 0, deployed = 0, schedulable = 0;
  int64_t reserved = 0;  // of the schedulable
  int64_t busy = 0;      // of the schedulable, with at least one job on the node
  int64_t draining = 0, drained = 0, down = 0, maintenance = 0;
  StateSeconds& operator+=(const StateSeconds& o);
  StateSeconds operator*(int64_t gpus) const;
};

struct NodeTruth {
  std::string node;
  int32_t gpus = 0;                    // whole ones
  std::vector<NodeStateTruth> states;  // other than taking jobs, by time; RESERVED may overlap
  StateSeconds node_s;
  UsageTruth usage;
  // allocated_gpu_s by the node's state at that time. Closed: down, drained, maintained, absent,
  // where nothing should be.
  int64_t on_schedulable_gpu_s = 0, on_draining_gpu_s = 0, on_closed_gpu_s = 0;
};

struct BooksTruth {
  std::string cluster;
  int32_t gpus = 0;    // whole ones
  StateSeconds gpu_s;  // over the nodes
  UsageTruth usage;
  int64_t on_schedulable_gpu_s = 0, on_draining_gpu_s = 0, on_closed_gpu_s = 0;
  std::vector<UsageTruth> partitions, accounts;
  std::vector<NodeTruth> nodes;
};

struct SchedulerTruth {
  std::vector<BooksTruth> clusters;
  std::vector<AttemptTruth> attempts;  // as sacct lists them, but those over before the window
};

struct Truth {
  Micros from = 0, to = 0;
  uint64_t seed = 0;
  std::string preset, faults;
  std::vector<ClusterTruth> clusters;
  GroupTruth fleet;  // over all whole GPUs
  std::vector<JobTruth> jobs;
  std::vector<GroupTruth> users, workflows;
  std::vector<EventTruth> events;
  // Kinds of incidents that were asked for: how many, and how many could be planted.
  struct PlantedCount {
    std::string_view kind;
    int32_t asked = 0, planted = 0;
  };
  std::vector<PlantedCount> planted;
  std::optional<SchedulerTruth> scheduler;  // where it was asked for
};

// Integers are written in full, also above 2^53.
std::string TruthJson(const Truth& truth);
std::string ToString(Int128 v);

}  // namespace flopwatch::simulate
