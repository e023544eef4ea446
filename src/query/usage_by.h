// A window's allocated GPU time by whom or what it was for, with what it cost: the rows of a
// chargeback. Only time that a job held counts; what nobody held is the Sankey's (sankey.h).
//
// What a job held is what its intervals say (jobs/job_index.h); attempts whose GPUs nobody names
// (jobs/books.h) add the rest of what the scheduler says that they held.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fleet/prices/prices.h"
#include "query/query.h"
#include "query/work.h"

namespace flopwatch::query {

enum class UsageBy : uint8_t {
  kUser,
  kAccount,
  kWorkflow,
  kJob,
  kModel,
  kCluster,
  kPartition,
  kQos,
  kNode,
  kGpu,
  kState,
  kSize
};
inline constexpr std::string_view kUsageByNames[] = {"user",  "account", "workflow",  "job",
                                                     "model", "cluster", "partition", "qos",
                                                     "node",  "gpu",     "state",     "size"};

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
  WorkAndEnergy work;  // of jobs on GPUs of one peak
};

struct UsageByAnswer {
  std::vector<UsageGroup> groups;  // most allocated time first, then by name
  UsageGroup total;                // of them all
  std::vector<std::string> notes;  // what a reader should know
};

// `view` becomes that of the list of jobs, which may be a little older. May read the store. Sizes
// are "1", "2", "3-4", "5-8", "9-16" and so on: distinct GPUs and instances that a job held.
//
// A job whose attempts differ in what is asked for (an account, a state) is in a row of each, with
// the time and the samples of those attempts. By node and by GPU the sums are those of the GPUs
// while anybody held them, from rollups, and there is no MFU: applications claim it of jobs.
StatusOr<UsageByAnswer> UsageOf(const Query& query, View* view, JobJoin join, UsageBy by,
                                const fleet::Prices& prices);

}  // namespace flopwatch::query
