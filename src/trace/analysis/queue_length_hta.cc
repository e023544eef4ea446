#include <algorithm>
#include <map>
#include <optional>

#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/tables.h"
#include "trace/call_kind.h"

namespace flopwatch::trace {
namespace {

struct Change {
  Nanos ts = 0;
  int delta = 0;
  int64_t length = 0;
};
// +1 at one of kHtaLaunches, -1 where its GPU rows start. Changes by stream and time; of equal
// times launches come before starts (HTA sorts them with a sort that promises no order).
std::map<int32_t, std::vector<Change>> HtaSeries(const RankView& view) {
  const EventTable& e = view.events();
  std::vector<NameId> launches;
  for (const std::string_view name : kHtaLaunches)
    if (const NameId id = view.set().names.Find(name); id != kNoName) launches.push_back(id);
  std::map<int32_t, std::vector<Change>> out;
  for (const Row r : view.hta().gpu) {
    const Row call = e.launch[r];
    if (call == kNoRow || IsLaunchApi(e.category[r])) continue;
    if (std::find(launches.begin(), launches.end(), e.name[call]) == launches.end()) continue;
    out[e.stream[r]].push_back({e.ts[call], 1});
    out[e.stream[r]].push_back({e.ts[r], -1});
  }
  for (auto& [stream, changes] : out) {
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      return a.ts != b.ts ? a.ts < b.ts : a.delta > b.delta;
    });
    int64_t length = 0;
    for (Change& c : changes) c.length = length += c.delta;
  }
  return out;
}

}  // namespace

StatusOr<AnalysisTables> HtaQueueLengthSummary(const AnalysisInput& input) {
  Table table = TableWith({"rank", "stream", "queue_length.count", "queue_length.mean",
                           "queue_length.std", "queue_length.min", "queue_length.25%",
                           "queue_length.50%", "queue_length.75%", "queue_length.max"});
  for (const auto& view : input.ranks()) {
    for (const auto& [stream, changes] : HtaSeries(*view)) {
      std::vector<double> lengths;
      for (const Change& c : changes) lengths.push_back(static_cast<double>(c.length));
      const Summary s = Describe(std::move(lengths), kQuartiles);
      table.rows.push_back({RankCell(*view), StreamCell(stream), static_cast<double>(s.count),
                            NumberCell(s.mean), NumberCell(s.std), NumberCell(s.min),
                            NumberCell(s.percentiles[0]), NumberCell(s.percentiles[1]),
                            NumberCell(s.percentiles[2]), NumberCell(s.max)});
    }
  }
  if (table.rows.empty()) return NotComputable("no GPU work has a launch call that HTA knows");
  return OneTable(input, "", std::move(table));
}

StatusOr<AnalysisTables> HtaBlockedOnFullQueue(const AnalysisInput& input) {
  Table table = TableWith(
      {"rank", "stream", "duration_at_max_queue_length", "relative_duration_at_max_queue_length"});
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    std::optional<std::vector<Cell>> kept;  // one stream a rank, the last
    for (const auto& [stream, changes] : HtaSeries(*view)) {
      Nanos full = 0;
      bool any = false;
      for (size_t i = 0; i < changes.size(); ++i) {
        if (changes[i].length < kFullQueue) continue;
        any = true;
        if (i + 1 < changes.size()) full += changes[i + 1].ts - changes[i].ts;
      }
      if (!any) continue;
      const std::vector<Row>& rows = view->hta().rows;
      const Nanos duration = e.ts[rows.back()] - e.ts[rows.front()];
      kept = {RankCell(*view), StreamCell(stream), MicrosCell(full),
              ShareCell(MicrosOf(full), MicrosOf(duration))};
    }
    if (kept.has_value()) table.rows.push_back(*std::move(kept));
  }
  return OneTable(input, "", std::move(table));
}

}  // namespace flopwatch::trace
