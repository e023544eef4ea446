// The measured levels of a Sankey (sankey.h) and what is lost between them. Private to the folder.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "efficiency/usage_sums.h"
#include "fleet/sankey/sankey.h"

namespace flopwatch::fleet {

inline constexpr auto kFirstMeasured = static_cast<size_t>(SankeyLevel::kBusy);

// Seconds in which the counter of a measured level was there.
double SpanOf(const efficiency::UsageSums& sums, SankeyLevel level);
// Of which levels anything was measured.
std::array<bool, kSankeyLevels> KnownOf(const efficiency::UsageSums& sums);

// What the known levels come to at least in `top` seconds, and how much of these their counters
// were missing.
struct Measured {
  std::array<double, kSankeyLevels> least{}, missing{}, covered{};
  std::array<bool, kSankeyLevels> known{};
};
// `covered`: as in SankeyInput.
Measured MeasuredOf(const efficiency::UsageSums& sums, double top,
                    const std::array<bool, kSankeyLevels>& known,
                    const std::optional<SankeyInput::Covered>& covered = std::nullopt);

// From `top` down: calls unmeasured(level, seconds) and then level(level, what it comes to) for
// each level that is known; in the end, where no OFU is, unmeasured() with all that is left.
template <typename Unmeasured, typename Level>
void WalkDown(const Measured& m, double top, Unmeasured&& unmeasured, Level&& level) {
  double above = top, missed = 0;
  for (size_t k = kFirstMeasured; k < kSankeyLevels; ++k) {
    if (!m.known[k]) continue;
    // Time that was missing at a level above and is not missing here is in that one's loss.
    const double lost = std::clamp(m.missing[k] - missed, 0.0, std::max(0.0, above - m.least[k]));
    unmeasured(static_cast<SankeyLevel>(k), lost);
    above -= lost;
    missed += lost;
    level(static_cast<SankeyLevel>(k), m.least[k]);
    above = std::clamp(m.least[k], 0.0, above);
  }
  if (!m.known[kSankeyLevels - 1]) unmeasured(SankeyLevel::kFullClock, above);
}

}  // namespace flopwatch::fleet
