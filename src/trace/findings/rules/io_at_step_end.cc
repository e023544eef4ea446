// io-at-step-end (the fleet paper's file I/O at the end of iterations): in at least 60 % of steps
// the GPU does nothing but copies for more than 5 % of the step while the host saves, writes, logs
// or prints in its last fifth: under operators, annotations or Python frames with such a name in
// which the GPU hardly computes, or in one gap that lies by half under such names, or by 80 % under
// one block that launches nothing.
#include <fmt/format.h>

#include <algorithm>

#include "trace/findings/host_names.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

constexpr double kTail = 0.2, kIoGapShare = 0.05, kIoStepsShare = 0.6, kNamedShare = 0.5,
                 kSilentShare = 0.8;
constexpr int kMaxParentsAtStepEnd = 256;  // of the row at a gap that are looked at

struct Cover {
  bool named = false, silent = false;
  Row row = kNoRow;
};

// What the host did during a gap.
Cover CoverOf(const RankMeasures& m, Interval gap, NamePredicate* output) {
  const EventTable& e = m.events;
  const auto inside = [&](Row r) {
    return std::max<Nanos>(0, std::min(gap.end, e.end(r)) - std::max(gap.begin, e.ts[r]));
  };
  const double length = static_cast<double>(gap.end - gap.begin);
  Intervals named;
  Cover cover;
  Nanos longest = 0;
  const auto look = [&](Row r) {
    if (m.IsStepAnnotation(r) || !IsHostBlock(e.category[r]) || !(*output)(e.name[r])) return;
    named.push_back({std::max(gap.begin, e.ts[r]), std::min(gap.end, e.end(r))});
    if (inside(r) > longest) {
      longest = inside(r);
      cover.row = r;
    }
  };
  bool launches = false;
  Row around = m.HostRowAt(gap.begin);
  for (int i = 0; i < kMaxParentsAtStepEnd && around != kNoRow; ++i, around = e.parent[around])
    look(around);
  for (Row r = m.FirstFrom(gap.begin); r < e.size() && e.ts[r] < gap.end; ++r) {
    look(r);
    // A launch in the last tenth is the one that ends the gap.
    if (IsLaunchApi(e.category[r]) && e.launch[r] != kNoRow &&
        static_cast<double>(e.ts[r] - gap.begin) < 0.9 * length)
      launches = true;
  }
  cover.named = static_cast<double>(Length(Merge(std::move(named)))) >= kNamedShare * length;
  if (cover.named || launches) return cover;
  // Without a telling name it is one block of the host no longer than about the gap itself (a frame
  // around the whole step covers everything and says nothing).
  Row r = m.HostRowAt(gap.begin + (gap.end - gap.begin) / 2);
  for (int i = 0; i < kMaxParentsAtStepEnd && r != kNoRow; ++i, r = e.parent[r]) {
    if (m.IsStepAnnotation(r) || static_cast<double>(e.dur[r]) > 1.5 * length) break;
    if (IsLaunchApi(e.category[r])) continue;
    if (static_cast<double>(inside(r)) >= kSilentShare * length) {
      cover.silent = true;
      cover.row = r;
    }
  }
  return cover;
}

// What the output of one step costs it.
struct Output {
  IntervalSet lost;
  bool named = false;
  Row row = kNoRow;
};

// Under blocks that say that they write, all time counts in which nothing computes or communicates:
// copies to the host are part of saving.
Output NamedBlocks(const RankMeasures& m, const Step& step, Nanos tail) {
  const EventTable& e = m.events;
  Output out;
  auto it = std::ranges::upper_bound(m.output_rows, tail, {}, [&](Row r) { return e.end(r); });
  Intervals blocks;
  for (; it != m.output_rows.end() && e.ts[*it] < step.end; ++it) {
    blocks.push_back({std::max(step.begin, e.ts[*it]), std::min(step.end, e.end(*it))});
    if (out.row == kNoRow || e.dur[*it] > e.dur[out.row]) out.row = *it;
  }
  out.named = true;
  for (const Interval& block : Merge(std::move(blocks))) {
    const IntervalSet works =
        Union(Clip(m.view.computing(), block.begin, block.end),
              Clip(m.view.busy(KernelClass::kCommunication), block.begin, block.end));
    for (const Interval& i : Subtract({block}, works)) out.lost.push_back(i);
  }
  return out;
}

// The longest gap that reaches into the end of the step, and what the host did in it.
Output GapAtEnd(const RankMeasures& m, const Step& step, Nanos tail, NamePredicate* output) {
  Interval gap;
  for (const Interval& g :
       Subtract({{step.begin, step.end}}, Clip(m.view.busy(), step.begin, step.end))) {
    if (g.end > tail && g.end - g.begin > gap.end - gap.begin) gap = g;
  }
  const auto mostly = [&](const IntervalSet& set) {
    return 2 * LengthWithin(set, gap.begin, gap.end) > gap.end - gap.begin;
  };
  if (static_cast<double>(gap.end - gap.begin) <=
          kIoGapShare * static_cast<double>(step.end - step.begin) ||
      mostly(m.loader) || mostly(m.collection))  // data-starvation and gc-pause
    return {};
  const Cover cover = CoverOf(m, gap, output);
  if (!cover.named && !cover.silent) return {};
  return {{gap}, cover.named, cover.row};
}

}  // namespace

RankCheck IoAtStepEnd(const RankMeasures& m) {
  if (!m.has_steps) return CannotCheck("the trace has no steps (ProfilerStep annotations)");
  if (m.gpu.empty()) return CannotCheck("no GPU work in the trace");
  NamePredicate output(m.names, IsOutputName);
  const EventTable& e = m.events;
  int64_t with = 0, named = 0;
  Nanos lost = 0;
  IntervalSet gaps;
  TopNames names;
  for (const int32_t s : m.steps) {
    const Step& step = m.rank.steps[static_cast<size_t>(s)];
    const double length = static_cast<double>(step.end - step.begin);
    const Nanos tail = step.end - static_cast<Nanos>(kTail * length);
    Output at_end = NamedBlocks(m, step, tail);
    if (static_cast<double>(Length(at_end.lost)) <= kIoGapShare * length)
      at_end = GapAtEnd(m, step, tail, &output);
    if (at_end.lost.empty()) continue;
    const Nanos time = Length(at_end.lost);
    ++with;
    named += at_end.named;
    lost += time;
    gaps.insert(gaps.end(), at_end.lost.begin(), at_end.lost.end());
    if (at_end.row != kNoRow) names.Add(e.name[at_end.row], time);
  }
  if (static_cast<double>(with) < kIoStepsShare * static_cast<double>(m.steps.size()) || with == 0)
    return Nothing();
  const Interval worst = Longest(gaps);
  Finding f = FindingOf(
      m, fmt::format(
             "The GPU is idle at the end of {} of {} steps while the host {}", with, m.steps.size(),
             2 * named > with ? "writes or logs" : "is in one block that launches nothing"));
  AddCount(&f, "steps", with, fmt::format("in {} of {} steps", with, m.steps.size()));
  AddTime(&f, "mean_gap_us", lost / with,
          fmt::format("{} a step on average", DurationText(lost / with)));
  AddTime(&f, "longest_gap_us", worst.end - worst.begin,
          fmt::format("longest gap {}", DurationText(worst.end - worst.begin)));
  AddShare(&f, "gap_share", m.Share(lost),
           fmt::format("{} of step time", PercentText(m.Share(lost))));
  f.top = names.Texts(m.names);
  SetGain(
      &f, m, lost,
      "the idle gaps at the ends of these steps, and copies under blocks that write, all of them "
      "hidden if the output were asynchronous");
  PointTo(&f, m, worst);
  f.advice = 2 * named <= with
                 ? "Move this block out of the step or to another thread; if it writes a log or a "
                   "checkpoint, do so less often or asynchronously."
                 : "Log and checkpoint less often, from another thread or process (asynchronous "
                   "checkpointing), "
                   "and keep .item(), print and file writes out of the step.";
  f.source =
      "Facebook GPU fleet paper, case studies: expensive file I/O at the end of each iteration";
  if (named < with)
    f.uncertain.push_back(
        "the name of what the host does in the gap does not say that it is output; Python stacks "
        "would");
  return Found(std::move(f), Merge(std::move(gaps)));
}

}  // namespace flopwatch::trace::rules
