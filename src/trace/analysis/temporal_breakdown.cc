#include "trace/analysis/analyses.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

// The span is from the first start to the last end of GPU work; idle is what nothing covers; the
// rest of the span is shared out in this order, so that the four parts add up to it: compute,
// communication that no compute hides, copies and fills that neither hides.
StatusOr<AnalysisTables> TemporalBreakdown(const AnalysisInput& input) {
  if (!AnyGpuWork(input)) return NotComputable(kNoGpuWork);
  Table table = TableWith({"rank", "span_us", "idle_us", "compute_us", "exposed_communication_us",
                           "memory_us", "communication_us", "%idle_share", "%compute_share",
                           "%exposed_communication_share", "%memory_share"});
  for (const auto& view : input.ranks()) {
    if (view->gpu_rows().empty()) {
      std::vector<Cell> row(table.columns.size());
      row[0] = RankCell(*view);
      table.rows.push_back(std::move(row));
      table.notes.push_back(
          absl::StrCat("rank ", view->rank().rank, ": not computable, it has no GPU work"));
      continue;
    }
    const Interval span = view->gpu_span();
    const Nanos whole = span.end - span.begin;
    const Nanos busy = Length(view->busy());
    const Nanos compute = Length(view->computing());
    const Nanos exposed = Length(view->exposed_communication());
    const Nanos memory = busy - compute - exposed;
    const auto share = [&](Nanos t) { return ShareCell(MicrosOf(t), MicrosOf(whole)); };
    table.rows.push_back({RankCell(*view), MicrosCell(whole), MicrosCell(whole - busy),
                          MicrosCell(compute), MicrosCell(exposed), MicrosCell(memory),
                          MicrosCell(Length(view->busy(KernelClass::kCommunication))),
                          share(whole - busy), share(compute), share(exposed), share(memory)});
  }
  return OneTable(input, "temporal_breakdown", std::move(table));
}

}  // namespace

constinit const Analysis kTemporalBreakdown = {
    .name = "temporal_breakdown",
    .title = "Where the GPU's time went: idle, compute, exposed communication, copies",
    .ours = TemporalBreakdown,
    .as_hta = HtaTemporalBreakdown};

}  // namespace flopwatch::trace
