#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <string>

#include "trace/analysis/hta.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/patterns.h"
#include "trace/analysis/tables.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {
namespace {

// HTA looks at every CPU row whose name has the text, and takes only those of the least depth of
// all, so that an operator called deeper elsewhere is not seen.
std::vector<Row> HtaRoots(const RankView& view) {
  const EventTable& e = view.events();
  const std::vector<bool> has_text = NamesWith(view.set().names, view.options().operator_name);
  std::vector<bool> kept(e.size(), false);
  for (const Row r : view.hta().rows) kept[r] = true;
  const auto matches = [&](Row r) {
    return kept[r] && e.stream[r] == kNoStream && has_text[e.name[r]];
  };
  std::vector<uint32_t> depth(e.size(), 0);
  uint32_t least = std::numeric_limits<uint32_t>::max();
  for (const Row r : view.parents_first()) {
    if (e.parent[r] != kNoRow) depth[r] = depth[e.parent[r]] + 1;
    if (matches(r)) least = std::min(least, depth[r]);
  }
  std::vector<Row> root(e.size(), kNoRow);
  for (const Row r : view.parents_first()) {
    if (e.parent[r] != kNoRow) root[r] = root[e.parent[r]];
    if (root[r] == kNoRow && matches(r) && depth[r] == least) root[r] = r;
  }
  return root;
}

// HTA asks the leaves only; a row of no length where a call begins was before the call.
std::vector<bool> CallsWithChildren(const RankView& view) {
  const EventTable& e = view.events();
  std::vector<bool> out(e.size(), false);
  for (Row r = 0; r < e.size(); ++r)
    if (e.parent[r] != kNoRow && e.dur[r] > 0) out[e.parent[r]] = true;
  return out;
}

}  // namespace

StatusOr<AnalysisTables> HtaFrequentPatterns(const AnalysisInput& input) {
  const RankView* view = AskedRank(input);
  if (view == nullptr) return NotComputable("the rank asked for is not among the traces");
  std::vector<Pattern> patterns =
      FindPatterns(*view, HtaRoots(*view), view->hta().gpu, CallsWithChildren(*view));
  if (patterns.empty()) return NoPatterns(*view);
  std::sort(patterns.begin(), patterns.end(), [&](const Pattern& a, const Pattern& b) {
    if (a.count != b.count) return a.count > b.count;
    return a.gpu_us != b.gpu_us ? a.gpu_us > b.gpu_us : a.names < b.names;
  });
  Table table = TableWith({"pattern", "count", "GPU kernel duration (us)", "CPU op duration (us)"});
  size_t text = 0;
  for (const Pattern& p : patterns) {
    if (text > kMostPatternText) {
      table.notes.push_back(
          fmt::format("the first {} of {} sequences", table.rows.size(), patterns.size()));
      break;
    }
    std::string joined = JoinPattern(input.set().names, p, "|", kMostPatternText);
    text += joined.size();
    table.rows.push_back({std::move(joined), p.count, p.gpu_us, p.cpu_us});
  }
  table.notes.push_back(PatternNote(*view));
  return OneTable(input, "frequent_patterns", std::move(table));
}

}  // namespace flopwatch::trace
