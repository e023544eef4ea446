// What to do first: a few actions, each with the GPU-seconds that it brings and what that is
// reckoned from, so that no GPU-second stands in two of them.
//
// Whoever found something (idle time, a regression, a straggler, hosts that are out) says what it
// cost whom, as a LossClaim. A job's time is handed out once: claims of a job are met in the order
// of ActionCause, strongest evidence first, each from what the ones before it left. What comparable
// runs reach comes last, and only for what nothing else explains. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace flopwatch::fleet {

// Strongest evidence first: a job's time goes to the first of them that claims it.
enum class ActionCause : uint8_t {
  kIdleHeld,    // allocated, and nothing ran
  kRegression,  // a workflow's runs reach less than those before
  kStraggler,   // one GPU or node holds a synchronous job back
  kTrace,       // findings of a trace of the job say what it loses, at most
  kBelowPeers,  // less than comparable runs reach
  kHostsOut,    // down or drained: no job's time
  kStranded,    // free GPUs beside a queue, or on hosts that are busy
  kNoMfu,       // no application says what it computes: nothing is lost by it, nothing is known
};
inline constexpr std::string_view kActionCauseNames[] = {"idle_held", "regression",  "straggler",
                                                         "trace",     "below_peers", "hosts_out",
                                                         "stranded",  "no_mfu"};

inline constexpr size_t kMostActions = 10;
inline constexpr size_t kMostEvidence = 5;   // lines of one action
inline constexpr size_t kMostSubjects = 20;  // names of each kind of one action; the rest counted

// A job over the window, all its attempts together.
struct AdviceJob {
  std::string key, user, workflow;
  double gpu_seconds = 0;            // allocated
  std::optional<double> per_second;  // what a GPU-second of it costs; nullopt = no price
};

struct LossClaim {
  ActionCause cause = ActionCause::kIdleHeld;
  // Claims of one cause and subject are one action: a user, a workflow, a GPU, a reason.
  std::string subject;
  // Index into the jobs; nullopt = of no job (kHostsOut, kStranded): `seconds` and `money` alone.
  std::optional<size_t> job;
  // One of: GPU-seconds outright; a share of what is left of the job's time; all that is missing of
  // the job, of which stronger claims may have explained a part.
  enum class Of : uint8_t { kSeconds, kShareOfRest, kShortfall } of = Of::kSeconds;
  double amount = 0;            // GPU-seconds, or 0..1 for kShareOfRest
  std::optional<double> money;  // of a claim of no job
  std::string evidence;         // one line, with its numbers
  std::string node, gpu;        // further subjects; may be empty
};

struct Action {
  ActionCause cause = ActionCause::kIdleHeld;
  std::string subject;
  // What it brings; nullopt where nothing is lost by it (kNoMfu).
  std::optional<double> gpu_seconds;
  std::optional<double> money;                       // nullopt where no part of it has a price
  double priced_s = 0;                               // GPU-seconds that `money` is of
  int64_t jobs = 0, users = 0, nodes = 0, gpus = 0;  // distinct
  // The most lost first, at most kMostSubjects.
  std::vector<std::string> job_keys, user_names, node_names, gpu_names;
  std::vector<std::string> evidence;  // the most lost first, at most kMostEvidence
};

// Actions by GPU-seconds, largest first; those without any last. Claims of less than
// `least_seconds` in sum are no action. Amounts that are not finite or below 0 count as 0.
std::vector<Action> Advise(absl::Span<const AdviceJob> jobs, absl::Span<const LossClaim> claims,
                           double least_seconds, size_t most = kMostActions);

// --- what comparable runs reach ---

// A run among those it can be compared with.
struct PeerRun {
  size_t job = 0;
  double ofu = 0;           // over its allocated time with known OFU
  double computable_s = 0;  // GPU-seconds of that
  double gpu_seconds = 0;   // allocated
};
// Runs of fewer than this are compared with nothing.
inline constexpr size_t kFewestPeers = 5;
// The 75th percentile of their OFU, each run once (linear between ranks); nullopt below
// kFewestPeers. Never 100 %: what runs of this kind have reached is what is within reach.
struct PeerGoal {
  double ofu = 0;  // the 75th percentile
  double median = 0;
  double scatter = 0;  // standard deviation by the median absolute deviation x 1.4826
  size_t runs = 0;
};
std::optional<PeerGoal> GoalOf(absl::Span<const PeerRun> runs);
// Whether a run is below its peers beyond what they scatter: by a tenth of the goal and by three
// times the scatter below the median.
bool BelowPeers(const PeerRun& run, const PeerGoal& goal);
// GPU-seconds that the run would have needed less for the same work at the goal.
double Shortfall(const PeerRun& run, const PeerGoal& goal);

}  // namespace flopwatch::fleet
