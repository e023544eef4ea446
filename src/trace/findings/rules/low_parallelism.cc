// low-parallelism (the fleet paper's insufficient concurrency): more than a quarter of computing
// time runs kernels with fewer blocks than the GPU has SMs and none beside them that fills it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kLowParallelismShare = 0.25;

RankCheck LowParallelism(const RankMeasures& m) {
  const EventTable& e = m.events;
  Nanos known = 0;
  Intervals small, full;
  TopNames names;
  Row longest = kNoRow;
  for (const Row r : m.gpu) {
    const bool compute = m.ClassOf(r) == KernelClass::kCompute;
    const KernelDetail* k = m.rank.KernelOf(r);
    const double blocks = k == nullptr ? std::nan("") : m.BlocksPerSm(*k);
    if (std::isnan(blocks)) continue;
    if (compute) known += e.dur[r];
    if (blocks >= 1) full.push_back({e.ts[r], e.end(r)});
    if (blocks >= 1 || !compute) continue;
    small.push_back({e.ts[r], e.end(r)});
    names.Add(e.name[r], e.dur[r]);
    if (longest == kNoRow || e.dur[r] > e.dur[longest]) longest = r;
  }
  if (known == 0)
    return CannotCheck(
        "no kernel of the trace has blocks per SM, or a grid and a device with a known number of "
        "SMs");
  // A kernel beside it that has a block for every SM fills what a small grid leaves.
  const IntervalSet alone =
      Intersect(Subtract(Merge(std::move(small)), Merge(std::move(full))), m.windows);
  const Nanos low = Length(alone);
  const double share = m.compute_busy > 0 ? static_cast<double>(low) / m.compute_busy : 0;
  if (share <= kLowParallelismShare || longest == kNoRow) return Nothing();
  const double unused = m.EmptySmTime(alone);
  Finding f =
      FindingOf(m, fmt::format("{} of computing time is in kernels with fewer blocks than SMs",
                               PercentText(share)));
  AddShare(
      &f, "low_parallelism_share", share,
      fmt::format("{} of {} computing time", PercentText(share), DurationText(m.compute_busy)));
  AddShare(&f, "unused_sm_share", unused / static_cast<double>(low),
           fmt::format("on average {} of the SMs have no block meanwhile",
                       PercentText(unused / static_cast<double>(low))));
  if (const KernelDetail* k = m.rank.KernelOf(longest)) {
    AddText(&f, "longest_grid", fmt::format("{}x{}x{}", k->grid[0], k->grid[1], k->grid[2]),
            fmt::format("the longest, {}, has a grid of {}x{}x{} blocks of {}x{}x{} threads",
                        DurationText(e.dur[longest]), k->grid[0], k->grid[1], k->grid[2],
                        k->block[0], k->block[1], k->block[2]));
  }
  f.top = names.Texts(m.names);
  SetGain(
      &f, m, static_cast<Nanos>(unused),
      "time of these kernels times the share of SMs that neither they nor others beside them have "
      "a block on: what full use of the GPU would save at most");
  PointTo(&f, m, {e.ts[longest], e.end(longest)});
  f.advice =
      "Give these kernels more parallel work: a larger batch, several of them at once on streams, "
      "split-K or a finer grid; run what is serial by nature on the CPU.";
  f.source = "Facebook GPU fleet paper, case studies: insufficient concurrency";
  return Found(std::move(f), alone, std::min(1.0, unused / static_cast<double>(low)));
}

}  // namespace flopwatch::trace::rules
