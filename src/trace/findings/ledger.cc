#include "trace/findings/ledger.h"

#include <algorithm>
#include <array>

namespace flopwatch::trace {
namespace {

// Shares below this are what sums of doubles leave behind.
constexpr double kNoShare = 1e-9;

}  // namespace

Ledger::Ledger(const IntervalSet& windows) {
  pieces_.reserve(windows.size());
  for (const Interval& w : windows) pieces_.push_back({w.begin, w.end, 1, -1});
}

Claimed Ledger::Take(const Claim& claim, int32_t owner) {
  Claimed got;
  if (claim.time.empty() || claim.share <= 0 || pieces_.empty()) return got;
  const double share = std::min(claim.share, 1.0);
  std::array<double, kMaxOwners> missed{};
  double room = claim.most ? static_cast<double>(*claim.most) : -1;  // below 0 = without end
  std::vector<Piece> out;
  out.reserve(pieces_.size() + 2 * claim.time.size());
  // Neighbours that nothing tells apart are one piece.
  const auto add = [&](const Piece& p) {
    if (p.begin >= p.end) return;
    if (!out.empty() && out.back().end == p.begin && out.back().left == p.left &&
        out.back().owner == p.owner)
      out.back().end = p.end;
    else
      out.push_back(p);
  };
  size_t at = 0;
  for (const Piece& piece : pieces_) {
    Nanos from = piece.begin;
    while (at < claim.time.size() && claim.time[at].end <= from) ++at;
    for (size_t i = at; i < claim.time.size() && claim.time[i].begin < piece.end; ++i) {
      if (claim.most && room <= kNoShare) break;
      const Nanos begin = std::max(from, claim.time[i].begin);
      Nanos end = std::min(piece.end, claim.time[i].end);
      const double take = std::min(share, piece.left);
      if (claim.most && take > kNoShare && room < static_cast<double>(end - begin) * take)
        end = std::min(end, begin + static_cast<Nanos>(room / take + kNoShare));
      const double length = static_cast<double>(end - begin);
      if (claim.most) room -= length * take;
      if (share - take > kNoShare) {
        got.missed += length * (share - take);
        if (piece.owner >= 0) missed[static_cast<size_t>(piece.owner)] += length * (share - take);
      }
      add({from, begin, piece.left, piece.owner});
      got.nanos += length * take;
      add({begin, end, std::max(0.0, piece.left - take), piece.owner < 0 ? owner : piece.owner});
      from = end;
    }
    add({from, piece.end, piece.left, piece.owner});
  }
  pieces_ = std::move(out);
  taken_ += got.nanos;
  if (const auto most = std::ranges::max_element(missed); *most > 0)
    got.by = static_cast<int32_t>(most - missed.begin());
  return got;
}

double Ledger::TakenWithin(const IntervalSet& set) const {
  double sum = 0;
  size_t at = 0;
  for (const Piece& p : pieces_) {
    while (at < set.size() && set[at].end <= p.begin) ++at;
    if (p.left >= 1) continue;
    for (size_t i = at; i < set.size() && set[i].begin < p.end; ++i)
      sum += (1 - p.left) *
             static_cast<double>(std::min(p.end, set[i].end) - std::max(p.begin, set[i].begin));
  }
  return sum;
}

}  // namespace flopwatch::trace
