// The idle-held ledger of a window: GPU time that jobs held and did not use, by job and state, with
// whose it is, what it cost and since when; and GPUs that nobody holds on hosts that are busy,
// apart. Rows and intervals are gathered here; what they mean is fleet/idle/. docs/idle.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fleet/idle/states.h"
#include "fleet/idle/words.h"
#include "fleet/prices/prices.h"
#include "fleet/sankey/hosts.h"
#include "query/query.h"

namespace flopwatch::query {

// Rows from before and behind the window are read too: a pause that reaches into it is as long as
// it is. The longest time that a state takes to be one.
inline constexpr Micros kIdleLookAround = 2 * kMicrosPerHour;
inline constexpr size_t kIdleNodesNamed = 8;

struct IdleRow {
  std::string job, name, user, account, workflow, cluster;
  fleet::IdleHeld held;  // within the window
  double coverage = 0;   // of the time of its stretches, with samples
  fleet::Money money;
  std::vector<std::string> nodes;  // the first kIdleNodesNamed, by name
  int64_t nodes_total = 0;
};

struct IdleTotal {
  double gpu_s = 0;
  fleet::Money money;
  int64_t jobs = 0, gpus = 0;
};

struct IdleAnswer {
  View view;
  std::vector<IdleRow> rows;  // most GPU time first
  std::array<IdleTotal, fleet::kIdleStates> totals;
  double held_s = 0;          // GPU-seconds that jobs held
  double observed_s = 0;      // of these, that samples speak for; the rest is unknown
  double pauses_s = 0;        // of these, in which nothing ran for too short a time to be a state
  double contradicted_s = 0;  // duty and power contradict each other: unknown as well
  // GPUs that nobody held on hosts where others were held; and while somebody waited for GPUs.
  fleet::PricedTime stranded, stranded_queued;
  std::vector<std::string> notes;
};

// Reads raw rows: not for an event loop.
StatusOr<IdleAnswer> IdleOf(const Query& query, store::Window asked, const fleet::Prices& prices);

// A notice to whoever holds the job; `rows` are all of one job.
std::string NoticeOf(const std::vector<const IdleRow*>& rows, const std::string& currency);

}  // namespace flopwatch::query
