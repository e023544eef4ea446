// The rules over what is stored: rows go in order of time into a live state of its own, and rounds
// are made of it as those of a running server are, by the same Look and Engine. So what a live run
// decided and what the replay of what it stored decides is the same, within one interval, but for
// what rows do not have: whether counters can be believed, and when a sample came (a late one is
// seen at its own time).
#pragma once

#include <functional>
#include <vector>

#include "alerts/engine.h"
#include "query/query.h"

namespace flopwatch::alerts {

inline constexpr Micros kMaxReplay = 31 * kMicrosPerDay;

struct ReplayOptions {
  std::vector<Rule> rules = ShippedRules();
  EngineOptions engine;
  Micros interval = 15 * kMicrosPerSecond;
  store::Window window;
};

struct Replayed {
  std::vector<Alert> alerts;  // that fired within the window, or had not ended when it began
  uint64_t rows = 0, rounds = 0;
  Micros first = 0;  // of the rows that were read, which begin before the window: baselines
};

// InvalidArgument: the window is empty or longer than kMaxReplay. Takes as long as reading its rows
// and about as much again.
StatusOr<Replayed> Replay(const query::Query& query, const ReplayOptions& options);

}  // namespace flopwatch::alerts
