// straggler: with the clocks of the ranks aligned, one rank is the last to arrive in more than half
// of the collectives (or causes more than half of all waiting) and makes the others wait for more
// than 5 % of the step (stragglers.h has the arithmetic); or its computing takes more than 1.2
// times the median rank's and lies more than three median deviations away. The cause is named only
// where one explains at least 80 % of the lateness.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trace/analysis/stragglers.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

constexpr double kSlowCompute = 1.2, kDeviations = 3;
constexpr double kWaitsForHost = 0.20;  // the least of tiny-kernels and cpu-bound

const RankMeasures* Find(const Measures& measures, int32_t rank, uint32_t* index) {
  for (size_t i = 0; i < measures.ranks().size(); ++i) {
    if (measures.ranks()[i]->rank.rank == rank) {
      *index = static_cast<uint32_t>(i);
      return measures.ranks()[i].get();
    }
  }
  return nullptr;
}

// What to do follows from the cause alone: a node is drained for a slow GPU, never for a slow
// program.
std::string AdviceFor(const std::optional<LatenessCause>& cause, const RankMeasures& m) {
  if (!cause.has_value())
    return "Compare what this rank does between collectives with another rank's: trace cut and "
           "trace merge put both on one clock.";
  switch (*cause) {
    case LatenessCause::kCompute:
      // A GPU that waits for its host most of the time is not what is slow.
      if (m.idle_rest_share > kWaitsForHost)
        return "Compare the kernels of this rank with the others', and its share of the data; its "
               "GPU waits for the host for much of the step, which the other findings explain.";
      return "Compare this rank's GPU clock, temperature and ECC state, and its share of the data, "
             "with the others'; if it is always this GPU with equal work, drain the node.";
    case LatenessCause::kMemoryCopies:
      return "Compare this rank's copies with the others': their sizes, pinned memory, the PCIe "
             "link of its GPU.";
    case LatenessCause::kDataLoading:
      return "Compare this rank's data loader with the others': its shard, its storage, the load "
             "of its host's CPU.";
    case LatenessCause::kCpu:
      return "Compare this rank's process with the others': Python work of its own (logging, "
             "checkpoints, rank-only branches), the load and the CPU affinity of its host.";
    case LatenessCause::kCommunication:
      return "Compare this rank's links and its other process groups with the others'.";
    case LatenessCause::kEarlierWait:
    case LatenessCause::kBefore:
      return "Trace from an earlier step: what made this rank late lies before what the trace "
             "shows.";
  }
  return "";
}

// The waits of the other ranks for this one, as far as nothing computed meanwhile.
std::vector<RuleResult::OfRank> WaitsFor(const Measures& measures, const Collectives& collectives,
                                         int32_t late) {
  uint32_t index = 0;
  Find(measures, late, &index);
  std::vector<Intervals> waits(measures.ranks().size());
  for (const Collective& c : collectives.all) {
    if (!c.synchronising || c.last_rank != index) continue;
    for (const CollectivePart& part : collectives.PartsOf(c)) {
      if (part.wait <= 0 || part.rank == index) continue;
      const Nanos own = part.begin + collectives.clocks[part.rank].offset;
      waits[part.rank].push_back({own, own + part.wait});
    }
  }
  std::vector<RuleResult::OfRank> out;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (i == index) continue;
    const RankMeasures& m = *measures.ranks()[i];
    IntervalSet open =
        Intersect(Intersect(Merge(std::move(waits[i])), m.windows), m.view.exposed_communication());
    const double gain = m.Share(Length(open));
    out.push_back({.index = i, .gain = gain, .claims = {{.time = std::move(open)}}});
  }
  return out;
}

// What a slow rank computes above the median, out of its own computing time.
RuleResult::OfRank SlowClaim(const Measures& measures, const Finding& f) {
  uint32_t index = 0;
  const RankMeasures& m = *Find(measures, f.rank.value_or(0), &index);
  IntervalSet computing = Intersect(m.windows, m.view.computing());
  const double share =
      m.compute_busy > 0 ? f.gain * static_cast<double>(m.step_time) / m.compute_busy : 0;
  return {.index = index,
          .gain = f.gain,
          .claims = {{.time = std::move(computing), .share = std::min(share, 1.0)}}};
}

Finding LateFinding(const Measures& measures, const Collectives& collectives,
                    const StragglerVerdict& verdict) {
  const RankLateness& late = verdict.ranks[0];
  uint32_t index = 0;
  const RankMeasures& m = *Find(measures, late.rank, &index);
  Finding f = FindingOf(m, fmt::format("Rank {} is the last to arrive in {} of {} collectives",
                                       late.rank, late.last, late.collectives));
  AddCount(&f, "last_to_arrive", static_cast<double>(late.last),
           fmt::format("last in {} of {} collectives", late.last, late.collectives));
  AddTime(&f, "caused_wait_us", late.blamed(),
          fmt::format("the others wait {} for it, all together", DurationText(late.blamed())));
  AddTime(
      &f, "lateness_us", late.lateness,
      fmt::format("{} late against the middle rank, all together", DurationText(late.lateness)));
  AddShare(&f, "share_of_step", late.share_of_step,
           fmt::format("each of the others waits {} of the step for it",
                       PercentText(late.share_of_step)));
  AddText(&f, "cause",
          verdict.cause.has_value() ? std::string(LatenessCauseName(*verdict.cause)) : "not one",
          verdict.cause.has_value()
              ? fmt::format("{} explains {} of it", LatenessCauseName(*verdict.cause),
                            PercentText(verdict.cause_share))
              : fmt::format("no single cause explains 80 % of it (the largest {})",
                            PercentText(verdict.cause_share)));
  for (size_t i = 0; i < verdict.ranks.size() && i < 3; ++i) {
    const RankLateness& r = verdict.ranks[i];
    f.top.push_back(fmt::format("rank {} (last {} times, others wait {})", r.rank, r.last,
                                DurationText(r.blamed())));
  }
  // Waiting that computation hides costs nothing: the others can win no more than what they expose
  // or idle away.
  double open = 0;
  for (const auto& other : measures.ranks())
    if (other.get() != &m)
      open = std::max(open, other->Share(other->exposed_communication + Length(other->idle)));
  f.gain = std::isnan(late.share_of_step)
               ? late.share_of_step
               : std::clamp(late.share_of_step, 0.0, std::min(open, 1.0));
  f.gain_basis =
      std::isnan(f.gain)
          ? "not computable: neither steps nor a GPU span to compare the waiting with"
          : "mean wait a step that its lateness costs each of the other ranks, no more than the "
            "exposed communication and idle time of one of them";
  f.advice = AdviceFor(verdict.cause, m);
  const Collective* worst = nullptr;
  for (const Collective& c : collectives.all) {
    if (c.synchronising && c.last_rank == index &&
        (worst == nullptr || c.start_skew() > worst->start_skew()))
      worst = &c;
  }
  if (worst != nullptr) {
    const Nanos offset = index < collectives.clocks.size() ? collectives.clocks[index].offset : 0;
    // The others may have arrived before this rank's own trace begins.
    PointTo(&f, m,
            {std::max(worst->first_arrival + offset, m.rank.begin),
             std::max(worst->last_arrival + offset, m.rank.begin)});
  }
  f.uncertain.insert(f.uncertain.end(), verdict.notes.begin(), verdict.notes.end());
  if (!verdict.cause.has_value())
    f.uncertain.push_back(
        "counters of that GPU (clock, temperature, power) and of its host for the same minutes");
  return f;
}

std::optional<Finding> SlowFinding(const Measures& measures) {
  std::vector<double> compute;
  for (const auto& m : measures.ranks())
    compute.push_back(static_cast<double>(m->compute_busy) / m->step_count);
  const auto median_of = [](std::vector<double> v) {
    std::ranges::sort(v);
    return v.size() % 2 == 1 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
  };
  if (compute.size() < 3) return std::nullopt;  // of two ranks neither is the odd one
  const double median = median_of(compute);
  std::vector<double> distance;
  for (const double c : compute) distance.push_back(std::abs(c - median));
  const double deviation = median_of(distance);
  const auto worst = static_cast<size_t>(std::ranges::max_element(compute) - compute.begin());
  if (!(compute[worst] > kSlowCompute * median) ||
      !(compute[worst] - median > kDeviations * deviation) || median <= 0)
    return std::nullopt;
  const RankMeasures& m = *measures.ranks()[worst];
  Finding f = FindingOf(m, fmt::format("Rank {} computes {:.2f} times as long as the median rank",
                                       m.rank.rank, compute[worst] / median));
  const auto more = static_cast<Nanos>((compute[worst] - median) * m.step_count);
  AddTime(&f, "compute_per_step_us", static_cast<Nanos>(compute[worst]),
          fmt::format("computing {} a step", DurationText(static_cast<Nanos>(compute[worst]))));
  AddTime(&f, "median_compute_per_step_us", static_cast<Nanos>(median),
          fmt::format("median of the ranks {}", DurationText(static_cast<Nanos>(median))));
  AddCount(&f, "deviations", deviation > 0 ? (compute[worst] - median) / deviation : 0,
           fmt::format("median deviation {}", DurationText(static_cast<Nanos>(deviation))));
  SetGain(&f, m, more, "computing time of this rank above the median's");
  TopNames names;
  for (const Row r : m.gpu)
    if (m.ClassOf(r) == KernelClass::kCompute) names.Add(m.events.name[r], m.events.dur[r]);
  f.top = names.Texts(m.names);
  PointTo(&f, m, m.windows.empty() ? Interval{} : m.windows[0]);
  f.advice = AdviceFor(LatenessCause::kCompute, m);
  f.uncertain.push_back(
      "the clock, temperature and power of this GPU, and the size of its batches");
  return f;
}

}  // namespace

RuleResult Straggler(const Measures& measures) {
  RuleResult result;
  if (measures.ranks().size() < 2) {
    result.not_checked = "one rank is loaded; two or more ranks of the job are needed";
    return result;
  }
  const Collectives& collectives = measures.input().collectives();
  const StatusOr<StragglerVerdict> verdict = FindStragglers(measures.input(), collectives);
  std::optional<Finding> found;
  if (verdict.ok() && verdict->straggler && !verdict->ranks.empty()) {
    found = LateFinding(measures, collectives, *verdict);
    result.ranks = WaitsFor(measures, collectives, verdict->ranks[0].rank);
  } else if ((found = SlowFinding(measures)).has_value()) {
    result.ranks.push_back(SlowClaim(measures, *found));
  }
  if (!found.has_value()) {
    if (!verdict.ok()) result.not_checked = std::string(verdict.status().message());
    return result;
  }
  found->source = "docs/traces.md, Ranks; clock-free slow-rank arithmetic";
  result.finding = std::move(found);
  return result;
}

}  // namespace flopwatch::trace::rules
