// The scheduler's books over a window, by job and by host, beside what was seen: whose attempts a
// job had, and what each host was and held (fleet/sankey/hosts.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fleet/prices/prices.h"
#include "fleet/sankey/hosts.h"
#include "fleet/sankey/sankey.h"
#include "query/memory.h"

namespace flopwatch::query {

// Which part of the hardware a question is about; "" = all of it.
struct HardwareFilter {
  std::string cluster, partition, model;
  bool empty() const { return cluster.empty() && partition.empty() && model.empty(); }
};

// A job that held something in the window by the books, and those of its attempts that began before
// the window's end, in order of start.
struct JobAttempts {
  jobs::JobRecord record;  // id 0: the index does not know it; then with its key and cluster
  std::vector<jobs::AttemptRecord> attempts;
};
struct AttemptsByJob {
  std::vector<JobAttempts> jobs;
  absl::flat_hash_map<int32_t, size_t> by_id;       // places in `jobs`
  absl::flat_hash_map<std::string, size_t> by_key;  // likewise
  // Null where the job is in no books.
  const std::vector<jobs::AttemptRecord>* Of(int32_t job) const {
    const auto it = by_id.find(job);
    return it == by_id.end() ? nullptr : &jobs[it->second].attempts;
  }
  // By its key; also of a job that the index does not know.
  const std::vector<jobs::AttemptRecord>* Of(std::string_view key) const {
    const auto it = by_key.find(std::string(key));
    return it == by_key.end() ? nullptr : &jobs[it->second].attempts;
  }
};
AttemptsByJob AttemptsIn(const Memory& memory, store::Window window);

// The attempt that ran at `at`, else the last one; null where there is none.
const jobs::AttemptRecord* AttemptAt(const std::vector<jobs::AttemptRecord>* attempts, Micros at);

// Which GPUs nodes have. One thread.
class NodeModels {
 public:
  explicit NodeModels(const Memory& memory) : memory_(memory) {}
  // The model of the first GPU that was seen on the first node of a list as Slurm writes it, as it
  // is reported; "" where none is known.
  const std::string& On(const std::string& nodes);

 private:
  const Memory& memory_;
  absl::flat_hash_map<std::string, std::string> model_;  // by node; empty = not asked yet
};

// GPU-seconds of the attempt within the window; 0 where it is not known how many GPUs.
double HeldSeconds(const jobs::AttemptRecord& attempt, store::Window window);

struct Hosts {
  std::vector<std::pair<std::string, fleet::Host>> hosts;
  fleet::DeployedFrom from = fleet::DeployedFrom::kSeen;
  bool any_states = false;  // a scheduler says what hosts are
  int64_t never_seen = 0;   // hosts of a list on which no GPU was ever seen
  int64_t not_listed = 0;   // GPUs on hosts that no list has, where there is one
  bool any_owner = false;   // somebody says who holds GPUs
};
// The name there of the host that has the GPU or instance.
std::string HostOf(const store::EntityRecord& gpu);

// A GPU whose host is not known is a host of its own. The prices outlive the result. `held`: as
// Memory::ForEachOwned().
Hosts HostsIn(const Memory& memory, store::Window window, const HardwareFilter& filter,
              const fleet::Prices& prices, const jobs::OwnedTimes* held = nullptr);

}  // namespace flopwatch::query
