#include "trace/analysis/analyses.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

// The part of communication time during which compute runs too; absent without communication.
StatusOr<AnalysisTables> CommCompOverlap(const AnalysisInput& input) {
  if (!AnyGpuWork(input)) return NotComputable(kNoGpuWork);
  Table table = TableWith({"rank", "communication_us", "overlapped_us", "exposed_us",
                           "%overlap_share", "%exposed_share_of_span"});
  for (const auto& view : input.ranks()) {
    const Nanos all = Length(view->busy(KernelClass::kCommunication));
    const Nanos exposed = Length(view->exposed_communication());
    const Interval span = view->gpu_span();
    table.rows.push_back({RankCell(*view), MicrosCell(all), MicrosCell(all - exposed),
                          MicrosCell(exposed), ShareCell(MicrosOf(all - exposed), MicrosOf(all)),
                          ShareCell(MicrosOf(exposed), MicrosOf(span.end - span.begin))});
  }
  return OneTable(input, "comm_comp_overlap", std::move(table));
}

}  // namespace

constinit const Analysis kCommCompOverlap = {.name = "comm_comp_overlap",
                                             .title = "How much of the communication compute hides",
                                             .ours = CommCompOverlap,
                                             .as_hta = HtaCommCompOverlap};

}  // namespace flopwatch::trace
