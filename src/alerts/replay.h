// The rules over what is stored: rows go in order of time into a live state of its own, and rounds
// are made of it as those of a running server are, by the same Look and Engine. So what a live run
// decided and what the replay of what it stored decides is the same, within one interval, but for
// what rows do not have: whether counters can be believed, and when a sample came (a late one is
// seen at its own time).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "alerts/engine.h"
#include "query/query.h"
#include "telemetry/application.h"

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

// What jobs said of themselves in a window, in the order of time; of more than kMaxReports the
// first.
using Said = std::pair<std::string, telemetry::ApplicationSample>;  // the job, and what
inline constexpr uint64_t kMaxReports = 1'000'000;
StatusOr<std::vector<Said>> ReportsOf(const query::Query& query, store::Window window);

// InvalidArgument: the window is empty or longer than kMaxReplay. Takes as long as reading its rows
// and about as much again.
StatusOr<Replayed> Replay(const query::Query& query, const ReplayOptions& options);

}  // namespace flopwatch::alerts
