#include "trace/analysis/stragglers.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "base/table.h"
#include "trace/call_kind.h"

namespace flopwatch::trace {
namespace {

// A set of intervals whose length in a window costs two binary searches.
class Measured {
 public:
  explicit Measured(IntervalSet set = {}) : set_(std::move(set)), before_(set_.size() + 1, 0) {
    for (size_t i = 0; i < set_.size(); ++i)
      before_[i + 1] = before_[i] + (set_[i].end - set_[i].begin);
  }
  Nanos Within(Nanos begin, Nanos end) const {
    return end <= begin ? 0 : Until(end) - Until(begin);
  }
  const IntervalSet& set() const { return set_; }

 private:
  Nanos Until(Nanos t) const {
    const auto next = std::ranges::upper_bound(set_, t, {}, &Interval::end);
    const size_t i = static_cast<size_t>(next - set_.begin());
    return before_[i] + (next != set_.end() && t > next->begin ? t - next->begin : 0);
  }
  IntervalSet set_;
  std::vector<Nanos> before_;
};

// One rank's time split without overlap, on its own clock: the causes from kCompute to
// kDataLoading.
using RankTime = std::array<Measured, static_cast<size_t>(LatenessCause::kCpu)>;

RankTime TimeOf(const AnalysisInput& input, uint32_t r, Intervals waits) {
  const RankView& view = *input.ranks()[r];
  const EventTable& e = view.events();
  const StringPool& names = input.set().names;
  const IntervalSet& compute = view.computing();
  const IntervalSet copies = Subtract(view.busy(KernelClass::kMemory), compute);
  IntervalSet taken = Union(compute, copies);
  const IntervalSet waiting = Subtract(Merge(std::move(waits)), taken);
  taken = Union(taken, waiting);
  const IntervalSet communication = Subtract(view.busy(KernelClass::kCommunication), taken);
  taken = Union(taken, communication);
  std::vector<char> loads(2 * names.size(), -1);  // judged once a name, Python frames apart
  Intervals loading;
  for (Row row = 0; row < e.size(); ++row) {
    const Category c = e.category[row];
    if (!IsHostBlock(c)) continue;
    char& known = loads[2 * e.name[row] + (c == Category::kPythonFunction ? 1 : 0)];
    if (known < 0) known = IsDataLoading(names.Text(e.name[row]), c) ? 1 : 0;
    if (known == 1) loading.push_back({e.ts[row], e.end(row)});
  }
  return {Measured(compute), Measured(copies), Measured(waiting), Measured(communication),
          Measured(Subtract(Merge(std::move(loading)), taken))};
}

std::array<Nanos, kLatenessCauses> Split(const RankTime& time, const Interval& way) {
  std::array<Nanos, kLatenessCauses> out = {};
  Nanos& rest = out[time.size()];  // kCpu
  rest = std::max<Nanos>(0, way.end - way.begin);
  for (size_t i = 0; i < time.size(); ++i) {
    out[i] = time[i].Within(way.begin, way.end);
    rest -= out[i];
  }
  return out;
}

// Goes through the collectives in their order: who was last in each, and why.
class Blame {
 public:
  Blame(const AnalysisInput& input, const Collectives& collectives, StragglerVerdict* verdict)
      : set_(input.set()), collectives_(collectives), verdict_(*verdict) {
    std::vector<Intervals> waits(set_.ranks.size());
    for (const Collective& c : collectives.all) {
      if (!c.synchronising) continue;
      for (const CollectivePart& part : collectives.PartsOf(c)) {
        const Nanos own = part.begin + OffsetOf(part);
        if (part.wait > 0) waits[part.rank].push_back({own, own + part.wait});
      }
    }
    time_.reserve(set_.ranks.size());
    for (uint32_t r = 0; r < set_.ranks.size(); ++r)
      time_.push_back(TimeOf(input, r, std::move(waits[r])));
  }

  void Run() {
    for (const Collective& c : collectives_.all) {
      if (c.synchronising) Judge(c);
      for (const CollectivePart& part : collectives_.PartsOf(c)) {
        Nanos& at = left_.try_emplace(Key(c, part), part.end).first->second;
        at = std::max(at, part.end);
      }
    }
  }

 private:
  static uint64_t Key(const Collective& c, const CollectivePart& part) {
    return uint64_t{c.group} << 32 | part.rank;
  }
  Nanos OffsetOf(const CollectivePart& part) const { return collectives_.clocks[part.rank].offset; }

  // A rank's way from where it left the group's previous collective to its arrival in this one, on
  // its own clock; before the first one it begins with the rank's step.
  Interval WayOf(const Collective& c, const CollectivePart& part) const {
    const RankTrace& rank = set_.ranks[part.rank];
    const int32_t step = rank.events.step[part.row];
    const auto before = left_.find(Key(c, part));
    const Nanos begin = before != left_.end() ? before->second + OffsetOf(part)
                        : step != kNoStep     ? rank.steps[static_cast<size_t>(step)].begin
                                              : rank.begin;
    return {std::min(begin, part.begin + OffsetOf(part)), part.begin + OffsetOf(part)};
  }

  void Judge(const Collective& c) {
    ++verdict_.collectives;
    const std::span<const CollectivePart> parts = collectives_.PartsOf(c);
    by_arrival_.assign(parts.begin(), parts.end());
    std::ranges::stable_sort(by_arrival_, {}, &CollectivePart::begin);
    Nanos caused = 0;
    for (const CollectivePart& part : parts) {
      RankLateness& own = verdict_.ranks[part.rank];
      ++own.collectives;
      own.waited += part.wait;
      own.communication += part.end - part.begin;
      own.last += part.rank == c.last_rank;
      own.first += part.rank == c.first_rank;
      caused += part.wait;
    }
    RankLateness& late = verdict_.ranks[c.last_rank];
    late.caused += caused;
    const CollectivePart& last = by_arrival_.back();
    const Nanos before_last = by_arrival_[by_arrival_.size() - 2].begin;
    late.late += last.begin - before_last > kClockNoise;
    // The rank to compare with is the middle of the others.
    const CollectivePart& middle = by_arrival_[(by_arrival_.size() - 2) / 2];
    const Nanos lateness = last.begin - middle.begin;
    if (lateness <= 0) return;
    const Interval own = WayOf(c, last), other = WayOf(c, middle);
    const auto own_split = Split(time_[last.rank], own),
               other_split = Split(time_[middle.rank], other);
    for (size_t i = 0; i < kLatenessCauses; ++i) late.causes[i] += own_split[i] - other_split[i];
    late.causes[static_cast<size_t>(LatenessCause::kBefore)] +=
        (own.begin - OffsetOf(last)) - (other.begin - OffsetOf(middle));
    late.lateness += lateness;
    const size_t wait = static_cast<size_t>(LatenessCause::kEarlierWait);
    const Nanos cascade = std::clamp<Nanos>(own_split[wait] - other_split[wait], 0, lateness);
    late.excused +=
        static_cast<Nanos>(static_cast<double>(caused) * (static_cast<double>(cascade) / lateness));
  }

  const TraceSet& set_;
  const Collectives& collectives_;
  StragglerVerdict& verdict_;
  std::vector<RankTime> time_;
  absl::flat_hash_map<uint64_t, Nanos> left_;  // group and rank -> when, on the common clock
  std::vector<CollectivePart> by_arrival_;
};

void SetShares(const AnalysisInput& input, StragglerVerdict* verdict) {
  const size_t n = verdict->ranks.size();
  // The window: steps where all ranks mark them, else the span of GPU work as one step.
  double step_sum = 0, step_count = 0;
  for (uint32_t r = 0; r < n; ++r) {
    const double before = step_count;
    for (const Step& step : input.set().ranks[r].steps) {
      if (!step.complete) continue;
      step_sum += static_cast<double>(step.end - step.begin);
      ++step_count;
    }
    if (step_count == before) {
      const Interval span = input.ranks()[r]->gpu_span();
      step_sum += static_cast<double>(span.end - span.begin);
      ++step_count;
    }
  }
  const double window = step_sum / static_cast<double>(n);  // mean over ranks of the time looked at
  verdict->steps = step_count / static_cast<double>(n);
  verdict->step_time = step_count > 0 ? static_cast<Nanos>(step_sum / step_count) : 0;
  for (RankLateness& rank : verdict->ranks) {
    rank.share_of_step =
        window > 0 ? static_cast<double>(rank.blamed()) / static_cast<double>(n - 1) / window
                   : std::numeric_limits<double>::quiet_NaN();
  }
}

// Concludes whether the first of the sorted ranks is a straggler, and by which cause.
void Conclude(StragglerVerdict* verdict) {
  Nanos all_caused = 0;
  for (const RankLateness& rank : verdict->ranks) all_caused += rank.blamed();
  const RankLateness& worst = verdict->ranks.front();
  const bool often = worst.last * 2 > worst.collectives;
  const bool most = all_caused > 0 && worst.blamed() * 2 > all_caused;
  verdict->straggler = (often || most) && worst.share_of_step > kStragglerShare;
  size_t largest = 0;
  for (size_t i = 1; i < kLatenessCauses; ++i)
    if (worst.causes[i] > worst.causes[largest]) largest = i;
  if (worst.lateness > 0) {
    verdict->cause_share =
        std::max(0.0, static_cast<double>(worst.causes[largest]) / worst.lateness);
    const auto cause = static_cast<LatenessCause>(largest);
    if (verdict->cause_share >= kCauseShare && cause != LatenessCause::kBefore)
      verdict->cause = cause;
  }
  const std::string caused =
      HumanCell(static_cast<double>(worst.blamed()) / 1e3, ColumnFormat::kMicros);
  if (!verdict->straggler) {
    verdict->sentence = fmt::format(
        "no straggler: rank {} causes most wait ({} over all ranks, {:.1f} % of the step)",
        worst.rank, caused, worst.share_of_step * 100);
  } else {
    verdict->sentence = fmt::format(
        "rank {} is the straggler: last in {} of {} collectives, {} of wait for the others, "
        "{:.1f} % of the step; ",
        worst.rank, worst.last, worst.collectives, caused, worst.share_of_step * 100);
    if (verdict->cause) {
      verdict->sentence +=
          fmt::format("{} explains {:.0f} % of its lateness", LatenessCauseName(*verdict->cause),
                      std::min(1.0, verdict->cause_share) * 100);
    } else {
      verdict->sentence += fmt::format("no single cause (largest: {}, {:.0f} %)",
                                       LatenessCauseName(static_cast<LatenessCause>(largest)),
                                       verdict->cause_share * 100);
    }
  }
}

}  // namespace

std::string_view LatenessCauseName(LatenessCause c) {
  static constexpr std::string_view kNames[] = {"compute",         "memory copies", "earlier wait",
                                                "communication",   "data loading",  "cpu or launch",
                                                "before the trace"};
  static_assert(std::size(kNames) == static_cast<size_t>(LatenessCause::kBefore) + 1);
  return kNames[static_cast<size_t>(c)];
}

StatusOr<StragglerVerdict> FindStragglers(const AnalysisInput& input,
                                          const Collectives& collectives) {
  const TraceSet& set = input.set();
  if (set.ranks.size() < 2)
    return FailedPrecondition(
        "not computable: stragglers need the traces of two ranks or more of one job");
  if (std::ranges::none_of(collectives.all, &Collective::synchronising)) {
    if (collectives.rows == 0)
      return FailedPrecondition("not computable: no rank has a communication kernel");
    return FailedPrecondition(
        "not computable: no collective in which all ranks must meet (all-reduce, all-gather, ...) "
        "was found on two ranks");
  }
  StragglerVerdict verdict;
  verdict.notes = collectives.notes;
  verdict.ranks.resize(set.ranks.size());
  for (size_t r = 0; r < set.ranks.size(); ++r) verdict.ranks[r].rank = set.ranks[r].rank;
  Blame(input, collectives, &verdict).Run();
  SetShares(input, &verdict);
  std::ranges::stable_sort(verdict.ranks, [](const RankLateness& a, const RankLateness& b) {
    return a.blamed() > b.blamed();
  });
  Conclude(&verdict);
  return verdict;
}

}  // namespace flopwatch::trace
