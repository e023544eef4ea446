// What is asked of Slurm and when, without threads or processes: who owns it gives it a clock and a
// way to run commands, and calls Step() again when that says so.
//
// A look is two commands, whatever the number of jobs: all jobs that the controller remembers
// (those that run, with their GPUs; those that wait; those that ended in the last minutes) and all
// nodes. Where it shows a job that the last one did not, or one that cannot be read, a list of bare
// ids is asked for as well: users can forge records, and no id (jobs/slurm/listed.h). Accounting is
// asked for what looks missed: at the start for the last days, a window at a time, and from then on
// for the time since, hourly and after the controller was away. The topology is asked for hourly.
//
// Nothing is invented: a look that fails changes nothing, one that could not be read whole ends
// nothing, and of accounting only what has ended is believed (its running jobs may be ones whose
// end it missed; what runs the controller says).
//
// Threads: Step() from one, health() from any.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/time.h"
#include "base/time_zone.h"
#include "discovery/slurm_books.h"
#include "jobs/books.h"
#include "jobs/job_index.h"
#include "jobs/slurm/read.h"

namespace flopwatch::discovery {

// Runs argv and gives what it wrote; as RunProgram().
using RunCommand = std::function<StatusOr<ProgramOutput>(const std::vector<std::string>& argv)>;

struct PollClocks {
  std::function<Micros()> wall = Now;
  std::function<Micros()> monotonic = MonotonicNow;  // for what comes next: it never jumps
};

StatusOr<std::string> ReadClusterName(const RunCommand& run);

class SlurmPolls {
 public:
  // `index` and `blocks` may be null. Everything given outlives this.
  SlurmPolls(SlurmOptions options, jobs::Books* books, jobs::JobIndex* index, RunCommand run,
             PollClocks clocks, TellBlocks blocks = nullptr);

  // Does one thing that is due: a look before anything else, else one question to accounting. Gives
  // how long nothing is due from then on.
  Micros Step();
  SchedulerHealth health() const;

 private:
  struct Window {
    Micros from = 0, to = 0;  // wall clock
  };

  void Look();
  Status TryLook();
  // Takes out of a look what a user forged in the text of his job; gives the ids of jobs that are
  // there and could not be read, nullopt where nobody says which are there.
  StatusOr<std::optional<std::vector<std::string>>> OnlyRealJobs(slurm::Books* jobs);
  StatusOr<slurm::Books> AskBooks(std::vector<std::string> argv, std::string_view what,
                                  std::string_view wanted_kind);
  void Came(Micros at, const slurm::Told& told, const slurm::Books& jobs,
            const slurm::Books& nodes);
  void Failed(const Status& why);
  void AskBlocks();

  // Windows, or what nodes were before the first look.
  bool AccountingWaits() const { return !windows_.empty() || nodes_.has_value(); }
  void PlanAccounting();
  void AskAccounting();
  Status TryWindow(const Window& window);
  Status TryEvents();
  void AccountingCame();
  void AccountingFailed(const Status& why);

  const SlurmOptions options_;
  jobs::Books* const books_;
  jobs::JobIndex* const index_;
  const RunCommand run_;
  const PollClocks clocks_;
  const TellBlocks blocks_;
  slurm::ReadOptions reading_;

  std::string cluster_;
  Micros next_look_ = 0;                    // monotonic, as the others
  absl::flat_hash_set<int64_t> real_jobs_;  // of the last look: squeue knows them
  bool said_no_squeue_ = false;
  Micros next_accounting_ = 0, next_plan_ = 0, next_blocks_ = 0;
  std::deque<Window> windows_;    // still to be asked for, the newest first
  Micros accounted_to_ = 0;       // wall clock: windows up to here are asked for or planned
  bool was_away_ = true;          // no look has come since the last one that failed
  Micros said_away_ = 0;          // monotonic: when the log last said so
  bool accounting_said_ = false;  // the log said that accounting does not answer
  // Nothing was known of any node before this began: then past events say what they were.
  bool first_nodes_ = false;
  std::optional<slurm::Books> nodes_;  // of the last look, until past events are asked for
  Micros nodes_at_ = 0;
  Micros first_start_ = 0;  // of what accounting told; 0 = nothing

  mutable Mutex mutex_;
  SchedulerHealth health_ FW_GUARDED_BY(mutex_);
};

}  // namespace flopwatch::discovery
