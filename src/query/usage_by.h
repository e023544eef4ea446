// A window's allocated GPU time by whom or what it was for, with what it cost: the rows of a
// chargeback. Only time that a job held counts; what nobody held is the Sankey's (sankey.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fleet/prices/prices.h"
#include "query/query.h"

namespace flopwatch::query {

enum class UsageBy : uint8_t { kUser, kWorkflow, kJob, kModel, kSize };
inline constexpr std::string_view kUsageByNames[] = {"user", "workflow", "job", "model", "size"};

struct UsageGroup {
  // "" = not known: jobs whose source names no user, no workflow, or whose GPUs name no model. A
  // job on GPUs of several models is in a row of its own, their names joined with " + ".
  std::string name;
  int64_t jobs = 0;
  Usage usage;  // expected_s: allocated, shared GPUs divided, instances by their share of the GPU
  fleet::Money cost;      // of allocated time; priced_s says of how much of it
  double lost_money = 0;  // the part of the cost that its lost GPU-seconds are of its time
  // GPU-seconds in which an application claimed an MFU that could be computed, and their product.
  double claimed_s = 0, claimed_mfu_s = 0;
  std::optional<double> Mfu() const;
};

struct UsageByAnswer {
  std::vector<UsageGroup> groups;  // most allocated time first, then by name
  UsageGroup total;                // of them all
  std::vector<std::string> notes;  // what a reader should know
};

// `view` becomes that of the list of jobs, which may be a little older. May read the store. Sizes
// are "1", "2", "3-4", "5-8", "9-16" and so on: distinct GPUs and instances that a job held.
StatusOr<UsageByAnswer> UsageOf(const Query& query, View* view, JobJoin join, UsageBy by,
                                const fleet::Prices& prices);

}  // namespace flopwatch::query
