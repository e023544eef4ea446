#include <map>

#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/idle_gaps.h"

namespace flopwatch::trace {
namespace {

// Gaps to the previous row, not to the end of all before it: negative where rows of a stream
// overlap.
GapsByKind HtaGaps(const EventTable& e, std::span<const Row> rows) {
  GapsByKind out;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0) {
      out[kOtherWait].any = true;
      continue;
    }
    const Nanos previous = e.end(rows[i - 1]);
    const Nanos gap = e.ts[rows[i]] - previous;
    const Row call = e.launch[rows[i]];
    const Idle kind = call != kNoRow && e.ts[call] > previous ? kHostWait
                      : gap < kKernelDelay                    ? kKernelWait
                                                              : kOtherWait;
    out[kind].sum += MicrosOf(gap);
    out[kind].any = true;
    out[kind].micros.push_back(MicrosOf(gap));
  }
  return out;
}

void AddHtaGaps(const RankView& view, IdleTables* out) {
  const EventTable& e = view.events();
  std::map<int32_t, std::vector<Row>> streams;
  for (const Row r : view.hta().gpu)
    if (IsGpuWork(e.category[r])) streams[e.stream[r]].push_back(r);
  const auto rounded = [](double value) { return NumberCell(HtaRound(value, 2)); };
  for (const auto& [stream, rows] : streams) {
    GapsByKind gaps = HtaGaps(e, rows);
    const double total = Total(gaps);
    for (size_t kind = 0; kind < kIdleKinds; ++kind) {
      if (!gaps[kind].any) continue;
      out->by_category.rows.push_back({RankCell(view), StreamCell(stream),
                                       TextCell(kIdleNames[kind]), rounded(gaps[kind].sum),
                                       total != 0 ? rounded(gaps[kind].sum / total) : Cell{}});
      const Summary s = Describe(std::move(gaps[kind].micros), kQuartiles);
      out->stats.rows.push_back({TextCell(kIdleNames[kind]), RankCell(view), StreamCell(stream),
                                 static_cast<double>(s.count), rounded(s.mean), rounded(s.std),
                                 rounded(s.min), rounded(s.percentiles[0]),
                                 rounded(s.percentiles[1]), rounded(s.percentiles[2]),
                                 rounded(s.max)});
    }
  }
}

}  // namespace

StatusOr<AnalysisTables> HtaIdleTimeBreakdown(const AnalysisInput& input) {
  if (!AnyGpuWork(input)) return NotComputable(kNoGpuWork);
  IdleTables tables;
  tables.by_category.columns =
      ColumnsOf({"rank", "stream", "idle_category", "idle_time", "idle_time_ratio"});
  tables.stats.columns = ColumnsOf({"idle_category", "rank", "stream", "count", "mean", "std",
                                    "min", "25%", "50%", "75%", "max"});
  for (const auto& view : input.ranks()) AddHtaGaps(*view, &tables);
  return std::move(tables).Parts(input);
}

}  // namespace flopwatch::trace
