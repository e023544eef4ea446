#include <algorithm>

#include "trace/analysis/analyses.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kHtaNames = 1000;

StatusOr<AnalysisTables> Default(const AnalysisInput& input, Category category, std::string_view name) {
  Table table;
  table.columns = {Plain("rank"),    Plain("name"),   Count("count"),  Plain("sum_us"),
                   Plain("mean_us"), Plain("std_us"), Plain("min_us"), Plain("max_us")};
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    NameTotals totals(view->set().names.size());
    for (Row r = 0; r < e.size(); ++r) {
      if (e.category[r] == category) totals.Add(e.name[r], MicrosOf(e.dur[r]));
    }
    for (const NameTotals::Line& line : totals.BySum()) {
      const Accumulator& a = line.total;
      table.rows.push_back({RankCell(*view), TextCell(view->set().names.Text(line.name)), a.count(), a.sum(), a.mean(),
                            NumberCell(a.std()), a.min(), a.max()});
    }
  }
  if (table.rows.empty()) return NotComputable(absl::StrCat("the trace has no rows of the category ", std::string(CategoryName(category))));
  table.notes.push_back("sums of durations: annotations inside each other count each");
  AddNotes(input, name, &table);
  return OneTable(std::move(table));
}

StatusOr<AnalysisTables> Hta(const AnalysisInput& input, std::string_view file_category) {
  Table table;
  table.columns = PlainColumns({"name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", "rank"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    const NameId category = view->set().names.Find(file_category);
    if (category == kNoName) continue;
    NameTotals totals(view->set().names.size());
    for (const Row r : view->hta().rows) {
      if (e.file_category[r] == category) totals.Add(e.name[r], MicrosOf(e.dur[r]));
    }
    for (const HtaNameLine& line : HtaNameLines(view->set().names, totals, kHtaNames)) {
      table.rows.push_back({TextCell(line.name), line.sum, line.max, line.min, line.std, line.mean, RankCell(*view)});
    }
  }
  if (table.rows.empty()) return NotComputable(absl::StrCat("the trace has no rows of the category ", std::string(file_category)));
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const std::vector<Cell>& a, const std::vector<Cell>& b) { return a[0] < b[0]; });
  AddNotes(input, "", &table);
  return OneTable(std::move(table));
}

StatusOr<AnalysisTables> Gpu(const AnalysisInput& input) {
  return input.options().hta ? Hta(input, "gpu_user_annotation")
                             : Default(input, Category::kGpuUserAnnotation, "gpu_user_annotation_breakdown");
}
StatusOr<AnalysisTables> Cpu(const AnalysisInput& input) {
  return input.options().hta ? Hta(input, "user_annotation")
                             : Default(input, Category::kUserAnnotation, "user_annotation_breakdown_cpu");
}

}  // namespace

constinit const Analysis kGpuUserAnnotationBreakdown = {
    .name = "gpu_user_annotation_breakdown",
    .title = "Time of user annotations on the GPU",
    .run = Gpu,
};

constinit const Analysis kUserAnnotationBreakdownCpu = {
    .name = "user_annotation_breakdown_cpu",
    .title = "Time of user annotations on the CPU",
    .run = Cpu,
};

}  // namespace flopwatch::trace
