// HTA's rule for stragglers (HolisticTraceAnalysis 0.6, potential_stragglers), in nanoseconds: of
// the communication kernels that take 1 % of a step or more, the one whose duration differs most
// between the ranks, and the two ranks on which it starts last. The stragglers analysis is ours.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "trace/analysis/analyses.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr double kMinShare = 0.01;  // of a mean step
constexpr size_t kCandidates = 2;

// What the rule looks at: rows of a rank (nullptr = all), and which of its kernels communicate.
struct Selection {
  const std::vector<Row>* (*rows)(const RankView&);
  bool (*communicates)(const RankView&, Row);
};
template <typename Use>
void ForRows(const RankView& view, const Selection& selection, const Use& use) {
  if (const std::vector<Row>* rows = selection.rows(view)) {
    for (const Row r : *rows) use(r);
  } else {
    for (Row r = 0; r < view.events().size(); ++r) use(r);
  }
}

struct LastKernel {
  Nanos ts = 0, dur = 0;
};
// The last of these kernels by step (its number), and by rank (index into the set).
using ByStep = std::map<int64_t, std::map<uint32_t, LastKernel>>;
using KernelsByPlace = std::map<std::pair<int32_t, NameId>, ByStep>;  // stream, name

int64_t StepNumber(const RankTrace& rank, Row row) {
  return rank.steps[static_cast<size_t>(rank.events.step[row])].number;
}

// NaN without steps.
double MeanStep(const AnalysisInput& input, const Selection& selection) {
  std::set<int64_t> steps;
  Nanos first = std::numeric_limits<Nanos>::max(), last = std::numeric_limits<Nanos>::min();
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    ForRows(*view, selection, [&](Row row) {
      if (e.step[row] == kNoStep) return;
      steps.insert(StepNumber(view->rank(), row));
      first = std::min(first, e.ts[row]);
      last = std::max(last, e.end(row));
    });
  }
  return steps.empty() ? kNaN : static_cast<double>(last - first) / steps.size();
}

KernelsByPlace LongKernels(const AnalysisInput& input, const Selection& selection,
                           double mean_step) {
  KernelsByPlace out;
  for (uint32_t r = 0; r < input.ranks().size(); ++r) {
    const RankView& view = *input.ranks()[r];
    const EventTable& e = view.events();
    ForRows(view, selection, [&](Row row) {
      if (e.step[row] == kNoStep || e.stream[row] <= 0 ||
          static_cast<double>(e.dur[row]) < mean_step * kMinShare ||
          !selection.communicates(view, row))
        return;
      if (const int64_t step = StepNumber(view.rank(), row); step > 0)
        out[{e.stream[row], e.name[row]}][step][r] = {e.ts[row], e.dur[row]};
    });
  }
  return out;
}

// The mean over steps of the standard deviation over ranks; -1 where no step has two ranks.
double Variation(const ByStep& by_step) {
  double sum = 0, count = 0;
  for (const auto& [step, of_ranks] : by_step) {
    if (of_ranks.size() < 2) continue;
    double mean = 0, squares = 0;
    const double n = static_cast<double>(of_ranks.size());
    for (const auto& [rank, kernel] : of_ranks) mean += static_cast<double>(kernel.dur) / n;
    for (const auto& [rank, kernel] : of_ranks)
      squares += std::pow(static_cast<double>(kernel.dur) - mean, 2);
    sum += std::sqrt(squares / (n - 1));
    ++count;
  }
  return count > 0 ? sum / count : -1;
}

// The ranks that are most often among the last to start it.
std::vector<uint32_t> LastToStart(const ByStep& by_step) {
  std::map<uint32_t, int64_t> times;  // rank -> steps in which it is a candidate
  for (const auto& [step, of_ranks] : by_step) {
    std::vector<Nanos> starts;
    for (const auto& [rank, kernel] : of_ranks) starts.push_back(kernel.ts);
    std::sort(starts.rbegin(), starts.rend());
    const Nanos limit = starts[std::min(kCandidates, starts.size()) - 1];
    for (const auto& [rank, kernel] : of_ranks) times[rank] += kernel.ts >= limit;
  }
  std::vector<std::pair<uint32_t, int64_t>> order(times.begin(), times.end());
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<uint32_t> out;
  for (size_t i = 0; i < std::min(kCandidates, order.size()); ++i) out.push_back(order[i].first);
  return out;
}

StatusOr<AnalysisTables> Candidates(const AnalysisInput& input, const Selection& selection) {
  if (input.ranks().size() < 2) return NotComputable(kFewRanks);
  const double mean_step = MeanStep(input, selection);
  if (std::isnan(mean_step)) return NotComputable("the trace marks no steps (ProfilerStep)");
  const KernelsByPlace kernels = LongKernels(input, selection, mean_step);
  const ByStep* chosen = nullptr;
  double largest = -1;
  for (const auto& [where, by_step] : kernels) {
    if (const double variation = Variation(by_step); variation > largest) {
      largest = variation;
      chosen = &by_step;
    }
  }
  if (chosen == nullptr)
    return NotComputable("no communication kernel of 1 % of a step or more is on two ranks");
  Table table = TableWith({"rank"});
  for (const uint32_t rank : LastToStart(*chosen))
    table.rows.push_back({RankCell(*input.ranks()[rank])});
  table.notes.push_back(
      "HTA's rule: the two ranks whose longest-varying communication kernel starts last; no clock "
      "correction, no cause: prefer stragglers");
  return OneTable(std::move(table));
}

// Communication is what kernel_class.h says it is.
StatusOr<AnalysisTables> PotentialStragglers(const AnalysisInput& input) {
  return Candidates(
      input,
      {.rows = [](const RankView&) -> const std::vector<Row>* { return nullptr; },
       .communicates = [](const RankView& view,
                          Row r) { return view.classes()[r] == KernelClass::kCommunication; }});
}

}  // namespace

// Communication is what has a name that starts with "ncclKernel".
StatusOr<AnalysisTables> HtaPotentialStragglers(const AnalysisInput& input) {
  return Candidates(input, {.rows = [](const RankView& view) { return &view.hta().rows; },
                            .communicates =
                                [](const RankView& view, Row r) {
                                  return view.set().Name(view.rank(), r).starts_with("ncclKernel");
                                }});
}

constinit const Analysis kPotentialStragglers = {
    .name = "potential_stragglers",
    .title = "The two candidates of HTA's straggler rule",
    .many_ranks = true,
    .ours = PotentialStragglers,
    .as_hta = HtaPotentialStragglers};

}  // namespace flopwatch::trace
