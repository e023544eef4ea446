#include "trace/analysis/analyses.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

StatusOr<AnalysisTables> Steps(const AnalysisInput& input) {
  if (!AnySteps(input)) return NotComputable(kNoSteps);
  Table table = TableWith({"rank", "step", "begin_us", "annotation_us", "duration_us", "complete"});
  const Nanos origin = input.set().origin();
  for (const auto& view : input.ranks()) {
    for (const Step& step : view->rank().steps)
      table.rows.push_back({RankCell(*view), step.number, MicrosCell(step.begin - origin),
                            MicrosCell(view->events().dur[step.row]),
                            MicrosCell(step.end - step.begin), step.complete});
  }
  table.notes.push_back(
      "a step lasts from the later of the previous step's end and its annotation's start to the "
      "later of the annotation's end and the end of the last GPU work launched in it; complete = "
      "not cut by the end of the profile");
  return OneTable(input, "profiler_steps", std::move(table));
}

// The same shares as temporal_breakdown, of each step's window.
StatusOr<AnalysisTables> SummariseSteps(const AnalysisInput& input) {
  if (!AnySteps(input)) return NotComputable(kNoSteps);
  Table table =
      TableWith({"rank", "step", "complete", "begin_us", "duration_us", "idle_us", "compute_us",
                 "exposed_communication_us", "memory_us", "communication_us", "%idle_share",
                 "%exposed_communication_share", "#gpu_rows"});
  const Nanos origin = input.set().origin();
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    std::vector<int64_t> launched(view->rank().steps.size(), 0);
    for (const Row r : view->gpu_rows())
      if (e.step[r] != kNoStep) ++launched[static_cast<size_t>(e.step[r])];
    for (size_t i = 0; i < view->rank().steps.size(); ++i) {
      const Step& step = view->rank().steps[i];
      const Nanos whole = step.end - step.begin;
      std::vector<Cell> row = {RankCell(*view), step.number, step.complete,
                               MicrosCell(step.begin - origin), MicrosCell(whole)};
      if (view->gpu_rows().empty()) {
        row.resize(table.columns.size());
      } else {
        const auto within = [&](const IntervalSet& set) {
          return LengthWithin(set, step.begin, step.end);
        };
        const Nanos busy = within(view->busy());
        const Nanos compute = within(view->computing());
        const Nanos exposed = within(view->exposed_communication());
        row.insert(row.end(), {MicrosCell(whole - busy), MicrosCell(compute), MicrosCell(exposed),
                               MicrosCell(busy - compute - exposed),
                               MicrosCell(within(view->busy(KernelClass::kCommunication))),
                               ShareCell(MicrosOf(whole - busy), MicrosOf(whole)),
                               ShareCell(MicrosOf(exposed), MicrosOf(whole)), launched[i]});
      }
      table.rows.push_back(std::move(row));
    }
  }
  table.notes.push_back(
      "times are what ran inside the step's window; gpu_rows are those launched in it");
  return OneTable(input, "step_summary", std::move(table));
}

}  // namespace

constinit const Analysis kProfilerSteps = {.name = "profiler_steps",
                                           .title = "The steps of the trace",
                                           .ours = Steps,
                                           .as_hta = HtaProfilerSteps};

constinit const Analysis kStepSummary = {.name = "step_summary",
                                         .title = "Where the GPU's time went, step by step",
                                         .ours = SummariseSteps};

}  // namespace flopwatch::trace
