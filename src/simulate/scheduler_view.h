// What Slurm knows of a simulated fleet's jobs at one moment: the same facts for every file and for
// the truth. Clusters under Kubernetes are not in it. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/fleet.h"
#include "simulate/fleet_model.h"

namespace flopwatch::simulate {

// How an attempt holds what it computes on.
enum class GpuHold : uint8_t {
  kWhole,     // gres/gpu
  kInstance,  // one MIG instance: gres/gpu too, of its own type
  kShard,     // gres/shard: half of a shared GPU, and no gres/gpu
};

// The GPUs of one node that an attempt holds.
struct HeldNode {
  int32_t host = 0;
  uint32_t gpus = 0;      // bit n: the GPU with minor number n
  int32_t instance = -1;  // place among the host's MIG instances
};

// Node and GPU resources as Slurm counts them (trackable resources).
struct Tres {
  int32_t cpus = 0, nodes = 0, gpus = 0, shards = 0;
  int64_t mem_mib = 0;
  std::string gpu_type;  // "" = asked for without a type
};

// One attempt of a job, as Slurm knows it at the moment of asking.
struct Attempt {
  int32_t job = 0;  // in Plan::jobs
  int32_t number = 0, attempt = 0;
  std::string cluster, account, user, name, comment, reservation;
  std::string_view partition, qos;
  std::string_view state;  // Slurm's word: "RUNNING", "SUSPENDED", ...
  int32_t uid = 0;
  int32_t cancelled_by = -1;  // uid
  int32_t exit_code = 0, exit_signal = 0;
  // These are seconds of the fleet; kNever stands for not yet, and for never.
  int32_t submit = 0, eligible = 0, start = kNever, end = kNever;
  int32_t elapsed = 0, suspended = 0;  // seconds so far; elapsed is without suspended
  int32_t limit_min = 0;
  bool requeue = true;
  bool over = false;
  GpuHold hold = GpuHold::kWhole;
  Tres requested, allocated;
  std::vector<HeldNode> nodes;  // in the order of the node list
  bool started() const { return start != kNever; }
  bool running() const { return started() && !over; }
};

// A time in which a node took no jobs, with the state that an operator would name.
struct NodePeriod {
  int32_t from = 0, to = 0;
  std::string_view state;  // "DOWN*", "DOWN", "DRAINING", "DRAIN", "MAINT", "ABSENT"
  std::string_view reason, user;
  HostCondition condition = HostCondition::kDown;
};
std::string_view NodeStateName(const HostPeriod& period);

class SchedulerView {
 public:
  // The moment of asking is `now`, in seconds of the fleet, which outlives the view.
  SchedulerView(const Fleet& fleet, int32_t now);

  const Fleet& fleet() const { return fleet_; }
  const Fleet::Model& model() const { return fleet_.model(); }
  int32_t now() const { return now_; }
  int64_t Epoch(int32_t t) const { return origin_ + t; }
  // The attempts that Slurm has heard of, ordered by cluster, number and attempt, as indices into
  // Plan::jobs.
  std::span<const int32_t> attempts() const { return order_; }
  Attempt Of(int32_t job) const;
  // The hosts of Slurm's clusters, ascending.
  std::span<const int32_t> hosts() const { return hosts_; }
  std::vector<NodePeriod> PeriodsOf(int32_t host) const;  // clipped to [0, now)
  // The period that is open at the moment of asking; none where the node takes jobs.
  std::optional<NodePeriod> NodeNow(int32_t host) const;
  bool ReservedNow(int32_t host) const;
  std::string GpuType(int32_t host) const;             // "h100"
  std::string NodeList(const Attempt& attempt) const;  // compressed

 private:
  void FillNodes(Attempt* a) const;
  void FillTres(Attempt* a) const;
  void FillEnd(const Job& job, Attempt* a) const;

  const Fleet& fleet_;
  int32_t now_;
  int64_t origin_;
  NodePeriod Clipped(const HostPeriod& period) const;

  std::vector<int32_t> order_, hosts_;
  std::vector<int32_t> placement_begin_, placements_;  // Plan::placements by job
};

// Writes a duration as "[DD-]HH:MM:SS".
std::string ClockText(int32_t seconds);

inline constexpr int kCpusPerGpu = 16;
inline constexpr int64_t kMemMibPerGpu = 64 * 1024;

// Writes "cpu=16,mem=128G,node=1,billing=16,gres/gpu=2,gres/gpu:h100=2", in slurmctld's order, or
// by name as sacct does.
std::string TresText(const Tres& tres, bool by_name);
// The GPU resources alone: {"gpu", 2} and {"gpu:h100", 2}, or {"shard", 1}.
std::vector<std::pair<std::string, int32_t>> GresOf(const Tres& tres);

}  // namespace flopwatch::simulate
