// The longest way through a graph of edges with weights: what the critical path is. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "trace/intervals.h"

namespace flopwatch::trace {

using PathNode = uint32_t;
inline constexpr uint32_t kNoPathNode = std::numeric_limits<uint32_t>::max();

// Edges in the order in which they were added. 9 bytes each; `type` is the caller's.
class PathGraph {
 public:
  void Reserve(size_t edges);
  void Add(PathNode from, PathNode to, uint8_t type) {
    from_.push_back(from);
    to_.push_back(to);
    type_.push_back(type);
  }
  size_t size() const { return from_.size(); }
  PathNode from(size_t edge) const { return from_[edge]; }
  PathNode to(size_t edge) const { return to_[edge]; }
  uint8_t type(size_t edge) const { return type_[edge]; }

  // One edge a pair of nodes: a later one takes the place of the earlier.
  void MergePairs();

  struct Way {
    std::vector<uint32_t> edges;  // in order
    size_t nodes = 0;             // that an edge touches
    int64_t dropped = 0;          // edges left out because they closed a circle
  };
  // Nodes are 0..nodes-1. Weights below zero count as zero. Nodes are visited in Kahn's order,
  // breadth first from those that nothing points to, in the order of their edges; of equally long
  // ways into a node the edge added first wins, of equally long ends the node visited first (as
  // networkx does, on which HTA builds). Linear.
  template <typename Weight>  // Nanos(size_t edge)
  Way Longest(size_t nodes, const Weight& weight) const;

 private:
  std::vector<PathNode> from_, to_;
  std::vector<uint8_t> type_;
};

template <typename Weight>
PathGraph::Way PathGraph::Longest(size_t nodes, const Weight& weight) const {
  Way way;
  const size_t edges = size();
  // The edges out of node n are out[first[n]] to out[first[n + 1]].
  std::vector<uint32_t> first(nodes + 2, 0), waiting(nodes, 0), out(edges);
  for (size_t i = 0; i < edges; ++i) {
    ++first[from_[i] + 2];
    ++waiting[to_[i]];
  }
  for (size_t n = 0; n < nodes; ++n) {
    way.nodes += waiting[n] > 0 || first[n + 2] > 0;
    first[n + 2] += first[n + 1];
  }
  for (size_t i = 0; i < edges; ++i) out[first[from_[i] + 1]++] = static_cast<uint32_t>(i);

  std::vector<Nanos> length(nodes, -1);
  std::vector<uint32_t> by(nodes, kNoPathNode);  // the last edge of the longest way
  std::vector<bool> queued(nodes, false);
  std::vector<PathNode> order;
  order.reserve(way.nodes);
  const auto push = [&](PathNode n) {
    queued[n] = true;
    order.push_back(n);
  };
  for (size_t i = 0; i < edges; ++i)
    if (waiting[from_[i]] == 0 && !queued[from_[i]]) push(from_[i]);
  PathNode best = kNoPathNode, stuck = 0;
  for (size_t at = 0; at < way.nodes; ++at) {
    if (at == order.size()) {
      // Only circles are left. The first node goes on without what it still waits for.
      while (queued[stuck] || waiting[stuck] == 0) ++stuck;
      way.dropped += waiting[stuck];
      push(stuck);
    }
    const PathNode n = order[at];
    if (length[n] < 0) length[n] = 0;
    if (best == kNoPathNode || length[n] > length[best]) best = n;
    for (uint32_t k = first[n]; k < first[n + 1]; ++k) {
      const uint32_t edge = out[k];
      const PathNode to = to_[edge];
      if (queued[to]) continue;  // part of a circle that was cut there
      const Nanos w = weight(edge);
      const Nanos longer = length[n] + (w > 0 ? w : 0);
      if (longer > length[to] || (longer == length[to] && edge < by[to])) {
        length[to] = longer;
        by[to] = edge;
      }
      if (--waiting[to] == 0) push(to);
    }
  }
  if (best == kNoPathNode) return way;
  for (PathNode n = best; by[n] != kNoPathNode; n = from_[by[n]]) way.edges.push_back(by[n]);
  std::reverse(way.edges.begin(), way.edges.end());
  return way;
}

}  // namespace flopwatch::trace
