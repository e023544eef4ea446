// The GPUs that hold their jobs back, gathered from raw rows for `fleet` to judge
// (fleet/stragglers/find.h, docs/stragglers.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/status.h"
#include "fleet/stragglers/find.h"
#include "query/query.h"

namespace flopwatch::query {

// Raw rows of a longer window are not read for this.
inline constexpr Micros kMaxStragglerWindow = 7 * kMicrosPerDay;
// The window is looked at as a whole and in so many parts: what lasts a quarter of it shows there.
inline constexpr int kStragglerParts = 4;
// Pairs of a GPU and a job that are added up at a time, about 2 KB each. Rows of others are left
// out, and a note says so.
inline constexpr size_t kMaxStragglerPairs = 400'000;
inline constexpr size_t kMaxEarlySigns = 1'000;

struct StragglerQuestion {
  store::Window window;
  std::string job;  // "" = all
};

struct StragglerRow {
  jobs::JobRecord job;
  store::EntityRecord gpu;  // one of its node's where the whole node is named
  fleet::Straggler found;
  store::Window seen;             // the part of the window that it is named for
  int64_t seen_in_jobs = 1;       // of the window, in which this GPU was named
  int64_t node_seen_in_jobs = 1;  // ... or another one of its node
};

// A total that should not grow did, of a GPU that is not named for it.
struct EarlySign {
  store::EntityRecord gpu;
  std::string_view measure;  // as fleet::StragglerEvidence
  double growth = 0;
};

struct StragglerAnswer {
  store::Window window;
  std::vector<StragglerRow> rows;  // most certain first
  int64_t jobs_judged = 0, gpus_judged = 0;
  std::vector<std::pair<std::string_view, int64_t>> not_judged;  // jobs by reason, most first
  double clock_spread = 0;                                       // sd among healthy GPUs of a job
  std::vector<EarlySign> early_signs;  // most growth first within a measure
  std::vector<std::string> notes;
};

// The columns of raw rows that are read, some of them twice.
absl::Span<const std::string_view> StragglerColumns();

// Reads raw rows. NotFound for a job that nobody knows; InvalidArgument for a window that is empty
// or too long.
StatusOr<StragglerAnswer> StragglersIn(const Query& query, const StragglerQuestion& question);

}  // namespace flopwatch::query
