// MFU against OFU from the store: what a job's application reported, and what its GPUs did in
// exactly that time.
//
// A job's training window goes from the beginning of what its first application sample in the asked
// time stands for to its last one. The OFU is that of the same window: of one job from raw rows cut
// at its ends where that is cheap (kExactWindow), else from whole minutes inside it; of many jobs
// from minutes in one question, unless exact is asked for. Several claims of one job (a restart
// with another configuration, two sources) are not mixed: the one with the most time behind it
// stands for the job.
#ifndef FLOPWATCH_SERVER_DIVERGENCE_H_
#define FLOPWATCH_SERVER_DIVERGENCE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/divergence_json.h"
#include "server/query.h"

namespace flopwatch::server {

struct DivergenceQuestion {
  store::Window window;
  std::optional<std::string> job;  // its key; absent = all with a claim
  bool exact = false;
  fleet::Thresholds thresholds;
};

// In the order of the jobs' keys. Of one job exactly one, also where nothing was reported: its
// diagnosis says so.
StatusOr<std::vector<JobDivergence>> GatherDivergence(const ApiParts& parts, const Query& query,
                                                      const DivergenceQuestion& question);

}  // namespace flopwatch::server

#endif  // FLOPWATCH_SERVER_DIVERGENCE_H_
