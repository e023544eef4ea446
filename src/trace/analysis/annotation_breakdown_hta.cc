#include <algorithm>

#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kHtaNames = 1000;

StatusOr<AnalysisTables> HtaAnnotationBreakdown(const AnalysisInput& input,
                                                std::string_view file_category) {
  Table table =
      TableWith({"name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", "rank"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    const NameId category = view->set().names.Find(file_category);
    if (category == kNoName) continue;
    NameTotals totals(view->set().names.size());
    for (const Row r : view->hta().rows)
      if (e.file_category[r] == category) totals.Add(e.name[r], MicrosOf(e.dur[r]));
    for (const HtaNameLine& line : HtaNameLines(view->set().names, totals, kHtaNames))
      table.rows.push_back({TextCell(line.name), line.sum, line.max, line.min, line.std, line.mean,
                            RankCell(*view)});
  }
  if (table.rows.empty())
    return NotComputable(
        absl::StrCat("the trace has no rows of the category ", std::string(file_category)));
  std::stable_sort(
      table.rows.begin(), table.rows.end(),
      [](const std::vector<Cell>& a, const std::vector<Cell>& b) { return a[0] < b[0]; });
  return OneTable(input, "", std::move(table));
}

}  // namespace

StatusOr<AnalysisTables> HtaGpuUserAnnotationBreakdown(const AnalysisInput& input) {
  return HtaAnnotationBreakdown(input, "gpu_user_annotation");
}
StatusOr<AnalysisTables> HtaUserAnnotationBreakdownCpu(const AnalysisInput& input) {
  return HtaAnnotationBreakdown(input, "user_annotation");
}

}  // namespace flopwatch::trace
