// A node as Slurm describes it, and what its state says about whether work can be put on it.
// ParseNodeState is pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "jobs/slurm/gres_detail.h"

namespace flopwatch::slurm {

// Schedulable = not DOWN, DRAIN, FAIL, MAINT, NOT_RESPONDING, POWERED_DOWN (nor on the way there),
// ERROR, FUTURE or INVALID. RESERVED and PLANNED nodes stay in. A draining node still runs work: it
// is not schedulable and busy.
enum class Schedulable : uint8_t { kUnknown, kNo, kYes };
std::string_view SchedulableName(Schedulable s);

struct NodeState {
  std::string base;                // "IDLE", "MIXED", "ALLOCATED", "DOWN", …; "" where unknown
  std::vector<std::string> flags;  // "DRAIN", "NOT_RESPONDING", …, each once, in order
  Schedulable schedulable = Schedulable::kUnknown;
  std::string why;  // the words that make it not schedulable, "DOWN, DRAIN"
  bool Has(std::string_view flag) const;
};

// Any way Slurm writes it: "MIXED+PLANNED", "IDLE*+DRAIN", "drained", "drng", "idle~", or a list of
// words. A suffix says: * not responding, ~ powered down, # powering up, ! power down pending,
// % powering down, $ maintenance, @ reboot pending, ^ reboot issued, - planned. A word that is not
// known leaves the answer unknown unless another word says no.
NodeState ParseNodeState(std::string_view text);

struct NodeRecord {
  std::string name, cluster;
  std::vector<Gres> gres;                 // what it has
  std::vector<Gres> gres_used;            // with indices, where the source says them
  std::optional<int64_t> gpus;            // from gres, else from its configured TRES
  std::optional<int64_t> allocated_gpus;  // from gres_used, else from its allocated TRES
  NodeState state;
  std::string state_text, reason;
  std::optional<Micros> reason_since;
  std::vector<std::string> partitions;
  std::string place;
};

// Fills gpus and allocated_gpus from gres and, where that says nothing, from these TRES.
void SettleGpus(const Tres& configured, const Tres& allocated, NodeRecord* node);

// A line of `sacctmgr show event`: a time in which a node (or, with no node, the whole cluster) was
// not in service. It starts when a draining node's last job ends, not at the drain command.
struct NodeEvent {
  std::string cluster, node;         // node "" = the cluster
  std::optional<Micros> start, end;  // end absent = goes on
  NodeState state;
  std::string state_text, reason, user;
  std::string place;
};

}  // namespace flopwatch::slurm
