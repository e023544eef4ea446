// The time that one rank lost, handed out once. Every finding says which time it explains; the
// ledger gives it what no finding before it took, so that the claims of a rank never add up to more
// than the rank lost. The order of the findings is ClaimOrder(): the strongest evidence first.
//
// A moment may be lost in part: a kernel on half of the SMs could have taken half of its time. So
// each moment has a share that is left, 1 at first.
//
// Not safe from several threads; linear in the pieces it has and the intervals of a claim.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trace/intervals.h"

namespace flopwatch::trace {

// Time that a finding says was lost on one rank.
struct Claim {
  IntervalSet time;
  double share = 1;           // of every moment of `time`, above 0, up to 1
  std::optional<Nanos> most;  // to be had of all of it, from its begin on; none = all
};

// What a claim got, and who had the rest before.
struct Claimed {
  double nanos = 0;   // of the claim's time
  double missed = 0;  // what others had taken
  int32_t by = -1;    // the owner who had most of it; -1 where nothing was missed
};

class Ledger {
 public:
  // Only time in `windows` (the steps) can be claimed.
  explicit Ledger(const IntervalSet& windows);

  // `owner` is the caller's number of the finding, 0..kMaxOwners-1.
  Claimed Take(const Claim& claim, int32_t owner);
  static constexpr int32_t kMaxOwners = 64;

  // Nanoseconds taken within `set`, and in all.
  double TakenWithin(const IntervalSet& set) const;
  double taken() const { return taken_; }

 private:
  struct Piece {
    Nanos begin, end;
    double left;
    int32_t owner;  // the first that took some of it; -1 = nobody
  };
  std::vector<Piece> pieces_;  // by begin, together the windows
  double taken_ = 0;
};

}  // namespace flopwatch::trace
