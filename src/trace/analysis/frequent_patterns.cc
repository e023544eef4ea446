#include <algorithm>

#include <fmt/format.h>
#include "trace/analysis/analyses.h"
#include "trace/analysis/hta_analyses.h"
#include "trace/analysis/patterns.h"
#include "trace/analysis/tables.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMostPatterns = 100;
constexpr size_t kMostKernels = 200;  // names written of one pattern

// The operators to start from are those whose name has the text and that lie in no other such one.
std::vector<Row> RootOfEveryRow(const RankView& view) {
  const EventTable& e = view.events();
  const std::vector<bool> has_text = NamesWith(view.set().names, view.options().operator_name);
  std::vector<Row> root(e.size(), kNoRow);
  for (const Row r : view.parents_first()) {
    if (e.parent[r] != kNoRow) root[r] = root[e.parent[r]];
    if (root[r] == kNoRow && e.category[r] == Category::kCpuOp && has_text[e.name[r]]) root[r] = r;
  }
  return root;
}

StatusOr<AnalysisTables> FrequentPatterns(const AnalysisInput& input) {
  const RankView* view = AskedRank(input);
  if (view == nullptr) return NotComputable("the rank asked for is not among the traces");
  std::vector<Pattern> patterns = FindPatterns(*view, RootOfEveryRow(*view), view->gpu_rows(), {});
  if (patterns.empty()) return NoPatterns(*view);
  std::sort(patterns.begin(), patterns.end(), [&](const Pattern& a, const Pattern& b) {
    if (a.gpu_us != b.gpu_us) return a.gpu_us > b.gpu_us;
    return a.count != b.count ? a.count > b.count : a.names < b.names;
  });
  Table table = TableWith({"rank", "pattern", "#kernels", "#count", "gpu_us", "cpu_us"});
  for (size_t i = 0; i < std::min(patterns.size(), kMostPatterns); ++i) {
    const Pattern& p = patterns[i];
    table.rows.push_back({RankCell(*view), JoinPattern(input.set().names, p, " | ", kMostKernels),
                          static_cast<int64_t>(p.names.size()) - 1, p.count, p.gpu_us, p.cpu_us});
  }
  if (patterns.size() > kMostPatterns)
    table.notes.push_back(
        fmt::format("the first {} of {} sequences by GPU time", kMostPatterns, patterns.size()));
  table.notes.push_back(PatternNote(*view));
  return OneTable(input, "frequent_patterns", std::move(table));
}

}  // namespace

constinit const Analysis kFrequentPatterns = {
    .name = "frequent_patterns",
    .title = "Sequences of kernels that an operator launches again and again",
    .ours = FrequentPatterns,
    .as_hta = HtaFrequentPatterns};

}  // namespace flopwatch::trace
