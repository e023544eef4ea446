#include <algorithm>
#include <array>
#include <tuple>

#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/kernel_breakdown.h"

namespace flopwatch::trace {
namespace {

// HTA cuts every stretch to whole µs before it adds them up.
Table HtaTypes(const AnalysisInput& input) {
  Table table = TableWith({"kernel_type", "sum", "percentage"});
  std::array<int64_t, kSubsets> sums{};
  std::array<bool, kSubsets> seen{};
  int64_t all = 0;
  for (const auto& view : input.ranks()) {
    IntervalSet sets[kKinds];
    for (size_t i = 0; i < std::size(kHtaKernelTypes); ++i)
      sets[i] = HtaBusy(view->events(), view->hta(), kHtaKernelTypes[i]);
    Sweep({&sets[0], &sets[1], &sets[2], &sets[3]}, [&](unsigned subset, Nanos t) {
      sums[subset] += t / 1000;
      seen[subset] = true;
      all += t / 1000;
    });
  }
  for (unsigned s = 1; s < kSubsets; ++s) {
    if (!seen[s]) continue;
    table.rows.push_back({SubsetName(s), sums[s], HtaPercent(sums[s], all, 1)});
  }
  SortByTime(&table.rows);
  return table;
}

Table HtaKernels(const AnalysisInput& input, size_t most) {
  Table table = TableWith(
      {"name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", "kernel_type", "rank"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    const HtaRows& rows = view->hta();
    std::vector<NameTotals> totals(kKinds, NameTotals(view->set().names.size()));
    for (size_t i = 0; i < rows.gpu.size(); ++i) {
      if (rows.gpu_type[i] == HtaKernelType::kOther) continue;
      totals[static_cast<size_t>(rows.gpu_type[i])].Add(e.name[rows.gpu[i]],
                                                        MicrosOf(e.dur[rows.gpu[i]]));
    }
    for (size_t kind = 0; kind < std::size(kHtaKernelTypes); ++kind) {
      for (const HtaNameLine& line : HtaNameLines(view->set().names, totals[kind], most))
        table.rows.push_back({TextCell(line.name), line.sum, line.max, line.min, line.std,
                              line.mean, TextCell(HtaKernelTypeName(kHtaKernelTypes[kind])),
                              RankCell(*view)});
    }
  }
  // Rows are sorted by type, name and rank; types go by their names.
  std::ranges::stable_sort(table.rows, [](const std::vector<Cell>& a, const std::vector<Cell>& b) {
    return std::tie(a[6], a[0], a[7]) < std::tie(b[6], b[0], b[7]);
  });
  return table;
}

StatusOr<AnalysisTables> HtaBreakdown(const AnalysisInput& input, size_t most) {
  AnalysisTables out;
  out.parts.push_back({"kernel_type", HtaTypes(input)});
  out.parts.push_back({"kernels", HtaKernels(input, most)});
  for (AnalysisTables::Part& part : out.parts) AddNotes(input, "gpu_kernel_breakdown", &part.table);
  return out;
}

}  // namespace

StatusOr<AnalysisTables> HtaKernelBreakdown(const AnalysisInput& input) {
  return HtaBreakdown(input, kTopNames);
}
StatusOr<AnalysisTables> HtaKernelBreakdownAll(const AnalysisInput& input) {
  return HtaBreakdown(input, kAllNames);
}

}  // namespace flopwatch::trace
