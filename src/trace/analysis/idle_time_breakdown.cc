#include <algorithm>
#include <array>
#include <map>

#include "trace/analysis/analyses.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

// Shorter gaps between work that was queued in time are the GPU's own delay. HTA's threshold, which
// it documents as 30 ns and compares in µs (traces.md 2.6).
constexpr Nanos kKernelDelay = 30'000;

enum Idle : size_t { kHostWait, kKernelWait, kOtherWait, kNotKnown, kIdleKinds };
constexpr std::string_view kIdleNames[kIdleKinds] = {"host_wait", "kernel_wait", "other",
                                                     "launch_unknown"};

struct Gaps {
  double sum = 0;  // µs
  bool any =
      false;  // HTA shows a category that has only the first row of a stream, which has no gap
  std::vector<double> micros;
};
using GapsByKind = std::array<Gaps, kIdleKinds>;

double Total(const GapsByKind& gaps) {
  double sum = 0;
  for (const Gaps& g : gaps) sum += g.sum;
  return sum;
}

// The stream was out of work from `from` on, until `r` started.
GapsByKind DefaultGaps(const EventTable& e, const std::vector<Row>& rows) {
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

// Gaps to the previous row, not to the end of all before it: negative where rows of a stream
// overlap (traces.md 2.6).
GapsByKind HtaGaps(const EventTable& e, const std::vector<Row>& rows) {
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

struct Parts {
  Table by_category, stats;
};

void AddDefault(const RankView& view, Parts* out) {
  for (const GpuStream& stream : view.gpu_streams()) {
    GapsByKind gaps = DefaultGaps(view.events(), stream.rows);
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

void AddHta(const RankView& view, Parts* out) {
  const EventTable& e = view.events();
  std::map<int32_t, std::vector<Row>> streams;
  for (const Row r : view.hta().gpu) {
    if (IsGpuWork(e.category[r])) streams[e.stream[r]].push_back(r);
  }
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

StatusOr<AnalysisTables> RunIdleTimeBreakdown(const AnalysisInput& input) {
  if (!AnyGpuWork(input)) return NotComputable(kNoGpuWork);
  Parts parts;
  if (input.options().hta) {
    parts.by_category.columns =
        PlainColumns({"rank", "stream", "idle_category", "idle_time", "idle_time_ratio"});
    parts.stats.columns = PlainColumns({"idle_category", "rank", "stream", "count", "mean", "std",
                                        "min", "25%", "50%", "75%", "max"});
    for (const auto& view : input.ranks()) AddHta(*view, &parts);
  } else {
    parts.by_category.columns = {Plain("rank"),          Plain("device"),  Plain("stream"),
                                 Plain("idle_category"), Plain("idle_us"), Share("idle_share"),
                                 Count("intervals")};
    parts.stats.columns = {Plain("rank"),          Plain("device"), Plain("stream"),
                           Plain("idle_category"), Count("count"),  Plain("mean_us"),
                           Plain("std_us"),        Plain("min_us"), Plain("p25_us"),
                           Plain("p50_us"),        Plain("p75_us"), Plain("max_us")};
    for (const auto& view : input.ranks()) AddDefault(*view, &parts);
    parts.by_category.notes.push_back(
        "gaps inside one stream, to the end of all that ran on it before. host_wait: the launch "
        "call came after the stream ran "
        "dry; kernel_wait: launched in time, gap under 30 µs; other: launched in time, waited "
        "longer (events, other streams); "
        "launch_unknown: the launch call is not in the trace");
  }
  AnalysisTables out;
  out.parts.push_back({"by_category", std::move(parts.by_category)});
  out.parts.push_back({"interval_stats", std::move(parts.stats)});
  for (AnalysisTables::Part& part : out.parts) AddNotes(input, "idle_time_breakdown", &part.table);
  return out;
}

}  // namespace

constinit const Analysis kIdleTimeBreakdown = {
    .name = "idle_time_breakdown",
    .title = "Why streams were idle: waiting for the host, for the GPU itself, or for others",
    .run = RunIdleTimeBreakdown,
};

}  // namespace flopwatch::trace
