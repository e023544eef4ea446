#include <algorithm>
#include <map>
#include <string>

#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

struct HtaEdge {
  Nanos ts = 0;
  double gbps = 0;  // negative where a copy ends
};

std::string HtaCopyName(std::string_view name) {
  if (name.starts_with("Memset")) return "Memset";
  return name.starts_with("Memcpy") ? std::string(name.substr(0, 11)) : "Memcpy Unknown";
}

}  // namespace

// The running sum at its change points, those above zero, however long they last. Of equal times
// starts come before ends (HTA sorts them with a sort that promises no order).
StatusOr<AnalysisTables> HtaMemoryBwSummary(const AnalysisInput& input) {
  Table table = TableWith({"rank", "name", "memory_bw_gbps.count", "memory_bw_gbps.mean",
                           "memory_bw_gbps.std", "memory_bw_gbps.min", "memory_bw_gbps.25%",
                           "memory_bw_gbps.50%", "memory_bw_gbps.75%", "memory_bw_gbps.max"});
  bool any = false;
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    const HtaRows& rows = view->hta();
    std::map<std::string, std::vector<HtaEdge>> series;
    for (size_t i = 0; i < rows.gpu.size(); ++i) {
      if (rows.gpu_type[i] != HtaKernelType::kMemory) continue;
      any = true;
      const Row r = rows.gpu[i];
      const CopyDetail* detail = view->rank().CopyOf(r);
      const double gbps =
          detail == nullptr || std::isnan(detail->bandwidth_gbps) ? 0.0 : detail->bandwidth_gbps;
      std::vector<HtaEdge>& edges = series[HtaCopyName(view->set().names.Text(e.name[r]))];
      edges.push_back({e.ts[r], gbps});
      edges.push_back({e.ts[r] + (e.dur[r] == 0 ? 1000 : e.dur[r]), -gbps});
    }
    for (auto& [name, edges] : series) {
      std::stable_sort(edges.begin(), edges.end(), [](const HtaEdge& a, const HtaEdge& b) {
        return a.ts != b.ts ? a.ts < b.ts : a.gbps > b.gbps;
      });
      std::vector<double> values;
      double now = 0;
      for (const HtaEdge& edge : edges) {
        now += edge.gbps;
        if (now > 0) values.push_back(now);
      }
      if (values.empty()) continue;
      const Summary s = Describe(std::move(values), kQuartiles);
      table.rows.push_back({RankCell(*view), name, static_cast<double>(s.count), NumberCell(s.mean),
                            NumberCell(s.std), NumberCell(s.min), NumberCell(s.percentiles[0]),
                            NumberCell(s.percentiles[1]), NumberCell(s.percentiles[2]),
                            NumberCell(s.max)});
    }
  }
  if (!any) return NotComputable("the trace has no copies and no fills");
  return OneTable(input, "", std::move(table));
}

}  // namespace flopwatch::trace
