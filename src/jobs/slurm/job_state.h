// What Slurm says a job's state is, in any release: "RUNNING", "CANCELLED by 1001", a list
// ["PENDING", "REQUEUED"], a name cut short ("OUT_OF_ME+"). Pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace flopwatch::slurm {

enum class JobState : uint8_t {
  kUnknown,  // not among those below: the text is kept beside it
  kPending,
  kConfiguring,
  kRunning,
  kSuspended,
  kStopped,
  kSignaling,
  kResizing,
  kStageOut,
  kCompleting,  // over for the books: the end is set, the nodes are being cleaned
  kCompleted,
  kCancelled,
  kFailed,
  kTimeout,
  kDeadline,
  kNodeFail,
  kBootFail,
  kLaunchFailed,
  kOutOfMemory,
  kPreempted,
  kRequeued,  // this attempt ended; the job went back to the queue under the same id
  kRevoked,   // a federated sibling ran instead
};

// Where an attempt is in its life.
enum class JobPhase : uint8_t {
  kUnknown,
  kWaiting,  // no start yet: a start or end that is written with it is a forecast
  kHolding,  // has its nodes and GPUs; an end that is written with it is a limit
  kEnded,
};

// Upper-case as Slurm writes it; "UNKNOWN" for kUnknown.
std::string_view JobStateName(JobState state);
JobPhase PhaseOf(JobState state);

// The words may be one text split at blanks, ',' and '+', or the list of newer JSON. The base state
// counts before the flags beside it: "RUNNING, COMPLETING" is kCompleting (its end is known),
// "PENDING, REQUEUED" is kPending, "REQUEUED" alone (sacct) is kRequeued.
JobState ParseJobState(std::string_view text);

}  // namespace flopwatch::slurm
