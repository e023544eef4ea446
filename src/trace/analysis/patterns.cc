#include "trace/analysis/patterns.h"

#include <algorithm>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {

std::vector<Pattern> FindPatterns(const RankView& view, std::span<const Row> root,
                                  std::span<const Row> gpu, const std::vector<bool>& skip) {
  const EventTable& e = view.events();
  // The GPU rows of every root, by start time.
  std::vector<uint32_t> slot(e.size(), 0);  // 1 + index into instances
  std::vector<std::pair<Row, std::vector<Row>>> instances;
  for (const Row r : gpu) {
    const Row call = e.launch[r];
    if (call == kNoRow || IsLaunchApi(e.category[r]) || root[call] == kNoRow) continue;
    if (!skip.empty() && skip[call]) continue;
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
    double gpu_us = 0;
    for (const Row r : rows) {
      names.push_back(e.name[r]);
      gpu_us += MicrosOf(e.dur[r]);
    }
    const auto [found, added] =
        known.try_emplace(std::move(names), static_cast<uint32_t>(out.size()));
    if (added) out.push_back({.names = found->first});
    Pattern& pattern = out[found->second];
    ++pattern.count;
    pattern.gpu_us += gpu_us;
    pattern.cpu_us += MicrosOf(e.dur[op]);
  }
  return out;
}

Status NoPatterns(const RankView& view) {
  return NotComputable(fmt::format(
      "no operator with '{}' in its name launches {} kernels or more on rank {}",
      view.options().operator_name, std::max(1, view.options().min_pattern), view.rank().rank));
}

std::string JoinPattern(const StringPool& names, const Pattern& pattern, std::string_view between,
                        size_t most) {
  std::string out;
  for (size_t i = 0; i < pattern.names.size(); ++i) {
    if (i > most || out.size() > kMostPatternText)
      return out + fmt::format("{}({} more)", between, pattern.names.size() - i);
    if (i > 0) out += between;
    out += names.Text(pattern.names[i]);
  }
  return out;
}

std::string PatternNote(const RankView& view) {
  return fmt::format(
      "kernels launched below every operator with '{}' in its name, in the order they started; "
      "rank {}",
      view.options().operator_name, view.rank().rank);
}

}  // namespace flopwatch::trace
