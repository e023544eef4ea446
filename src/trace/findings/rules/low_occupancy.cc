// low-occupancy: kernels with at least a block an SM whose estimated occupancy is below 15 % over
// time and that are more than a tenth of computing time. Matrix products, convolutions and
// attention are left out: they run best with few warps and many registers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trace/analysis/kernel_names.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kOccupancyPct = 15, kLowOccupancyShare = 0.10;
// What an occupancy is compared with for the gain: latency is usually hidden from about half of the
// warps on.
constexpr double kEnoughPct = 50;

namespace {

// When computing kernels of these names ran.
IntervalSet TimeOfKernels(const RankMeasures& m, const std::vector<bool>& names) {
  Intervals where;
  for (const Row r : m.gpu)
    if (m.ClassOf(r) == KernelClass::kCompute && names[m.events.name[r]])
      where.push_back({m.events.ts[r], m.events.end(r)});
  return Merge(std::move(where));
}

}  // namespace

RankCheck LowOccupancy(const RankMeasures& m) {
  const EventTable& e = m.events;
  NamePredicate product(m.names, IsProductKernel);
  struct Sum {
    Nanos time = 0;
    double weighted = 0;
    Row longest = kNoRow;
  };
  absl::flat_hash_map<NameId, Sum> by_name;
  bool any = false;
  for (const Row r : m.gpu) {
    if (m.ClassOf(r) != KernelClass::kCompute) continue;
    const KernelDetail* k = m.rank.KernelOf(r);
    if (k == nullptr || std::isnan(k->occupancy_pct)) continue;
    any = true;
    if (!(m.BlocksPerSm(*k) >= 1) || product(e.name[r])) continue;
    Sum& sum = by_name[e.name[r]];
    sum.time += e.dur[r];
    sum.weighted += k->occupancy_pct * static_cast<double>(e.dur[r]);
    if (sum.longest == kNoRow || e.dur[r] > e.dur[sum.longest]) sum.longest = r;
  }
  if (!any) return CannotCheck("the kernels of the trace have no estimated occupancy");
  Nanos time = 0;
  double weighted = 0, spare = 0;
  Row longest = kNoRow;
  TopNames names;
  std::vector<bool> low(m.names.size(), false);
  for (const auto& [name, sum] : by_name) {
    if (sum.time == 0 || sum.weighted / static_cast<double>(sum.time) >= kOccupancyPct) continue;
    time += sum.time;
    weighted += sum.weighted;
    spare += static_cast<double>(sum.time) *
             (1 - sum.weighted / static_cast<double>(sum.time) / kEnoughPct);
    names.Add(name, sum.time);
    low[name] = true;
    if (longest == kNoRow || e.dur[sum.longest] > e.dur[longest] ||
        (e.dur[sum.longest] == e.dur[longest] && sum.longest < longest))
      longest = sum.longest;
  }
  if (time <= kLowOccupancyShare * m.compute_sum || time == 0) return Nothing();
  const double mean = weighted / static_cast<double>(time),
               share = static_cast<double>(time) / m.compute_sum;
  const KernelDetail* k = m.rank.KernelOf(longest);
  Finding f =
      FindingOf(m, fmt::format("Kernels of {} of computing time have an occupancy of {:.0f} %",
                               PercentText(share), mean));
  AddShare(&f, "compute_share", share, fmt::format("{} of computing time", PercentText(share)));
  AddShare(&f, "mean_occupancy", mean / 100, fmt::format("estimated occupancy {:.1f} %", mean));
  if (k->registers_per_thread >= 0)
    AddCount(&f, "registers_per_thread", k->registers_per_thread,
             fmt::format("the longest uses {} registers a thread", k->registers_per_thread));
  if (k->shared_memory_bytes != kUnknown)
    AddBytes(&f, "shared_memory_bytes", k->shared_memory_bytes,
             fmt::format("and {} of shared memory a block", BytesText(k->shared_memory_bytes)));
  // An SM has 65,536 registers and 2,048 threads (1,024 or 1,536 on some consumer parts): above 32
  // registers a thread they limit.
  const int64_t threads =
      int64_t{1} * std::max(k->block[0], 1) * std::max(k->block[1], 1) * std::max(k->block[2], 1);
  const char* limit =
      threads <= 32 ? "the block is one warp or less: the number of blocks an SM can hold limits"
      : k->registers_per_thread > 128      ? "registers limit"
      : k->shared_memory_bytes > 48 * 1024 ? "shared memory limits"
                                           : "the grid or the block size limits";
  AddText(&f, "likely_limit", limit, fmt::format("{} (block of {} threads)", limit, threads));
  f.top = names.Texts(m.names);
  SetGain(&f, m, static_cast<Nanos>(std::max(spare, 0.0)),
          "if time fell in proportion as occupancy rises to 50 %, which kernels limited by "
          "bandwidth will not reach");
  PointTo(&f, m, {e.ts[longest], e.end(longest)});
  f.advice =
      "Change the block size, cap registers (__launch_bounds__, maxrregcount, Triton num_warps) or "
      "use less shared memory a block.";
  f.source = "CUDA programming guide, occupancy";
  f.uncertain.push_back(
      "measured occupancy and stall reasons (Nsight Compute): the trace has an estimate from the "
      "launch");
  return Found(std::move(f), TimeOfKernels(m, low),
               std::clamp(spare / static_cast<double>(time), 0.0, 1.0));
}

}  // namespace flopwatch::trace::rules
