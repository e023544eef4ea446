// Ranks that hold their job back at a normal clock: a GPU that stalls, one whose links are bad, a
// host that is late. Private to the folder.
//
// Where a rank is waited for the others spin in a collective: SMs active, GPU busy, at low power.
// So
//   stall  the GPU draws more power than its peers; retries and corrected errors grow
//   link   its NVLinks carry less than those of its peers, or their errors and recoveries grow
//   host   its GPUs do nothing while they wait for their host: duty and SM activity are lower,
//   which
//          says how much slower it is
// Errors also happen to GPUs that hold nobody back, and power differs between GPUs that are alike;
// how often and by how much a fleet shows by itself. A probability is made of all that is seen.
#pragma once

#include <span>
#include <vector>

#include "fleet/stragglers/ranks.h"

namespace flopwatch::fleet {

struct Suspect {
  size_t job = 0, rank = 0;  // rank: index into JobEstimate::ranks
  double innocent = 1;
  double slower = 0;  // log; 0 = not known
  Straggler straggler;
};

// Without `by_errors` late hosts alone.
std::vector<Suspect> SuspectsAtFullClock(std::span<const StragglerJob> jobs,
                                         std::span<const JobEstimate> estimates,
                                         bool by_errors = true);

// The probability that what was measured `x` slower (log), with an error of `sd`, is less than
// kInnocent slower than it could be, where all but `slow_share` are the same but for `spread` (sd).
double InnocentOf(double x, double sd, double spread, double slow_share = 0.01);

}  // namespace flopwatch::fleet
