// What to do first over a window (fleet/advice/advice.h): everything that was found, priced, with
// each GPU-second in one action at most. What finds is asked here: the idle-held ledger,
// regressions, stragglers, findings of stored traces, runs below their peers, hosts that are out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "fleet/advice/advice.h"
#include "fleet/prices/prices.h"
#include "query/query.h"

namespace flopwatch::query {

// Raw rows that the ledger and the stragglers may read, as GPU-hours of the window; of a larger one
// they look at its end alone, and a note says so. At a row every ten seconds about 70 million.
inline constexpr double kAdviseRawGpuHours = 200'000;
// An action brings at least this part of the GPU time that jobs held.
inline constexpr double kLeastAction = 1e-3;

// What the newest trace of a job says that it loses: shares of its steps' GPU time, at most.
struct TracedJob {
  std::string job, trace;                                // the job's key, the trace's id
  Micros taken = 0;                                      // when it was stored
  size_t ranks = 0;                                      // that it has
  double share = 0;                                      // 0..1
  std::vector<std::pair<std::string, double>> findings;  // titles with their shares, largest first
};
// The traced ones among jobs; none where nobody keeps traces.
using TracedJobs = std::function<std::vector<TracedJob>(
    absl::FunctionRef<bool(const std::string& job)> is_wanted)>;

struct AdviseAnswer {
  View view;
  std::vector<fleet::Action> actions;
  double allocated_s = 0;          // GPU-seconds that jobs held
  double observed_s = 0;           // of these, that samples speak for
  std::vector<std::string> notes;  // what was not looked at, and why
};

// Reads raw rows: not for an event loop. What one of the findings cannot be looked for with is a
// note; without the list of jobs there is no answer.
StatusOr<AdviseAnswer> AdviseOn(const Query& query, store::Window asked,
                                const fleet::Prices& prices, size_t most,
                                const TracedJobs& traced = {});

}  // namespace flopwatch::query
