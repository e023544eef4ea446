// The rules over what is stored: rows go in order of time into a live state of its own, and rounds
// are made of it as those of a running server are, by the same Look and Engine. So what a live run
// decided and what the replay of what it stored decides is the same, within one interval, but for
// what rows do not have: when a sample came (a late one is seen at its own time), and, of counters
// that cannot be believed, values that were refused and names that nobody knows.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "alerts/engine.h"
#include "alerts/pages.h"
#include "alerts/racks.h"
#include "query/query.h"
#include "telemetry/application.h"

namespace flopwatch::alerts {

inline constexpr Micros kMaxReplay = 31 * kMicrosPerDay;

struct ReplayOptions {
  std::vector<Rule> rules = ShippedRules();
  EngineOptions engine;
  Micros interval = 15 * kMicrosPerSecond;
  store::Window window;
  std::shared_ptr<const Racks> racks;  // as they are now: nobody keeps what they were
};

struct Replayed {
  std::vector<Alert> alerts;  // that fired within the window, or had not ended when it began
  uint64_t rows = 0, rounds = 0;
  Micros first = 0;  // of the rows that were read, which begin before the window: baselines
};

// What jobs said of themselves, out of a store, in the order of time. One thread; outlived by
// `query`.
class SaidFeed {
 public:
  using Heard = absl::FunctionRef<void(std::string_view job, const telemetry::ApplicationSample&)>;

  SaidFeed(const query::Query& query, Micros from);
  // Those after the last call, up to and with `ts`.
  Status GiveUntil(Micros ts, Heard heard);

 private:
  const absl::flat_hash_map<int32_t, std::string> job_of_;  // by claim
  Pages<telemetry::ApplicationSample> pages_;
};

// InvalidArgument: the window is empty or longer than kMaxReplay. Takes as long as reading its rows
// and about as much again.
StatusOr<Replayed> Replay(const query::Query& query, const ReplayOptions& options);

}  // namespace flopwatch::alerts
