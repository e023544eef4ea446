#include "trace/analysis/path_graph.h"

#include "absl/container/flat_hash_map.h"

namespace flopwatch::trace {

void PathGraph::Reserve(size_t edges) {
  from_.reserve(edges);
  to_.reserve(edges);
  type_.reserve(edges);
}

void PathGraph::MergePairs() {
  absl::flat_hash_map<uint64_t, uint32_t> seen;
  seen.reserve(from_.size());
  size_t kept = 0;
  for (size_t i = 0; i < from_.size(); ++i) {
    const auto [it, added] =
        seen.try_emplace(uint64_t{from_[i]} << 32 | to_[i], static_cast<uint32_t>(kept));
    if (!added) {
      type_[it->second] = type_[i];
      continue;
    }
    from_[kept] = from_[i];
    to_[kept] = to_[i];
    type_[kept++] = type_[i];
  }
  from_.resize(kept);
  to_.resize(kept);
  type_.resize(kept);
}

}  // namespace flopwatch::trace
