// Which time of which GPU the store has already, so that taking history in twice, or over a time in
// which it was scraped, adds nothing: what a row is of is (GPU, time), whoever tells of it.
//
// A row at ts stands for (previous, ts]. Where the store has a row of that GPU that stands for ts,
// the new one is not stored; where the store has only an earlier part of its time, it stands for
// the rest. Rows that are not stored still go through the stages, so that the next ones know what
// came before. Threads: Add() by one; then Of() by any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/time.h"
#include "store/store.h"

namespace flopwatch::ingest {

class StoredTime {
 public:
  // Only rows with from < ts <= to are new; forgets what was added.
  void Begin(store::Window window) {
    window_ = window;
    spans_.clear();
  }
  // The store has a row of the entity at `to` that stands for (from, to]; from = to: for no time.
  void Add(int32_t entity, Micros from, Micros to) {
    spans_[entity].push_back({std::min(from, to - 1), to});
  }
  // Call after the last Add().
  void Settle() {
    for (auto& [entity, spans] : spans_) std::ranges::sort(spans, {}, &Span::to);
  }

  // What the store says of the entity is of `until`: what history says of it does not replace that.
  // Stands for all windows. Add all before the pipeline starts.
  void Describe(int32_t entity, Micros until) { described_until_[entity] = until; }
  bool MayDescribe(int32_t entity, Micros ts) const {
    const auto until = described_until_.find(entity);
    return until == described_until_.end() || ts > until->second;
  }

  struct Verdict {
    bool is_new = true;
    Micros until = 0;  // the store has a row at this time, the last one before ts; 0 = none
  };
  Verdict Of(int32_t entity, Micros ts) const {
    if (ts <= window_.from || ts > window_.to) return {.is_new = false};
    const auto of = spans_.find(entity);
    if (of == spans_.end()) return {};
    const auto next = std::ranges::lower_bound(of->second, ts, {}, &Span::to);
    Verdict verdict;
    if (next != of->second.begin()) verdict.until = std::prev(next)->to;
    if (next != of->second.end() && next->from < ts) {
      verdict.is_new = false;
      known_.fetch_add(1, std::memory_order_relaxed);
    }
    return verdict;
  }
  // Rows within the windows that were there already.
  uint64_t known() const { return known_.load(std::memory_order_relaxed); }

 private:
  struct Span {
    Micros from, to;
  };
  store::Window window_{0, std::numeric_limits<Micros>::max()};
  absl::flat_hash_map<int32_t, std::vector<Span>> spans_;
  absl::flat_hash_map<int32_t, Micros> described_until_;
  mutable std::atomic<uint64_t> known_{0};
};

}  // namespace flopwatch::ingest
