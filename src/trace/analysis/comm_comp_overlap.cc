#include "trace/analysis/analyses.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

// traces.md 2.5: the part of communication time during which compute runs too; nothing without
// communication.
StatusOr<AnalysisTables> RunCommCompOverlap(const AnalysisInput& input) {
  Table table;
  const bool hta = input.options().hta;
  if (hta) {
    table.columns = PlainColumns({"rank", "comp_comm_overlap_pctg"});
  } else {
    if (!AnyGpuWork(input)) return NotComputable(kNoGpuWork);
    table.columns = {Plain("rank"),          Plain("communication_us"),
                     Plain("overlapped_us"), Plain("exposed_us"),
                     Share("overlap_share"), Share("exposed_share_of_span")};
  }
  for (const auto& view : input.ranks()) {
    if (hta) {
      const IntervalSet communication =
          HtaBusy(view->events(), view->hta(), HtaKernelType::kCommunication);
      const Nanos all = Length(communication);
      const Nanos hidden = Length(Intersect(
          communication, HtaBusy(view->events(), view->hta(), HtaKernelType::kComputation)));
      table.rows.push_back(
          {RankCell(*view),
           all > 0
               ? Cell{HtaRound(100.0 * static_cast<double>(hidden) / static_cast<double>(all), 2)}
               : Cell{}});
      continue;
    }
    const Nanos all = Length(view->busy(KernelClass::kCommunication));
    const Nanos exposed = Length(view->exposed_communication());
    const Interval span = view->gpu_span();
    table.rows.push_back({RankCell(*view), MicrosCell(all), MicrosCell(all - exposed),
                          MicrosCell(exposed), ShareCell(MicrosOf(all - exposed), MicrosOf(all)),
                          ShareCell(MicrosOf(exposed), MicrosOf(span.end - span.begin))});
  }
  AddNotes(input, "comm_comp_overlap", &table);
  return OneTable(std::move(table));
}

}  // namespace

constinit const Analysis kCommCompOverlap = {
    .name = "comm_comp_overlap",
    .title = "How much of the communication compute hides",
    .run = RunCommCompOverlap,
};

}  // namespace flopwatch::trace
