#include <algorithm>

#include "trace/analysis/analyses.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

struct Edge {
  Nanos ts = 0;
  double gbps = 0;  // negative where it ends
};

struct Copies {
  int64_t count = 0, with_bytes = 0, without_bandwidth = 0;
  double bytes = 0, micros = 0;
  std::vector<Edge> edges;
};

// GB/s is 1e9 bytes a second, as Kineto's "memory bandwidth (GB/s)": bytes per nanosecond.
double Bandwidth(const CopyDetail* copy, Nanos dur) {
  if (copy == nullptr) return kNaN;
  if (copy->bytes >= 0 && dur > 0) return static_cast<double>(copy->bytes) / dur;
  return dur > 0 ? copy->bandwidth_gbps : kNaN;
}

// What the copies of one name move together, while any of them runs.
std::vector<Held> Curve(std::vector<Edge> edges) {
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.ts < b.ts; });
  std::vector<Held> out;
  double now = 0;
  int64_t running = 0;
  for (size_t i = 0; i < edges.size();) {
    const Nanos at = edges[i].ts;
    for (; i < edges.size() && edges[i].ts == at; ++i) {
      now += edges[i].gbps;
      running += edges[i].gbps < 0 ? -1 : 1;
    }
    if (running == 0) now = 0;  // no rest of a rounding error
    if (running > 0 && i < edges.size()) out.push_back({now, edges[i].ts - at});
  }
  return out;
}

StatusOr<AnalysisTables> MemoryBwSummary(const AnalysisInput& input) {
  Table table =
      TableWith({"rank", "name", "#copies", "@bytes", "copy_us", "busy_us", "mean_gbps", "std_gbps",
                 "min_gbps", "p50_gbps", "p90_gbps", "max_gbps", "#without_bandwidth"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    std::vector<uint32_t> slot(view->set().names.size(), 0);
    std::vector<std::pair<NameId, Copies>> by_name;
    for (const Row r : view->gpu_rows()) {
      if (e.category[r] == Category::kKernel) continue;
      uint32_t& at = slot[e.name[r]];
      if (at == 0) {
        by_name.push_back({e.name[r], {}});
        at = static_cast<uint32_t>(by_name.size());
      }
      Copies& copies = by_name[at - 1].second;
      ++copies.count;
      copies.micros += MicrosOf(e.dur[r]);
      const CopyDetail* detail = view->rank().CopyOf(r);
      if (detail != nullptr && detail->bytes >= 0) {
        ++copies.with_bytes;
        copies.bytes += static_cast<double>(detail->bytes);
      }
      const double gbps = Bandwidth(detail, e.dur[r]);
      if (!(gbps > 0)) {
        ++copies.without_bandwidth;
        continue;
      }
      copies.edges.push_back({e.ts[r], gbps});
      copies.edges.push_back({e.end(r), -gbps});
    }
    std::sort(by_name.begin(), by_name.end(),
              [](const auto& a, const auto& b) { return a.second.micros > b.second.micros; });
    for (auto& [name, c] : by_name) {
      const HeldSummary s = DescribeHeld(Curve(std::move(c.edges)));
      table.rows.push_back({RankCell(*view), TextCell(view->set().names.Text(name)), c.count,
                            c.with_bytes > 0 ? Cell{c.bytes} : Cell{}, c.micros,
                            s.time > 0 ? MicrosCell(s.time) : Cell{}, NumberCell(s.mean),
                            NumberCell(s.std), NumberCell(s.min), NumberCell(s.p50),
                            NumberCell(s.p90), NumberCell(s.max), c.without_bandwidth});
    }
  }
  if (table.rows.empty())
    return NotComputable("the trace has no copies and no fills (gpu_memcpy, gpu_memset)");
  table.notes.push_back(
      "bandwidth of all copies of one name together (1e9 bytes/s), weighted by time, while any of "
      "them runs; copies without a duration or without bytes have none (without_bandwidth)");
  return OneTable(input, "memory_bw_summary", std::move(table));
}

}  // namespace

constinit const Analysis kMemoryBwSummary = {.name = "memory_bw_summary",
                                             .title = "Bandwidth of copies and fills",
                                             .ours = MemoryBwSummary,
                                             .as_hta = HtaMemoryBwSummary};

}  // namespace flopwatch::trace
