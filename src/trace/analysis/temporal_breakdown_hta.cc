#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {

// non_compute = communication and copies that compute does not hide; OTHER kernels count in it too.
StatusOr<AnalysisTables> HtaTemporalBreakdown(const AnalysisInput& input) {
  if (!AnyGpuWork(input)) return NotComputable(kNoGpuWork);
  Table table = TableWith({"rank", "idle_time(us)", "compute_time(us)", "non_compute_time(us)",
                           "kernel_time(us)", "idle_time_pctg", "compute_time_pctg",
                           "non_compute_time_pctg"});
  for (const auto& view : input.ranks()) {
    const HtaRows& rows = view->hta();
    if (rows.gpu.empty()) continue;
    const EventTable& e = view->events();
    const Interval span = HtaSpan(e, rows);
    const Nanos whole = span.end - span.begin;
    const Nanos idle = whole - Length(HtaBusy(e, rows));
    const Nanos compute = Length(HtaBusy(e, rows, HtaKernelType::kComputation));
    const Nanos other = whole - compute - idle;
    const auto percent = [&](Nanos t) { return HtaPercent(t, whole, 2); };
    table.rows.push_back({RankCell(*view), MicrosCell(idle), MicrosCell(compute), MicrosCell(other),
                          MicrosCell(whole), percent(idle), percent(compute), percent(other)});
  }
  return OneTable(input, "", std::move(table));
}

}  // namespace flopwatch::trace
