#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include "trace/analysis/analyses.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/kernel_breakdown.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

Table BreakdownTypes(const AnalysisInput& input) {
  Table table = TableWith({"kernel_type", "sum_us", "%share_of_busy"});
  std::array<Nanos, kSubsets> sums{};
  Nanos all = 0;
  for (const auto& view : input.ranks()) {
    Sweep({&view->busy(kClasses[0]), &view->busy(kClasses[1]), &view->busy(kClasses[2]),
           &view->busy(kClasses[3])},
          [&](unsigned subset, Nanos t) {
            sums[subset] += t;
            all += t;
          });
  }
  for (unsigned s = 1; s < kSubsets; ++s) {
    if (sums[s] == 0) continue;
    table.rows.push_back(
        {SubsetName(s), MicrosCell(sums[s]), ShareCell(MicrosOf(sums[s]), MicrosOf(all))});
  }
  SortByTime(&table.rows);
  table.notes.push_back(
      "time during which exactly these kinds of work run, added over ranks; idle time is not in "
      "it");
  return table;
}

Table BreakdownKernels(const AnalysisInput& input, size_t most) {
  Table table = TableWith({"rank", "kernel_type", "name", "#count", "sum_us", "mean_us", "std_us",
                           "min_us", "max_us", "%share_of_kernel_time"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    const TableVector<KernelClass>& classes = view->classes();
    std::vector<NameTotals> totals(kKinds, NameTotals(view->set().names.size()));
    double all = 0;
    std::array<std::vector<Row>, kKinds> rows_of;
    for (const Row r : view->gpu_rows()) {
      const size_t kind =
          static_cast<size_t>(classes[r]) - static_cast<size_t>(KernelClass::kCompute);
      totals[kind].Add(e.name[r], MicrosOf(e.dur[r]));
      rows_of[kind].push_back(r);
      all += MicrosOf(e.dur[r]);
    }
    for (size_t kind = 0; kind < kKinds; ++kind) {
      const auto add = [&](std::string name, const Accumulator& a) {
        table.rows.push_back({RankCell(*view), TextCell(KernelClassName(kClasses[kind])),
                              std::move(name), a.count(), a.sum(), a.mean(), NumberCell(a.std()),
                              a.min(), a.max(), ShareCell(a.sum(), all)});
      };
      const std::vector<NameTotals::Line> lines = totals[kind].BySum();
      const size_t shown = std::min(lines.size(), most);
      std::vector<bool> named(shown < lines.size() ? view->set().names.size() : 0, false);
      for (size_t i = 0; i < shown; ++i) {
        add(std::string(view->set().names.Text(lines[i].name)), lines[i].total);
        if (!named.empty()) named[lines[i].name] = true;
      }
      if (shown == lines.size()) continue;
      Accumulator others;
      for (const Row r : rows_of[kind])
        if (!named[e.name[r]]) others.Add(MicrosOf(e.dur[r]));
      add(fmt::format("others ({} names)", lines.size() - shown), others);
    }
  }
  table.notes.push_back("sums of kernel durations: kernels that run at the same time count each");
  return table;
}

StatusOr<AnalysisTables> Breakdown(const AnalysisInput& input, size_t most) {
  if (!AnyGpuWork(input)) return NotComputable(kNoGpuWork);
  AnalysisTables out;
  out.parts.push_back({"kernel_type", BreakdownTypes(input)});
  out.parts.push_back({"kernels", BreakdownKernels(input, most)});
  for (AnalysisTables::Part& part : out.parts) AddNotes(input, "gpu_kernel_breakdown", &part.table);
  return out;
}

StatusOr<AnalysisTables> Top(const AnalysisInput& input) { return Breakdown(input, kTopNames); }
StatusOr<AnalysisTables> All(const AnalysisInput& input) { return Breakdown(input, kAllNames); }

}  // namespace

constinit const Analysis kGpuKernelBreakdown = {
    .name = "gpu_kernel_breakdown",
    .title = "GPU time by kind of work, and the kernels that take most of it",
    .ours = Top,
    .as_hta = HtaKernelBreakdown};

constinit const Analysis kGpuKernelBreakdownAll = {
    .name = "gpu_kernel_breakdown_all",
    .title = "GPU time by kind of work, and every kernel",
    .ours = All,
    .as_hta = HtaKernelBreakdownAll};

}  // namespace flopwatch::trace
