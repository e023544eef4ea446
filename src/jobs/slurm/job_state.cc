#include "jobs/slurm/job_state.h"

#include <algorithm>
#include <utility>

#include "base/lookup.h"
#include "base/text.h"

namespace flopwatch::slurm {
namespace {

constexpr std::pair<JobState, std::string_view> kStateNames[] = {
    {JobState::kPending, "PENDING"},
    {JobState::kConfiguring, "CONFIGURING"},
    {JobState::kRunning, "RUNNING"},
    {JobState::kSuspended, "SUSPENDED"},
    {JobState::kStopped, "STOPPED"},
    {JobState::kSignaling, "SIGNALING"},
    {JobState::kResizing, "RESIZING"},
    {JobState::kStageOut, "STAGE_OUT"},
    {JobState::kCompleting, "COMPLETING"},
    {JobState::kCompleted, "COMPLETED"},
    {JobState::kCancelled, "CANCELLED"},
    {JobState::kFailed, "FAILED"},
    {JobState::kTimeout, "TIMEOUT"},
    {JobState::kDeadline, "DEADLINE"},
    {JobState::kNodeFail, "NODE_FAIL"},
    {JobState::kBootFail, "BOOT_FAIL"},
    {JobState::kLaunchFailed, "LAUNCH_FAILED"},
    {JobState::kOutOfMemory, "OUT_OF_MEMORY"},
    {JobState::kPreempted, "PREEMPTED"},
    {JobState::kRequeued, "REQUEUED"},
    {JobState::kRevoked, "REVOKED"},
};

// Waits in the queue for a reason of its own; nothing runs.
constexpr std::string_view kWaitingWords[] = {"REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT",
                                              "RESV_DEL_HOLD"};

constexpr JobPhase PhaseOfIndex(JobState state) {
  if (state == JobState::kUnknown) return JobPhase::kUnknown;
  if (state == JobState::kPending) return JobPhase::kWaiting;
  return state < JobState::kCompleting ? JobPhase::kHolding : JobPhase::kEnded;
}

JobState StateOfWord(std::string_view word, bool cut) {
  for (const std::string_view waiting : kWaitingWords)
    if (EqualsIgnoringCase(word, waiting)) return JobState::kPending;
  JobState found = JobState::kUnknown;
  int matches = 0;
  for (const auto& [state, name] : kStateNames) {
    if (EqualsIgnoringCase(word, name)) return state;
    if (cut && word.size() >= 3 && StartsWithIgnoringCase(name, word)) {
      found = state;
      ++matches;
    }
  }
  return matches == 1 ? found : JobState::kUnknown;
}

// The higher says more of what the attempt is when two words stand side by side.
int WeightOf(JobState state) {
  switch (PhaseOf(state)) {
    case JobPhase::kUnknown:
      return 0;
    case JobPhase::kHolding:
      return state == JobState::kRunning ? 2 : 3;  // SUSPENDED beside RUNNING says more
    case JobPhase::kWaiting:
      return 5;  // "PENDING, REQUEUED": what is now, not what was
    case JobPhase::kEnded:
      return state == JobState::kCompleting || state == JobState::kRequeued ? 4 : 6;
  }
  return 0;
}

}  // namespace

std::string_view JobStateName(JobState state) {
  return ValueOf(kStateNames, state, std::string_view("UNKNOWN"));
}

JobPhase PhaseOf(JobState state) { return PhaseOfIndex(state); }

JobState ParseJobState(std::string_view text) {
  constexpr std::string_view kBreaks = " ,+";
  JobState best = JobState::kUnknown;
  for (size_t at = 0; at < text.size();) {
    const size_t stop = std::min(text.find_first_of(kBreaks, at), text.size());
    const std::string_view word = text.substr(at, stop - at);
    // "CANCELLED by 1001": the rest names who did it.
    if (word == "by") break;
    const bool cut = stop + 1 == text.size() && text[stop] == '+';
    if (!word.empty()) {
      const JobState state = StateOfWord(word, cut);
      if (WeightOf(state) > WeightOf(best)) best = state;
    }
    at = stop + 1;
  }
  return best;
}

}  // namespace flopwatch::slurm
