// One attempt of a job as one source tells it. Absent means that the source does not say, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "jobs/slurm/job_state.h"
#include "jobs/slurm/tres.h"

namespace flopwatch::slurm {

enum class JobSource : uint8_t { kSacctText, kSacctJson, kSqueueJson, kScontrol, kJobCompletion };
// "sacct text", "squeue JSON"; for people.
std::string_view JobSourceName(JobSource source);

// What a job holds on one node.
struct NodeGpus {
  std::string node;
  std::vector<int32_t> gpus;     // device minor numbers, ascending; empty where not known
  std::optional<int64_t> count;  // where the source counts without naming
  bool operator==(const NodeGpus&) const = default;
};

struct JobRecord {
  std::optional<int64_t> raw_id;      // JobIDRaw: the key; absent where only "2_5" was shown
  std::string id;                     // as shown: "17", "2_5", "8+1"
  std::optional<int64_t> het_leader;  // of a heterogeneous job's component: the first one's raw id
  std::string cluster, account, user, partition, qos, name, comment, wckey, reservation;
  JobState state = JobState::kUnknown;
  std::string state_text;  // as written: "CANCELLED by 1001"
  // 0:0 is also what Slurm writes for TIMEOUT, PREEMPTED and NODE_FAIL.
  std::optional<int32_t> exit_code, exit_signal;
  // Forecasts are left out: no start while it waits, no end while it holds its nodes.
  std::optional<Micros> submit, eligible, start, end;
  std::optional<int64_t> elapsed_s;  // without suspended time
  std::optional<int64_t> suspended_s;
  std::optional<int64_t> restarts;
  std::optional<Micros> as_of;  // when the source looked, where it says so
  Tres allocated, requested;
  std::vector<std::string> nodes;
  std::vector<NodeGpus> node_gpus;  // only while it runs, or from a prolog
  // A local time lies in the hour that comes twice and its length does not decide which: the
  // earlier reading was taken.
  bool ambiguous_time = false;
  JobSource source = JobSource::kSacctText;
  std::string place;  // in its file: "line 12", "jobs[3]"
};

// Completes a record whose fields are all in: drops forecasts, derives the time of the look of a
// running attempt (start + elapsed + suspended).
void SettleTimes(JobRecord* record);

}  // namespace flopwatch::slurm
