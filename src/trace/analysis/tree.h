// Walking the rows of the CPU threads as trees of calls (EventTable::parent) without recursion.
// Pure.
#pragma once

#include <vector>

#include "trace/event_table.h"

namespace flopwatch::trace {

// All rows, every parent before its children; one thread's rows in the order in which they were
// entered.
std::vector<Row> ParentsFirst(const EventTable& events);

// Gives every row the innermost row above it (not itself) that `is` accepts, kNoRow without one.
// `order` is from ParentsFirst.
template <typename Is>
std::vector<Row> NearestAbove(const EventTable& events, std::span<const Row> order, const Is& is) {
  std::vector<Row> above(events.size(), kNoRow);
  for (const Row r : order) {
    const Row parent = events.parent[r];
    if (parent != kNoRow) above[r] = is(parent) ? parent : above[parent];
  }
  return above;
}

}  // namespace flopwatch::trace
