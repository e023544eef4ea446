// Where the fleet's GPU time went, from the hardware that is there down to OFU ("Dr. Sankey":
// Wesolowski et al., "Datacenter-Scale Analysis and Optimization of GPU Machine Learning
// Workloads", Data aggregation tools): a chain of levels, each a part of the one above, and between
// two levels the losses. Pure.
//
// GPU-seconds throughout; a GPU is a whole board, MIG instances are parts of it by their SMs.
//
//   level           what counts                                     loss on the way there
//   --------------  ----------------------------------------------  ------------------------------
//   deployed        every GPU that is there
//   schedulable     less hosts that take no work                    down, drained, maintenance,
//                                                                   powered_down
//   on_busy_hosts   GPUs of hosts on which any GPU is held          idle_hosts, idle_hosts_queued
//   allocated       GPUs that a job holds                           free_on_busy_hosts,
//                                                                   free_queued, mig_uncovered
//   busy            held and a kernel runs (duty cycle)             allocated_idle
//   sm_active       x share of SMs with a warp                      sm_idle
//   tensor_active   x share of cycles with the tensor pipe active   tensor_idle
//   full_clock      x SM clock / maximum tensor clock = OFU         below_full_clock
//
// What a job holds on a host that takes no new work (it drains) counts as schedulable until the job
// ends, and is told apart (draining_work). Free GPUs are `…_queued` while somebody waited for GPUs
// of the same partition: they were in the wrong place or too few together, or not given out.
//
// From `busy` on, levels are measured. Time in which a level's counter was missing is a loss of its
// own, `unmeasured`, and never scaled up: the true level lies between what is shown and that plus
// the unmeasured time down to it. Of the counters' sums alone it cannot be told how much of the
// unmeasured time was lost; `unmeasured` is therefore the most it can be, the loss beside it the
// least. The losses and the last level add up to `deployed`.
//
// A kernel keeps at least as many SMs active as use the tensor pipe, and the GPU busy meanwhile: a
// level whose counter is missing is at least what the level below it shows, in as much time as that
// one's counter was there longer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "efficiency/usage_sums.h"
#include "fleet/sankey/hosts.h"

namespace flopwatch::fleet {

enum class SankeyLevel : uint8_t {
  kDeployed,
  kSchedulable,
  kOnBusyHosts,
  kAllocated,
  kBusy,
  kSmActive,
  kTensorActive,
  kFullClock,
  kCount
};
inline constexpr size_t kSankeyLevels = static_cast<size_t>(SankeyLevel::kCount);
std::string_view SankeyLevelName(SankeyLevel level);
std::string_view SankeyLevelTitle(SankeyLevel level);  // for people

// Who says which GPUs are there.
enum class DeployedFrom : uint8_t {
  kSeen,       // GPUs that were ever seen: a host that never answered does not exist
  kScheduler,  // its list of nodes
  kInventory,  // the site's own list
  kSeveral,    // lists, and GPUs on hosts that no list has
};
std::string_view DeployedFromName(DeployedFrom from);

// What measured losses cost where not all of a chain's GPUs have one price: made of parts of the
// held time, each with a price of its own (a host's, a job's). A loss of the whole chain costs its
// GPU-seconds at the mean price that this loss has over the parts; when in the window a part's
// losses were is not known, so its price is the mean over what it held. Time without a price adds
// GPU-seconds and no money.
class LossPrices {
 public:
  // `measured` of the whole chain: it decides which levels are known.
  explicit LossPrices(const efficiency::UsageSums& measured);
  // A part held so many GPU-seconds, which cost `cost`, and so much was measured of them.
  void Add(double held_s, const efficiency::UsageSums& measured, const Money& cost);
  // What so many GPU-seconds of a loss below `allocated` cost. Absent: no price of any is known.
  std::optional<double> Of(std::string_view loss, SankeyLevel before, double gpu_seconds) const;
  // Of all parts.
  double held_s() const { return all_.gpu_seconds; }
  const Money& cost() const { return all_.money; }

 private:
  std::array<bool, kSankeyLevels> known_;
  PricedTime all_;
  std::array<PricedTime, kSankeyLevels> unmeasured_{}, lost_{};  // by the level not reached
};

// The levels that who held which GPU tells, in GPU-seconds.
struct HeldLevels {
  double on_busy_hosts_s = 0;
  double allocated_s = 0;
  double mig_uncovered_s = 0;  // SMs of partitioned GPUs on busy hosts that no instance has
};

// GPU-seconds of a window, as far as they are known.
struct SankeyInput {
  DeployedFrom deployed_from = DeployedFrom::kSeen;
  double deployed_s = 0;
  // GPU time on hosts that take work. Absent where nobody says which do.
  std::optional<double> schedulable_s;
  // Absent where nobody says who holds which GPU: then no level between deployed and busy is known.
  std::optional<HeldLevels> held;
  // The same host by host, where it is known: what the losses above `allocated` are made of.
  std::optional<HostTime> hosts;
  // Where there are prices; those of hosts are in `hosts`.
  std::optional<LossPrices> money;
  // Hosts that are deployed by a list and were never seen, and GPUs seen that no list has.
  int64_t never_seen = 0, not_listed = 0;
  // How old what the scheduler said last is, where that is long; 0 = it is not.
  Micros scheduler_silent = 0;
  // What was measured of held time; of all time where `held` is absent.
  efficiency::UsageSums measured;
  // Seconds in which each measured level had its counter, of no holder more than it held
  // (AddCovered): samples at a job's ends stand for time of others as well, and what one job has
  // too much does not make up for what another lacks. Absent: as in `measured`.
  using Covered = std::array<double, kSankeyLevels>;
  std::optional<Covered> covered_s;
  // Seconds in which a kernel ran on a GPU that nobody held.
  double busy_without_owner_s = 0;
};

struct SankeyRow {
  SankeyLevel level = SankeyLevel::kDeployed;
  std::optional<double> gpu_seconds;  // absent: not known, and `why_unknown` says why
  std::optional<double> of_previous;  // of the nearest level above that is known
  // Share of the allocated time in which the level was measured; absent above `busy`.
  std::optional<double> coverage;
  // By how much the sums exceeded the level above, before the level was cut to it.
  double excess_s = 0;
  std::string_view why_unknown = {};
};

// The loss of time in which nothing was measured, at whatever level.
inline constexpr std::string_view kUnmeasuredName = "unmeasured";

struct SankeyLoss {
  std::string_view name, title;              // for machines and for people
  SankeyLevel before = SankeyLevel::kCount;  // the level that the time did not reach
  double gpu_seconds = 0;
  std::optional<double> money;  // absent: no price is known
  // What the scheduler wrote beside it and the GPU-seconds of each, most first; a few.
  std::vector<std::pair<std::string, double>> reasons = {};
};

struct Sankey {
  DeployedFrom deployed_from = DeployedFrom::kSeen;
  double deployed_s = 0;
  std::optional<double> deployed_money;
  double draining_work_s = 0;  // part of `schedulable`
  std::array<SankeyRow, kSankeyLevels> levels;
  std::vector<SankeyLoss> losses;  // in the order of the levels; those above 0
  // Full clock over deployed. Absent where nothing was deployed, or no OFU was computable.
  std::optional<double> compound;
  std::vector<std::string> notes;  // what the reader must know, in whole sentences
};

// Adds what was measured of a job, or of a GPU, that was held for so long.
void AddCovered(double held_s, const efficiency::UsageSums& measured,
                SankeyInput::Covered* covered);

Sankey MakeSankey(const SankeyInput& input);

}  // namespace flopwatch::fleet
