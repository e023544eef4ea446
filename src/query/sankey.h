// Gathers what the Sankey of a window is made of (fleet/sankey/sankey.h): who was there, who held
// what on which host, and what was measured of it.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "fleet/prices/prices.h"
#include "fleet/sankey/sankey.h"
#include "query/books.h"
#include "query/query.h"

namespace flopwatch::query {

// Which part of the fleet. Of hardware all levels are known; an account has no hardware: its chain
// begins with what its jobs held.
struct SankeyFilter {
  HardwareFilter hardware;
  std::string account;
  bool empty() const { return hardware.empty() && account.empty(); }
};

// Jobs that held GPUs of the hosts that a filter names, or of its account.
absl::flat_hash_set<int32_t> JobsOf(const Memory& memory, store::Window window,
                                    const SankeyFilter& filter);

// What a job, or whatever held GPUs for so long, lost of that time: the chain from `allocated`
// down. Pure; nothing is priced.
fleet::Sankey LossesOfHeld(double held_s, const store::UsageSums& measured);

// How much of the window's GPU time was on hosts with a held GPU, and held. A walk over GPUs and
// intervals: 100,000 GPUs take tens of milliseconds. nullopt where nobody has ever said of any GPU
// who holds it.
std::optional<fleet::HeldLevels> HeldTime(const Memory& memory, store::Window window);

// Measured time is that of samples stamped with a job, or joined with the intervals (`join`), as in
// the list of jobs; where `filter` names hardware, that of its GPUs while they were held, from
// rollups. May read the store. `view` becomes that of the list, which may be a little older.
StatusOr<fleet::Sankey> SankeyOver(const Query& query, View* view, JobJoin join,
                                   const SankeyFilter& filter, const fleet::Prices& prices);

}  // namespace flopwatch::query
