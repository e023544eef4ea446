// coarse-grain (the fleet paper's improper grain size): kernels longer than 100 µs with fewer
// blocks than SMs although the blocks have 128 threads and more: much work a thread, few blocks.
// Reported when the SMs left empty by them are worth 5 % of computing time, so that persistent
// kernels on nearly all SMs are not.
#include <fmt/format.h>

#include <algorithm>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr Nanos kLong = 100'000;
constexpr int64_t kThreads = 128;
constexpr double kUnusedShare = 0.05;

RankCheck CoarseGrain(const RankMeasures& m) {
  const EventTable& e = m.events;
  if (m.sm_count == 0)
    return CannotCheck(
        "the number of SMs is not known: the trace has no properties of the device, or a device "
        "the hardware table lacks");
  Nanos time = 0;
  int64_t kernels = 0, with_grid = 0;
  Intervals coarse, full;
  TopNames names;
  Row longest = kNoRow;
  for (const Row r : m.gpu) {
    const KernelDetail* k = m.rank.KernelOf(r);
    const int64_t blocks = k == nullptr ? 0 : m.Blocks(*k);
    if (blocks == 0) continue;
    if (blocks >= m.sm_count) full.push_back({e.ts[r], e.end(r)});
    if (m.ClassOf(r) != KernelClass::kCompute) continue;
    ++with_grid;
    const int64_t threads =
        int64_t{1} * std::max(k->block[0], 1) * std::max(k->block[1], 1) * std::max(k->block[2], 1);
    if (blocks >= m.sm_count || e.dur[r] <= kLong || threads < kThreads) continue;
    ++kernels;
    time += e.dur[r];
    coarse.push_back({e.ts[r], e.end(r)});
    names.Add(e.name[r], e.dur[r]);
    if (longest == kNoRow || e.dur[r] > e.dur[longest]) longest = r;
  }
  if (with_grid == 0) return CannotCheck("the kernels of the trace have no grid");
  if (m.compute_busy == 0 || longest == kNoRow) return Nothing();
  const IntervalSet alone =
      Intersect(Subtract(Merge(std::move(coarse)), Merge(std::move(full))), m.windows);
  const double unused = m.EmptySmTime(alone);
  if (unused < kUnusedShare * static_cast<double>(m.compute_busy) || alone.empty())
    return Nothing();
  const KernelDetail* k = m.rank.KernelOf(longest);
  Finding f = FindingOf(m, fmt::format("{} long kernels a step have fewer blocks than the {} SMs",
                                       NumberText(m.PerStep(kernels)), m.sm_count));
  AddCount(&f, "kernels", kernels,
           fmt::format("{} kernels, {} together", kernels, DurationText(time)));
  AddShare(&f, "compute_share", static_cast<double>(Length(alone)) / m.compute_busy,
           fmt::format("{} of computing time, nothing beside them that fills the GPU",
                       PercentText(static_cast<double>(Length(alone)) / m.compute_busy)));
  AddText(&f, "longest_launch",
          fmt::format("{}x{}x{} blocks of {}x{}x{}", k->grid[0], k->grid[1], k->grid[2],
                      k->block[0], k->block[1], k->block[2]),
          fmt::format("the longest takes {} with {} blocks of {}x{}x{} threads",
                      DurationText(e.dur[longest]), m.Blocks(*k), k->block[0], k->block[1],
                      k->block[2]));
  f.top = names.Texts(m.names);
  SetGain(
      &f, m, static_cast<Nanos>(unused),
      "time of these kernels times the share of SMs that neither they nor others beside them have "
      "a block on");
  PointTo(&f, m, {e.ts[longest], e.end(longest)});
  f.advice =
      "Let a thread do less and launch more blocks: GPUs switch between warps at no cost, unlike "
      "CPU threads.";
  f.source = "Facebook GPU fleet paper, case studies: improper grain size per GPU thread";
  const double share = std::min(1.0, unused / static_cast<double>(Length(alone)));
  return Found(std::move(f), alone, share);
}

}  // namespace flopwatch::trace::rules
