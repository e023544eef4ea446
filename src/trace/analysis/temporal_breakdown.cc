#include "trace/analysis/analyses.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

// traces.md 2.3: span from the first start to the last end; idle is what nothing covers; the rest
// of the span is shared out in this order, so that the four parts add up to it: compute,
// communication that no compute hides, copies and fills that neither hides.
StatusOr<AnalysisTables> DefaultTemporalBreakdown(const AnalysisInput& input) {
  Table table;
  table.columns = {Plain("rank"),
                   Plain("span_us"),
                   Plain("idle_us"),
                   Plain("compute_us"),
                   Plain("exposed_communication_us"),
                   Plain("memory_us"),
                   Plain("communication_us"),
                   Share("idle_share"),
                   Share("compute_share"),
                   Share("exposed_communication_share"),
                   Share("memory_share")};
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
    const Nanos compute = Length(view->busy(KernelClass::kCompute));
    const Nanos exposed = Length(view->exposed_communication());
    const Nanos memory = busy - compute - exposed;
    const auto share = [&](Nanos t) { return ShareCell(MicrosOf(t), MicrosOf(whole)); };
    table.rows.push_back({RankCell(*view), MicrosCell(whole), MicrosCell(whole - busy),
                          MicrosCell(compute), MicrosCell(exposed), MicrosCell(memory),
                          MicrosCell(Length(view->busy(KernelClass::kCommunication))),
                          share(whole - busy), share(compute), share(exposed), share(memory)});
  }
  AddNotes(input, "temporal_breakdown", &table);
  return OneTable(std::move(table));
}

// non_compute = communication and copies that compute does not hide; OTHER kernels count in it too.
StatusOr<AnalysisTables> HtaTemporalBreakdown(const AnalysisInput& input) {
  Table table;
  table.columns = PlainColumns({"rank", "idle_time(us)", "compute_time(us)", "non_compute_time(us)",
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
    const auto percent = [&](Nanos t) {
      return whole > 0
                 ? Cell{HtaRound(100.0 * static_cast<double>(t) / static_cast<double>(whole), 2)}
                 : Cell{};
    };
    table.rows.push_back({RankCell(*view), MicrosCell(idle), MicrosCell(compute), MicrosCell(other),
                          MicrosCell(whole), percent(idle), percent(compute), percent(other)});
  }
  AddNotes(input, "", &table);
  return OneTable(std::move(table));
}

StatusOr<AnalysisTables> RunTemporalBreakdown(const AnalysisInput& input) {
  if (!AnyGpuWork(input)) return NotComputable(kNoGpuWork);
  return input.options().hta ? HtaTemporalBreakdown(input) : DefaultTemporalBreakdown(input);
}

}  // namespace

constinit const Analysis kTemporalBreakdown = {
    .name = "temporal_breakdown",
    .title = "Where the GPU's time went: idle, compute, exposed communication, copies",
    .run = RunTemporalBreakdown,
};

}  // namespace flopwatch::trace
