// tiny-kernels (the fleet paper's "too little work per CUDA kernel": a launch costs about 5 µs):
// more than half of the kernels are shorter than the call that launched them, or the median is
// below 10 µs, and the GPU is idle more than 20 % of the time. Kernels of graphs have no launch of
// their own and do not count. Idle time under data loading has
// another cause, and so has a gap longer than a launch can take.
#include <fmt/format.h>

#include <algorithm>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kTinyKernelIdleShare = 0.20, kShorterShare = 0.50;
constexpr Nanos kMedian = 10'000;
// An eager operator takes 10 to 100 µs of the host for its Python, dispatch and launch: a longer
// gap has another cause than the launch of the kernel that ends it.
constexpr Nanos kLaunchGap = 200'000;

RankCheck TinyKernels(const RankMeasures& m) {
  const EventTable& e = m.events;
  std::vector<Nanos> durations;
  Nanos kernel_time = 0, launch_time = 0;
  int64_t shorter = 0, launched = 0;
  TopNames ops;
  const auto is_tiny = [&](Row r) {
    return e.dur[r] < kMedian || (e.launch[r] != kNoRow && e.dur[r] < e.dur[e.launch[r]]);
  };
  for (const Row r : m.gpu) {
    if (e.category[r] != Category::kKernel || m.FromGraph(r)) continue;
    durations.push_back(e.dur[r]);
    kernel_time += e.dur[r];
    if (const Row call = e.launch[r]; call != kNoRow) {
      ++launched;
      shorter += e.dur[r] < e.dur[call];
      launch_time += e.dur[call];
    }
    if (is_tiny(r)) ops.Add(e.op[r] == kNoRow ? kNoName : e.name[e.op[r]], e.dur[r]);
  }
  if (durations.empty()) return CannotCheck("no kernels launched one by one in the trace");
  const auto middle = durations.begin() + static_cast<ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  const double shorter_share = launched > 0 ? static_cast<double>(shorter) / launched : 0;
  if (m.idle_rest_share <= kTinyKernelIdleShare ||
      (shorter_share <= kShorterShare && *middle >= kMedian))
    return Nothing();

  IntervalSet before;
  Interval worst;
  for (const IdleGap& g : m.gaps) {
    if (g.next == kNoRow || e.category[g.next] != Category::kKernel || m.FromGraph(g.next) ||
        !is_tiny(g.next))
      continue;
    if (g.at.end - g.at.begin > kLaunchGap) continue;
    before.push_back(g.at);
    if (g.at.end - g.at.begin > worst.end - worst.begin) worst = g.at;
  }
  const IntervalSet open = Subtract(before, m.loader);
  const double open_share = m.Share(Length(open));
  Finding f = FindingOf(
      m, shorter_share > kShorterShare
             ? fmt::format("{} of the kernels are shorter than their launch; the GPU is idle {} of "
                           "the step right before such kernels",
                           PercentText(shorter_share), PercentText(open_share))
             : fmt::format("Half of the kernels take less than {}; the GPU is idle {} of the step "
                           "right before such kernels",
                           DurationText(kMedian), PercentText(open_share)));
  AddTime(&f, "median_kernel_us", *middle, fmt::format("median kernel {}", DurationText(*middle)));
  AddShare(&f, "shorter_than_launch_share", shorter_share,
           fmt::format("{} of {} kernels are shorter than the call that launched them", shorter,
                       launched));
  AddCount(&f, "kernels_per_step", m.PerStep(durations.size()),
           fmt::format("{} kernels a step, without those of graphs",
                       NumberText(m.PerStep(durations.size()))));
  if (kernel_time > 0) {
    const double ratio = static_cast<double>(launch_time) / kernel_time;
    AddCount(&f, "launch_to_kernel_time", ratio,
             fmt::format("launch calls take {:.2g} times as long as the kernels", ratio));
  }
  AddShare(&f, "idle_share", m.idle_rest_share,
           fmt::format("GPU idle {} without data loading", PercentText(m.idle_rest_share)));
  f.top = ops.Texts(m.names);
  SetGain(&f, m, Length(open),
          "idle gaps of up to 200 µs that end with the start of such a kernel, without data "
          "loading: what fusing or graphs can remove at most");
  SayProfilerCost(&f, m);
  PointTo(&f, m, worst);
  f.advice =
      "Launch less: fuse operators (torch.compile), capture the step in a CUDA graph, use foreach "
      "or fused optimizers, or give each kernel more work with a larger batch.";
  f.source = "Facebook GPU fleet paper, case studies: too little work per CUDA kernel";
  return Found(std::move(f), open);
}

}  // namespace flopwatch::trace::rules
