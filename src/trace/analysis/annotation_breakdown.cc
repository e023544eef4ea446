#include "trace/analysis/analyses.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"
#include "trace/analysis/tree.h"

namespace flopwatch::trace {
namespace {

// The innermost annotation of every piece of GPU work; kNoRow without one. On the GPU it is the
// last to begin, on the same stream, of those that have not ended; on the CPU the one around the
// launch call, on its thread.
std::vector<Row> AnnotationOfWork(const RankView& view, Category category) {
  const EventTable& e = view.events();
  const TableVector<Row>& work = view.gpu_rows();
  std::vector<Row> out(work.size(), kNoRow);
  if (category == Category::kUserAnnotation) {
    const std::vector<Row> above = NearestAbove(
        e, view.parents_first(), [&](Row r) { return e.category[r] == Category::kUserAnnotation; });
    for (size_t i = 0; i < work.size(); ++i)
      if (e.launch[work[i]] != kNoRow) out[i] = above[e.launch[work[i]]];
    return out;
  }
  std::vector<Row> of_row(e.size(), kNoRow);
  std::vector<std::vector<Row>> open(view.rank().threads.size());
  for (const Row r :
       view.parents_first()) {  // what starts together with an annotation and is shorter lies in it
    if (e.category[r] != category && !IsGpuWork(e.category[r])) continue;
    std::vector<Row>& stack = open[e.thread[r]];
    while (!stack.empty() && e.end(stack.back()) <= e.ts[r]) stack.pop_back();
    if (e.category[r] == category) {
      stack.push_back(r);
    } else if (!stack.empty()) {
      of_row[r] = stack.back();
    }
  }
  for (size_t i = 0; i < work.size(); ++i) out[i] = of_row[work[i]];
  return out;
}

StatusOr<AnalysisTables> AnnotationBreakdown(const AnalysisInput& input, Category category,
                                             std::string_view name) {
  Table table = TableWith({"rank", "name", "#count", "sum_us", "mean_us", "std_us", "min_us",
                           "max_us", "#gpu_rows", "gpu_work_us"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    NameTotals totals(view->set().names.size());
    for (Row r = 0; r < e.size(); ++r)
      if (e.category[r] == category) totals.Add(e.name[r], MicrosOf(e.dur[r]));
    if (totals.lines().empty()) continue;
    std::vector<double> work_us(view->set().names.size(), 0);
    std::vector<int64_t> work_rows(view->set().names.size(), 0);
    const std::vector<Row> annotations = AnnotationOfWork(*view, category);
    for (size_t i = 0; i < annotations.size(); ++i) {
      if (annotations[i] == kNoRow) continue;
      work_us[e.name[annotations[i]]] += MicrosOf(e.dur[view->gpu_rows()[i]]);
      ++work_rows[e.name[annotations[i]]];
    }
    const bool has_gpu = !view->gpu_rows().empty();
    for (const NameTotals::Line& line : totals.BySum()) {
      const Accumulator& a = line.total;
      table.rows.push_back({RankCell(*view), TextCell(view->set().names.Text(line.name)), a.count(),
                            a.sum(), a.mean(), NumberCell(a.std()), a.min(), a.max(),
                            has_gpu ? Cell{work_rows[line.name]} : Cell{},
                            has_gpu ? Cell{work_us[line.name]} : Cell{}});
    }
  }
  if (table.rows.empty())
    return NotComputable(absl::StrCat("the trace has no rows of the category ",
                                      std::string(CategoryName(category))));
  table.notes.push_back(
      "sums of durations: annotations inside each other count each. gpu_rows and gpu_work_us are "
      "the GPU work whose innermost "
      "annotation this is: on the GPU by time and stream, on the CPU by the launch call's thread");
  return OneTable(input, name, std::move(table));
}

StatusOr<AnalysisTables> OnGpu(const AnalysisInput& input) {
  return AnnotationBreakdown(input, Category::kGpuUserAnnotation, "gpu_user_annotation_breakdown");
}
StatusOr<AnalysisTables> OnCpu(const AnalysisInput& input) {
  return AnnotationBreakdown(input, Category::kUserAnnotation, "user_annotation_breakdown_cpu");
}

}  // namespace

constinit const Analysis kGpuUserAnnotationBreakdown = {
    .name = "gpu_user_annotation_breakdown",
    .title = "Time of user annotations on the GPU",
    .ours = OnGpu,
    .as_hta = HtaGpuUserAnnotationBreakdown};

constinit const Analysis kUserAnnotationBreakdownCpu = {
    .name = "user_annotation_breakdown_cpu",
    .title = "Time of user annotations on the CPU",
    .ours = OnCpu,
    .as_hta = HtaUserAnnotationBreakdownCpu};

}  // namespace flopwatch::trace
