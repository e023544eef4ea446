#include <algorithm>
#include <set>

#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {

// The numbers of the steps that its selection keeps, over all ranks.
StatusOr<AnalysisTables> HtaProfilerSteps(const AnalysisInput& input) {
  if (!AnySteps(input)) return NotComputable(kNoSteps);
  Table table = TableWith({"step"});
  std::set<int64_t> numbers;
  for (const auto& view : input.ranks()) {
    const std::vector<Row>& rows = view->hta().rows;
    for (const Step& step : view->rank().steps)
      if (std::binary_search(rows.begin(), rows.end(), step.row)) numbers.insert(step.number);
  }
  for (const int64_t number : numbers) table.rows.push_back({number});
  return OneTable(input, "profiler_steps", std::move(table));
}

}  // namespace flopwatch::trace
