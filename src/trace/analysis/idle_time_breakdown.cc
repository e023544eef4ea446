#include <algorithm>

#include "trace/analysis/analyses.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/idle_gaps.h"

namespace flopwatch::trace {
namespace {

// The stream was out of work from `from` on, until `r` started.
GapsByKind GapsOf(const EventTable& e, std::span<const Row> rows) {
  GapsByKind out;
  Nanos until = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row r = rows[i];
    if (i > 0 && e.ts[r] > until) {
      const Nanos gap = e.ts[r] - until;
      const Row call = e.launch[r];
      const Idle kind = call == kNoRow       ? kNotKnown
                        : e.ts[call] > until ? kHostWait
                        : gap < kKernelDelay ? kKernelWait
                                             : kOtherWait;
      out[kind].sum += MicrosOf(gap);
      out[kind].any = true;
      out[kind].micros.push_back(MicrosOf(gap));
    }
    until = i == 0 ? e.end(r) : std::max(until, e.end(r));
  }
  return out;
}

void AddGaps(const RankView& view, IdleTables* out) {
  for (const GpuStream& stream : view.gpu_streams()) {
    GapsByKind gaps = GapsOf(view.events(), stream.rows);
    const double total = Total(gaps);
    for (size_t kind = 0; kind < kIdleKinds; ++kind) {
      if (!gaps[kind].any) continue;
      const auto count = static_cast<int64_t>(gaps[kind].micros.size());
      out->by_category.rows.push_back({RankCell(view), DeviceCell(stream),
                                       StreamCell(stream.stream), TextCell(kIdleNames[kind]),
                                       gaps[kind].sum, ShareCell(gaps[kind].sum, total), count});
      const Summary s = Describe(std::move(gaps[kind].micros), kQuartiles);
      out->stats.rows.push_back({RankCell(view), DeviceCell(stream), StreamCell(stream.stream),
                                 TextCell(kIdleNames[kind]), s.count, NumberCell(s.mean),
                                 NumberCell(s.std), NumberCell(s.min), NumberCell(s.percentiles[0]),
                                 NumberCell(s.percentiles[1]), NumberCell(s.percentiles[2]),
                                 NumberCell(s.max)});
    }
  }
}

StatusOr<AnalysisTables> IdleTimeBreakdown(const AnalysisInput& input) {
  if (!AnyGpuWork(input)) return NotComputable(kNoGpuWork);
  IdleTables tables;
  tables.by_category.columns = ColumnsOf(
      {"rank", "device", "stream", "idle_category", "idle_us", "%idle_share", "#intervals"});
  tables.stats.columns =
      ColumnsOf({"rank", "device", "stream", "idle_category", "#count", "mean_us", "std_us",
                 "min_us", "p25_us", "p50_us", "p75_us", "max_us"});
  for (const auto& view : input.ranks()) AddGaps(*view, &tables);
  tables.by_category.notes.push_back(
      "gaps inside one stream, to the end of all that ran on it before. host_wait: the launch call "
      "came after the stream ran dry; kernel_wait: launched in time, gap under 30 µs; other: "
      "launched in time, waited longer (events, other streams); launch_unknown: the launch call is "
      "not in the trace");
  return std::move(tables).Parts(input);
}

}  // namespace

constinit const Analysis kIdleTimeBreakdown = {
    .name = "idle_time_breakdown",
    .title = "Why streams were idle: waiting for the host, for the GPU itself, or for others",
    .ours = IdleTimeBreakdown,
    .as_hta = HtaIdleTimeBreakdown};

}  // namespace flopwatch::trace
