#include "trace/analysis/stragglers.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
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

// One rank's time split without overlap, on its own clock.
struct RankTime {
  Measured compute, copies, waiting, communication, loading;
};

RankTime TimeOf(const AnalysisInput& input, uint32_t r, std::vector<Interval> waits) {
  const RankView& view = *input.ranks()[r];
  const EventTable& e = view.events();
  const StringPool& names = input.set().names;
  const IntervalSet& compute = view.busy(KernelClass::kCompute);
  const IntervalSet copies = Subtract(view.busy(KernelClass::kMemory), compute);
  IntervalSet taken = Union(compute, copies);
  const IntervalSet waiting = Subtract(Merge(std::move(waits)), taken);
  taken = Union(taken, waiting);
  const IntervalSet communication = Subtract(view.busy(KernelClass::kCommunication), taken);
  taken = Union(taken, communication);
  std::vector<char> loads(2 * names.size(), -1);  // judged once a name, Python frames apart
  std::vector<Interval> loading;
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

// One rank's way from the group's previous collective to its arrival in this one.
struct Way {
  Nanos begin = 0, end = 0;  // own clock
};

std::array<Nanos, kLatenessCauses> Split(const RankTime& time, const Way& way) {
  std::array<Nanos, kLatenessCauses> out = {};
  const auto at = [&](LatenessCause c) -> Nanos& { return out[static_cast<size_t>(c)]; };
  Nanos rest = std::max<Nanos>(0, way.end - way.begin);
  const auto take = [&](LatenessCause c, const Measured& set) {
    at(c) = set.Within(way.begin, way.end);
    rest -= at(c);
  };
  take(LatenessCause::kCompute, time.compute);
  take(LatenessCause::kMemoryCopies, time.copies);
  take(LatenessCause::kEarlierWait, time.waiting);
  take(LatenessCause::kCommunication, time.communication);
  take(LatenessCause::kDataLoading, time.loading);
  at(LatenessCause::kCpu) = rest;
  return out;
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
    return absl::FailedPreconditionError(
        "not computable: stragglers need the traces of two ranks or more of one job");
  std::vector<uint32_t> used;
  for (uint32_t i = 0; i < collectives.all.size(); ++i)
    if (collectives.all[i].synchronising) used.push_back(i);
  if (used.empty()) {
    return absl::FailedPreconditionError(
        collectives.rows == 0 ? "not computable: no rank has a communication kernel"
                              : "not computable: no collective in which all ranks must meet "
                                "(all-reduce, all-gather, ...) was found on two ranks");
  }

  const size_t n = set.ranks.size();
  StragglerVerdict verdict;
  verdict.notes = collectives.notes;
  verdict.ranks.resize(n);
  std::vector<std::vector<Interval>> waits(n);
  for (const Collective& c : collectives.all) {
    if (!c.synchronising) continue;
    for (const CollectivePart& part : collectives.PartsOf(c)) {
      const Nanos own = part.begin + collectives.clocks[part.rank].offset;
      if (part.wait > 0) waits[part.rank].push_back({own, own + part.wait});
    }
  }
  std::vector<RankTime> time;
  time.reserve(n);
  for (uint32_t r = 0; r < n; ++r) {
    verdict.ranks[r].rank = set.ranks[r].rank;
    time.push_back(TimeOf(input, r, std::move(waits[r])));
  }

  // Ways begin where the rank left the group's previous collective; before the first one, where its
  // step began.
  absl::flat_hash_map<uint64_t, Nanos> left;  // group and rank -> when, on the common clock
  const auto of = [](const Collective& c, const CollectivePart& part) {
    return uint64_t{c.group} << 32 | part.rank;
  };
  std::vector<CollectivePart> by_arrival;
  for (const Collective& c : collectives.all) {
    const std::span<const CollectivePart> parts = collectives.PartsOf(c);
    if (c.synchronising) {
      ++verdict.collectives;
      const auto way_of = [&](const CollectivePart& part) {
        const Nanos offset = collectives.clocks[part.rank].offset;
        const RankTrace& rank = set.ranks[part.rank];
        const int32_t step = rank.events.step[part.row];
        const auto before = left.find(of(c, part));
        const Nanos begin = before != left.end() ? before->second + offset
                            : step != kNoStep    ? rank.steps[static_cast<size_t>(step)].begin
                                                 : rank.begin;
        return Way{std::min(begin, part.begin + offset), part.begin + offset};
      };
      by_arrival.assign(parts.begin(), parts.end());
      std::ranges::stable_sort(by_arrival, {}, &CollectivePart::begin);
      const CollectivePart& last = by_arrival.back();
      Nanos caused = 0;
      for (const CollectivePart& part : parts) {
        RankLateness& own = verdict.ranks[part.rank];
        ++own.collectives;
        own.waited += part.wait;
        own.communication += part.end - part.begin;
        own.last += part.rank == c.last_rank;
        own.first += part.rank == c.first_rank;
        caused += part.wait;
      }
      RankLateness& late = verdict.ranks[c.last_rank];
      late.caused += caused;
      const Nanos before_last = by_arrival[by_arrival.size() - 2].begin;
      late.late += last.begin - before_last > kClockNoise;
      // The middle of the others, as the rank to compare with.
      const CollectivePart& middle = by_arrival[(by_arrival.size() - 2) / 2];
      const Nanos lateness = last.begin - middle.begin;
      if (lateness > 0) {
        const Way own = way_of(last), other = way_of(middle);
        const auto own_split = Split(time[last.rank], own),
                   other_split = Split(time[middle.rank], other);
        for (size_t i = 0; i < kLatenessCauses; ++i)
          late.causes[i] += own_split[i] - other_split[i];
        const Nanos began_later = (own.begin - collectives.clocks[last.rank].offset) -
                                  (other.begin - collectives.clocks[middle.rank].offset);
        late.causes[static_cast<size_t>(LatenessCause::kBefore)] += began_later;
        late.lateness += lateness;
        const size_t wait = static_cast<size_t>(LatenessCause::kEarlierWait);
        const Nanos cascade = std::clamp<Nanos>(own_split[wait] - other_split[wait], 0, lateness);
        late.excused += static_cast<Nanos>(static_cast<double>(caused) *
                                           (static_cast<double>(cascade) / lateness));
      }
    }
    for (const CollectivePart& part : parts) {
      Nanos& at = left.try_emplace(of(c, part), part.end).first->second;
      at = std::max(at, part.end);
    }
  }

  // The window: steps where all ranks mark them, else the span of GPU work as one step.
  double step_sum = 0, step_count = 0;
  for (uint32_t r = 0; r < n; ++r) {
    double sum = 0, count = 0;
    for (const Step& step : set.ranks[r].steps) {
      if (!step.complete) continue;
      sum += static_cast<double>(step.end - step.begin);
      ++count;
    }
    if (count == 0) {
      const Interval span = input.ranks()[r]->gpu_span();
      sum = static_cast<double>(span.end - span.begin);
      count = 1;
    }
    step_sum += sum;
    step_count += count;
  }
  const double window = step_sum / static_cast<double>(n);  // mean over ranks of the time looked at
  verdict.steps = step_count / static_cast<double>(n);
  verdict.step_time = step_count > 0 ? static_cast<Nanos>(step_sum / step_count) : 0;
  Nanos all_caused = 0;
  for (RankLateness& rank : verdict.ranks) {
    all_caused += rank.blamed();
    rank.share_of_step =
        window > 0 ? static_cast<double>(rank.blamed()) / static_cast<double>(n - 1) / window
                   : std::numeric_limits<double>::quiet_NaN();
  }
  std::ranges::stable_sort(verdict.ranks, [](const RankLateness& a, const RankLateness& b) {
    return a.blamed() > b.blamed();
  });

  const RankLateness& worst = verdict.ranks.front();
  const bool often = worst.last * 2 > worst.collectives;
  const bool most = all_caused > 0 && worst.blamed() * 2 > all_caused;
  verdict.straggler = (often || most) && worst.share_of_step > kStragglerShare;
  size_t largest = 0;
  for (size_t i = 1; i < kLatenessCauses; ++i)
    if (worst.causes[i] > worst.causes[largest]) largest = i;
  if (worst.lateness > 0) {
    verdict.cause_share =
        std::max(0.0, static_cast<double>(worst.causes[largest]) / worst.lateness);
    const auto cause = static_cast<LatenessCause>(largest);
    if (verdict.cause_share >= kCauseShare && cause != LatenessCause::kBefore)
      verdict.cause = cause;
  }
  const double caused_ms = static_cast<double>(worst.blamed()) / 1e6;
  if (!verdict.straggler) {
    verdict.sentence = fmt::format(
        "no straggler: rank {} causes most wait ({:.3f} ms over all ranks, {:.1f} % of the step)",
        worst.rank, caused_ms, worst.share_of_step * 100);
  } else {
    verdict.sentence = fmt::format(
        "rank {} is the straggler: last in {} of {} collectives, {:.3f} ms of wait for the others, "
        "{:.1f} % of the step; ",
        worst.rank, worst.last, worst.collectives, caused_ms, worst.share_of_step * 100);
    if (verdict.cause) {
      verdict.sentence +=
          fmt::format("{} explains {:.0f} % of its lateness", LatenessCauseName(*verdict.cause),
                      std::min(1.0, verdict.cause_share) * 100);
    } else {
      verdict.sentence += fmt::format("no single cause (largest: {}, {:.0f} %)",
                                      LatenessCauseName(static_cast<LatenessCause>(largest)),
                                      verdict.cause_share * 100);
    }
  }
  return verdict;
}

}  // namespace flopwatch::trace
