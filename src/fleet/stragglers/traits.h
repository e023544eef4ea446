// What a rank shows beside the others of its job, as differences of logarithms. Private to the
// folder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fleet/stragglers/find.h"

namespace flopwatch::fleet {

// kPcie, kNvlink: what goes out and comes in together.
enum Trait : uint8_t { kPower, kSm, kDuty, kNvlink, kPcie, kTraits };
using Traits = std::array<double, kTraits>;  // NaN = not known

// Peers are the ranks of the same NVLink domain where it is about links, else all of the job; where
// there are fewer than these, the other ranks, and the difference is made as small as it were
// beside the middle of many.
inline constexpr size_t kFewRanks = 4;

// Of each of these ranks of one job beside the others of them; without tensor activity nothing is
// known, because means are weighted otherwise.
std::vector<Traits> TraitsBesidePeers(std::span<const StragglerRank* const> ranks);

}  // namespace flopwatch::fleet
