#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "trace/analysis/analyses.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMostPatterns = 100;
constexpr size_t kMostKernels = 200;    // names written of one pattern
constexpr size_t kMostText = 64 << 20;  // of all patterns

struct Pattern {
  std::vector<NameId> names;  // the operator, then its kernels by start time
  int64_t count = 0;
  double gpu_us = 0, cpu_us = 0;
};

// The operators to start from: by default those whose name has the text and that lie in no other
// such one; HTA takes only those of the least depth of all, so that an operator called deeper
// elsewhere is not seen.
std::vector<Row> RootOfEveryRow(const RankView& view, const std::vector<Row>& order) {
  const EventTable& e = view.events();
  const StringPool& names = view.set().names;
  const bool hta = view.options().hta;
  std::vector<uint8_t> has_text(names.size(), 0);  // 1 = yes, 2 = no
  std::vector<bool> kept(hta ? e.size() : 0, false);
  if (hta) {
    for (const Row r : view.hta().rows) kept[r] = true;
  }
  const auto matches = [&](Row r) {
    // HTA looks at every CPU row.
    if (hta ? !kept[r] || e.stream[r] != kNoStream : e.category[r] != Category::kCpuOp)
      return false;
    uint8_t& known = has_text[e.name[r]];
    if (known == 0)
      known = names.Text(e.name[r]).find(view.options().operator_name) != std::string_view::npos
                  ? 1
                  : 2;
    return known == 1;
  };
  std::vector<uint32_t> depth(hta ? e.size() : 0, 0);
  uint32_t least = std::numeric_limits<uint32_t>::max();
  if (hta) {
    for (const Row r : order) {
      if (e.parent[r] != kNoRow) depth[r] = depth[e.parent[r]] + 1;
      if (matches(r)) least = std::min(least, depth[r]);
    }
  }
  std::vector<Row> root(e.size(), kNoRow);
  for (const Row r : order) {
    if (e.parent[r] != kNoRow) root[r] = root[e.parent[r]];
    if (root[r] == kNoRow && matches(r) && (!hta || depth[r] == least)) root[r] = r;
  }
  return root;
}

std::vector<Pattern> PatternsOf(const RankView& view) {
  const EventTable& e = view.events();
  const std::vector<Row>& order = view.parents_first();
  const std::vector<Row> root = RootOfEveryRow(view, order);
  std::vector<bool> has_child(e.size(), false);
  if (view.options().hta) {  // it asks the leaves only; a row of no length where a call begins was
                             // before the call
    for (const Row r : order) {
      if (e.parent[r] != kNoRow && e.dur[r] > 0) has_child[e.parent[r]] = true;
    }
  }
  // The GPU rows of every root, by start time.
  std::vector<uint32_t> slot(e.size(), 0);  // 1 + index into instances
  std::vector<std::pair<Row, std::vector<Row>>> instances;
  for (const Row r : view.options().hta ? view.hta().gpu : view.gpu_rows()) {
    const Row call = e.launch[r];
    if (call == kNoRow || IsLaunchApi(e.category[r]) || has_child[call] || root[call] == kNoRow)
      continue;
    uint32_t& at = slot[root[call]];
    if (at == 0) {
      instances.push_back({root[call], {}});
      at = static_cast<uint32_t>(instances.size());
    }
    instances[at - 1].second.push_back(r);
  }
  std::vector<Pattern> out;
  absl::flat_hash_map<std::vector<NameId>, uint32_t> known;
  const auto least = static_cast<size_t>(std::max(1, view.options().min_pattern));
  for (const auto& [op, rows] : instances) {
    if (rows.size() < least) continue;
    std::vector<NameId> names = {e.name[op]};
    double gpu = 0;
    for (const Row r : rows) {
      names.push_back(e.name[r]);
      gpu += MicrosOf(e.dur[r]);
    }
    const auto [found, added] =
        known.try_emplace(std::move(names), static_cast<uint32_t>(out.size()));
    if (added) out.push_back({.names = found->first});
    Pattern& pattern = out[found->second];
    ++pattern.count;
    pattern.gpu_us += gpu;
    pattern.cpu_us += MicrosOf(e.dur[op]);
  }
  return out;
}

std::string Join(const StringPool& names, const Pattern& pattern, std::string_view between,
                 size_t most) {
  std::string out;
  for (size_t i = 0; i < pattern.names.size(); ++i) {
    if (i > most || out.size() > kMostText)
      return out + fmt::format("{}({} more)", between, pattern.names.size() - i);
    if (i > 0) out += between;
    out += names.Text(pattern.names[i]);
  }
  return out;
}

StatusOr<AnalysisTables> RunFrequentPatterns(const AnalysisInput& input) {
  const bool hta = input.options().hta;
  const RankView* view = nullptr;
  for (const auto& v : input.ranks()) {
    if (!input.options().rank.has_value() || v->rank().rank == *input.options().rank) {
      view = v.get();
      break;
    }
  }
  if (view == nullptr) return NotComputable("the rank asked for is not among the traces");
  std::vector<Pattern> patterns = PatternsOf(*view);
  const StringPool& names = input.set().names;
  if (patterns.empty()) {
    return NotComputable(
        fmt::format("no operator with '{}' in its name launches {} kernels or more on rank {}",
                    input.options().operator_name, std::max(1, input.options().min_pattern),
                    view->rank().rank));
  }
  Table table;
  std::sort(patterns.begin(), patterns.end(), [&](const Pattern& a, const Pattern& b) {
    if (!hta && a.gpu_us != b.gpu_us) return a.gpu_us > b.gpu_us;
    if (a.count != b.count) return a.count > b.count;
    return a.gpu_us != b.gpu_us ? a.gpu_us > b.gpu_us : a.names < b.names;
  });
  if (hta) {
    table.columns =
        PlainColumns({"pattern", "count", "GPU kernel duration (us)", "CPU op duration (us)"});
    size_t text = 0;
    for (const Pattern& p : patterns) {
      if (text > kMostText) {
        table.notes.push_back(
            fmt::format("the first {} of {} sequences", table.rows.size(), patterns.size()));
        break;
      }
      std::string joined = Join(names, p, "|", kMostText);
      text += joined.size();
      table.rows.push_back({std::move(joined), p.count, p.gpu_us, p.cpu_us});
    }
  } else {
    table.columns = {Plain("rank"),  Plain("pattern"), Count("kernels"),
                     Count("count"), Plain("gpu_us"),  Plain("cpu_us")};
    for (size_t i = 0; i < std::min(patterns.size(), kMostPatterns); ++i) {
      const Pattern& p = patterns[i];
      table.rows.push_back({RankCell(*view), Join(names, p, " | ", kMostKernels),
                            static_cast<int64_t>(p.names.size()) - 1, p.count, p.gpu_us, p.cpu_us});
    }
    if (patterns.size() > kMostPatterns) {
      table.notes.push_back(
          fmt::format("the first {} of {} sequences by GPU time", kMostPatterns, patterns.size()));
    }
  }
  table.notes.push_back(
      fmt::format("kernels launched below every operator with '{}' in its name, in the order they "
                  "started; rank {}",
                  input.options().operator_name, view->rank().rank));
  AddNotes(input, "frequent_patterns", &table);
  return OneTable(std::move(table));
}

}  // namespace

constinit const Analysis kFrequentPatterns = {
    .name = "frequent_patterns",
    .title = "Sequences of kernels that an operator launches again and again",
    .run = RunFrequentPatterns,
};

}  // namespace flopwatch::trace
