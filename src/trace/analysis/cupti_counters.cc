#include <string>

#include <fmt/format.h>
#include "trace/analysis/analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMostMetrics = 200;
constexpr size_t kMostCells = 4'000'000;
constexpr int kMostStack = 100;  // operators written of one stack

struct Ranges {
  std::vector<Row> ranges, launches;  // by start time
};

// The profiler measures one kernel a range and serialises them: the i-th range is the i-th launch,
// and HTA pairs them so too. Anything else would put one kernel's counters on another.
Ranges RangesOf(const RankView& view) {
  const EventTable& e = view.events();
  Ranges out;
  for (Row r = 0; r < e.size(); ++r) {
    if (e.category[r] == Category::kProfilerRange) out.ranges.push_back(r);
    if (e.category[r] == Category::kRuntime &&
        view.set().names.Text(e.name[r]).starts_with("cudaLaunchKernel")) {
      out.launches.push_back(r);
    }
  }
  return out;
}

StatusOr<AnalysisTables> RunCuptiCounters(const AnalysisInput& input) {
  const StringPool& names = input.set().names;
  // Each metric has a column, over all ranks, in the order of first use.
  std::vector<NameId> metrics;
  std::vector<uint32_t> column(names.size(), 0);  // 1 + index into metrics
  bool any = false;
  for (const auto& view : input.ranks()) {
    for (const RangeMetric& m : view->rank().range_metrics) {
      any = true;
      if (column[m.metric] != 0 || metrics.size() == kMostMetrics) continue;
      metrics.push_back(m.metric);
      column[m.metric] = static_cast<uint32_t>(metrics.size());
    }
  }
  if (!any)
    return NotComputable(
        "the trace has no cuda_profiler_range events (record with the CUPTI profiler's metrics)");
  Table table =
      TableWith({"rank", "kernel", "begin_us", "top_level_op", "bottom_level_op", "op_stack"});
  const size_t fixed = table.columns.size();
  for (const NameId metric : metrics) table.columns.push_back(Plain(names.Text(metric)));
  std::string refused;
  size_t left_out = 0;
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    const Ranges all = RangesOf(*view);
    if (all.ranges.empty()) continue;
    if (all.ranges.size() != all.launches.size()) {
      refused += fmt::format(
          "{}rank {} has {} measured ranges and {} kernel launches, so it is not known which is "
          "which",
          refused.empty() ? "" : "; ", view->rank().rank, all.ranges.size(), all.launches.size());
      continue;
    }
    std::vector<uint32_t> row_of(e.size(), 0);  // 1 + index into table.rows
    for (size_t i = 0; i < all.ranges.size(); ++i) {
      if (table.rows.size() * table.columns.size() > kMostCells) {
        left_out += all.ranges.size() - i;
        break;
      }
      const Row range = all.ranges[i];
      std::vector<Row> stack;  // innermost first
      for (Row r = e.parent[all.launches[i]]; r != kNoRow && stack.size() < kMostStack;
           r = e.parent[r]) {
        if (e.category[r] == Category::kCpuOp) stack.push_back(r);
      }
      std::string text;
      for (size_t s = stack.size(); s-- > 0;)
        text += (text.empty() ? "" : " > ") + std::string(names.Text(e.name[stack[s]]));
      std::vector<Cell> row(table.columns.size());
      row[0] = RankCell(*view);
      row[1] = TextCell(names.Text(e.name[range]));
      row[2] = MicrosCell(e.ts[range] - input.set().origin());
      if (!stack.empty()) {
        row[3] = TextCell(names.Text(e.name[stack.back()]));
        row[4] = TextCell(names.Text(e.name[stack.front()]));
        row[5] = std::move(text);
      }
      table.rows.push_back(std::move(row));
      row_of[range] = static_cast<uint32_t>(table.rows.size());
    }
    for (const RangeMetric& m : view->rank().range_metrics)
      if (m.row < row_of.size() && row_of[m.row] != 0 && column[m.metric] != 0)
        table.rows[row_of[m.row] - 1][fixed + column[m.metric] - 1] = NumberCell(m.value);
  }
  if (table.rows.empty()) return NotComputable(refused.empty() ? "no measured ranges" : refused);
  if (!refused.empty()) table.notes.push_back("left out: " + refused);
  if (left_out > 0) table.notes.push_back(fmt::format("{} further ranges are left out", left_out));
  table.notes.push_back(
      "counters of one kernel each, in the order of the launches, with the operators around the "
      "launch");
  return OneTable(input, "cupti_counters", std::move(table));
}

}  // namespace

constinit const Analysis kCuptiCounters = {
    .name = "cupti_counters",
    .title = "Hardware counters of single kernels, with the operator that launched them",
    .ours = RunCuptiCounters};

}  // namespace flopwatch::trace
