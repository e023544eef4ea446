#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {

// The same share of HTA's rows and kinds of kernels, in per cent.
StatusOr<AnalysisTables> HtaCommCompOverlap(const AnalysisInput& input) {
  Table table = TableWith({"rank", "comp_comm_overlap_pctg"});
  for (const auto& view : input.ranks()) {
    const IntervalSet communication =
        HtaBusy(view->events(), view->hta(), HtaKernelType::kCommunication);
    const Nanos all = Length(communication);
    const Nanos hidden = Length(Intersect(
        communication, HtaBusy(view->events(), view->hta(), HtaKernelType::kComputation)));
    table.rows.push_back({RankCell(*view), HtaPercent(hidden, all, 2)});
  }
  return OneTable(input, "comm_comp_overlap", std::move(table));
}

}  // namespace flopwatch::trace
