#include "trace/analysis/collective_clocks.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/container/flat_hash_map.h"

namespace flopwatch::trace {
namespace {

// The ends of grouped send/recv kernels that are one all-to-all agree like those of any collective;
// those of a pipeline's point-to-point exchanges are apart by the time of a stage.
constexpr Nanos kEndsAgree = 100'000;
// Rounds over a group in which ranks whose clock became known help others: more only if few ranks
// take part in each.
constexpr int kMaxRounds = 4;

// The lower one of an even number.
Nanos Median(std::vector<Nanos>* values) {
  if (values->empty()) return 0;
  const auto middle = values->begin() + static_cast<ptrdiff_t>((values->size() - 1) / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

// Gives the ranks of one group that have no clock yet theirs; returns the ranks that are new.
// Without any known rank the one that takes part most often is where the component's clock stands.
std::vector<uint32_t> AlignGroup(const std::vector<uint32_t>& collectives, int component,
                                 std::vector<bool>* known, Collectives* all) {
  std::vector<uint32_t> fresh;
  absl::flat_hash_map<uint32_t, size_t> takes_part;
  bool any_known = false;
  for (const uint32_t i : collectives) {
    for (const CollectivePart& part : all->PartsOf(all->all[i])) {
      ++takes_part[part.rank];
      any_known |= (*known)[part.rank];
    }
  }
  if (!any_known) {
    uint32_t anchor = takes_part.begin()->first;
    for (const auto& [rank, times] : takes_part) {
      const size_t most = takes_part[anchor];
      if (times > most || (times == most && rank < anchor)) anchor = rank;
    }
    (*known)[anchor] = true;
    all->clocks[anchor].component = component;
    fresh.push_back(anchor);
  }
  absl::flat_hash_map<uint32_t, std::vector<Nanos>> against;  // rank -> own end - reference
  std::vector<Nanos> ends;
  for (int round = 0; round < kMaxRounds; ++round) {
    against.clear();
    for (const uint32_t i : collectives) {
      const std::span<const CollectivePart> parts = all->PartsOf(all->all[i]);
      ends.clear();
      for (const CollectivePart& part : parts)
        if ((*known)[part.rank]) ends.push_back(part.end - all->clocks[part.rank].measured);
      if (ends.empty()) continue;
      const Nanos reference = Median(&ends);
      for (const CollectivePart& part : parts) against[part.rank].push_back(part.end - reference);
    }
    bool more = false;
    for (auto& [rank, differences] : against) {
      if ((*known)[rank]) continue;
      all->clocks[rank].measured = Median(&differences);
      all->clocks[rank].component = component;
      fresh.push_back(rank);
      more = true;
    }
    for (const uint32_t rank : fresh) (*known)[rank] = true;
    if (!more || against.size() == takes_part.size()) break;
  }
  for (auto& [rank, differences] : against) {
    RankClock& clock = all->clocks[rank];
    clock.samples += static_cast<int64_t>(differences.size());
    for (Nanos& d : differences) d = std::abs(d - clock.measured);
    clock.spread = std::max(clock.spread, Median(&differences));
  }
  std::sort(fresh.begin(), fresh.end());
  return fresh;
}

}  // namespace

void JudgePointToPoint(const std::vector<bool>& paired, Collectives* all) {
  std::vector<size_t> members(all->groups.size(), 0);
  for (const Collective& c : all->all)
    members[c.group] = std::max<size_t>(members[c.group], c.parts);
  std::vector<std::vector<uint32_t>> candidates(all->groups.size());
  for (uint32_t i = 0; i < all->all.size(); ++i) {
    const Collective& c = all->all[i];
    const bool open = c.kind == CollectiveKind::kPointToPoint || c.kind == CollectiveKind::kUnknown;
    if (open && !paired[i] && !c.names_differ && c.parts == members[c.group])
      candidates[c.group].push_back(i);
  }
  for (const std::vector<uint32_t>& of_group : candidates) {
    if (of_group.size() < 2) continue;  // one set of ends always agrees with itself
    absl::flat_hash_map<uint32_t, std::vector<Nanos>>
        against;  // rank -> own end - first part's end
    for (const uint32_t i : of_group) {
      const std::span<const CollectivePart> parts = all->PartsOf(all->all[i]);
      for (const CollectivePart& part : parts)
        against[part.rank].push_back(part.end - parts.front().end);
    }
    absl::flat_hash_map<uint32_t, Nanos> offset;
    for (auto& [rank, differences] : against) offset[rank] = Median(&differences);
    size_t agree = 0;
    for (const uint32_t i : of_group) {
      Nanos first = std::numeric_limits<Nanos>::max(), last = std::numeric_limits<Nanos>::min();
      for (const CollectivePart& part : all->PartsOf(all->all[i])) {
        first = std::min(first, part.end - offset[part.rank]);
        last = std::max(last, part.end - offset[part.rank]);
      }
      agree += last - first <= kEndsAgree;
    }
    if (agree * 10 < of_group.size() * 9) continue;
    for (const uint32_t i : of_group) all->all[i].synchronising = true;
  }
}

void AlignClocks(Collectives* all) {
  const size_t ranks = all->clocks.size();
  std::vector<std::vector<uint32_t>> of_group(all->groups.size());
  for (uint32_t i = 0; i < all->all.size(); ++i)
    if (all->all[i].synchronising) of_group[all->all[i].group].push_back(i);
  std::vector<std::vector<uint32_t>> groups_of(ranks);
  for (uint32_t g = 0; g < of_group.size(); ++g) {
    for (const uint32_t i : of_group[g]) {
      for (const CollectivePart& part : all->PartsOf(all->all[i])) {
        std::vector<uint32_t>& of_rank = groups_of[part.rank];
        if (of_rank.empty() || of_rank.back() != g) of_rank.push_back(g);
      }
    }
  }
  // The walk goes from the group with most collectives outwards: the ranks whose clock is known
  // give the reference to the next group.
  std::vector<bool> known(ranks, false), done(of_group.size(), false);
  std::vector<uint32_t> order(of_group.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return of_group[a].size() > of_group[b].size(); });
  int component = 0;
  for (const uint32_t seed : order) {
    if (done[seed] || of_group[seed].empty()) continue;
    std::vector<uint32_t> queue = {seed};
    done[seed] = true;
    for (size_t at = 0; at < queue.size(); ++at) {
      for (const uint32_t rank : AlignGroup(of_group[queue[at]], component, &known, all)) {
        for (const uint32_t g : groups_of[rank]) {
          if (!done[g]) queue.push_back(g);
          done[g] = true;
        }
      }
    }
    ++component;
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    if (!known[r]) all->clocks[r].component = component++;
    all->one_clock &= std::abs(all->clocks[r].measured) <= kClockNoise;
  }
  for (RankClock& clock : all->clocks) clock.offset = all->one_clock ? 0 : clock.measured;
  for (CollectivePart& part : all->parts) {
    part.begin -= all->clocks[part.rank].offset;
    part.end -= all->clocks[part.rank].offset;
  }
}

}  // namespace flopwatch::trace
